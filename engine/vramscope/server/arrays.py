"""Named arrays of a plain model's run: inputs from files with the scenario they mean, outputs to a file."""

from __future__ import annotations

import os
import zipfile
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import InputError, SymbolConflictError
from vramscope.graph.dtypes import ElementType, from_numpy, is_packed
from vramscope.graph.expr import Symbol
from vramscope.ops.call import Packed
from vramscope.plan.options import is_batch
from vramscope.run.inputs import scenario_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vramscope.graph.model import Array, Model
    from vramscope.ops.call import Tensor
    from vramscope.plan.types import Scenario

SUFFIX = ".npz"


def scenario_for(model: Model, scenario: Scenario, inputs: Mapping[str, Array]) -> Scenario:
    """``scenario`` with the extents and the batch of these inputs, so that its plan is exact for them.

    Raises:
        BindingError: an input that the graph lacks, is missing, or has another type, rank or extent.
        SymbolConflictError: two inputs, or an input and the scenario, give one symbol different extents.
    """
    found = scenario_of(model, scenario, inputs)
    for symbol, extent in scenario.extents.items():
        fed = found.extents.get(symbol, extent)
        if fed != extent:
            raise _conflict(symbol, extent, fed)
    batches = {extent for symbol, extent in found.extents.items() if is_batch(Symbol(symbol))}
    batch = batches.pop() if len(batches) == 1 else scenario.batch
    extents = MappingProxyType({**scenario.extents, **found.extents})
    return replace(found, extents=extents, batch=max(batch, 1))


def _conflict(symbol: str, given: int, fed: int) -> SymbolConflictError:
    return SymbolConflictError(
        what=f"symbol {symbol}",
        why=f"the scenario's extent makes it {given} and the inputs make it {fed}",
        remedy=f"Leave the extent of {symbol} out: the inputs say what it is",
        symbol=symbol,
        first=given,
        second=fed,
        first_source=f"extent {given}",
        second_source="the inputs",
    )


def check_target(path: Path) -> None:
    """Refuses a file that outputs cannot be written to, before anything runs.

    Raises:
        InputError: another ending than ``.npz``, or no folder to write it into.
    """
    if path.suffix != SUFFIX:
        raise InputError(str(path), f"outputs are written as {SUFFIX}", f"Name it {path.stem}{SUFFIX}")
    if not path.parent.is_dir():
        raise InputError(str(path), f"there is no folder {path.parent}", "Make it, or choose another file")


def save_outputs(path: Path, outputs: Sequence[tuple[str, Tensor]]) -> None:
    """Writes outputs as ``.npz`` under their own names, as a whole, or leaves what was there.

    Types that NumPy does not have are widened without loss: 4-bit and 2-bit integers to int8 or uint8,
    bfloat16 and the small floats to float32. The items of a sequence are ``NAME.0``, ``NAME.1`` and so on.

    Raises:
        InputError: the file cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(partial, "w") as archive:
            for name, array in _members(outputs):
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        partial.replace(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(str(path), f"it cannot be written: {reason}", "Choose another file") from error
    finally:
        partial.unlink(missing_ok=True)


def _members(outputs: Sequence[tuple[str, Tensor]]) -> Iterator[tuple[str, Array]]:
    for name, value in outputs:
        if isinstance(value, list):
            yield from _members([(f"{name}.{index}", item) for index, item in enumerate(value)])
        else:
            yield name, _storable(value.unpack() if isinstance(value, Packed) else value)


def _storable(array: Array) -> Array:
    """The same values in a type that a ``.npy`` file can hold."""
    if array.dtype.hasobject:
        return array.astype(np.str_)
    if array.dtype.isbuiltin == 1:
        return array
    dtype = from_numpy(array.dtype)
    if is_packed(dtype) and dtype is not ElementType.FLOAT4E2M1:
        unsigned = dtype in (ElementType.UINT4, ElementType.UINT2)
        return array.astype(np.uint8 if unsigned else np.int8)
    return array.astype(np.float32)
