"""The binding signature.

What a replay must find unchanged, and the first thing that is not (semantics 1.18).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from vramscope.errors import BindingsChangedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vramscope.run.bindings import Binding


@dataclass(frozen=True, slots=True)
class BindingSignature:
    """One binding as a captured graph baked it in. Contents are never part of it.

    ``output_shape`` is the prefix that is written; it moves with the logical length like the input's.
    """

    input_name: str
    binds_input: bool
    output_name: str
    dtype: str
    physical_shape: tuple[int, ...]
    kernel_input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    accepts_output_subshape: bool
    exposes_logical_input_shape: bool
    mask_decode_freeze_safe: bool
    fixed_physical_strides: bool
    device_pointer: int


LENGTH_FIELDS = frozenset({"kernel_input_shape", "output_shape", "accepts_output_subshape"})
"""Not compared where a length may move: under fixed strides, or where only eager seams read that input."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A field in which two signatures of a binding differ."""

    binding: str
    field: str
    old: str
    new: str


def changed_error(changed: Sequence[Difference]) -> BindingsChangedError:
    """At least one difference as an exception: the first is to blame, of the others it says how many."""
    first, *others = changed
    fields_of_others = ", ".join(dict.fromkeys(item.field for item in others))
    more = f", and {len(others):,} more changed: {fields_of_others}" if others else ""
    return BindingsChangedError(
        what=f"the captured graph's binding {first.binding}",
        why=f"{first.field} was {first.old or 'nothing'} and is {first.new or 'nothing'}{more}",
        remedy="Capture again with the new bindings",
        binding=first.binding,
        field=first.field,
        old=first.old,
        new=first.new,
    )


def signature_of(binding: Binding) -> BindingSignature:
    """The signature of one binding."""
    return BindingSignature(
        input_name=binding.input,
        binds_input=bool(binding.input),
        output_name=binding.output,
        dtype=binding.dtype.name,
        physical_shape=binding.physical,
        kernel_input_shape=binding.kernel_input_shape,
        output_shape=binding.output_logical,
        accepts_output_subshape=bool(binding.output)
        and binding.physical not in (binding.logical, binding.output_logical),
        exposes_logical_input_shape=binding.exposes,
        mask_decode_freeze_safe=binding.mask_freeze_safe,
        fixed_physical_strides=binding.fixed_strides,
        device_pointer=binding.address,
    )


def differences(
    captured: Sequence[BindingSignature],
    now: Sequence[BindingSignature],
    movable: frozenset[str] = frozenset(),
) -> Iterator[Difference]:
    """Every binding and field that differ, in order; count and order of the bindings matter.

    Args:
        captured: at capture time.
        now: of the bindings at hand.
        movable: input names whose logical length may move, because no captured segment reads them directly.
    """
    if len(captured) != len(now):
        yield Difference("<all>", "count", str(len(captured)), str(len(now)))
        return
    for old, new in zip(captured, now, strict=True):
        free = old.fixed_physical_strides or (old.binds_input and old.input_name in movable)
        for field in fields(BindingSignature):
            before, after = getattr(old, field.name), getattr(new, field.name)
            if before != after and not (free and field.name in LENGTH_FIELDS):
                yield Difference(
                    old.input_name or old.output_name, field.name, field_text(before), field_text(after)
                )


def field_text(value: object) -> str:
    """A field's value in words; addresses in hexadecimal."""
    return (
        f"0x{value:x}"
        if isinstance(value, int) and not isinstance(value, bool) and value > 2**20
        else str(value)
    )
