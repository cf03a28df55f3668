"""Bodies, captures, loops and extents that only data decides, in small graphs written as ONNX text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx.parser

from vramscope.graph.expr import Symbol, free_symbols, interval
from vramscope.graph.load import open_model
from vramscope.graph.model import Minted, Model, Program, Value, ValueKind

if TYPE_CHECKING:
    from pathlib import Path

HEADER = '<ir_version: 10, opset_import: ["" : 20]>\n'


def opened(text: str, tmp_path: Path) -> Model:
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx.parser.parse_model(HEADER + text).SerializeToString())
    return open_model(file)


def output(program: Program, index: int = 0) -> Value:
    return program.values[program.outputs[index]]


def shape(value: Value) -> list[str]:
    assert value.shape is not None
    return [str(dim) for dim in value.shape]


NESTED = """
nested (float[batch, 8] x, bool flag, bool other) => (float[batch, 8] y)
<float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  y = If (flag) <
    then_branch = then () => (float[a, b] t) {
      t = If (other) <
        then_branch = inner () => (float[c, d] i) { i = Add (x, w) },
        else_branch = other_inner () => (float[e, f] j) { j = Neg (x) }
      >
    },
    else_branch = otherwise () => (float[g, h] o) { o = Relu (x) }
  >
}
"""


def test_a_body_captures_through_every_level(tmp_path: Path) -> None:
    program = opened(NESTED, tmp_path).program
    step = program.steps[0]
    then = step.bodies["then_branch"]
    inner = then.steps[0].bodies["then_branch"]
    names = {inner.values[own].name: own for own in inner.captures}
    assert set(names) == {"x", "w"}
    middle = inner.captures[names["x"]]
    assert then.values[middle].kind is ValueKind.CAPTURE
    outer = then.captures[middle]
    assert program.values[outer].name == "x"
    assert program.values[then.captures[inner.captures[names["w"]]]].kind is ValueKind.WEIGHT


def test_branches_that_agree_give_their_shape(tmp_path: Path) -> None:
    model = opened(NESTED, tmp_path)
    assert shape(output(model.program)) == ["batch", "8"]
    assert model.contract is None
    assert not model.program.minted


def test_branches_that_differ_are_bounded_by_the_larger(tmp_path: Path) -> None:
    text = """
    differ (float[n, 4] x, bool flag) => (float[m, 4] y) {
      y = If (flag) <
        then_branch = a () => (float[p, 4] t) { t = Concat <axis = 0> (x, x) },
        else_branch = b () => (float[q, 4] e) { e = Identity (x) }
      >
    }
    """
    program = opened(text, tmp_path).program
    (minted,) = program.minted.values()
    assert shape(output(program)) == [minted.symbol, "4"]
    assert str(minted.ceiling) == "max(2 * n, n)"


def test_a_branch_that_shapes_decide_is_taken(tmp_path: Path) -> None:
    text = """
    squeeze (float[n, 1, 7] x) => (float[n, 7] y)
    <int64[1] axis = {1}, int64 one = {1}, int64[1] index = {1}>
    {
      s = Shape (x)
      d = Gather <axis = 0> (s, index)
      flag = Equal (d, axis)
      y = If (flag) <
        then_branch = a () => (float[p, r] t) { t = Squeeze (x, axis) },
        else_branch = b () => (float[q, r, z] e) { e = Identity (x) }
      >
    }
    """
    assert shape(output(opened(text, tmp_path).program)) == ["n", "7"]


def test_a_rank_that_nothing_decides_is_named(tmp_path: Path) -> None:
    text = """
    ranks (float[n, 4] x, bool flag) => (float y) <int64[1] axis = {0}> {
      y0 = If (flag) <
        then_branch = a () => (float[p] t) { t = ReduceSum <keepdims = 0> (x, axis) },
        else_branch = b () => (float[q, r] e) { e = Identity (x) }
      >
      y = ReduceMax <keepdims = 0> (y0)
    }
    """
    model = opened(text, tmp_path)
    assert any("'y0'" in problem and "different ranks" in problem for problem in model.problems)


LOOP = """
grow (float[n, 4] x, int64 trips, bool go) => (float[m, 4] y, float[t, 4] rows) <int64[1] axis = {0}> {
  y, rows = Loop (trips, go, x) <
    body = step (int64 i, bool c, float[k, 4] state) => (bool c2, float[k2, 4] state2, float[4] row) {
      c2 = Identity (c)
      state2 = Concat <axis = 0> (state, x)
      row = ReduceSum <keepdims = 0> (state, axis)
    }
  >
}
"""


def test_what_a_loop_grows_is_a_symbol_without_a_ceiling(tmp_path: Path) -> None:
    program = opened(LOOP, tmp_path).program
    grown = output(program).shape
    assert grown is not None
    assert isinstance(grown[0], Symbol)
    minted = program.minted[grown[0].name]
    assert minted.ceiling is None
    assert "trip" in minted.reason
    assert output(program, 1).shape is not None


def test_a_loop_that_keeps_its_shape_invents_nothing_for_it(tmp_path: Path) -> None:
    text = LOOP.replace("Concat <axis = 0> (state, x)", "Add (state, x)").replace(
        "float[m, 4] y", "float[n, 4] y"
    )
    assert shape(output(opened(text, tmp_path).program)) == ["n", "4"]


def test_scan_slices_and_stacks(tmp_path: Path) -> None:
    text = """
    scan (float[b] first, float[b, seq] xs) => (float[b] last, float[seq, b] ys) {
      last, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1],
        body = step (float[p] s, float[q] x) => (float[r] s2, float[u] y) {
          s2 = Add (s, x)
          y = Identity (s2)
        }
      > (first, xs)
    }
    """
    program = opened(text, tmp_path).program
    assert shape(output(program)) == ["b"]
    assert shape(output(program, 1)) == ["seq", "b"]


def minted_of(text: str, tmp_path: Path) -> Minted:
    (minted,) = opened(text, tmp_path).program.minted.values()
    return minted


def test_nonzero_finds_no_more_than_all_elements(tmp_path: Path) -> None:
    minted = minted_of("g (float[n, 4] x) => (int64[2, k] y) { y = NonZero (x) }", tmp_path)
    assert str(minted.ceiling) == "4 * n"
    assert minted.operator == "NonZero"


def test_compress_and_unique_keep_no_more_than_they_get(tmp_path: Path) -> None:
    compress = "g (float[n, 4] x, bool[n] c) => (float[k, 4] y) { y = Compress <axis = 0> (x, c) }"
    assert str(minted_of(compress, tmp_path).ceiling) == "n"
    unique = "g (float[n, 4] x) => (float[k] y) { y = Unique (x) }"
    assert str(minted_of(unique, tmp_path).ceiling) == "4 * n"


def test_suppression_keeps_no_more_than_boxes_of_each_class(tmp_path: Path) -> None:
    text = """
    g (float[1, boxes, 4] b, float[1, 3, boxes] s) => (int64[k, 3] y) <int64[1] most = {10}> {
      y = NonMaxSuppression (b, s, most)
    }
    """
    assert str(minted_of(text, tmp_path).ceiling) == "3 * min(boxes, 10)"


def test_an_unknown_top_k_is_bounded_by_its_axis(tmp_path: Path) -> None:
    text = "g (float[n, 50] x, int64[1] k) => (float[n, m] v, int64[n, m] i) { v, i = TopK (x, k) }"
    assert minted_of(text, tmp_path).ceiling == 50


def test_an_unknown_range_has_no_ceiling_and_says_why(tmp_path: Path) -> None:
    minted = minted_of("g (int64 a, int64 b, int64 c) => (int64[k] y) { y = Range (a, b, c) }", tmp_path)
    assert minted.ceiling is None
    assert "Range" in minted.reason


def test_a_slice_by_data_is_bounded_by_its_input(tmp_path: Path) -> None:
    minted = minted_of(
        "g (float[n, 4] x, int64[1] s, int64[1] e) => (float[k, 4] y) <int64[1] a = {0}> "
        "{ y = Slice (x, s, e, a) }",
        tmp_path,
    )
    assert str(minted.ceiling) == "n"


def test_what_is_derived_from_data_keeps_its_arithmetic(tmp_path: Path) -> None:
    text = """
    g (float[n] x) => (int64[m] y) <int64[1] all = {-1}> {
      z = NonZero (x)
      c = Concat <axis = 1> (z, z)
      y = Reshape (c, all)
    }
    """
    program = opened(text, tmp_path).program
    (minted,) = program.minted.values()
    result = output(program).shape
    assert result is not None
    assert free_symbols(result[0]) == {minted.symbol}
    assert str(result[0]) == f"2 * {minted.symbol}"
    assert interval(result[0], {}).high is None


def test_shape_arithmetic_through_where_and_constant_of_shape(tmp_path: Path) -> None:
    text = """
    g (float[n, 1, 4] x, float[m] like) => (float[n, m, 4] y)
    <int64[1] two = {2}, int64[1] minus = {-1}, int64[1] three = {3}>
    {
      s = Shape (like)
      t = Concat <axis = 0> (minus, s, minus)
      ones = ConstantOfShape <value = int64[1] {1}> (three)
      hole = Equal (t, minus)
      target = Where (hole, ones, t)
      y = Expand (x, target)
    }
    """
    assert shape(output(opened(text, tmp_path).program)) == ["n", "m", "4"]


def test_paddings_that_are_reversed_as_matrices_are_computed(tmp_path: Path) -> None:
    text = """
    g (float[n, 8] x) => (float[a, b] y)
    <int64[4] flat = {2, 3, 0, 0}, int64[2] pairs = {-1, 2}, int64[1] last = {-1},
     int64[1] low = {-9223372036854775808}, int64[1] zero = {0}, int64[1] all = {-1}>
    {
      m = Reshape (flat, pairs)
      r = Slice (m, last, low, zero, last)
      t = Transpose <perm = [1, 0]> (r)
      p = Reshape (t, all)
      y = Pad (x, p)
    }
    """
    program = opened(text, tmp_path).program
    assert shape(output(program)) == ["n", "13"]
    assert program.constant_steps == 4


def test_constants_are_weights_and_constant_steps_come_first(tmp_path: Path) -> None:
    text = """
    g (float[n, 2] x) => (float[n, 2] y) {
      first = Relu (x)
      c = Constant <value_floats = [1.0, 2.0]> ()
      d = Neg (c)
      y = Add (first, d)
    }
    """
    program = opened(text, tmp_path).program
    assert [step.node.operator for step in program.steps] == ["Neg", "Relu", "Add"]
    assert program.constant_steps == 1
    (source,) = program.weights.values()
    assert source.shape == (2,)
    assert source.identity.startswith("inline:c:")
    assert len(source.digest) == 64


def test_what_draws_random_numbers_is_never_computed_ahead(tmp_path: Path) -> None:
    text = "g (float[n, 2] x) => (float[n, 2] y) { r = RandomNormal <shape = [2]> () y = Add (x, r) }"
    assert opened(text, tmp_path).program.constant_steps == 0


def test_what_no_output_needs_is_left_out(tmp_path: Path) -> None:
    text = "g (float[n] x) => (float[n] y) <float[1] w = {1}> { dead = Add (x, w) y = Relu (x) }"
    model = opened(text, tmp_path)
    assert [step.node.operator for step in model.program.steps] == ["Relu"]
    assert not model.program.weights
    assert any("1 nodes" in problem for problem in model.problems)
    assert any("1 weights" in problem for problem in model.problems)


def test_an_input_with_a_value_in_the_file_is_a_weight(tmp_path: Path) -> None:
    text = "g (float[n] x, float[1] w) => (float[n] y) <float[1] w = {1}> { y = Add (x, w) }"
    model = opened(text, tmp_path)
    assert [model.program.values[item].name for item in model.program.inputs] == ["x"]
    assert any("taken as weights" in problem for problem in model.problems)


def test_functions_are_inlined_in_the_default_domain(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["ai.onnx" : 20, "local" : 1]>
    g (float[n, 4] x) => (float[n, 4] y) { y = local.twice (x) }
    <domain: "local", opset_import: ["" : 20]>
    twice (a) => (b) { b = Add (a, a) }
    """
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    model = open_model(file)
    assert [step.node.qualified for step in model.program.steps] == ["ai.onnx::Add"]
    kept = open_model(file, native={("local", "twice")})
    assert [step.node.qualified for step in kept.program.steps] == ["local::twice"]
    assert any("twice" in problem for problem in kept.problems)
