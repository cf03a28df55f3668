"""Expert traffic: arm, reset, snapshot, disarm, what each does to graphs, phases, bytes (semantics 1.20)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import twin_device
from mixture_decoder import EXPERTS, INNER, mixture_decoder
from onnx import TensorProto, helper, numpy_helper
from small_models import opened, opened_proto, session_of

from vramscope.api import Planner, make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.errors import InvalidRequestError, ShapeOverflowError
from vramscope.plan.types import Scenario
from vramscope.run.session import ProgramSession
from vramscope.run.traffic import Traffic, summed

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model
    from vramscope.run.device_binding import DeviceIoBinding

HIDDEN, INNER_ROWS, COUNT = 4, 6, 3
EXPERT = 4 * (HIDDEN * INNER_ROWS * 2)
"""Bytes of one expert of :func:`mixtures`: two float projections."""
PROMPT = [5, 9, 11, 200, 7]


def mixtures(nodes: int = 1) -> Model:
    """MoE behind MoE over x [2, 4] and a router [2, 3], one expert a token."""
    random = np.random.default_rng(0)
    shapes = {"fc1": (COUNT, INNER_ROWS, HIDDEN), "fc2": (COUNT, HIDDEN, INNER_ROWS)}
    weights = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    made, last = [], "x"
    for number in range(nodes):
        target = "y" if number == nodes - 1 else f"h{number}"
        made.append(
            helper.make_node("MoE", [last, "router", "fc1", "", "fc2"], [target], f"moe{number}",
                             domain="com.microsoft", k=1, activation_type="relu")
        )  # fmt: skip
        last = target
    graph = helper.make_graph(
        made,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, HIDDEN)),
         helper.make_tensor_value_info("router", TensorProto.FLOAT, (2, COUNT))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, HIDDEN))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("com.microsoft", 1)]
    return opened_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def bound(session: ProgramSession) -> list[DeviceIoBinding]:
    buffers = [
        session.allocate_binding((2, HIDDEN), input_name="x"),
        session.allocate_binding((2, COUNT), input_name="router"),
        session.allocate_binding((2, HIDDEN), output_name="y"),
    ]
    buffers[0].write(np.ones((2, HIDDEN), np.float32))
    return buffers


def routed(session: ProgramSession, buffers: list[DeviceIoBinding], first: int, second: int) -> None:
    """The two rows go to these experts."""
    logits = np.zeros((2, COUNT), np.float32)
    logits[0, first] = logits[1, second] = 9
    buffers[1].write(logits)


# ------------------------------------------------------------------------------------ counting


def test_routes_are_counted_by_demand_and_by_different_experts() -> None:
    session = session_of(mixtures())
    buffers = bound(session)
    assert session.traffic.arm("r1") == 1
    for first, second, unique in ((0, 1, 2), (2, 2, 1)):
        session.traffic.reset()
        routed(session, buffers, first, second)
        session.run_with_device_bindings({}, buffers)
        found = session.traffic.snapshot()
        assert (found.logical, found.unique) == (2 * EXPERT, unique * EXPERT)
    assert found == Traffic(logical=2 * EXPERT, unique=EXPERT)
    assert found.physical is None
    assert found.byte_hit_rate is None


def test_a_kernel_a_node_is_armed_and_a_snapshot_sums_over_them() -> None:
    session = session_of(mixtures(3))
    buffers = bound(session)
    routed(session, buffers, 0, 1)
    session.run_with_device_bindings({}, buffers)
    assert session.traffic.arm("r1") == 3
    session.run_with_device_bindings({}, buffers)
    assert session.traffic.snapshot().logical == 3 * 2 * EXPERT


def test_banks_that_are_loaded_under_watch_count_as_uploaded_and_committed() -> None:
    model = mixtures()
    session = ProgramSession(model, make_plan(model, Scenario()), HostDevice())
    session.traffic.arm("load")
    session.prepare()
    assert session.traffic.snapshot() == Traffic(uploaded=COUNT * EXPERT, committed=COUNT * EXPERT)


def test_a_sum_knows_what_was_read_only_where_every_kernel_does() -> None:
    one, two = Traffic(logical=100, unique=50, physical=25), Traffic(logical=100, unique=50)
    assert summed((one, one)) == Traffic(logical=200, unique=100, physical=50)
    assert summed((one, one)).byte_hit_rate == 0.75
    assert summed((one, two)).physical is None
    assert summed(()).physical is None
    assert Traffic(logical=10, physical=30).byte_hit_rate == 0.0
    assert Traffic(physical=0).byte_hit_rate is None
    with pytest.raises(ShapeOverflowError, match="logical"):
        summed((Traffic(logical=2**62), Traffic(logical=2**62)))


# ------------------------------------------------------------------------------------ graphs


def test_arming_and_disarming_retire_the_graph_and_reset_and_snapshot_do_not() -> None:
    session = session_of(mixtures())
    session.pin_step_workspace = True
    buffers = bound(session)
    routed(session, buffers, 0, 1)

    def capture() -> None:
        session.run_with_device_bindings({}, buffers)
        assert session.try_capture(buffers).is_single_graph

    capture()
    wanted = buffers[2].read()
    session.traffic.arm("r7")
    assert session.captured_segment_count() == 0
    assert session.slot.last_cause == "expert traffic was armed for r7"
    capture()
    session.traffic.reset()
    assert session.replay(buffers)
    assert session.traffic.snapshot().logical == 2 * EXPERT
    assert session.replay(buffers)
    assert session.traffic.snapshot().logical == 4 * EXPERT, "a replayed kernel counts too"
    assert np.array_equal(buffers[2].read(), wanted)
    session.traffic.disarm()
    assert session.slot.last_cause == "expert traffic was disarmed for r7"
    session.traffic.disarm()
    assert session.slot.invalidations == 2
    capture()
    assert session.replay(buffers)
    assert session.traffic.snapshot() == Traffic()


def test_what_cannot_be_watched_is_refused_and_leaves_graphs_alone() -> None:
    plain = session_of(opened("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    x, y = plain.allocate_binding((2,), input_name="x"), plain.allocate_binding((2,), output_name="y")
    plain.run_with_device_bindings({}, [x, y])
    plain.try_capture([x, y])
    with pytest.raises(InvalidRequestError, match="no mixture"):
        plain.traffic.arm("r")
    assert plain.captured_segment_count() == 1
    model = mixtures()
    device, _ = twin_device()
    elsewhere = ProgramSession(model, make_plan(model, Scenario(runtime="cuda")), device)
    with pytest.raises(InvalidRequestError, match="on the host alone"):
        elsewhere.traffic.arm("r")
    watched = session_of(mixtures())
    watched.traffic.arm("first")
    with pytest.raises(InvalidRequestError, match="armed for first"):
        watched.traffic.arm("second")


# ------------------------------------------------------------------------------------ the observer


def test_an_observer_is_exclusive_counts_by_phase_and_disarms_when_it_is_left() -> None:
    session = session_of(mixtures())
    buffers = bound(session)
    routed(session, buffers, 1, 1)
    with session.traffic.observe("r") as observer:
        with pytest.raises(InvalidRequestError, match="armed for r"):
            session.traffic.observe("other")
        session.run_with_device_bindings({}, buffers)
        observer.enter("Prefill")
        session.run_with_device_bindings({}, buffers)
        observer.enter("Decode")
        for _ in range(3):
            session.run_with_device_bindings({}, buffers)
        observer.enter("Prefill")
        session.run_with_device_bindings({}, buffers)
        assert observer.so_far()["Prefill"].unique == 2 * EXPERT
        with pytest.raises(InvalidRequestError, match="Sleep is none"):
            observer.enter("Sleep")  # type: ignore[arg-type]  # that is the test
    found = observer.finish()
    assert not session.traffic.armed
    logical = {phase: item.logical for phase, item in found.items()}
    assert logical == {"Prefill": 4 * EXPERT, "Decode": 6 * EXPERT}
    with pytest.raises(InvalidRequestError, match="finished"):
        observer.enter("Decode")
    assert session.traffic.arm("again") == 1


# ------------------------------------------------------------------------------------ a decoder


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return open_path(mixture_decoder(tmp_path_factory.mktemp("mixture")))


def decoder_expert(model: Model) -> int:
    """Bytes of one expert of the sample's mixture: 4-bit codes and f32 scales."""
    shapes = {item.shape for item in model.program.weights.values() if item.shape[:2] == (EXPERTS, INNER)}
    hidden = 2 * max(shape[2] for shape in shapes if len(shape) == 3)
    return INNER * hidden // 2 + INNER * 4 + hidden * INNER // 2 + hidden * 4


def test_a_decoder_is_watched_without_changing_its_tokens(mixture: Model) -> None:
    plan = make_plan(mixture, Scenario(prompt=8, context=64))
    plain, watched = Decoder(mixture, plan), Decoder(mixture, plan)
    for decoder in (plain, watched):
        decoder.load()
    expert = decoder_expert(mixture)
    with watched.traffic.observe("run") as observer:
        observer.enter("Prefill")
        assert watched.prefill([PROMPT]).tokens == plain.prefill([PROMPT]).tokens
        observer.enter("Decode")
        for _ in range(6):
            assert watched.advance().tokens == plain.advance().tokens
        assert watched.state.value == "ready"
    found = observer.finish()
    assert found["Prefill"].logical == len(PROMPT) * 2 * expert
    assert found["Prefill"].unique <= EXPERTS * expert
    assert (found["Decode"].logical, found["Decode"].unique) == (12 * expert, 12 * expert)
    assert watched.state.value == "warm-up"
    for _ in range(4):
        assert watched.advance().tokens == plain.advance().tokens
    assert watched.snapshot().steps_replayed > 4


def test_banks_under_a_weight_budget_are_page_ins(mixture: Model) -> None:
    planner = Planner(mixture)
    whole = planner.plan(Scenario(prompt=8, context=64))
    scenario = replace(whole.scenario, weight_budget=whole.weights.bytes // 2)
    decoder = Decoder(mixture, planner.plan(scenario))
    decoder.traffic.arm("r")
    decoder.load()
    decoder.prefill([PROMPT])
    decoder.traffic.reset()
    for _ in range(3):
        decoder.step()
    found = decoder.traffic.snapshot()
    streaming = decoder.plan.weights.streaming
    assert streaming is not None
    banks = [item for item in mixture.program.weights.values() if item.shape[:1] == (EXPERTS,)]
    streamed = [item for item in banks if item.identity in streaming.offsets]
    assert found.page_ins == 3 * len(streamed) > 0
    assert found.uploaded == 3 * sum(item.size for item in streamed)


def test_the_command_line_counts_by_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    from vramscope.cli.main import main

    folder = str(mixture_decoder(tmp_path))
    words = ["run", folder, "--tokens", "5,9,11", "--steps", "6", "--context", "64"]
    assert main([*words, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["snapshot"]["experts"] == []
    assert main([*words, "--experts", "--json"]) == 0
    watched = json.loads(capsys.readouterr().out)
    assert watched["tokens"] == plain["tokens"]
    found = {item["phase"]: item for item in watched["snapshot"]["experts"]}
    assert set(found) == {"Load", "Prefill", "Warmup", "Decode"}
    assert found["Load"]["uploaded"] > 0
    assert found["Prefill"]["logical"] == 3 * found["Warmup"]["logical"]
    assert found["Decode"]["physical"] is None
    assert main([*words, "--experts"]) == 0
    assert "experts, decode" in capsys.readouterr().out
    assert main(["run", "tiny-llama", "--tokens", "5", "--experts", "--context", "64"]) == 2
    assert "no mixture of experts" in capsys.readouterr().err
