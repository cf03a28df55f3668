"""Weights of matrix products in 4 bits: ``com.microsoft::MatMulNBits``, blocks of 32 along the reduced axis.

A weight [K, N] becomes codes uint8 [N, ⌈K / 32⌉, 16], a row's last block padded, scales [N, ⌈K / 32⌉] in the
activations' type and, where they are wanted, zero points uint8 [N, ⌈⌈K / 32⌉ / 2⌉], each row padded to
a byte (operators.md 2.2). For float32 activations the node asks for accuracy level 4, as the exporters do for
the CPU; for narrower ones it does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from vramscope.graph.dtypes import ElementType
from vramscope.graph.edit import ProgramEdit
from vramscope.graph.model import ABSENT, AttributeValue, Node
from vramscope.plan.index import body_captures, build_index
from vramscope.plan.rewrites.types import Impossible, Rewritten, given, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Model, Step
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.rewrites.types import Apply

BLOCK, BITS = 32, 4
"""Weights along the reduced axis that share one scale, and bits of each."""

ACCURACY = 4
"""Accuracy level for float32 activations: rows are quantised to int8 before the product."""

FLOATS = frozenset({ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16})
"""Types of weights that can be quantised; the scales have the same one."""

PRODUCTS = frozenset({("", "MatMul"), ("", "Gemm")})
"""Operators whose second input ``com.microsoft::MatMulNBits`` could hold as codes."""

SHOWN = 3
"""How many weights a note names."""

_Key: TypeAlias = tuple[str, str, bool]
"""Stored bytes, the name of a view of them or "", and whether the product transposes."""


def four_bit(*, zero_points: bool) -> Apply:
    """The rewrite to 4-bit weights, symmetric or with zero points."""
    return partial(_quantised, zero_points)


@dataclass(slots=True)
class _Work:
    """One model on its way to 4-bit weights."""

    edit: ProgramEdit
    index: PlanningIndex
    zero_points: bool
    elsewhere: frozenset[str]
    made: dict[_Key, tuple[int, ...]] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    """Weights of products that stay as they are, and why."""


def _quantised(zero_points: bool, model: Model) -> Rewritten | Impossible:
    index = build_index(model)
    elsewhere = frozenset(_identity(index, value) for value in _read_otherwise(index))
    work = _Work(ProgramEdit(model.program), index, zero_points, elsewhere)
    for step in index.main_steps:
        if (step.node.domain, step.node.operator) in PRODUCTS and given(step, 0) and given(step, 1):
            _quantise(work, step)
    if not work.made:
        first = next((f": {name} {why}" for name, why in work.left.items()), "")
        return Impossible(f"no matrix product has a floating-point weight that could be so{first}")
    return rebuilt(model, work.edit.finish(), tuple(_notes(work)))


def _quantise(work: _Work, step: Step) -> None:
    """Makes a MatMulNBits of a product whose second input is a matrix of floats and nothing but that."""
    value = work.index.program.values[step.inputs[1]]
    if not _is_weight(work.index, value.id) or value.dtype not in FLOATS:
        return
    shape = tuple(dim for dim in value.shape or () if isinstance(dim, int))
    identity, transposed = _identity(work.index, value.id), bool(step.node.integer("transB", 0))
    why = _refusal(work, step, shape, identity)
    if why:
        work.left[value.name] = why
        return
    reduced, columns = reversed(shape) if transposed else shape
    view = "" if work.index.root_of[value.id] == value.id else value.name
    key = (identity, view, transposed)
    if key not in work.made:
        work.made[key] = tuple(_stored(work, value.name, value.dtype, reduced, columns))
    bias = step.inputs[2:3] if len(step.inputs) > 2 and step.inputs[2] != ABSENT else ()
    inputs = (step.inputs[0], *work.made[key])
    inputs += (*[ABSENT] * (5 - len(inputs)), *bias) if bias else ()
    work.edit.change(step, _node(step, value.dtype, reduced, columns), inputs)


def _refusal(work: _Work, step: Step, shape: tuple[int, ...], identity: str) -> str:
    """Why the weight of a product stays as it is; empty where it can have 4 bits."""
    node, program = step.node, work.index.program
    if len(shape) != 2 or len(program.values[step.inputs[1]].shape or ()) != 2:
        return "is no matrix"
    if identity in work.elsewhere:
        return "is read by more than products"
    plain = node.number("alpha", 1.0) == node.number("beta", 1.0) == 1.0 and not node.integer("transA", 0)
    columns = shape[0] if node.integer("transB", 0) else shape[1]
    bias = step.inputs[2] if len(step.inputs) > 2 else ABSENT
    fits = bias == ABSENT or program.values[bias].shape == (columns,)
    return "" if plain and fits else "is multiplied with a factor or a bias that MatMulNBits lacks"


def _stored(work: _Work, name: str, dtype: ElementType, reduced: int, columns: int) -> Iterator[int]:
    """The codes, the scales and where wanted the zero points of one weight."""
    blocks = -(-reduced // BLOCK)
    yield work.edit.unwritten(f"{name}_Q4", ElementType.UINT8, (columns, blocks, BLOCK * BITS // 8))
    yield work.edit.unwritten(f"{name}_scales", dtype, (columns, blocks))
    if work.zero_points:
        padded = (columns, -(-blocks * BITS // 8))
        yield work.edit.unwritten(f"{name}_zero_points", ElementType.UINT8, padded)


def _node(step: Step, dtype: ElementType, reduced: int, columns: int) -> Node:
    attributes: dict[str, AttributeValue] = {"K": reduced, "N": columns, "bits": BITS, "block_size": BLOCK}
    if dtype is ElementType.FLOAT:
        attributes["accuracy_level"] = ACCURACY
    node = step.node
    return Node(node.name, "MatMulNBits", "com.microsoft", 1, MappingProxyType(attributes), node.scope)


def _is_weight(index: PlanningIndex, value: int) -> bool:
    """Whether a value is stored, or made of stored ones once, when a session is prepared."""
    maker = index.makers.get(value)
    return value in index.program.weights or (maker is not None and maker < index.program.constant_steps)


def _identity(index: PlanningIndex, value: int) -> str:
    """What tells whether two values are the same stored bytes."""
    root = index.root_of[value]
    source = index.program.weights.get(root)
    return source.identity if source is not None else f"value:{root}"


def _read_otherwise(index: PlanningIndex) -> Iterator[int]:
    """Values that something reads in another place than the second input of a product."""
    yield from index.program.outputs
    for step in index.main_steps:
        product = (step.node.domain, step.node.operator) in PRODUCTS
        for position, value in enumerate(step.inputs):
            if value != ABSENT and not (position == 1 and product) and not _is_view(index, step, value):
                yield value
        yield from body_captures(step)


def _is_view(index: PlanningIndex, step: Step, value: int) -> bool:
    """Whether the step only shows the same bytes under another name, whose readers count themselves."""
    return any(index.root_of[output] == index.root_of[value] for output in step.outputs if output != ABSENT)


def _notes(work: _Work) -> Iterator[str]:
    """What keeps its type although it is the weight of a product."""
    by_reason: dict[str, list[str]] = {}
    for name, why in work.left.items():
        by_reason.setdefault(why, []).append(name)
    for why, names in by_reason.items():
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        verb = "stay as they are: each" if len(names) > 1 else "stays as it is: it"
        yield f"{', '.join(names[:SHOWN])}{more} {verb} {why}"
