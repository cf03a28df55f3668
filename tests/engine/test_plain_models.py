"""Models that are no decoders: the ones that two wheels carry, and control flow in every shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from vramscope.api import Planner, make_plan, open_path
from vramscope.build.fetch import Wheel, default_cache, fetch_files
from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError, InputError, ScenarioError, SymbolConflictError, VramscopeError
from vramscope.graph.specialise import parts_of, specialise
from vramscope.plan.types import Certainty, ComponentName, Phase, Scenario
from vramscope.run.inputs import input_extents, load_inputs, scenario_of
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vramscope.graph.model import Model
    from vramscope.plan.types import Plan

SILERO = Wheel("silero-vad==6.2.3", "silero_vad-6.2.3-py3-none-any.whl", 0, ".onnx")
RAPID = Wheel("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime-1.4.4-py3-none-any.whl", 0, ".onnx")

STATE = {"input": (1, 576), "state": (2, 1, 128), "sr": ()}
SHAPES: tuple[tuple[Wheel, str, Mapping[str, tuple[int, ...]]], ...] = (
    (SILERO, "silero_vad", STATE),
    (SILERO, "silero_vad_half", STATE),
    (SILERO, "silero_vad_16k_op15", STATE),
    (SILERO, "silero_vad_openvino_16k", STATE),
    (SILERO, "silero_vad_op18_ifless", {"input": (3, 576), "state": (2, 3, 128), "sr": ()}),
    (SILERO, "silero_vad_16k_sequence", {"input": (5, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    (RAPID, "ch_PP-OCRv4_det_infer", {"x": (1, 3, 64, 96)}),
    (RAPID, "ch_PP-OCRv4_rec_infer", {"x": (1, 3, 48, 96)}),
    (RAPID, "ch_ppocr_mobile_v2.0_cls_infer", {"x": (2, 3, 48, 192)}),
)
RATE = 16_000

Arrays = dict[str, np.ndarray[tuple[int, ...], np.dtype[Any]]]


@pytest.fixture(scope="session")
def wheels() -> Mapping[str, Path]:
    """The models' folders by requirement; skipped where no package index serves them."""
    try:
        return {
            wheel.requirement: fetch_files(wheel, default_cache() / "wheels") for wheel in (SILERO, RAPID)
        }
    except InputError as error:
        pytest.skip(f"no package index serves the wheels: {error}")


def feed(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Seeded inputs; the sampling rate is the only integer."""
    generator = np.random.default_rng(7)
    found: Arrays = {}
    for item in model.program.inputs:
        name = model.program.values[item].name
        whole = name == "sr"
        found[name] = (
            np.array(RATE, np.int64) if whole else generator.standard_normal(shapes[name]).astype(np.float32)
        )
    return found


def truth(path: Path, inputs: Arrays) -> list[Any]:
    """onnxruntime's outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, inputs))


def compare(path: Path, model: Model, plan: Plan, inputs: Arrays, tolerance: float = 1e-4) -> HostDevice:
    """Runs both and compares every output; returns the device, whose ledger counted the run."""
    device = HostDevice()
    found = run_plain(model, plan, inputs, device=device)
    for (name, got), wanted in zip(found, truth(path, inputs), strict=True):
        assert isinstance(got, np.ndarray)
        assert got.shape == wanted.shape, name
        np.testing.assert_allclose(
            got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance * max(1.0, np.abs(wanted).max())
        )
    return device


@pytest.mark.parametrize(("wheel", "name", "shapes"), SHAPES, ids=[name for _, name, _ in SHAPES])
def test_a_real_model_is_planned_to_the_byte_and_right(
    wheels: Mapping[str, Path], wheel: Wheel, name: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    path = wheels[wheel.requirement] / f"{name}.onnx"
    model = open_path(path)
    assert model.contract is None
    inputs = feed(model, shapes)
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert not plan.refusals
    assert plan.total.certainty is Certainty.EXACT
    tolerance = 2e-2 if name.endswith("half") else 1e-4
    device = compare(path, model, plan, inputs, tolerance)
    assert device.ledger.total.peak_bytes == plan.total.bytes
    assert device.ledger.total.current_bytes == 0


def test_maxima_are_taken_as_extents_where_branches_depend_on_them(wheels: Mapping[str, Path]) -> None:
    path = wheels[SILERO.requirement] / "silero_vad_half.onnx"
    model = open_path(path)
    plan = make_plan(model, Scenario(maxima={"batch": 1, "sequence": 576}))
    assert not plan.refusals
    assert any("exactly" in note and "maxima of batch, sequence" in note for note in plan.notes)
    assert {row.symbol for row in plan.axes} == {"batch", "sequence"}
    inputs = feed(model, STATE)
    compare(path, model, plan, inputs)
    with pytest.raises(BindingError, match="the plan is for exactly"):
        run_plain(model, plan, {**inputs, "input": np.zeros((1, 320), np.float32)})


def test_a_branch_that_the_extents_contradict_is_left_out_and_told(wheels: Mapping[str, Path]) -> None:
    model = open_path(wheels[SILERO.requirement] / "silero_vad.onnx")
    inputs = feed(model, STATE)
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert any("else_branch of If_0 cannot run" in note for note in plan.notes)
    with pytest.raises(VramscopeError, match="else_branch of ai") as caught:
        run_plain(model, plan, {**inputs, "sr": np.array(8_000, np.int64)})
    assert caught.value.node == "If_0"


def opened(text: str, folder: Path, *, opset: int = 17) -> tuple[Path, Model]:
    """A model of ONNX text, whose nodes are named after their first outputs."""
    proto = parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\n{text}')
    path = folder / "m.onnx"
    onnx.save(proto, path)
    return path, open_path(path)


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
    assert make_plan(model, Scenario()).refusals
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
    assert any("'flag' is data" in note for note in plan.notes)
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


def test_inputs_come_from_array_files(tmp_path: Path) -> None:
    x, sr = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5, np.int64)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", x=x, sr=sr)
    np.savez(tmp_path / "one.npz", other=sr)
    named = load_inputs(
        [("a", tmp_path / "x.npy"), ("b", tmp_path / "one.npz"), ("x", tmp_path / "both.npz")]
    )
    assert list(named) == ["a", "b", "x"]
    np.testing.assert_array_equal(named["a"], x)
    np.testing.assert_array_equal(named["b"], sr)
    assert set(load_inputs([("", tmp_path / "both.npz")])) == {"x", "sr"}
    assert set(load_inputs([("", tmp_path / "x.npy")])) == {"x"}


def test_array_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "both.npz", x=np.zeros(2), y=np.zeros(2))
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(100_000))
    np.save(tmp_path / "x.npy", np.zeros(4))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty.npy").write_bytes(b"")
    wrong = {
        ("x", "objects.npy"): "no array file",
        ("x", "text.npy"): "no array file",
        ("x", "empty.npy"): "no array file",
        ("x", "missing.npy"): "cannot be read",
        ("z", "both.npz"): "no member z",
    }
    for (name, file), why in wrong.items():
        with pytest.raises(InputError, match=why):
            load_inputs([(name, tmp_path / file)])
    with pytest.raises(InputError, match="the limit is"):
        load_inputs([("x", tmp_path / "bomb.npz")], limit=10_000)
    with pytest.raises(InputError, match="given twice"):
        load_inputs([("x", tmp_path / "x.npy"), ("x", tmp_path / "x.npy")])


def test_inputs_are_checked_in_the_order_they_are_given(tmp_path: Path) -> None:
    _, model = opened("g (float[k0, 4] x, float[k0] z) => (float[k0, 4] y) { y = Neg (x) }", tmp_path)
    good: Arrays = {"x": np.zeros((2, 4), np.float32), "z": np.zeros(2, np.float32)}
    assert input_extents(model, good) == {"k0": 2}
    wrong: tuple[tuple[Arrays, str], ...] = (
        ({"q": good["x"]}, "none of this name"),
        ({"x": good["x"].astype(np.float64)}, "declares FLOAT, given is float64"),
        ({"x": np.zeros(4, np.float32)}, "declares rank 2"),
        ({"x": np.zeros((2, 5), np.float32)}, "fixes axis 1 to 4"),
        ({"x": good["x"]}, "input z: it is missing"),
        ({"z": np.zeros((1, 1), np.float32), "q": good["x"]}, "declares rank 1"),
    )
    for inputs, why in wrong:
        with pytest.raises(BindingError, match=why):
            input_extents(model, inputs)
    with pytest.raises(SymbolConflictError) as caught:
        input_extents(model, {"z": np.zeros(3, np.float32), "x": good["x"]})
    assert (caught.value.first, caught.value.second) == (3, 2)
    assert (caught.value.first_source, caught.value.second_source) == ("input z, axis 0", "input x, axis 0")
