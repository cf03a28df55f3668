"""One node in full: shapes, where ceilings come from, makers and readers, scratch and its regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from planned_models import planner_of

from vramscope.api import Planner, Scenario, open_path
from vramscope.errors import InputError
from vramscope.messages.node import NodeParams
from vramscope.plan.types import Phase
from vramscope.server.node_detail import node_detail

if TYPE_CHECKING:
    from pathlib import Path

GRAPH = """g (float[boxes, 4] x) => (float[m, 4] y)
<float[4, 4] w = {1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1}>
{ a = MatMul(x, w) b = Relu(a) c = Exp(a) y = Concat<axis = 0>(b, c) }"""


def test_a_node_tells_its_values_their_makers_and_their_readers(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, GRAPH)
    plan = planner.plan(Scenario(maxima={"boxes": 10}))
    node = node_detail(plan, planner.model, 5, NodeParams(phase="run", step=0))
    names = {step.index: step.node.name for step in planner.model.program.steps}
    assert (node.ticket, node.operator, node.kernel) == (5, "ai.onnx::MatMul", "host")
    x, w = node.inputs
    assert (x.name, x.kind, x.symbolic, x.bytes, x.nodes) == ("x", "input", "boxes×4", 160, [])
    assert (w.name, w.kind, w.bytes, w.bounds) == ("w", "weight", 64, [])
    (a,) = node.outputs
    assert a.nodes == [names[1], names[2]]
    last = node_detail(plan, planner.model, 5, NodeParams(phase="run", step=3))
    assert [value.nodes for value in last.inputs] == [[names[1]], [names[2]]]
    assert last.attributes == ["axis = 0"]


def test_a_bound_says_where_it_comes_from_and_a_refusal_why(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, GRAPH)
    bounded = planner.plan(Scenario(maxima={"boxes": 10}))
    refused = planner.plan(Scenario())
    x = node_detail(refused, planner.model, 1, NodeParams(phase="run", step=0)).inputs[0]
    assert x.bytes == -1
    assert x.bounds[0].startswith("axis 0: ")
    x = node_detail(bounded, planner.model, 1, NodeParams(phase="run", step=0)).inputs[0]
    assert x.shape in {"≤10×4", "10×4"}
    assert bool(x.bounds) == x.shape.startswith("≤")


def test_scratch_is_shown_with_its_regions(shared_models: Path) -> None:
    planner = Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    plan = planner.plan(Scenario(context=64))
    rows = plan.phase(Phase.DECODE).nodes
    row = next(row for row in rows if row.operator == "GroupQueryAttention")
    node = node_detail(plan, planner.model, 1, NodeParams(phase="decode", step=row.step))
    assert node.workspace_bytes == row.workspace.bytes > 0
    assert node.formula == row.workspace.formula
    assert [(item.name, item.offset, item.size) for item in node.regions] == [
        (item.name, item.offset, item.size) for item in row.workspace.regions
    ]
    assert all(item.offset + item.size <= node.workspace_bytes for item in node.regions)


def test_a_step_that_is_not_there_is_refused(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, GRAPH)
    with pytest.raises(InputError, match="no such node"):
        node_detail(planner.plan(Scenario()), planner.model, 1, NodeParams(phase="decode", step=0))
