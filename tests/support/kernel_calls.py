"""One attention or control-flow kernel with exactly the workspace it asks for; the node on onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from onnx import helper

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.ops.kernels import attention, control, grouped, multihead, paged, rotary
from vramscope.ops.spec import ABSENT_META, NO_WORKSPACE, TensorMeta, WorkspaceQuery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.ops.call import RunBody
    from vramscope.ops.spec import WorkspaceRequirement

Tensors = np.ndarray[Any, Any]
FAMILIES = (attention, control, grouped, multihead, paged, rotary)
TABLE = {(row.domain, row.name): row for family in FAMILIES for row in family.SPECS}


@dataclass(frozen=True)
class Operator:
    """A node to be: ``outputs`` names how many are wanted, ``opset`` the version of its own domain."""

    name: str
    domain: str = ""
    outputs: int = 1
    opset: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def node(self) -> Node:
        """The node as the engine sees it."""
        return Node("the node", self.name, self.domain, self.opset, dict(self.attributes))

    def having(self, **attributes: Any) -> Operator:  # noqa: ANN401 - whatever the operator takes
        """The same with further attributes."""
        merged = {**self.attributes, **attributes}
        return Operator(self.name, self.domain, self.outputs, self.opset, merged)

    def giving(self, outputs: int) -> Operator:
        """The same with another number of outputs."""
        return Operator(self.name, self.domain, outputs, self.opset, self.attributes)


def workspace_of(operator: Operator, inputs: Sequence[Any]) -> WorkspaceRequirement:
    """What the operator's estimator asks for."""
    estimate = TABLE[operator.domain, operator.name].workspace
    metas = tuple(
        ABSENT_META if item is None else TensorMeta(from_numpy(np.asarray(item).dtype), np.shape(item))
        for item in inputs
    )
    query = WorkspaceQuery(operator.node(), metas, operator.outputs)
    return NO_WORKSPACE if estimate is None else estimate(query)


def run_kernel(
    operator: Operator,
    inputs: Sequence[Any],
    placed: Sequence[Any] = (),
    lacking: int = 0,
    run_body: RunBody | None = None,
) -> list[Any]:
    """The outputs of the operator's kernel.

    Args:
        operator: the node.
        inputs: arrays, None where one is left out.
        placed: arrays that the plan has placed, None where it has not.
        lacking: bytes that the prepared workspace is too small by.
        run_body: runs a control-flow body.
    """
    kernel = TABLE[operator.domain, operator.name].kernel
    assert kernel is not None
    scratch = np.full(workspace_of(operator, inputs).bytes - lacking, 0xFF, np.uint8)
    targets = [*placed, *[None] * (operator.outputs - len(placed))]
    types = output_types(inputs, operator.outputs)
    wanted = (True,) * operator.outputs
    call = Call(operator.node(), tuple(inputs), targets, wanted, types, scratch, run_body)
    kernel(call)
    return list(call.placed)


def output_types(inputs: Sequence[Any], outputs: int) -> tuple[ElementType, ...]:
    """The first input's type for every output, which holds for all attention operators without a cache."""
    first = next((item for item in inputs if isinstance(item, np.ndarray)), None)
    kind = ElementType.FLOAT if first is None else from_numpy(first.dtype)
    return (kind,) * outputs


def run_onnxruntime(operator: Operator, inputs: Sequence[Any], types: Sequence[Any] = ()) -> list[Any]:
    """The same node on onnxruntime's CPU provider, nothing optimised; ``types``: of the outputs."""
    names = [f"i{index}" if item is not None else "" for index, item in enumerate(inputs)]
    feeds = {name: item for name, item in zip(names, inputs, strict=True) if item is not None}
    results = [f"o{index}" for index in range(operator.outputs)]
    kinds = list(types) or [next(iter(feeds.values())).dtype] * operator.outputs
    node = helper.make_node(operator.name, names, results, domain=operator.domain, **operator.attributes)
    made = [_info(name, kind, None) for name, kind in zip(results, kinds, strict=True)]
    given = [_info(name, item.dtype, item.shape) for name, item in feeds.items()]
    opsets = [helper.make_opsetid(operator.domain, operator.opset)]
    if operator.domain:
        opsets.append(helper.make_opsetid("", 20))
    graph = helper.make_graph([node], "one node", given, made)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _info(name: str, kind: Any, shape: Sequence[int] | None) -> Any:  # noqa: ANN401 - onnx has no types
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
