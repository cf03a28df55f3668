"""Control flow of plain models: branches by shape and by data, loops and scans, planned and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from plain_runs import Arrays, compare, opened

from vramscope.api import Planner, make_plan
from vramscope.devices.host import HostDevice
from vramscope.errors import ScenarioError
from vramscope.graph.specialise import parts_of, specialise
from vramscope.plan.types import Certainty, ComponentName, Phase, Scenario
from vramscope.run.inputs import scenario_of
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from pathlib import Path


def squeezed(depth: int) -> str:
    """An If inside an If …, each of which squeezes x where its first extent is 1."""
    if depth == 0:
        return "float_out = Relu (x)"
    inner = squeezed(depth - 1).replace("float_out", f"d{depth}")
    return f"""
      s{depth} = Shape (x)
      e{depth} = Gather (s{depth}, zero)
      f{depth} = Equal (e{depth}, one)
      float_out = If (f{depth}) <
        then_branch = t{depth} () => (float[] r{depth}) {{ {inner} r{depth} = Squeeze (d{depth}, zeros) }},
        else_branch = b{depth} () => (float[] o{depth}) {{ o{depth} = Identity (x) }}
      >
    """


NESTED = f"""
g (float[k0, 1, 1, 1, 4] x) => (float[] y)
<int64 zero = {{0}}, int64 one = {{1}}, int64[1] zeros = {{0}}> {{
  {squeezed(4).replace("float_out", "z")}
  y = Neg (z)
}}
"""


@pytest.mark.parametrize(("extent", "rank"), [(1, 1), (3, 5)])
def test_ifs_four_deep_are_taken_by_shape(tmp_path: Path, extent: int, rank: int) -> None:
    path, model = opened(NESTED, tmp_path)
    refused = make_plan(model, Scenario())
    assert refused.refusals
    told = "Which branches run, and so which shapes follow, depends on extents that are open: give k0"
    assert refused.notes[0] == told
    inputs: Arrays = {"x": np.random.default_rng(1).standard_normal((extent, 1, 1, 1, 4)).astype(np.float32)}
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert plan.total.certainty is Certainty.EXACT
    assert plan.specialised is not None
    assert not any(step.bodies for step in plan.specialised.program.steps)
    assert len(plan.specialised.program.values[plan.specialised.program.outputs[0]].shape or ()) == rank
    device = compare(path, model, plan, inputs)
    assert device.ledger.total.peak_bytes == plan.total.bytes


SIBLINGS = """
g (float[k0, 4] x) => (float[k0, 4] y) <int64 zero = {0}, int64 one = {1}> {
  s = Shape (x)
  e = Gather (s, zero)
  f = Equal (e, one)
  a = If (f) <
    then_branch = t1 () => (float[p, 4] r) { c = Constant <value_float = 2.0> () r = Mul (x, c) },
    else_branch = e1 () => (float[q, 4] o) { c = Constant <value_float = 3.0> () o = Mul (x, c) }
  >
  y = If (f) <
    then_branch = t2 () => (float[p, 4] r) { c = Constant <value_float = 5.0> () r = Mul (a, c) },
    else_branch = e2 () => (float[q, 4] o) { c = Constant <value_float = 7.0> () o = Mul (a, c) }
  >
}
"""


@pytest.mark.parametrize(("extent", "factor"), [(1, 10.0), (2, 21.0)])
def test_branches_may_use_one_name_for_different_constants(
    tmp_path: Path, extent: int, factor: float
) -> None:
    _, model = opened(SIBLINGS, tmp_path)
    inputs: Arrays = {"x": np.ones((extent, 4), np.float32)}
    for scenario in (scenario_of(model, Scenario(), inputs), Scenario(maxima={"k0": 4})):
        ((_, got),) = run_plain(model, make_plan(model, scenario), inputs)
        np.testing.assert_array_equal(np.asarray(got), np.full((extent, 4), factor, np.float32))


DATA = """
g (float[k0, 4] x, bool flag) => (float[m, 4] y) <int64[2] twice = {2, 1}> {
  z = If (flag) <
    then_branch = t () => (float[p, 4] r) { u = Tile (x, twice) r = Relu (u) },
    else_branch = e () => (float[q, 4] o) { o = Neg (x) }
  >
  y = Abs (z)
}
"""


@pytest.mark.parametrize("flag", [True, False])
def test_an_if_on_data_is_planned_for_the_larger_branch(tmp_path: Path, flag: bool) -> None:
    path, model = opened(DATA, tmp_path)
    inputs: Arrays = {"x": np.random.default_rng(2).standard_normal((3, 4)).astype(np.float32)}
    inputs["flag"] = np.array(flag)
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert not plan.refusals
    assert plan.total.certainty is Certainty.BOUND
    assert any("'flag' decides while it runs" in note for note in plan.notes)
    device = compare(path, model, plan, inputs)
    assert plan.total.bytes is not None
    assert device.ledger.total.peak_bytes <= plan.total.bytes


LOOP = """
g (float[k0, 4] x, int64 trips) => (float[k0, 4] y, float[t, k0, 4] rows)
<float half = {0.5}, bool go = {1}> {
  y, rows = Loop (trips, go, x) <
    body = step (int64 i, bool c, float[k, 4] s) => (bool c2, float[k2, 4] s2, float[k3, 4] row) {
      c2 = Identity (c)
      a = Mul (s, half)
      b = Add (a, x)
      s2 = Relu (b)
      row = Neg (s2)
    }
  >
}
"""


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_one_trip_of_a_loop_is_planned_and_its_rows_have_a_maximum(tmp_path: Path, trips: int) -> None:
    path, model = opened(LOOP, tmp_path)
    inputs: Arrays = {"x": np.ones((3, 4), np.float32), "trips": np.array(trips, np.int64)}
    refused = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert len(refused.refusals) == 1
    symbol = refused.refusals[0].symbol
    plan = make_plan(model, scenario_of(model, Scenario(maxima={symbol: 5}), inputs))
    region = next(iter(plan.phase(Phase.SINGLE).bodies.values()))
    assert region.missing == ""
    assert region.bytes == 4 * 64 + 64
    device = compare(path, model, plan, inputs) if trips else HostDevice()
    assert plan.total.bytes is not None
    assert device.ledger.total.peak_bytes <= plan.total.bytes


def test_a_loop_inside_a_branch_starts_each_trip_in_the_same_place(tmp_path: Path) -> None:
    text = """
    g (float[8, 4] x, bool flag, int64 trips) => (float[8, 4] y) <float half = {0.5}, bool go = {1}> {
      y = If (flag) <
        then_branch = t () => (float[8, 4] r) {
          w = Neg (x)
          v = Loop (trips, go, w) <
            body = step (int64 i, bool c, float[8, 4] s) => (bool c2, float[8, 4] s2) {
              c2 = Identity (c)
              a = Mul (s, half)
              s2 = Add (a, x)
            }
          >
          r = Add (v, w)
        },
        else_branch = e () => (float[8, 4] o) { o = Identity (x) }
      >
    }
    """
    path, model = opened(text, tmp_path)
    inputs: Arrays = {
        "x": np.random.default_rng(3).standard_normal((8, 4)).astype(np.float32),
        "flag": np.array(True),
        "trips": np.array(50, np.int64),
    }
    plan = make_plan(model, Scenario())
    device = compare(path, model, plan, inputs)
    assert device.ledger.total.peak_bytes == plan.total.bytes


def test_a_branch_in_a_loop_follows_what_a_trip_changes(tmp_path: Path) -> None:
    text = """
    g (float[k0, 4] x, int64 trips) => (float[m, 4] y)
    <int64 zero = {0}, int64 one = {1}, int64[2] twice = {2, 1}, bool go = {1}> {
      y = Loop (trips, go, x) <
        body = step (int64 i, bool c, float[k, 4] s) => (bool c2, float[k2, 4] s2) {
          c2 = Identity (c)
          h = Shape (s)
          e = Gather (h, zero)
          f = Equal (e, one)
          s2 = If (f) <
            then_branch = t () => (float[p, 4] r) { r = Tile (s, twice) },
            else_branch = b () => (float[q, 4] o) { o = Neg (s) }
          >
        }
      >
    }
    """
    path, model = opened(text, tmp_path)
    inputs: Arrays = {"x": np.ones((1, 4), np.float32), "trips": np.array(4, np.int64)}
    refused = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert refused.refusals
    maxima = {refusal.symbol: 2 for refusal in refused.refusals}
    plan = make_plan(model, scenario_of(model, Scenario(maxima=maxima), inputs))
    assert plan.total.certainty is not Certainty.EXACT
    compare(path, model, plan, inputs)


SCAN = """
g (float[b] first, float[b, seq] xs) => (float[b] last, float[seq, b] ys) {
  last, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1],
    body = step (float[p] s, float[q] x) => (float[r] s2, float[u] y) {
      s2 = Add (s, x)
      y = Tanh (s2)
    }
  > (first, xs)
}
"""


def test_a_scan_is_planned_to_the_byte(tmp_path: Path) -> None:
    path, model = opened(SCAN, tmp_path)
    generator = np.random.default_rng(4)
    inputs: Arrays = {
        "first": generator.standard_normal(3).astype(np.float32),
        "xs": generator.standard_normal((3, 6)).astype(np.float32),
    }
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert plan.total.certainty is Certainty.EXACT
    device = compare(path, model, plan, inputs)
    assert device.ledger.total.peak_bytes == plan.total.bytes


def test_a_body_that_cannot_be_sized_is_told_and_nothing_is_called_exact(tmp_path: Path) -> None:
    text = """
    g (float[4] x, int64 trips) => (float y) <bool go = {1}, int64[1] axis = {0}> {
      one = ReduceSum <keepdims = 0> (x, axis)
      y = Loop (trips, go, one) <
        body = step (int64 i, bool c, float s) => (bool c2, float s2) {
          c2 = Identity (c)
          parts = SequenceConstruct (x, x)
          many = ConcatFromSequence <axis = 0> (parts)
          t = ReduceMax <keepdims = 0> (many)
          s2 = Add (s, t)
        }
      >
    }
    """
    path, model = opened(text, tmp_path)
    inputs: Arrays = {"x": np.arange(4, dtype=np.float32), "trips": np.array(3, np.int64)}
    plan = make_plan(model, Scenario())
    assert plan.total.certainty is not Certainty.EXACT
    assert any("not all planned" in note and "parts is a sequence" in note for note in plan.notes)
    assert "without all that runs inside" in plan.component(ComponentName.ACTIVATIONS).detail
    compare(path, model, plan, inputs)


def test_extents_that_a_graph_cannot_compute_are_refused_by_name(tmp_path: Path) -> None:
    text = """
    g (float[k0] x, float[3] z) => (float[] y) <int64 zero = {0}, int64 one = {1}, int64[1] axis = {0}> {
      s = Shape (x)
      e = Gather (s, zero)
      f = Equal (e, one)
      a = If (f) <
        then_branch = t () => (float[] r) { r = Squeeze (x, axis) },
        else_branch = b () => (float[q] o) { o = Identity (x) }
      >
      u = Unsqueeze (z, axis)
      y = MatMul (u, a)
    }
    """
    _, model = opened(text, tmp_path)
    assert not make_plan(model, Scenario(extents={"k0": 3})).refusals
    with pytest.raises(ScenarioError, match="k0 = 2"):
        make_plan(model, Scenario(extents={"k0": 2}))
    with pytest.raises(ScenarioError, match="no such symbol"):
        make_plan(model, Scenario(extents={"m": 2}))
    assert Planner(model).total_bytes(Scenario(extents={"k0": 2})) is None


def test_specialising_leaves_the_opened_model_alone(tmp_path: Path) -> None:
    _, model = opened(NESTED, tmp_path)
    before = model.program
    first, second = specialise(model, {"k0": 1}), specialise(model, {"k0": 1})
    assert first.program == second.program
    assert model.program is before
    assert sum(len(part.steps) for part in parts_of(first.program)) < sum(
        len(part.steps) for part in parts_of(before)
    )
