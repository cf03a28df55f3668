"""The planner's part of P-01 to P-15: planned nodes, merged scratch, axis bounds, exact shapes, overflow."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from planned_models import opened, planner_of, value_of

from vramscope.api import Planner, Scenario, open_path
from vramscope.errors import ShapeOverflowError, UnboundedAxisError, VramscopeError
from vramscope.graph.dtypes import BYTES_LIMIT, ElementType, tensor_bytes
from vramscope.graph.expr import Interval, Symbol, evaluate
from vramscope.graph.model import Model, Program, Value, ValueKind
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, WorkspaceRequirement
from vramscope.plan.index import build_index
from vramscope.plan.planned import is_planned, workspace_node_locations
from vramscope.plan.sizes import Resolver, symbol_ranges
from vramscope.plan.symbols import PhaseBindings
from vramscope.plan.types import REFERENCE_RUNTIME, Bounded, Exact, Phase, Refused
from vramscope.plan.workspace import merge

if TYPE_CHECKING:
    from vramscope.graph.expr import Shape

PLANNED = [
    *(("", name) for name in ("MatMul", "Gemm", "Attention", "Conv", "ReduceSum", "ReduceMean")),
    *(("com.microsoft", name) for name in ("Attention", "GroupQueryAttention", "MatMulNBits")),
    *(("com.microsoft", name) for name in ("FusedMatMulBias", "FusedGemm")),
    *(("pkg.nxrt", name) for name in ("BlockQuantizedMoE", "IndexShare")),
]
_NOWHERE = Path("nowhere.onnx")
PERSISTENT, STEP = Lifetime.SESSION_PERSISTENT, Lifetime.STEP_SCOPED


@pytest.mark.parametrize(("domain", "operator"), PLANNED)
def test_p01_planned_operators(domain: str, operator: str) -> None:
    assert is_planned(domain, operator)


@pytest.mark.parametrize(
    ("domain", "operator"),
    [("", "Add"), ("ai.onnx", "MatMul"), ("com.microsoft", "MatMul"), ("pkg.nxrt", "Attention")],
)
def test_p01_everything_else_is_not_planned(domain: str, operator: str) -> None:
    assert not is_planned(domain, operator)


def test_p01_locations_name_nested_nodes_too(tmp_path: Path) -> None:
    text = """g (float[4,4] x, bool flag) => (float[4,4] y) {
      a = MatMul(x, x)
      y = If (flag) <
        then_branch = t () => (float[4,4] p) { p = MatMul(a, a) },
        else_branch = e () => (float[4,4] q) { r = Add(a, a) q = Gemm(r, a) }
      >
    }"""
    assert workspace_node_locations(opened(tmp_path, text).program) == (
        "node#0 'ai.onnx::MatMul'",
        "node#1/then_branch/node#0 'ai.onnx::MatMul'",
        "node#1/else_branch/node#1 'ai.onnx::Gemm'",
    )


def test_p02_four_equal_requirements_merge_to_one() -> None:
    need = WorkspaceRequirement(32 << 20, 256, PERSISTENT)
    plan = merge([(f"gemm{index}", need) for index in range(4)])
    assert plan.bytes == {STEP: 0, PERSISTENT: 32 << 20}
    assert plan.blame[PERSISTENT] == "gemm0"


def test_p02_bytes_and_alignment_are_kept_independently() -> None:
    needs = [WorkspaceRequirement(1000, 64, STEP), WorkspaceRequirement(10, 4096, STEP), NO_WORKSPACE]
    plan = merge([(str(index), need) for index, need in enumerate(needs)])
    assert (plan.bytes[STEP], plan.alignment[STEP], plan.blame[STEP]) == (1000, 4096, "0")
    assert (plan.bytes[PERSISTENT], plan.alignment[PERSISTENT]) == (0, 1)


def test_p02_an_alignment_that_is_none_names_the_node() -> None:
    with pytest.raises(VramscopeError, match="workspace of gemm"):
        merge([("gemm", WorkspaceRequirement(10, 0))])


def resolved(
    shape: Shape,
    bound: dict[str, int] | None = None,
    declared: dict[str, int] | None = None,
    growing: tuple[str, ...] = (),
) -> Exact | Bounded | Refused:
    """How one planned input of this shape resolves."""
    value = Value(0, "hidden", ElementType.FLOAT, shape, ValueKind.INPUT)
    program = Program("g", (value,), (), (0,), (0,), MappingProxyType({}))
    index = build_index(Model(_NOWHERE, _NOWHERE, "", MappingProxyType({}), program, None))
    bindings = PhaseBindings(
        Phase.DECODE,
        MappingProxyType({}),
        MappingProxyType({}),
        MappingProxyType(bound or {}),
        MappingProxyType({name: f"binding of {name}" for name in bound or {}}),
        MappingProxyType({name: Interval(0, most) for name, most in (declared or {}).items()}),
    )
    ranges = symbol_ranges(bindings, MappingProxyType({}), frozenset(growing))
    return Resolver(index, bindings, ranges).shape(0)


def bounds(shape: Exact | Bounded | Refused) -> list[tuple[int, str, str, int]]:
    """(axis, symbol, kind, extent) of every bounded axis."""
    assert isinstance(shape, Bounded)
    return [(axis, item.symbol, item.kind, item.extent) for axis, item in shape.applied]


V_SEQ, SEQ = Symbol("v_seq"), Symbol("seq")


def test_p03_a_growing_symbol_is_bounded_by_the_capacity_of_another() -> None:
    shape = resolved((1, 16, V_SEQ, 128), {"kv_seq": 2048}, growing=("kv_seq", "v_seq"))
    assert isinstance(shape, Bounded)
    assert shape.shape == (1, 16, 2048, 128)
    assert bounds(shape) == [(2, "v_seq", "KvCapacity", 2048)]


def test_p03_the_largest_bound_growing_symbol_counts() -> None:
    shape = resolved((V_SEQ,), {"kv_seq": 2048, "k_seq": 4096}, growing=("kv_seq", "k_seq", "v_seq"))
    assert bounds(shape) == [(0, "v_seq", "KvCapacity", 4096)]


def test_p04_a_larger_declared_maximum_wins_over_capacity() -> None:
    shape = resolved((1, V_SEQ, 16), {"kv_seq": 2048}, {"v_seq": 8192}, ("kv_seq", "v_seq"))
    assert isinstance(shape, Bounded)
    assert shape.shape == (1, 8192, 16)
    assert bounds(shape) == [(1, "v_seq", "KvCapacity", 8192)]


def test_p04_with_nothing_bound_a_growing_symbol_has_its_declared_maximum() -> None:
    shape = resolved((V_SEQ,), {}, {"v_seq": 77}, ("kv_seq", "v_seq"))
    assert bounds(shape) == [(0, "v_seq", "ConfiguredMax", 77)]


def test_p05_a_declared_maximum_bounds() -> None:
    shape = resolved((2, SEQ, 64), {}, {"seq": 4096})
    assert isinstance(shape, Bounded)
    assert shape.shape == (2, 4096, 64)
    assert bounds(shape) == [(1, "seq", "ConfiguredMax", 4096)]


def test_p06_an_unbounded_axis_is_refused_by_name(tmp_path: Path) -> None:
    text = "g (float[data_dependent,4] h) => (float[data_dependent,4] y) { y = Relu(h) }"
    plan = planner_of(tmp_path, text).plan(Scenario())
    with pytest.raises(UnboundedAxisError, match=r"data_dependent.*genuinely unknown") as caught:
        plan.require()
    error = caught.value
    assert (error.value, error.axis, error.symbol, error.input_index) == ("h", 0, "data_dependent", 0)
    assert error.operator == "ai.onnx::Relu"
    assert error.node == "Relu_0"
    assert plan.total.bytes is None


def test_p07_a_fully_bound_shape_is_exact() -> None:
    assert resolved((1, SEQ, 8), {"seq": 12}) == Exact((1, 12, 8))


def test_p08_a_reshape_by_a_constant_is_followed(tmp_path: Path) -> None:
    text = """g (float16[batch,seq,2048] hidden, float[2048,8] w) => (float[rows,8] y) {
      target = Constant<value_ints = [-1, 2048]>()
      flat = Reshape(hidden, target)
      wide = Cast<to=1>(flat)
      y = MatMul(wide, w)
    }"""
    model = opened(tmp_path, text)
    shape = value_of(model, "wide").shape
    assert shape is not None
    assert tuple(evaluate(dim, {"batch": 1, "seq": 5}) for dim in shape) == (5, 2048)


def test_p09_a_mask_chain_recovers_the_query_axis(tmp_path: Path) -> None:
    text = """g (int64[batch,total] mask, int64[batch,sequence] ids, float[batch,1,sequence,total] scores)
      => (float[batch,1,query,total] y)
      <int64[1] one = {1}, int64[1] zero = {0}, int64[1] most = {9223372036854775807}, float[1] low = {-1.0},
       float[1] none = {0.0}, int64 axis = {1}>
    {
      places = CumSum(mask, axis)
      whole = Shape<start=1, end=2>(mask)
      fed = Shape<start=1, end=2>(ids)
      begin = Sub(whole, fed)
      now = Slice(places, begin, most, one)
      rows = Unsqueeze(now, one)
      keys = Unsqueeze(places, one)
      columns = Transpose<perm=[0,2,1]>(rows)
      causal = GreaterOrEqual(columns, keys)
      valid = Cast<to=9>(keys)
      both = And(causal, valid)
      bias = Where(both, none, low)
      wide = Cast<to=1>(bias)
      deep = Unsqueeze(wide, one)
      y = Add(deep, scores)
    }"""
    model = opened(tmp_path, text)
    shape = value_of(model, "deep").shape
    assert shape is not None
    known = {"batch": 1, "sequence": 1, "total": 2048}
    assert tuple(evaluate(dim, known) for dim in shape) == (1, 1, 1, 2048)


@pytest.mark.parametrize(
    ("bounds_text", "expected"),
    [
        ("begin, most, one", {"seq": 3, "total": 9}),
        ("minus, most, one", {"seq": 3, "total": 9}),
        ("zero, begin, one", {"seq": 3, "total": 9}),
    ],
)
def test_p09_a_slice_by_shape_arithmetic_is_exact(
    tmp_path: Path, bounds_text: str, expected: dict[str, int]
) -> None:
    text = f"""g (float[other,total] x, float[rows,seq] fed) => (float[other,cut] y)
      <int64[1] one = {{1}}, int64[1] zero = {{0}}, int64[1] minus = {{-3}},
       int64[1] most = {{9223372036854775807}}> {{
      whole = Shape<start=1, end=2>(x)
      new = Shape<start=1, end=2>(fed)
      begin = Sub(whole, new)
      y = Slice(x, {bounds_text})
    }}"""
    shape = value_of(opened(tmp_path, text), "y").shape
    assert shape is not None
    lengths = {"begin, most, one": 3, "minus, most, one": 3, "zero, begin, one": 6}
    assert tuple(evaluate(dim, {"other": 2, **expected}) for dim in shape) == (2, lengths[bounds_text])


def test_p10_scratch_inside_branches_is_planned(tmp_path: Path) -> None:
    text = """g (float[rows,64] x, float[64,64] w, bool flag) => (float[rows,64] y) {
      y = If (flag) <
        then_branch = t () => (float[rows,64] p) { p = MatMul(x, w) },
        else_branch = e () => (float[rows,64] q) { q = MatMul(x, w) }
      >
    }"""
    planner = planner_of(tmp_path, text)
    plan = planner.plan(Scenario(maxima={"rows": 8}, runtime=REFERENCE_RUNTIME))
    scratch = plan.phases[0].workspace
    assert scratch.bytes == {STEP: 0, PERSISTENT: 32 << 20}
    assert scratch.blame[PERSISTENT] == "control-flow/node#0/then_branch/node#0 'ai.onnx::MatMul'"
    assert plan.component(plan.components[3].name).figure.bytes == 32 << 20


def test_p10_an_unknown_shape_inside_a_branch_is_told(tmp_path: Path) -> None:
    text = """g (float[4,64] x, int64[count] shape, bool flag) => (float[k,64] y) {
      y = If (flag) <
        then_branch = t () => (float[k,64] p) { r = Reshape(x, shape) p = MatMul(r, x) },
        else_branch = e () => (float[4,64] q) { q = Relu(x) }
      >
    }"""
    plan = planner_of(tmp_path, text).plan(Scenario(maxima={"y.axis0": 4}, runtime=REFERENCE_RUNTIME))
    start = (
        "Scratch of control-flow/node#0/then_branch/node#1 'ai.onnx::MatMul' is not in the plan: input 0 (r)"
    )
    assert any(note.startswith(start) for note in plan.notes)


def test_p14_bytes_beyond_any_device_overflow() -> None:
    with pytest.raises(ShapeOverflowError, match="more than any device"):
        tensor_bytes(ElementType.DOUBLE, (BYTES_LIMIT // 4,))


def test_p15_only_bound_symbols_are_substituted() -> None:
    other = resolved((SEQ, V_SEQ), {"seq": 3})
    assert isinstance(other, Refused)
    assert (other.axis, other.symbol, other.reason) == (1, "v_seq", "nothing bounds v_seq")


def test_p15_elements_and_bytes_overflow_by_name(tmp_path: Path) -> None:
    planner = planner_of(tmp_path, "g (float[rows,columns] x) => (float[rows,columns] y) { y = Relu(x) }")
    with pytest.raises(ShapeOverflowError, match=r"exceeds any device") as caught:
        planner.plan(Scenario(maxima={"rows": 2**40, "columns": 2**40}))
    assert caught.value.what == f"y, FLOAT[{2**40}, {2**40}]"
    assert caught.value.node == "Relu_0"
    assert planner.total_bytes(Scenario(maxima={"rows": 2**40, "columns": 2**40})) is None


def test_a_maximum_bounds_but_does_not_bind(tmp_path: Path) -> None:
    # At rows = 8, Slice(x, rows) would be empty; for fewer rows it is not: the ceiling is 10, not 10 - 8.
    text = """g (float[rows] r, float[10] x) => (float[k] y) <int64[1] ten = {10}> {
      begin = Shape(r)
      y = Slice(x, begin, ten)
    }"""
    plan = planner_of(tmp_path, text).plan(Scenario(maxima={"rows": 8}))
    row = next(row for row in plan.bindings if row.name == "y")
    assert row.shape == (10,)
    assert row.figure.certainty.value == "bound"
    axis = next(axis for axis in plan.axes if axis.symbol == "rows")
    assert (axis.kind, axis.high, axis.editable) == ("ConfiguredMax", 8, True)


def test_planning_does_not_touch_weights(shared_models: Path) -> None:
    planner = Planner(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    plan = planner.plan(Scenario(context=64, prompt=4))
    assert plan.weights.bytes == sum(row.bytes for row in plan.weights.rows)
