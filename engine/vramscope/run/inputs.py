"""Named inputs of a model that is no decoder: read from files, checked against the graph, or made up."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError, InputError, SymbolConflictError
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.graph.expr import Symbol
from vramscope.plan.shapes import Bounded, Exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vramscope.graph.model import Array, Model, Program, Value
    from vramscope.plan.types import Plan, Scenario

BYTES_LIMIT = 4 * 2**30
"""No larger file, and no archive that unpacks to more, is read as inputs."""


def require_tensors(program: Program) -> None:
    """Refuses to run a graph that takes a sequence.

    Raises:
        BindingError: names the first such input.
    """
    for item in program.inputs:
        value = program.values[item]
        if value.is_sequence:
            raise BindingError(
                f"input {value.name}",
                "it is a sequence, and nothing here can be given one",
                "Make the sequence inside the graph, from tensors",
            )


def load_inputs(pairs: Iterable[tuple[str, Path]], *, limit: int = BYTES_LIMIT) -> dict[str, Array]:
    """Arrays by input name from ``.npy`` and ``.npz`` files; nothing in them is ever executed.

    Args:
        pairs: input name and file. A ``.npz`` gives the member of that name, or its only one; with an empty
            name it gives every member under the member's own name.
        limit: bytes that one file may hold, unpacked.

    Raises:
        InputError: a file that is missing, too large, not NumPy's or with Python objects in it; a name twice.
    """
    found: dict[str, Array] = {}
    for name, path in pairs:
        for input_name, array in _read(name, Path(path), limit).items():
            if input_name in found:
                raise InputError(f"input {input_name}", "it is given twice", "Give each input once")
            found[input_name] = array
    return found


def _read(name: str, path: Path, limit: int) -> dict[str, Array]:
    what = f"input file {path}"
    try:
        size = path.stat().st_size
        archive = zipfile.is_zipfile(path)
        if archive:
            with zipfile.ZipFile(path) as members:
                size = sum(member.file_size for member in members.infolist())
        if size > limit:
            raise InputError(what, f"it holds {size:,} bytes, the limit is {limit:,}", "Give a smaller input")
        loaded = np.load(path, allow_pickle=False)
        if not archive:
            return {_named(name, path): np.asarray(loaded)}
        with loaded:
            return _members(name, what, loaded)
    except OSError as error:
        raise InputError(what, f"it cannot be read: {error.strerror or error}", "Check the path") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            what, f"it is no array file: {error}", "Write it with numpy.save or savez"
        ) from error


def _named(name: str, path: Path) -> str:
    """A ``.npy`` file without a name gives the input that the file is called after."""
    return name or path.stem


def _members(name: str, what: str, loaded: Mapping[str, Array]) -> dict[str, Array]:
    names = list(loaded)
    if not name:
        return {member: np.asarray(loaded[member]) for member in names}
    member = name if name in names else names[0] if len(names) == 1 else ""
    if not member:
        raise InputError(what, f"it has no member {name}", f"It has {', '.join(names) or 'none'}")
    return {name: np.asarray(loaded[member])}


def input_extents(model: Model, inputs: Mapping[str, Array]) -> dict[str, int]:
    """What the inputs make of each symbol, after checking them in the caller's order (semantics 1.14).

    Raises:
        BindingError: a name that the graph lacks; another type, rank or static extent; a missing input.
        SymbolConflictError: two inputs give one symbol different extents; both are named.
    """
    program = model.program
    known = {program.values[item].name: program.values[item] for item in program.inputs}
    extents: dict[str, int] = {}
    sources: dict[str, str] = {}
    for name, array in inputs.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise BindingError(f"input {name}", "the graph has none of this name", f"It has {names}")
        _check(known[name], array)
        _bind(known[name], array.shape, extents, sources)
    for name, value in known.items():
        if name not in inputs:
            remedy = f"Give it as {_declared(value)}"
            raise BindingError(f"input {name}", "it is missing", remedy)
    return extents


def check_planned(model: Model, plan: Plan, inputs: Mapping[str, Array]) -> None:
    """As :func:`input_extents`, and that a plan for exact extents is for these.

    Raises:
        BindingError: as there, and an extent that is not the planned one.
        SymbolConflictError: as there.
    """
    input_extents(model, inputs)
    if plan.specialised is None:
        return
    program = plan.specialised.program
    for item in program.inputs:
        value = program.values[item]
        if value.shape is not None and value.shape != inputs[value.name].shape:
            why = f"the plan is for exactly {_declared(value)}, given is {list(inputs[value.name].shape)}"
            raise BindingError(f"input {value.name}", why, "Plan with the extents of what is given")


def scenario_of(model: Model, scenario: Scenario, inputs: Mapping[str, Array]) -> Scenario:
    """``scenario`` with the extents that these inputs have, so that its plan is exact for them."""
    return replace(scenario, extents=MappingProxyType(input_extents(model, inputs)))


def _declared(value: Value) -> str:
    shape = "any rank" if value.shape is None else f"[{', '.join(str(dim) for dim in value.shape)}]"
    return f"{value.dtype.name} {shape}"


def _check(value: Value, array: object) -> None:
    what, shape = f"input {value.name}", value.shape
    if not isinstance(array, np.ndarray | np.generic):
        raise BindingError(what, f"an array is needed, given is {type(array).__name__}", "Give an array")
    if array.dtype != numpy_dtype(value.dtype):
        why = f"the graph declares {value.dtype.name}, given is {array.dtype}"
        raise BindingError(what, why, f"Convert it to {numpy_dtype(value.dtype)}")
    if shape is None:
        return
    if len(shape) != array.ndim:
        why = f"the graph declares rank {len(shape)} {_declared(value)}, given is rank {array.ndim}"
        raise BindingError(what, why, f"Give {len(shape)} axes")
    for axis, (dim, extent) in enumerate(zip(shape, array.shape, strict=True)):
        if isinstance(dim, int) and dim != extent:
            why = f"the graph fixes axis {axis} to {dim}, given is {list(array.shape)}"
            raise BindingError(what, why, f"Give {_declared(value)}, or plan for what is given")


def _bind(value: Value, shape: tuple[int, ...], extents: dict[str, int], sources: dict[str, str]) -> None:
    for axis, (dim, extent) in enumerate(zip(value.shape or (), shape, strict=value.shape is not None)):
        if not isinstance(dim, Symbol):
            continue
        place = f"input {value.name}, axis {axis}"
        first = extents.setdefault(dim.name, extent)
        if first != extent:
            raise SymbolConflictError(
                what=f"symbol {dim.name}",
                why=f"{sources[dim.name]} makes it {first} and {place} makes it {extent}",
                remedy="One symbol has one extent: check what these inputs are fed with",
                symbol=dim.name,
                first=first,
                second=extent,
                first_source=sources[dim.name],
                second_source=place,
            )
        sources.setdefault(dim.name, place)


def random_inputs(model: Model, plan: Plan, seed: int) -> dict[str, Array]:
    """Seeded values for every input at the plan's shapes.

    Small normals, ones for booleans, 0 or 1 for integers.
    """
    generator = np.random.default_rng(seed)
    phase = plan.phases[0]
    planned = plan.specialised or model
    found: dict[str, Array] = {}
    for identity in planned.program.inputs:
        value = planned.program.values[identity]
        shape = phase.shapes[identity]
        assert isinstance(shape, Exact | Bounded)
        kind = numpy_dtype(value.dtype)
        if value.dtype is ElementType.BOOL:
            found[value.name] = np.ones(shape.shape, kind)
        elif kind.kind in "iu":
            found[value.name] = np.asarray(generator.integers(0, 2, shape.shape)).astype(kind)
        else:
            found[value.name] = np.asarray(generator.standard_normal(shape.shape)).astype(kind)
    return found
