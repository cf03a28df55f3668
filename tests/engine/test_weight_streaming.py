"""Weights streamed from the file under a budget: what stays, what the window holds, equal tokens (G-04)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from cuda_twin import twin_device
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from small_models import array_of, opened_proto

from vramscope.api import Planner, make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.decode.types import DecodeState
from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import Tier
from vramscope.devices.host import HostDevice
from vramscope.errors import (
    InputError,
    InvalidRequestError,
    ModelFileError,
    OutOfBudgetError,
    ScenarioError,
    TierExhaustedError,
)
from vramscope.plan.streaming import StreamedWeights, step_weights, streamed_steps
from vramscope.plan.suggest import suggestions
from vramscope.plan.types import ComponentName, Scenario, StreamingPlan
from vramscope.run.capture import SeamReason
from vramscope.run.paging import PagingCounts
from vramscope.run.plain import plain_run, run_plain
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from vramscope.graph.model import Model
    from vramscope.plan.index import PlanningIndex

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PROMPT = [5, 9, 11, 200, 7]
SCENARIO = Scenario(prompt=8, context=64)
STREAMING_MODELS = (
    "tiny-llama-fp32-cpu",
    "tiny-llama-tied-fp32-cpu",
    "tiny-llama-fp16-cuda",
    "tiny-llama-int4-cpu",
    "tiny-llama-int4-cpu-qdq",
    "tiny-gemma3-fp32-cpu",
    "optimum-tiny-gpt2",
    "mobius-tiny-llama-fp32-static",
    "torchexp-tiny-llama",
)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


def least_of(model: Model, scenario: Scenario = SCENARIO) -> int:
    """The least budget, from the refusal of a hopeless one."""
    planner = Planner(model)
    with pytest.raises(ScenarioError) as refused:
        planner.plan(replace(scenario, weight_budget=1))
    return int(refused.value.remedy.removeprefix("Give at least ").removesuffix(" bytes").replace(",", ""))


def products(rows: list[list[int]]) -> onnx.ModelProto:
    """``y`` = x times the sum of some weights, step by step; a row names the weights of one step.

    Weight ``n`` has (n + 1) × 1,024 rows of 2 floats.
    """
    weights = sorted({number for row in rows for number in row})
    values = {number: np.full((2, 1024 * (number + 1)), number + 1, np.float32) for number in weights}
    stored = [
        helper.make_tensor(f"w{number}", TensorProto.FLOAT, array.shape, array.tobytes(), raw=True)
        for number, array in values.items()
    ]
    nodes = []
    for position, row in enumerate(rows):
        names = [f"w{number}" for number in row]
        nodes.append(helper.make_node("Concat", ["x", *names], [f"c{position}"], axis=1))
        nodes.append(helper.make_node("ReduceSum", [f"c{position}"], [f"y{position}"], keepdims=1))
    nodes.append(helper.make_node("Sum", [f"y{position}" for position in range(len(rows))], ["y"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1])],
        stored,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def expected_sum(rows: list[list[int]]) -> float:
    """What :func:`products` gives for x = 1."""
    return sum(8 + sum(2048 * (number + 1) ** 2 for number in row) for row in rows)


# ------------------------------------------------------------------------------------ the plan


def check_streaming(index: PlanningIndex, streaming: StreamingPlan, taken: int) -> None:
    """An independent look at a streaming plan: budget, no overlap inside a step, nothing forgotten."""
    sizes = {source.identity: source.size for source in index.program.weights.values()}
    assert taken <= streaming.budget
    assert not streaming.resident & streaming.offsets.keys()
    for step in step_weights(index):
        assert step.weights <= streaming.resident | streaming.offsets.keys()
        spans = sorted(
            (streaming.offsets[name], streaming.offsets[name] + sizes[name])
            for name in step.weights & streaming.offsets.keys()
        )
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(spans))
        assert all(end <= streaming.window and start % 256 == 0 for start, end in spans)
    reads = [name for names in streamed_steps(index, streaming).values() for name in names]
    assert (len(reads), sum(sizes[name] for name in reads)) == (streaming.step_pages, streaming.step_bytes)


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=5),
    data=st.data(),
)
def test_any_budget_from_the_least_on_gives_a_sound_plan_and_equal_results(
    rows: list[list[int]], data: st.DataObject
) -> None:
    model = opened_proto(products(rows))
    planner = Planner(model)
    whole = planner.plan(Scenario()).weights.bytes
    least = least_of(model, Scenario())
    budget = data.draw(st.integers(least, whole))
    plan = planner.plan(Scenario(weight_budget=budget))
    if plan.weights.streaming is None:
        assert budget == whole
    else:
        check_streaming(planner.index, plan.weights.streaming, plan.weights.bytes)
    with pytest.raises(ScenarioError, match=f"at least {least:,} bytes"):
        planner.plan(Scenario(weight_budget=least - 1))
    x = {"x": np.ones((2, 4), np.float32)}
    device = HostDevice(plan.total.known)
    ((_, found),) = run_plain(model, plan, x, device=device)
    assert isinstance(found, np.ndarray)
    assert found.item() == expected_sum(rows)


def test_large_weights_that_two_steps_read_stay_first_and_small_ones_stay_always(tiny: Model) -> None:
    rows = [[0, 5], [5], [1], [2]]
    model = opened_proto(products(rows))
    planner = Planner(model)
    sizes = {number: 8192 * (number + 1) for number in (0, 1, 2, 5)}
    least = sizes[0] + sizes[5]
    assert least_of(model, Scenario()) == least
    streaming = planner.plan(Scenario(weight_budget=sizes[5] + sizes[2])).weights.streaming
    assert streaming is not None
    assert [_size(planner, name) for name in streaming.resident] == [sizes[5]]
    assert streaming.window == sizes[2]
    assert streaming.step_bytes == sizes[0] + sizes[1] + sizes[2]
    tiny_plan = make_plan(tiny, replace(SCENARIO, weight_budget=least_of(tiny))).weights.streaming
    assert tiny_plan is not None
    small = {item.identity for item in tiny.program.weights.values() if item.size <= 4096}
    assert not small & tiny_plan.offsets.keys()


def test_a_weight_takes_a_gap_that_it_fills_exactly_and_a_refusal_names_the_greediest_node() -> None:
    planner = Planner(opened_proto(products([[4, 3], [1, 3, 2], [0]])))
    with pytest.raises(ScenarioError, match=f"at least {9 * 8192:,} bytes") as refused:
        planner.plan(Scenario(weight_budget=1))
    assert refused.value.node == "Concat_c0"


def _size(planner: Planner, identity: str) -> int:
    return next(item.size for item in planner.model.program.weights.values() if item.identity == identity)


def test_a_budget_that_holds_every_weight_changes_nothing(tiny: Model) -> None:
    plain = make_plan(tiny, SCENARIO)
    held = make_plan(tiny, replace(SCENARIO, weight_budget=plain.weights.bytes))
    assert held.weights == plain.weights
    assert held.total == plain.total
    less = make_plan(tiny, replace(SCENARIO, weight_budget=plain.weights.bytes - 1))
    assert less.weights.streaming is not None
    assert less.total.known == plain.total.known - (plain.weights.bytes - less.weights.bytes)


@pytest.mark.parametrize("size", [0, -1])
def test_g04_a_zero_or_negative_budget_is_rejected(tiny: Model, size: int) -> None:
    with pytest.raises(ScenarioError, match="weight budget"):
        make_plan(tiny, replace(SCENARIO, weight_budget=size))


def test_what_a_plan_is_short_of_is_offered_as_a_weight_budget(tiny: Model) -> None:
    planner = Planner(tiny)
    need = planner.plan(SCENARIO).total.known
    plan = planner.plan(replace(SCENARIO, budget=need - 50_000))
    offer = next(item for item in suggestions(planner, plan) if "weight_budget" in item.change)
    assert offer.saves >= 50_000
    budget = offer.change["weight_budget"]
    assert isinstance(budget, int)
    fits = planner.plan(replace(plan.scenario, weight_budget=budget)).verdict.headroom
    assert fits is not None
    assert fits >= 0
    hopeless = planner.plan(replace(SCENARIO, budget=1000))
    assert not [item for item in suggestions(planner, hopeless) if "weight_budget" in item.change]


# ------------------------------------------------------------------------------------ running


def decoder_of(model: Model, budget: int | None, *, device: HostDevice | None = None) -> Decoder:
    plan = make_plan(model, replace(SCENARIO, weight_budget=budget))
    decoder = Decoder(model, plan, device=device or HostDevice(plan.total.known))
    decoder.load()
    return decoder


@pytest.mark.parametrize("name", STREAMING_MODELS)
def test_a_model_larger_than_its_weight_budget_gives_equal_tokens(shared_models: Path, name: str) -> None:
    model = open_path(shared_models / "tiny" / name)
    plain = decoder_of(model, None)
    wanted = [plain.prefill([PROMPT]).tokens, *(plain.advance().tokens for _ in range(12))]
    logits = plain.logits()
    least, whole = least_of(model), plain.plan.weights.bytes
    assert least < whole
    for budget in (least, (least + whole) // 2):
        decoder = decoder_of(model, budget)
        weights = decoder.device.ledger.component(ComponentName.WEIGHTS.value)
        assert weights.current_bytes == decoder.plan.weights.bytes <= budget
        found = [decoder.prefill([PROMPT]).tokens, *(decoder.advance().tokens for _ in range(12))]
        assert found == wanted
        assert np.array_equal(decoder.logits(), logits)
        assert decoder.snapshot().allocations_last_step == 0
        assert decoder.device.ledger.total.peak_bytes <= decoder.plan.total.known
        decoder.close()
        assert decoder.device.ledger.total.current_bytes == 0


def test_a_session_that_is_short_of_weights_is_told_the_weight_budget_that_would_fit(tiny: Model) -> None:
    need = make_plan(tiny, SCENARIO).total.known
    plan = make_plan(tiny, replace(SCENARIO, budget=need - 50_000))
    with pytest.raises(OutOfBudgetError, match="would fit") as refused:
        Decoder(tiny, plan).load()
    room = plan.weights.bytes - 50_000
    assert f"a weight budget of {room:,}" in refused.value.remedy.lower()
    decoder = Decoder(tiny, make_plan(tiny, replace(plan.scenario, weight_budget=room)))
    decoder.load()
    assert decoder.prefill([PROMPT]).position == len(PROMPT)
    with pytest.raises(OutOfBudgetError) as hopeless:
        Decoder(tiny, make_plan(tiny, replace(SCENARIO, budget=1000))).load()
    assert "weight budget" not in hopeless.value.remedy


def test_page_ins_are_counted_and_every_step_makes_as_many_as_planned(tiny: Model) -> None:
    decoder = decoder_of(tiny, least_of(tiny))
    streaming = decoder.plan.weights.streaming
    assert streaming is not None
    counts = []
    decoder.prefill([PROMPT])
    for _ in range(4):
        decoder.step()
        now = decoder.snapshot().memory.streaming
        assert now is not None
        counts.append(now.counts)
    steps = [
        (two.page_ins - one.page_ins, two.page_in_bytes - one.page_in_bytes, two.hits - one.hits)
        for one, two in itertools.pairwise(counts)
    ]
    assert len(set(steps)) == 1
    page_ins, size, hits = steps[0]
    assert page_ins + hits == streaming.step_pages
    assert 0 < size <= streaming.step_bytes


def test_a_weight_that_is_still_in_the_window_is_not_copied_again() -> None:
    model = opened_proto(products([[3], [3], [3], [0]]))
    plan = make_plan(model, Scenario(weight_budget=4 * 8192))
    ran = plain_run(model, plan, {"x": np.ones((2, 4), np.float32)})
    assert ran.memory.streaming is not None
    assert ran.memory.streaming.counts == PagingCounts(page_ins=2, page_in_bytes=5 * 8192, hits=2)


def test_streamed_weights_are_seams_between_graphs_and_replays_equal_eager_steps(tiny: Model) -> None:
    """Addresses are fixed, so capture stays on (semantics 2.9); a copy from the host is no graph work."""
    decoder = decoder_of(tiny, least_of(tiny))
    decoder.prefill([PROMPT])
    report, _ = decoder.capture()
    assert report.captured_segments > 1
    assert decoder.state is DecodeState.READY
    streaming = decoder.plan.weights.streaming
    assert streaming is not None
    steps = streamed_steps(decoder._planner.index, streaming)
    reasons = {item.step: item for item in report.declines}
    assert reasons.keys() == steps.keys()
    assert {item.seam for item in reasons.values()} == {SeamReason.KERNEL_CAPTURE_UNSUPPORTED}
    assert all("the weight budget streams" in item.reason for item in reasons.values())
    verified = decoder.verify(6)
    assert verified.equal
    assert verified.largest_logit_difference == 0.0


def test_streaming_elsewhere_than_on_the_host_is_refused_and_nothing_stays(tiny: Model) -> None:
    device, _ = twin_device()
    plan = make_plan(tiny, replace(SCENARIO, weight_budget=least_of(tiny), runtime="cuda"))
    governor = Governor({})
    decoder = Decoder(tiny, plan, device=device, governor=governor)
    with pytest.raises(InputError, match="host device alone"):
        decoder.load()
    assert (device.ledger.total.current_bytes, governor.used(Tier.DEVICE)) == (0, 0)


def test_a_file_that_shrank_is_refused_before_a_step_runs(tmp_path: Path) -> None:
    proto = products([[5], [6]])
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    model = open_path(path)
    plan = make_plan(model, Scenario(weight_budget=7 * 8192))
    assert plan.weights.streaming is not None
    (tmp_path / "weights.bin").write_bytes(b"short")
    device = HostDevice()
    with pytest.raises(ModelFileError, match=r"weights\.bin"):
        run_plain(model, plan, {"x": np.ones((2, 4), np.float32)}, device=device)
    assert device.ledger.total.current_bytes == 0


# ------------------------------------------------------------------------------------ the session's owner


def session_under(governor: Governor, budget: int | None = None) -> ProgramSession:
    model = opened_proto(products([[5], [6], [0]]))
    plan = make_plan(model, Scenario(weight_budget=budget))
    return ProgramSession(model, plan, HostDevice(), SessionOptions(governor=governor))


def test_g04_a_governed_budget_is_visible_to_others_and_not_reserved_twice() -> None:
    governor = Governor({Tier.DEVICE: 200_000})
    session = session_under(governor, 7 * 8192)
    session.prepare()
    assert session.governance.state.leases["weights"] == 7 * 8192
    left = governor.available(Tier.DEVICE)
    assert left == 200_000 - session.governance.state.leases["weights"] - sum(
        size for purpose, size in session.governance.state.leases.items() if purpose != "weights"
    )
    assert session.governance.adopt_memory_governor(governor) == 0
    assert governor.available(Tier.DEVICE) == left
    assert session.governance.max_lazy_weight_working_set_bytes == 7 * 8192


def test_g04_a_budget_is_set_before_the_weights_are_claimed_and_then_stands() -> None:
    session = session_under(Governor({}))
    assert session.governance.set_weight_residency_budget(8 * 8192) == 8 * 8192
    session.prepare()
    held = session.governance.state.leases["weights"]
    assert held == session.runner.device.ledger.component("weights").current_bytes <= 8 * 8192
    assert session.governance.set_weight_residency_budget(9 * 8192) == held
    found = array_of(session.run({"x": np.ones((2, 4), np.float32)}), "y")
    assert found.item() == expected_sum([[5], [6], [0]])
    streaming = session.governance.state.streaming
    assert streaming is not None
    assert streaming.counts.page_ins > 0
    with pytest.raises(ScenarioError, match="at least 57,344 bytes"):
        session_under(Governor({})).governance.set_weight_residency_budget(7 * 8192 - 1)


def test_g04_a_refused_adoption_leaves_the_session_as_it_was() -> None:
    model = opened_proto(products([[5]]))
    plan = make_plan(model, Scenario())
    session = ProgramSession(model, plan, HostDevice())
    session.prepare()
    before = session.governance.state
    small, large, third = (Governor({Tier.DEVICE: limit}) for limit in (plan.total.known - 1, 2**30, 2**30))
    with pytest.raises(TierExhaustedError):
        session.governance.adopt_memory_governor(small)
    assert session.governance.state == before
    assert (small.used(Tier.DEVICE), small.charges()) == (0, ())
    assert session.governance.adopt_memory_governor(large) == plan.total.known
    with pytest.raises(InvalidRequestError, match="governs it"):
        session.governance.adopt_memory_governor(third)
    session.close()
    assert (large.used(Tier.DEVICE), third.used(Tier.DEVICE)) == (0, 0)


def test_g04_a_cycle_longer_than_the_budget_still_finds_what_fits_resident() -> None:
    """Weights of 1 to 4 units under 7: the largest stays, for then the window needs 3 and not 4."""
    planner = Planner(opened_proto(products([[0], [1], [2], [3]])))
    weights = StreamedWeights(planner.index, planner.plan(Scenario()).weights)
    streaming = weights.under(7 * 8192).streaming
    assert streaming is not None
    assert [_size(planner, name) for name in streaming.resident] == [4 * 8192]
    assert (streaming.window, streaming.step_pages, streaming.step_bytes) == (3 * 8192, 3, 6 * 8192)
    tight = weights.under(5 * 8192).streaming
    assert tight is not None
    assert tight.step_bytes == 9 * 8192, "the smallest one fills what the window leaves to the byte"
