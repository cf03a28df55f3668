"""Random graphs of shape arithmetic, planned at maxima and run below them: nothing exceeds its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from small_models import opened

from vramscope.api import make_plan
from vramscope.devices.host import HostDevice
from vramscope.plan.types import Bounded, Exact, Refused, Scenario
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model
    from vramscope.plan.types import Plan

NODES = (
    "{k} = Relu({a})",
    "{k} = Concat <axis = 0> ({a}, {b})",
    "{k} = Slice({a}, from, to)",
    "{k}s = Shape({b}) {k}e = Shape({a}) {k} = Slice({a}, {k}s, {k}e)",
    "{k}a = Shape({a}) {k}b = Shape({b}) {k}d = Sub({k}a, {k}b) {k}q = Squeeze({k}d) "
    "{k}r = Range(zero, {k}q, one) {k} = Cast <to = 1> ({k}r)",
    "{k}z = NonZero({a}) {k}c = Cast <to = 1> ({k}z) {k} = Reshape({k}c, rest)",
    "{k}g = Greater({a}, half) {k} = Compress <axis = 0> ({a}, {k}g)",
    "{k}s = Shape({a}) {k} = Expand(half, {k}s)",
    "{k}o = Unsqueeze({a}, one1) {k}m = Mul({k}o, {b}) {k} = Reshape({k}m, rest)",
    "{k} = Pad({a}, around)",
    "{k}s = Split <num_outputs = 1> ({a}) {k} = Concat <axis = 0> ({k}s, {k}s)",
)
CONSTANTS = (
    "int64[1] from = {1}, int64[1] to = {-1}, int64 zero = {0}, int64 one = {1}, int64[1] one1 = {1}, "
    "int64[1] rest = {-1}, float half = {0.5}, int64[2] around = {1, 0}"
)
MOST = 5
"""The largest extent of an input."""


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """A graph over two vectors; every step works on what was made before, and all of it is an output."""
    values, nodes = ["x", "z"], []
    for number in range(draw(st.integers(1, 5))):
        made = f"v{number}"
        node = draw(st.sampled_from(NODES))
        nodes.append(
            node.format(k=made, a=draw(st.sampled_from(values)), b=draw(st.sampled_from(values[:3])))
        )
        values.append(made)
    outputs = ", ".join(f"float[{name}_length] {name}" for name in values[2:])
    return f"g (float[K] x, float[L] z) => ({outputs}) <{CONSTANTS}> {{ {' '.join(nodes)} }}"


def planned_shapes(model: Model, plan: Plan) -> dict[str, Exact | Bounded | Refused]:
    return {model.program.values[item].name: shape for item, shape in plan.phases[0].shapes.items()}


def ran(model: Model, plan: Plan, x: Array, z: Array) -> tuple[dict[str, Array], int]:
    """Every output, and the most bytes that were out at once."""
    device = HostDevice()
    found = {
        name: np.asarray(value) for name, value in run_plain(model, plan, {"x": x, "z": z}, device=device)
    }
    peak = device.ledger.total.peak_bytes
    device.close()
    return found, peak


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs(), st.integers(0, MOST), st.integers(0, MOST), st.integers(0, 2**32 - 1))
def test_what_runs_never_exceeds_what_was_planned(graph: str, one: int, two: int, seed: int) -> None:
    model = opened(graph, opsets='["" : 18]')
    plan = make_plan(model, Scenario(maxima={"K": MOST, "L": MOST}))
    event(f"refused: {bool(plan.refusals)}")
    if plan.refusals:
        assert plan.total.bytes is None
        assert all(item.symbol or item.axis >= 0 for item in plan.refusals)
        return
    random = np.random.default_rng(seed)
    x, z = (random.random(extent, np.float32) for extent in (one, two))
    outputs, peak = ran(model, plan, x, z)
    shapes = planned_shapes(model, plan)
    for name, value in outputs.items():
        shape = shapes[name]
        assert not isinstance(shape, Refused)
        within = zip(value.shape, shape.shape, strict=True)
        assert all(real <= most for real, most in within), (name, value.shape, shape)
        if isinstance(shape, Exact):
            assert value.shape == shape.shape
    assert peak <= plan.total.known


def test_shapes_at_the_largest_inputs_are_no_ceiling() -> None:
    text = """g (float[K] x, float[L] z) => (float[P] slice, float[Q] row)
    <int64 zero = {0}, int64 one = {1}> {
      sx = Shape(x) sz = Shape(z) slice = Slice(x, sz, sx)
      d = Sub(sx, sz) q = Squeeze(d) r = Range(zero, q, one) row = Cast <to = 1> (r) }"""
    model = opened(text)
    at_largest = make_plan(model, Scenario(extents={"K": MOST, "L": MOST}))
    shapes = planned_shapes(model, at_largest)
    assert [getattr(shapes[name], "shape", None) for name in ("slice", "row")] == [(0,), (0,)]
    plan = make_plan(model, Scenario(maxima={"K": MOST, "L": MOST}))
    x, z = np.ones(MOST, np.float32), np.ones(1, np.float32)
    outputs, peak = ran(model, plan, x, z)
    assert [outputs[name].shape for name in ("slice", "row")] == [(MOST - 1,)] * 2
    for name in ("slice", "row"):
        shape = planned_shapes(model, plan)[name]
        assert isinstance(shape, Bounded)
        assert shape.shape == (MOST,), "a shorter z leaves more, down to none at all"
    assert at_largest.total.known < peak <= plan.total.known


def test_a_square_that_is_taken_away_stays_taken_away() -> None:
    text = """g (float[K] x, float[L] z) => (float[P] square, float[Q] row, float[R] slice, float[S,T] back)
    <int64 zero = {0}, int64 one = {1}, int64[1] one1 = {1}, int64[1] rest = {-1}> {
      o = Unsqueeze(x, one1) m = Mul(o, x) square = Reshape(m, rest)
      a = Shape(x) b = Shape(square) d = Sub(b, a) q = Squeeze(d) r = Range(zero, q, one)
      row = Cast <to = 1> (r) e = Sub(a, b) p = Squeeze(e) f = Range(p, zero, one) n = Shape(f)
      slice = Slice(square, n, b) s = Concat <axis = 0> (rest, a) back = Reshape(square, s) }"""
    model = opened(text)
    for extent in (1, 2, 5):
        plan = make_plan(model, Scenario(extents={"K": extent, "L": 1}))
        shapes = planned_shapes(model, plan)
        square = extent * extent
        wanted = {"square": (square,), "row": (square - extent,), "slice": (extent,), "back": (extent,) * 2}
        assert {name: shapes[name] for name in wanted} == {k: Exact(shape) for k, shape in wanted.items()}
        outputs, peak = ran(model, plan, np.ones(extent, np.float32), np.ones(1, np.float32))
        assert {name: outputs[name].shape for name in wanted} == wanted
        assert peak <= plan.total.known


def test_a_view_of_a_value_whose_extent_is_data_takes_no_memory_of_its_own() -> None:
    text = """g (float[K] x) => (float[P] v, float[1,Q] y) <float half = {0.5}, int64[1] first = {0}> {
      c = Greater(x, half) v = Compress <axis = 0> (x, c) u = Unsqueeze(v, first) y = Relu(u) }"""
    model = opened(text)
    plan = make_plan(model, Scenario(maxima={"K": 64}))
    device = HostDevice()
    for x in (np.ones(64, np.float32), np.array([0, 2, 0, 3], np.float32)):
        found = dict(run_plain(model, plan, {"x": x}, device=device))
        assert np.asarray(found["v"]).tolist() == x[x > 0.5].tolist()
        assert np.asarray(found["y"]).tolist() == [x[x > 0.5].tolist()]
    assert device.ledger.total.peak_bytes <= plan.total.known
    assert not [site for site in device.ledger.sites if "unplanned" in site.name]
