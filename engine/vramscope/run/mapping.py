"""The caller's bindings as a session uses them: validated in order, symbols bound (semantics 1.12-1.14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import (
    BindingError,
    DtypeMismatchError,
    InputNotFoundError,
    OutputNotFoundError,
    RankMismatchError,
    SequenceOutputError,
    ShapeMismatchError,
)
from vramscope.graph.dtypes import from_numpy
from vramscope.plan.symbols import PhaseBindings, bind_symbols
from vramscope.plan.types import Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.base import Device
    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.model import Array, Model, Program, Value
    from vramscope.plan.types import Scenario
    from vramscope.run.bindings import Binding
    from vramscope.run.device_binding import DeviceIoBinding


@dataclass(frozen=True, slots=True)
class Mapped:
    """One run's bindings as they are now, in the caller's order."""

    bindings: tuple[Binding, ...]

    @property
    def inputs(self) -> dict[str, Binding]:
        """By the graph input they feed."""
        return {item.input: item for item in self.bindings if item.input}

    @property
    def outputs(self) -> dict[str, Binding]:
        """By the graph output they receive."""
        return {item.output: item for item in self.bindings if item.output}


def map_bindings(program: Program, device: Device, bindings: Sequence[DeviceIoBinding]) -> Mapped:
    """Validates bindings; the first failure of the first binding surfaces.

    The order: duplicates; then, binding by binding, the device, the bytes (overflow, length), the input's
    name, the output's name, that it is no sequence, the output's type.

    Raises:
        BindingError: as its subclass says; ShapeOverflowError: a shape that no device holds.
    """
    _refuse_duplicates(bindings)
    inputs = {program.values[item].name: program.values[item] for item in program.inputs}
    outputs = {program.values[item].name: program.values[item] for item in program.outputs}
    found: list[Binding] = []
    for binding in bindings:
        if binding.device is not device:
            raise BindingError(
                f"binding {binding.name}",
                f"its memory is on device {binding.device.name} and the session runs on {device.name}",
                "Bind memory of the session's own device object",
            )
        snapshot = binding.snapshot()
        _check_names(snapshot, inputs, outputs)
        found.append(snapshot)
    return Mapped(tuple(found))


def _refuse_duplicates(bindings: Sequence[DeviceIoBinding]) -> None:
    seen: set[tuple[str, str]] = set()
    for kind, names in (
        ("input", [item.spec.input for item in bindings]),
        ("output", [item.spec.output for item in bindings]),
    ):
        for name in filter(None, names):
            if (kind, name) in seen:
                raise BindingError(f"{kind} {name}", "two bindings bind it", "Bind it once")
            seen.add((kind, name))


def _check_names(binding: Binding, inputs: Mapping[str, Value], outputs: Mapping[str, Value]) -> None:
    if binding.input and binding.input not in inputs:
        raise input_not_found(binding.input, inputs)
    if not binding.output:
        return
    value = outputs.get(binding.output)
    if value is None:
        raise OutputNotFoundError(
            what=f"output {binding.output}",
            why="the graph has none of this name",
            remedy=f"It has {', '.join(outputs)}",
            name=binding.output,
            known=tuple(outputs),
        )
    if value.is_sequence:
        raise SequenceOutputError(
            f"output {binding.output}", "it is a sequence, which no buffer holds", "Leave it unbound"
        )
    _check_type(f"output {binding.output}", value, binding.dtype)


def input_not_found(name: str, inputs: Mapping[str, Value]) -> InputNotFoundError:
    """The refusal of a name that is no input."""
    return InputNotFoundError(
        what=f"input {name}",
        why="the graph has none of this name",
        remedy=f"It has {', '.join(inputs)}",
        name=name,
        known=tuple(inputs),
    )


def _check_type(what: str, value: Value, got: ElementType) -> None:
    if value.dtype is not got:
        raise DtypeMismatchError(
            what=what,
            why=f"the graph declares {value.dtype.name} and {got.name} is given",
            remedy="Convert it first",
            expected=value.dtype.name,
            got=got.name,
        )


def bind_shapes(
    model: Model, scenario: Scenario, host: Mapping[str, Array], mapped: Mapped, *, capacity: bool = False
) -> PhaseBindings:
    """Binds every symbol: host inputs in the caller's order, then bindings in theirs.

    Args:
        model: of the session.
        scenario: declared maxima.
        host: host inputs by name.
        mapped: the bindings.
        capacity: planning: every binding counts with its physical shape, whatever it exposes.

    Raises:
        InputNotFoundError, DtypeMismatchError, RankMismatchError, ShapeMismatchError, SymbolConflictError: in
            this order for each input. BindingError: an input given twice, or missing while not planning.
    """
    program = model.program
    values = {program.values[item].name: program.values[item] for item in program.inputs}
    given: list[tuple[str, ElementType, tuple[int, ...]]] = [
        (name, from_numpy(array.dtype), tuple(array.shape)) for name, array in host.items()
    ]
    for name, binding in mapped.inputs.items():
        if name in host:
            raise BindingError(
                f"input {name}", "it is given as a host tensor and as a binding", "Give it once"
            )
        shown = binding.physical if capacity else binding.kernel_input_shape
        given.append((name, binding.dtype, shown))
    inputs: dict[int, tuple[int, ...]] = {}
    for name, dtype, shape in given:
        if name not in values:
            raise input_not_found(name, values)
        check_input(values[name], dtype, shape)
        inputs[values[name].id] = shape
    missing = [name for name in values if values[name].id not in inputs]
    if missing and not capacity:
        raise BindingError(f"input {missing[0]}", "it is missing", "Give it as a host tensor or bind it")
    return bind_symbols(model, scenario, Phase.SINGLE, inputs, _fixed_outputs(program, mapped))


def check_input(value: Value, dtype: ElementType, shape: tuple[int, ...]) -> None:
    """Type, rank and static extents of one input."""
    _check_type(f"input {value.name}", value, dtype)
    declared = value.shape
    if declared is None:
        return
    if len(declared) != len(shape):
        raise RankMismatchError(
            what=f"input {value.name}",
            why=f"the graph declares rank {len(declared)} and rank {len(shape)} is given",
            remedy="Reshape it first",
            expected=len(declared),
            got=len(shape),
        )
    if any(isinstance(dim, int) and dim != extent for dim, extent in zip(declared, shape, strict=True)):
        names = tuple(dim if isinstance(dim, int) else str(dim) for dim in declared)
        raise ShapeMismatchError(
            what=f"input {value.name}",
            why=f"the graph declares {list(names)} and {list(shape)} is given",
            remedy="Give the declared extents",
            expected=names,
            got=shape,
        )


def _fixed_outputs(program: Program, mapped: Mapped) -> dict[int, tuple[int, ...]]:
    """Outputs whose buffer says their shape: a cache that kernels use at its physical capacity."""
    names = {program.values[item].name: item for item in program.outputs}
    return {
        names[item.output]: item.physical
        for item in mapped.bindings
        if item.output and item.input and not item.exposes
    }


def output_shape_error(binding: Binding, shape: tuple[int, ...]) -> ShapeMismatchError:
    """The refusal of an output that its binding does not hold."""
    return ShapeMismatchError(
        what=f"output {binding.output}",
        why=f"it has shape {list(shape)} and its binding holds {list(binding.physical)}",
        remedy="Bind a buffer of that shape, or show a logical prefix of a larger one",
        expected=binding.physical,
        got=shape,
    )


def accepts(binding: Binding, shape: tuple[int, ...]) -> bool:
    """Whether an output of ``shape`` is written straight into its binding (semantics 2.5)."""
    if shape == binding.physical:
        return True
    fits = len(shape) == len(binding.physical) and all(
        one <= two for one, two in zip(shape, binding.physical, strict=True)
    )
    return fits and binding.logical != binding.physical
