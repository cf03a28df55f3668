"""Traces: what ran, read back from the file, with what a capture made of each node (semantics 2.1)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from picky_device import PickyDevice
from small_models import bound, opened, session_of
from trace_file import TraceFile, read_trace

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.decode.speculative import generate_speculatively
from vramscope.devices.host import HostDevice
from vramscope.errors import BindingsChangedError, InputError
from vramscope.plan.types import BucketPolicy, Scenario
from vramscope.report.trace import write_trace
from vramscope.run.audit import graph_decline
from vramscope.run.capture import CaptureReport, Segment
from vramscope.run.eager import placed_for
from vramscope.run.plain import run_plain
from vramscope.run.session_types import SessionOptions
from vramscope.run.trace import CaptureStatus, Span, Tracer
from vramscope.run.tracing import verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.base import Device
    from vramscope.graph.model import Model

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
PROMPT = [5, 9, 11, 200, 7]
CLIP = """g (float[4] x) => (float[4] y)
    { a = Cast<to=11>(x) low = Constant<value_float=-1.0>() l = Cast<to=11>(low)
      b = Clip(a, l) y = Cast<to=1>(b) }"""
WORDS = "it reads its limits on the host"
SCENARIO = Scenario(prompt=8, context=64)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Tracer], TraceFile]:
    """The trace's file, read back."""

    def write(tracer: Tracer) -> TraceFile:
        write_trace(tmp_path / "t.json", tracer.trace())
        return read_trace(tmp_path / "t.json")

    return write


def traced(
    model: Model, scenario: Scenario = SCENARIO, device: Device | None = None
) -> tuple[Decoder, Tracer]:
    """A decoder behind its prompt, recorded from the beginning."""
    decoder, tracer = Decoder(model, make_plan(model, scenario), device=device), Tracer()
    decoder.trace(tracer)
    decoder.load()
    decoder.prefill([PROMPT])
    return decoder, tracer


def said_of_captures(span: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in span["args"].items() if name.startswith("capture_")}


def named(file: TraceFile, name: str) -> dict[str, Any]:
    """The last step of this name."""
    return [item for item in file.spans("step") if item["name"] == name][-1]


# ------------------------------------------------------------------------------------ annotations


def test_nodes_of_a_whole_graph_are_captured_and_plain_eager_ones_carry_nothing(
    tiny: Model, written: Callable[[Tracer], TraceFile]
) -> None:
    decoder, tracer = traced(tiny)
    decoder.step()
    decoder.capture()
    decoder.replay()
    decoder.step()
    file = written(tracer)
    names = [item["name"] for item in file.spans("step")]
    assert names == ["loading", "prefill", "decode", "capture", "replay", "decode"]
    first = next(item for item in file.spans("step") if item["name"] == "decode")
    eager = file.inside(first, "node")
    count = len(eager)
    for name, status in (("prefill", {}), ("decode", {}), ("capture", {"capture_status": "captured"})):
        nodes = file.inside(named(file, name), "node")
        assert [said_of_captures(item) for item in nodes] == [status] * len(nodes), name
    replayed = file.inside(named(file, "replay"), "node")
    assert [item["name"] for item in replayed] == [item["name"] for item in eager]
    assert {item["args"]["path"] for item in replayed} == {"capture-region"}
    (graph,) = file.inside(named(file, "replay"), "segment")
    assert (graph["args"]["nodes"], graph["args"]["graph"], said_of_captures(graph)) == (
        count,
        0,
        {"capture_status": "captured"},
    )
    assert [item["name"] for item in file.inside(graph, "work")] == ["feeds", "sampling"]
    assert not file.spans("seam")
    assert named(file, "replay")["args"]["position"] == len(PROMPT) + 3


def test_a_node_says_its_operator_its_step_and_the_bytes_of_its_outputs(
    tiny: Model, written: Callable[[Tracer], TraceFile]
) -> None:
    decoder, tracer = traced(tiny)
    decoder.step()
    file = written(tracer)
    steps = {step.index: step.node for step in tiny.program.steps}
    nodes = file.inside(named(file, "decode"), "node")
    assert nodes
    for item in nodes:
        node = steps[item["args"]["step"]]
        assert (item["name"], item["args"]["operator"]) == (node.name, node.qualified)
    head = next(item for item in nodes if item["name"].endswith("lm_head/MatMul"))
    width = decoder.logits().shape[-1]
    assert head["args"]["bytes"] == 4 * width


def test_the_nodes_of_a_seam_are_rejected_with_the_kernels_own_words(
    written: Callable[[Tracer], TraceFile],
) -> None:
    tracer = Tracer()
    session = session_of(
        opened(CLIP), device=PickyDevice({"Clip": WORDS}), options=SessionOptions(tracer=tracer)
    )
    both = list(bound(session, x=(4,), y=(4,)).values())
    session.run_with_device_bindings({}, both)
    assert session.try_capture(both).captured_segments == 2
    session.replay(both)
    file = written(tracer)
    assert [item["name"] for item in file.spans("step")] == ["loading", "run", "capture", "replay"]
    assert {str(said_of_captures(item)) for item in file.inside(named(file, "run"), "node")} == {"{}"}
    reason = f"KernelCaptureUnsupported: {WORDS}"
    for name in ("capture", "replay"):
        step = named(file, name)
        parts = sorted(
            (*file.inside(step, "segment"), *file.inside(step, "seam")), key=lambda item: item["ts"]
        )
        assert [item["name"] for item in parts] == ["graph 0", "eager-device-seam", "graph 1"]
        said = {item["name"]: said_of_captures(item) for item in file.inside(step, "node")}
        assert {key: value for key, value in said.items() if "Clip" in key} == {
            "Clip_b": {"capture_status": "rejected", "capture_reason": reason}
        }
        others = [value for key, value in said.items() if "Clip" not in key]
        assert others == [{"capture_status": "captured"}] * 2
        assert said_of_captures(parts[1]) == {"capture_status": "rejected", "capture_reason": reason}


def test_a_rejected_graph_says_why_at_every_node(tiny: Model, written: Callable[[Tracer], TraceFile]) -> None:
    operators = {step.node.operator for step in tiny.program.steps}
    decoder, tracer = traced(tiny, device=PickyDevice(dict.fromkeys(operators, WORDS)))
    report, _ = decoder.capture()
    assert not report.captured
    file = written(tracer)
    capture = named(file, "capture")
    nodes = file.inside(capture, "node")
    wanted = {"capture_status": "rejected", "capture_reason": f"KernelCaptureUnsupported: {WORDS}"}
    assert [said_of_captures(item) for item in nodes] == [wanted] * len(nodes)
    assert nodes
    assert not file.spans("segment")
    declined = {item["args"]["subject"] for item in file.instants("decline")}
    assert {item["name"] for item in nodes} <= declined


def test_where_recording_failed_nodes_that_could_be_captured_have_the_graphs_reason(
    written: Callable[[Tracer], TraceFile],
) -> None:
    tracer = Tracer()
    device = PickyDevice(breaks={"Cast", "Clip"})
    session = session_of(opened(CLIP), device=device, options=SessionOptions(tracer=tracer))
    both = list(bound(session, x=(4,), y=(4,)).values())
    session.run_with_device_bindings({}, both)
    report = session.try_capture(both)
    assert not report.captured
    file = written(tracer)
    assert not file.inside(named(file, "capture"), "segment"), "nothing was recorded to its end"
    told = " ".join(item["args"]["what"] for item in file.instants("decline"))
    assert "cannot run on a recording stream" in told
    assert "no node of the step can be captured" in told


def test_a_node_without_a_reason_of_its_own_has_that_of_the_whole_graph() -> None:
    session = session_of(opened(CLIP))
    x, y = bound(session, x=(4,), y=(4,)).values()
    launches = placed_for(session, {}, session.map([x, y]), {}).program.launches
    whole = graph_decline("a shape moved", "Capture again")
    for segments in ((), (Segment(0, len(launches), captured=False),)):
        found = verdicts(CaptureReport(segments, (whole,)), launches)
        assert found.keys() == {item.step.index for item in launches}
        assert {(item.status, item.reason) for item in found.values()} == {
            (CaptureStatus.REJECTED, "<graph>: a shape moved")
        }
    assert verdicts(CaptureReport((), ()), launches) == {}


def test_control_flow_is_a_host_seam(written: Callable[[Tracer], TraceFile]) -> None:
    tracer = Tracer()
    text = """g (bool c, float[4] x) => (float[4] y) { a = Relu(x)
        b = If(c) <then_branch = t () => (float[4] p) { p = Neg(a) },
                   else_branch = e () => (float[4] q) { q = Abs(a) }> y = Exp(b) }"""
    session = session_of(opened(text), options=SessionOptions(tracer=tracer))
    buffers = bound(session, c=(), x=(4,), y=(4,))
    both = list(buffers.values())
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    file = written(tracer)
    (seam,) = file.inside(named(file, "capture"), "seam")
    assert seam["name"] == seam["args"]["path"] == "host-seam"
    assert said_of_captures(seam)["capture_reason"].startswith("HostControlFlowOrSequence: ")


# ------------------------------------------------------------------------------------ what happened


def test_an_invalidation_is_an_instant_with_binding_field_old_and_new_value(
    written: Callable[[Tracer], TraceFile],
) -> None:
    tracer = Tracer()
    session = session_of(opened(CLIP), options=SessionOptions(tracer=tracer))
    both = list(bound(session, x=(4,), y=(4,)).values())
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    other = [both[0], session.allocate_binding((4,), output_name="y")]
    with pytest.raises(BindingsChangedError) as caught:
        session.replay(other)
    (died,) = written(tracer).instants("invalidate")
    assert died["args"]["what"] == str(caught.value)
    assert "y" in died["args"]["what"]
    assert died["args"]["subject"] == "Primary"
    assert died["args"]["step"] == 3


def test_growth_and_the_graph_that_died_of_it_come_before_the_step_that_needed_room(
    tiny: Model, written: Callable[[Tracer], TraceFile]
) -> None:
    scenario = Scenario(prompt=8, context=64, bucket=BucketPolicy(minimum=8, growing=True))
    decoder, tracer = traced(tiny, scenario)
    first = decoder.snapshot().capacity
    while decoder.snapshot().capacity == first:
        decoder.advance()
    file = written(tracer)
    (grown,), (died,) = file.instants("grow"), file.instants("invalidate")
    assert grown["args"]["what"] == f"{first} → {2 * first} tokens"
    assert "physical_shape" in died["args"]["what"]
    before, after = file.spans("step")[-2:]
    assert before["ts"] + before["dur"] <= grown["ts"] <= died["ts"] <= after["ts"]
    held = [item["KV cache"] for item in file.counters("device memory, bytes") if "KV cache" in item]
    assert held[-1] == 2 * held[0]


def test_counters_end_where_the_ledger_stands_and_stand_still_in_replays(
    tiny: Model, written: Callable[[Tracer], TraceFile]
) -> None:
    decoder, tracer = traced(tiny)
    for _ in range(2):
        decoder.advance()
    before = written(tracer)
    for _ in range(4):
        decoder.replay()
    file = written(tracer)
    ledger = decoder.device.ledger
    held = {name: item.current_bytes for name, item in ledger.components.items()}
    assert file.counters("device memory, bytes")[-1] == held
    assert sum(held.values()) == ledger.total.current_bytes
    assert file.counters("allocations")[-1] == {"so far": ledger.total.total_count}
    assert file.counters("allocations") == before.counters("allocations"), "a replay allocates nothing"


# ------------------------------------------------------------------------------------ bounds


def test_of_too_many_records_the_oldest_go_and_their_number_is_said(
    tiny: Model, written: Callable[[Tracer], TraceFile]
) -> None:
    decoder = Decoder(tiny, make_plan(tiny, SCENARIO))
    tracer = Tracer(limit=100)
    decoder.trace(tracer)
    decoder.load()
    decoder.prefill([PROMPT])
    for _ in range(6):
        decoder.step()
    assert tracer.kept == 100
    assert tracer.dropped > 100
    file = written(tracer)
    assert file.about["records dropped"] == str(tracer.dropped)
    (lost,) = file.instants("trace")
    assert lost["args"] == {"dropped": tracer.dropped}
    assert lost["ts"] == min(item["ts"] for item in file.events if "ts" in item)
    assert file.spans("step")[-1]["args"]["position"] == len(PROMPT) + 6, "the newest stay"


def test_nothing_is_recorded_before_a_tracer_is_given_or_after_it_was_taken_away(tiny: Model) -> None:
    decoder, tracer = traced(tiny)
    decoder.trace(None)
    kept = tracer.kept
    decoder.step()
    decoder.capture()
    decoder.replay()
    assert tracer.kept == kept
    late = Tracer()
    decoder.trace(late)
    decoder.replay()
    assert [item.name for item in late.trace().records if isinstance(item, Span)][-1] == "replay"


def test_a_traced_run_gives_the_tokens_of_an_untraced_one(tiny: Model) -> None:
    plain, (recorded, _) = Decoder(tiny, make_plan(tiny, SCENARIO)), traced(tiny)
    plain.load()
    plain.prefill([PROMPT])
    assert [plain.advance().tokens for _ in range(12)] == [recorded.advance().tokens for _ in range(12)]


# ------------------------------------------------------------------------------------ other runs


def test_speculated_passes_are_steps_too(tiny: Model, written: Callable[[Tracer], TraceFile]) -> None:
    decoder = Decoder(tiny, make_plan(tiny, Scenario(prompt=8, context=256)))
    decoder.load()
    tracer = Tracer()
    decoder.trace(tracer)
    prompt = [5, 9, 11, 200, 7, 5, 9, 11]
    list(generate_speculatively(decoder, decoder.speculator(3), prompt, 24))
    file = written(tracer)
    assert named(file, "speculate")
    assert named(file, "prefill")


def test_a_plain_run_has_its_nodes_and_a_result_whose_extent_is_data(
    tmp_path: Path, written: Callable[[Tracer], TraceFile]
) -> None:
    model = opened("g (float[2,3] x) => (int64[2,K] y) { a = Relu(x) y = NonZero(a) }")
    tracer, device = Tracer(), HostDevice()
    x = np.array([[1, 0, 2], [0, 0, 3]], np.float32)
    run_plain(model, make_plan(model, Scenario()), {"x": x}, device=device, tracer=tracer)
    file = written(tracer)
    nodes = {item["name"]: item["args"]["bytes"] for item in file.inside(named(file, "run"), "node")}
    assert nodes == {"Relu_a": 24, "NonZero_y": 48}
    assert file.about["device"] == "host"
    assert "true durations" in file.about["times"]


def test_a_sequence_has_no_bytes(written: Callable[[Tracer], TraceFile]) -> None:
    model = opened("g (float[4] x) => (int64 y) { s = SequenceConstruct(x, x) y = SequenceLength(s) }")
    tracer = Tracer()
    run_plain(model, make_plan(model, Scenario()), {"x": np.ones(4, np.float32)}, tracer=tracer)
    told = {item["name"]: item["args"].get("bytes") for item in written(tracer).spans("node")}
    assert told == {"SequenceConstruct_s": None, "SequenceLength_y": 8}


@pytest.mark.parametrize("name", ["trace.txt", "trace", "trace.vramscope.json"])
def test_a_file_that_no_viewer_takes_for_a_trace_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"End it in \.json"):
        write_trace(tmp_path / name, Tracer().trace())
    assert not list(tmp_path.iterdir())
