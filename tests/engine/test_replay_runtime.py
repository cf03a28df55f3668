"""Kernel variants, seeds, branches, allocations over many runs (B-11; R-03, R-04, R-10; cases 32, 35)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_models import array_of, opened, session_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.plan.types import Phase, Scenario
from vramscope.run.seeding import WarmShapes, capture_seeds, capture_signature
from vramscope.run.session_types import SessionOptions
from vramscope.run.variants import VariantCache, VariantStatistics

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
SHIFT = "g (float[N,2] x) => (float[N,2] y) { one = Constant<value_float=1.0>() y = Add(x, one) }"


def rows(count: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    return {"x": np.full((count, 2), count, np.float32)}


# ------------------------------------------------------------------------------------ kernel variants


def test_r03_many_shapes_evict_variants_and_every_result_is_right() -> None:
    session = session_of(opened(SHIFT), {"N": 64})
    for count in range(1, 25):
        assert array_of(session.run(rows(count)), "y").tolist() == [[count + 1.0] * 2] * count
    statistics = session.variants
    assert statistics.evictions > 0
    assert statistics.entries < 24
    assert statistics == VariantStatistics(entries=4, hits=0, misses=24, prebind_hits=0, evictions=20)


def test_r04_repeated_shapes_add_no_entries() -> None:
    session = session_of(opened(SHIFT), {"N": 64})
    for count in (1, 2, 1):
        session.run(rows(count))
    assert session.variants == VariantStatistics(entries=2, hits=1, misses=2, prebind_hits=0, evictions=0)
    for _ in range(3):
        session.run(rows(1))
    assert session.variants == VariantStatistics(entries=2, hits=4, misses=2, prebind_hits=3, evictions=0)


def test_c29_the_pre_bound_variant_falls_back_on_a_shape_change_and_binds_again() -> None:
    cache = VariantCache(4)
    one, two = ((1, 2),), ((2, 2),)
    prebinds = []
    for key in (one, one, two, two, one, one):
        assert not cache.use(0, key).evicted
        prebinds.append(cache.statistics.prebind_hits)
    assert prebinds == [0, 1, 1, 2, 2, 3]
    assert cache.has(0, one)
    assert not cache.has(1, one)


def test_the_least_recently_used_variant_goes_first_and_each_node_has_its_own() -> None:
    cache = VariantCache(2)
    keys = [((number,),) for number in range(3)]
    assert not cache.use(0, keys[0]).evicted
    assert not cache.use(0, keys[1]).evicted
    assert not cache.use(0, keys[0]).evicted
    assert cache.use(0, keys[2]).evicted
    assert [cache.has(0, key) for key in keys] == [True, False, True]
    assert not cache.use(1, keys[1]).evicted
    assert cache.statistics.entries == 3


def test_an_eviction_retires_exactly_the_graphs_that_contain_the_node() -> None:
    """Two slots hold graphs; only the second one's captured segment contains the node that is evicted."""
    model = opened(
        """g (float[N] x, float[4] w) => (float[N] y, float[4] z)
        { y = Relu(x) z = Neg(w) }"""
    )
    device = HostDevice()
    session = session_of(model, {"N": 64}, device=device)
    w = session.allocate_binding((4,), input_name="w")
    z = session.allocate_binding((4,), output_name="z")
    x = session.allocate_binding((3,), input_name="x")
    y = session.allocate_binding((3,), output_name="y")
    every = [x, w, y, z]
    session.run_with_device_bindings({}, every)
    session.slot.quarantined.add(("", "Relu"))
    assert session.try_capture(every).captured_segments == 1
    session.set_graph_slot("Verify")
    assert session.try_capture(every).is_single_graph
    four = np.ones(4, np.float32)
    for count in range(10, 14):
        session.run({"x": np.ones(count, np.float32), "w": four})
    assert session.variants.evictions == 1
    assert [slot.held for slot in session.state.slots.values()] == [True, False]
    x.write(np.full(3, 5, np.float32))
    assert session.replay(every) is False
    assert session.slot.last_cause == "a kernel variant of Relu_y was evicted"
    assert y.read().tolist() == [5] * 3
    session.set_graph_slot("Primary")
    x.write(np.full(3, 6, np.float32))
    assert session.replay(every)
    assert y.read().tolist() == [6] * 3


def test_a_variant_that_was_evicted_is_not_warm_any_more() -> None:
    session = session_of(opened(SHIFT), {"N": 64}, options=SessionOptions(kernel_variants=1))
    x = session.allocate_binding((3, 2), input_name="x")
    y = session.allocate_binding((3, 2), output_name="y")
    session.run_with_device_bindings({}, [x, y])
    session.run(rows(5))
    report = session.try_capture([x, y])
    assert [item.reason for item in report.declines[1:]] == ["it has not run at these shapes yet"]


# ------------------------------------------------------------------------------------ seeds


def test_b11_seeds_fill_what_is_unresolved_and_never_what_is_resolved() -> None:
    model = opened(
        """g (int64 n, float[2] x) => (float[M] y, float[2] z)
        { zero = Constant<value_int=0>() one = Constant<value_int=1>()
          r = Range(zero, n, one) y = Cast<to=1>(r) z = Relu(x) }"""
    )
    session = session_of(model, {"r.axis0": 8})
    bindings = [
        session.allocate_binding((), input_name="n"),
        session.allocate_binding((2,), input_name="x"),
        session.allocate_binding((8,), output_name="y"),
        session.allocate_binding((2,), output_name="z"),
    ]
    mapped = session.map(bindings)
    index, resolver = session.runner.planner.index, session.resolver(mapped)
    program = index.program
    named = {value.name: value.id for value in program.values}
    signature = capture_signature(program, mapped.bindings)
    seen = {named["r"]: (3,), named["y"]: (3,), named["z"]: (9,)}
    warm = WarmShapes(signature, seen)
    assert capture_seeds(index, warm, resolver, mapped.bindings) == {named["r"]: (3,), named["y"]: (3,)}
    bindings[2].set_logical((4,))
    moved = session.map(bindings).bindings
    assert capture_seeds(index, warm, resolver, moved), "a logical output length is no part of it"
    other = [*bindings[:1], session.allocate_binding((2,), input_name="x"), *bindings[2:]]
    elsewhere = session.map(other).bindings
    assert capture_signature(program, elsewhere) != signature
    assert capture_seeds(index, warm, resolver, elsewhere) == {}


# ------------------------------------------------------------------------------------ branches


BRANCHES = """g (bool c, float[2] x) => (float[2] y, float[2] z)
    { y = If(c) <then_branch = a () => (float[2] p) { p = Constant<value_floats=[1.0,2.0]>() },
                 else_branch = b () => (float[2] q) { k = Constant<value_floats=[3.0,4.0]>() q = Neg(k) }>
      z = If(c) <then_branch = d () => (float[2] r) { r = Relu(x) },
                 else_branch = e () => (float[2] s) { s = Neg(x) }> }"""


def test_r10_a_branch_without_captures_is_kept_by_predicate_and_one_with_captures_never_is() -> None:
    session = session_of(opened(BRANCHES), options=SessionOptions(memoise_branches=True))
    hits = []
    for number, flag in enumerate((True, True, False, False, True)):
        x = np.array([number, -number], np.float32)
        found = session.run({"c": np.array(flag), "x": x})
        assert array_of(found, "y").tolist() == ([1, 2] if flag else [-3, -4])
        assert array_of(found, "z").tolist() == (np.maximum(x, 0) if flag else np.negative(x)).tolist()
        hits.append(session.branch_hits)
    assert hits == [0, 1, 1, 2, 3]
    held = session.runner.device.ledger.total
    assert held.current_bytes > 0
    session.close()
    assert session.runner.device.ledger.total.current_bytes == 0


def test_branches_are_not_kept_unless_asked_for() -> None:
    session = session_of(opened(BRANCHES))
    for _ in range(2):
        session.run({"c": np.array(True), "x": np.zeros(2, np.float32)})
    assert session.branch_hits == 0


# ------------------------------------------------------------------------------------ whole models


@pytest.mark.parametrize("sample", ["tiny-llama", "declines"])
def test_case_32_decode_steps_allocate_nothing_once_warm_and_replays_add_nothing(sample: str) -> None:
    model = open_path(SAMPLES / sample)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=4, context=64)))
    decoder.load()
    decoder.prefill([[5, 9, 11]])
    eager = [decoder.step().allocations for _ in range(3)]
    assert eager[-1] == 0
    _, first = decoder.capture()
    replays = [decoder.replay() for _ in range(8)]
    assert [first.allocations, *(item.allocations for item in replays)] == [0] * 9
    assert all(item.replayed for item in replays)
    decoder.close()


def test_case_35_attention_of_head_size_512_with_nonpad_lengths_runs_and_shows_its_route() -> None:
    model = opened(
        """g (float[1,1,1,512] q, float[1,1,4,512] k, float[1,1,4,512] v, int64[1] valid)
        => (float[1,1,1,512] y)
        { y = Attention(q, k, v, "", "", "", valid) }""",
        opsets='["" : 24]',
    )
    session = session_of(model)
    generator = np.random.default_rng(9)
    q, k, v = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((1, 1, 1, 512), (1, 1, 4, 512), (1, 1, 4, 512))
    )
    found = array_of(session.run({"q": q, "k": k, "v": v, "valid": np.array([3])}), "y")
    scores = (q[0, 0] @ k[0, 0, :3].T).astype(np.float64) / np.sqrt(512)
    weights = np.exp(scores - scores.max())
    expected = (weights / weights.sum()) @ v[0, 0, :3]
    assert found[0, 0] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    (row,) = session.runner.plan.phase(Phase.SINGLE).nodes
    assert (row.operator, row.kernel, row.workspace.formula) == ("Attention", "host", "attention tiles")
