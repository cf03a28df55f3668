"""One node of any family with exactly the scratch it asks for, and the same node on onnxruntime."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call, Packed
from vramscope.ops.kernels.planned import query_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.ops.spec import OpSpec

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[Any]]"
Given: TypeAlias = "Array | Packed | None"


def row(specs: Sequence[OpSpec], name: str) -> OpSpec:
    """The row called ``name``."""
    return next(spec for spec in specs if spec.name == name)


def run_row(
    spec: OpSpec,
    inputs: Sequence[Given],
    attributes: dict[str, Any] | None = None,
    types: Sequence[ElementType] = (ElementType.FLOAT,),
    spare: int = 0,
    opset: int = 22,
) -> list[Any]:
    """The outputs of ``spec``'s kernel, run with the planned scratch plus ``spare`` bytes of rubbish."""
    node = Node("the node", spec.name, spec.domain, opset, MappingProxyType(dict(attributes or {})))
    call = Call(node, tuple(inputs), [None] * len(types), (True,) * len(types), tuple(types))
    planned = spec.workspace(query_of(call)).bytes if spec.workspace is not None else 0
    call.scratch_bytes = np.full(max(planned + spare, 0), 0xFF, np.uint8)
    assert spec.kernel is not None
    spec.kernel(call)
    return list(call.placed)


def pack(values: Array, kind: ElementType) -> Packed:
    """Integers as a packed tensor of 4 or 2 bits, low-order bits first."""
    bits = 4 if kind in (ElementType.INT4, ElementType.UINT4) else 2
    return Packed(pack_rows(values.reshape(1, -1), bits).reshape(-1), kind, values.shape)


def pack_rows(codes: Array, bits: int) -> Array:
    """Codes [..., n] into bytes, low-order bits first, each row padded to a byte by itself."""
    per = 8 // bits
    padded = np.zeros((*codes.shape[:-1], -(-codes.shape[-1] // per) * per), np.uint8)
    padded[..., : codes.shape[-1]] = codes.astype(np.int64) & ((1 << bits) - 1)
    parts = padded.reshape(*codes.shape[:-1], -1, per)
    packed = np.zeros(parts.shape[:-1], np.uint8)
    for place in range(per):
        packed |= (parts[..., place] << (bits * place)).astype(np.uint8)
    return packed


def onnxruntime_row(
    spec: OpSpec,
    inputs: Sequence[Given],
    attributes: dict[str, Any] | None = None,
    types: Sequence[ElementType] = (ElementType.FLOAT,),
    opset: int = 22,
) -> list[Any]:
    """The same node on onnxruntime's CPU provider, nothing optimised; all but input 0 are initializers."""
    names = [f"i{index}" if value is not None else "" for index, value in enumerate(inputs)]
    results = [f"o{index}" for index in range(len(types))]
    node = helper.make_node(spec.name, names, results, domain=spec.domain, **(attributes or {}))
    first = inputs[0]
    fed = {"i0": first} if isinstance(first, np.ndarray) else {}
    graph = helper.make_graph(
        [node],
        "one node",
        [helper.make_tensor_value_info(n, int(from_numpy(v.dtype)), v.shape) for n, v in fed.items()],
        [helper.make_tensor_value_info(n, int(kind), None) for n, kind in zip(results, types, strict=True)],
        [
            _initializer(name, value)
            for name, value in zip(names, inputs, strict=True)
            if name and name not in fed
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, fed))


def _initializer(name: str, value: Given) -> Any:  # noqa: ANN401 - onnx has no types
    if isinstance(value, Packed):
        return helper.make_tensor(name, int(value.dtype), value.shape, value.data.tobytes(), raw=True)
    assert value is not None
    return numpy_helper.from_array(value, name)


def assert_close(got: Array, want: Array, tolerance: float = 1e-5) -> None:
    """Equal shapes and values within ``tolerance`` of the largest magnitude."""
    assert got.shape == want.shape
    wide, right = got.astype(np.float64), want.astype(np.float64)
    scale = float(np.abs(right[np.isfinite(right)]).max(initial=1e-6))
    np.testing.assert_allclose(wide, right, rtol=0, atol=tolerance * scale)
