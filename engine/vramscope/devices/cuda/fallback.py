"""Runs a node on the host where the card has no kernel for it: copies in, the host kernel, copies out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from vramscope.devices.cuda.array import on_device
from vramscope.graph.dtypes import from_numpy
from vramscope.ops.call import Packed
from vramscope.ops.reference import run_reference
from vramscope.ops.spec import ABSENT_META, TensorMeta, WorkspaceQuery

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import Port
    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, Tensor
    from vramscope.ops.spec import OpSpec


def run_on_host(port: Port, spec: OpSpec, call: Call) -> None:
    """Runs ``call`` by its host kernel; results that have a place on the device are copied there.

    Past and present in one buffer stay one buffer on the host too, so that a cache is appended in place.
    """
    copies: dict[int, Array] = {}
    inputs = tuple(_fetched(port, value, copies) for value in call.inputs)
    placed = [_room(value, copies) for value in call.placed]
    twin = replace(call, inputs=inputs, placed=placed, memo=None, scratch_bytes=_scratch(spec, call, inputs))
    (spec.kernel or run_reference)(twin)
    for index, result in enumerate(twin.placed):
        place = on_device(call.placed[index])
        if place is not None and isinstance(result, np.ndarray):
            port.write(place, result.astype(place.dtype, copy=False))
        elif result is not None:
            call.placed[index] = result


def _fetched(port: Port, value: Tensor | None, copies: dict[int, Array]) -> Tensor | None:
    array = on_device(value)
    if array is not None:
        known = copies.get(array.address)
        if known is None or known.shape != array.shape or known.dtype != array.dtype:
            known = copies[array.address] = port.read(array)
        return known
    if isinstance(value, Packed):
        data = on_device(value.data)
        return value if data is None else Packed(port.read(data), value.dtype, value.shape)
    if isinstance(value, list):
        return [cast("Tensor", _fetched(port, item, copies)) for item in value]
    return value


def _room(value: Tensor | None, copies: dict[int, Array]) -> Tensor | None:
    """Host memory for an output; an output that overwrites an input shares the input's copy."""
    place = on_device(value)
    if place is None:
        return value
    shared = copies.get(place.address)
    if shared is not None and shared.dtype == place.dtype and shared.shape == place.shape:
        return shared
    return np.empty(place.shape, place.dtype)


def _scratch(spec: OpSpec, call: Call, inputs: tuple[Tensor | None, ...]) -> Array | None:
    if spec.workspace is None:
        return None
    metas = tuple(_meta(item) for item in inputs)
    need = spec.workspace(WorkspaceQuery(call.node, metas, sum(call.wanted)))
    return np.empty(need.bytes + 64, np.uint8)


def _meta(value: Tensor | None) -> TensorMeta:
    if isinstance(value, Packed):
        return TensorMeta(value.dtype, value.shape)
    if isinstance(value, np.ndarray):
        return TensorMeta(from_numpy(value.dtype), value.shape)
    return ABSENT_META
