"""Capturing: what is recorded, what declines and why, what a failed recording leaves (C-01 to C-19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from picky_device import PickyDevice
from small_models import bound, opened, session_of

from vramscope.run.audit import audit
from vramscope.run.capture import CAPTURED, DEVICE_SEAM, GRAPH_NODE, HOST_SEAM, SeamReason, Segment
from vramscope.run.eager import placed_for
from vramscope.run.events import Event, EventKind
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.run.capture import CaptureReport
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session import ProgramSession, SlotName

CAST = "g (float[1] x) => (int64[1] y) { y = Cast<to=7>(x) }"
CLIP = """g (float[4] x) => (float[4] y)
    { a = Cast<to=11>(x) low = Constant<value_float=-1.0>() l = Cast<to=11>(low)
      b = Clip(a, l) y = Cast<to=1>(b) }"""


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def round_trip(session: ProgramSession) -> None:
    """Eager 7, capture 11, replay 23, reset, capture 31, replay 47."""
    buffers = bound(session, x=(1,), y=(1,))
    both = list(buffers.values())

    def value() -> int:
        return int(buffers["y"].read()[0])

    buffers["x"].write(f32(7))
    session.run_with_device_bindings({}, both)
    assert value() == 7
    for captured, replayed in ((11, 23), (31, 47)):
        buffers["x"].write(f32(captured))
        report = session.try_capture(both)
        assert (report.captured, report.is_single_graph, value()) == (True, True, captured)
        assert session.capture_segmentation() == ()
        before = session.device_allocation_counts()
        buffers["x"].write(f32(replayed))
        assert session.replay(both) is True
        assert value() == replayed
        assert session.device_allocation_counts() == before
        assert session.captured_segment_count() == 1
        assert session.reset() is True
        assert session.captured_segment_count() == 0
    assert session.reset() is False


def test_c01_capture_computes_the_step_and_replay_allocates_nothing() -> None:
    round_trip(session_of(opened(CAST)))


def test_c02_the_verify_slot_works_end_to_end_and_then_the_primary() -> None:
    session = session_of(opened(CAST))
    session.set_graph_slot("Verify")
    round_trip(session)
    session.set_graph_slot("Primary")
    round_trip(session)


def test_c03_a_node_that_cannot_be_recorded_is_a_seam_between_two_segments() -> None:
    session = session_of(opened(CLIP), device=PickyDevice({"Clip": "it reads its limits on the host"}))
    buffers = bound(session, x=(4,), y=(4,))
    both = list(buffers.values())
    buffers["x"].write(f32(-3, -0.5, 2, 9))
    session.run_with_device_bindings({}, both)
    eager = buffers["y"].read().tolist()
    assert eager == [-1, -0.5, 2, 9]
    buffers["y"].write(np.zeros(4, np.float32))
    report = session.try_capture(both)
    assert (report.captured, report.captured_segments, len(report.segments)) == (True, 2, 3)
    (seam,) = session.capture_segmentation()
    assert (seam.operator, seam.seam) == ("Clip", SeamReason.KERNEL_CAPTURE_UNSUPPORTED)
    assert buffers["y"].read().tolist() == eager
    buffers["x"].write(f32(5, -7, 0, 1))
    assert session.replay(both) is True
    assert buffers["y"].read().tolist() == [5, -1, 0, 1]
    assert session.captured_segment_count() == 2


def test_c07_segments_interleave_with_a_seam_and_allocate_nothing() -> None:
    session = session_of(opened(CLIP), device=PickyDevice({"Clip": "no"}))
    buffers = bound(session, x=(4,), y=(4,))
    both = list(buffers.values())
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    before = session.device_allocation_counts()
    for step in range(4):
        buffers["x"].write(f32(*[float(step)] * 4))
        assert session.replay(both)
        assert buffers["y"].read().tolist() == [step] * 4
    assert session.device_allocation_counts() == before
    assert session.captured_segment_count() == 2
    session.reset()
    assert session.captured_segment_count() == 0


# ------------------------------------------------------------------------------------ the audit


SIX = """g (float[4] x, bool c) => (float[4] a, int64[2] d, float[4] e, float[4] f, float[4] h)
    { a = If(c) <then_branch = t () => (float[4] p) { p = Relu(x) },
                 else_branch = o () => (float[4] q) { q = Neg(x) }>
      b = NonZero(x) d = Shape(b) e = Sin(x) f = Sigmoid(x) h = Exp(x) }"""


def reasons(report: CaptureReport) -> dict[str, SeamReason | None]:
    return {item.operator: item.seam for item in report.declines}


def six() -> tuple[ProgramSession, list[DeviceIoBinding]]:
    session = session_of(opened(SIX), {"b.axis1": 4}, device=PickyDevice({"Sigmoid": "it has a bad day"}))
    shapes = dict.fromkeys(("x", "a", "e", "f", "h"), (4,))
    buffers = bound(session, **shapes, c=(), d=(2,))
    return session, list(buffers.values())


def test_c16_every_test_of_the_audit_in_its_order() -> None:
    session, bindings = six()
    launches = placed_for(session, {}, session.map(bindings), {}).program.launches
    index = session.runner.planner.index
    warm = {item.step.index for item in launches if item.step.node.operator != "Sin"}
    report = audit(index, session.runner.device, launches, frozenset(), warm, ())
    found = reasons(report)
    assert [found.get(item.step.node.operator) for item in launches] == [
        SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE,
        SeamReason.UNRESOLVED_OUTPUT_SHAPE,
        SeamReason.UNRESOLVED_INPUT_SHAPE,
        SeamReason.KERNEL_NOT_WARMED,
        SeamReason.KERNEL_CAPTURE_UNSUPPORTED,
        None,
    ]
    assert report.segments == (Segment(0, 5, captured=False), Segment(5, 6, captured=True, graph=0))


def test_c14_the_kernel_s_own_words_node_and_domain_are_in_the_report() -> None:
    session, bindings = six()
    session.run_with_device_bindings({}, bindings)
    session.try_capture(bindings)
    decline = next(item for item in session.capture_segmentation() if item.operator == "Sigmoid")
    assert decline.reason == "it has a bad day"
    assert (decline.domain, decline.node) == ("ai.onnx", "Sigmoid_f")
    assert decline.step == 4
    assert str(decline) == "node Sigmoid_f (ai.onnx::Sigmoid) — it has a bad day"


@pytest.mark.parametrize(
    ("reason", "label", "path"),
    [
        ("CAPTURE_RECORDING_FAILED", "CaptureRecordingFailed", "eager-device-seam"),
        ("HOST_CONTROL_FLOW_OR_SEQUENCE", "HostControlFlowOrSequence", "host-seam"),
        ("UNRESOLVED_OUTPUT_SHAPE", "UnresolvedOutputShape", "eager-device-seam"),
        ("UNRESOLVED_INPUT_SHAPE", "UnresolvedInputShape", "eager-device-seam"),
        ("CLASSIFIER_DISQUALIFIED", "ClassifierDisqualified", "eager-device-seam"),
        ("KERNEL_NOT_WARMED", "KernelNotWarmed", "eager-device-seam"),
        ("KERNEL_CAPTURE_UNSUPPORTED", "KernelCaptureUnsupported", "eager-device-seam"),
    ],
)
def test_c15_seam_reasons_their_labels_and_paths(reason: str, label: str, path: str) -> None:
    assert (SeamReason[reason].value, SeamReason[reason].path) == (label, path)
    assert len(SeamReason) == 7
    assert (CAPTURED, DEVICE_SEAM, HOST_SEAM) == ("capture-region", "eager-device-seam", "host-seam")


GROWING = """g (float[1,2,P,4] past_key, float[1,2,P,4] bias, float[4] x) => (float[1,2,P,4] y, float[4] z)
    { y = Add(past_key, bias) z = Relu(x) }"""


def test_c12_a_growing_shape_vetoes_whatever_the_kernel_claims_and_the_rest_is_admitted() -> None:
    session = session_of(opened(GROWING), {"P": 8})
    cache = (1, 2, 8, 4)
    buffers = list(bound(session, past_key=cache, bias=cache, x=(4,), y=cache, z=(4,)).values())
    session.run_with_device_bindings({}, buffers)
    report = session.try_capture(buffers)
    assert reasons(report) == {"Add": SeamReason.CLASSIFIER_DISQUALIFIED}
    assert report.captured_segments == 1


def test_c13_control_flow_that_is_also_disqualified_is_a_host_seam() -> None:
    model = opened(
        """g (bool c, float[1,2,P,4] past_key, float[4] x) => (float[1,2,P,4] y, float[4] z)
        { y = If(c) <then_branch = t () => (float[1,2,P,4] p) { p = Relu(past_key) },
                     else_branch = o () => (float[1,2,P,4] q) { q = Neg(past_key) }>
          z = Relu(x) }"""
    )
    session = session_of(model, {"P": 8})
    buffers = list(bound(session, c=(), past_key=(1, 2, 8, 4), x=(4,), y=(1, 2, 8, 4), z=(4,)).values())
    session.run_with_device_bindings({}, buffers)
    (decline,) = session.try_capture(buffers).declines
    assert decline.seam is SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE
    assert decline.seam.path == HOST_SEAM


RANGE = """g (int64 n, float[2] x) => (float[M] y, float[2] z)
    { zero = Constant<value_int=0>() one = Constant<value_int=1>()
      r = Range(zero, n, one) y = Cast<to=1>(r) z = Relu(x) }"""


def ranged(length: int = 3) -> tuple[ProgramSession, dict[str, DeviceIoBinding]]:
    session = session_of(opened(RANGE), {"r.axis0": 8})
    buffers = bound(session, n=(), x=(2,), y=(8,), z=(2,))
    buffers["y"].set_logical((4,))
    buffers["n"].write(np.array(length))
    return session, buffers


def test_c17_a_data_dependent_shape_is_admitted_after_one_eager_run_saw_it() -> None:
    session, buffers = ranged()
    every = list(buffers.values())
    other = session.allocate_binding((2,), input_name="x")
    session.run_with_device_bindings({}, [buffers["n"], other, buffers["y"], buffers["z"]])
    cold = session.try_capture(every)
    assert reasons(cold)["Cast"] is SeamReason.UNRESOLVED_OUTPUT_SHAPE, "another buffer: nothing is known"
    session.run_with_device_bindings({}, every)
    warm = session.try_capture(every)
    assert reasons(warm) == {"Range": SeamReason.UNRESOLVED_OUTPUT_SHAPE}
    assert warm.captured
    assert buffers["y"].read().tolist()[:3] == [0, 1, 2]


def test_a_seed_that_the_recording_contradicts_leaves_a_right_step_and_no_graph() -> None:
    session, buffers = ranged()
    every = list(buffers.values())
    session.run_with_device_bindings({}, every)
    buffers["n"].write(np.array(2))
    buffers["y"].write(np.full(8, -1, np.float32))
    buffers["x"].write(f32(-1, 1))
    report = session.try_capture(every)
    assert (report.captured, report.executed) == (False, True)
    assert "[3] and is [2]" in report.declines[0].reason
    assert session.captured_segment_count() == 0
    assert buffers["y"].read().tolist() == [0, 1, -1, -1, -1, -1, -1, -1]
    assert buffers["z"].read().tolist() == [0, 1]
    assert session.try_capture(every).captured, "the step that was finished eagerly is the new warm-up"


# ------------------------------------------------------------------------------------ failures


def test_c18_an_operator_whose_recording_failed_is_quarantined_and_the_capture_retried() -> None:
    events: list[Event] = []
    device = PickyDevice(breaks={"Clip"})
    session = session_of(opened(CLIP), device=device, options=SessionOptions(events=events.append))
    buffers = bound(session, x=(4,), y=(4,))
    both = list(buffers.values())
    buffers["x"].write(f32(-3, 1, 2, 3))
    session.run_with_device_bindings({}, both)
    report = session.try_capture(both)
    assert reasons(report) == {"Clip": SeamReason.CAPTURE_RECORDING_FAILED}
    assert report.captured_segments == 2
    assert buffers["y"].read().tolist() == [-1, 1, 2, 3]
    failed = [item for item in events if item.kind is EventKind.DECLINE and "recording stream" in item.text]
    assert [item.subject for item in failed] == ["Clip_b"]
    session.reset()
    device.breaks.clear()
    assert reasons(session.try_capture(both)) == {"Clip": SeamReason.CAPTURE_RECORDING_FAILED}, "it is kept"
    session.set_graph_slot("Verify")
    assert session.try_capture(both).is_single_graph, "the other slot has its own quarantine"


def test_recording_failures_are_retried_at_most_once_a_node_and_state_does_not_advance_twice() -> None:
    model = opened(
        """g (float[1] s, float[1] x) => (float[1] t, float[1] y)
        { t = Add(s, x) a = Exp(t) b = Sin(a) y = Neg(b) }"""
    )
    session = session_of(model, device=PickyDevice(breaks={"Exp", "Sin", "Neg"}))
    state = session.allocate_binding((1,), input_name="s", output_name="t")
    x = session.allocate_binding((1,), input_name="x")
    y = session.allocate_binding((1,), output_name="y")
    x.write(f32(1))
    session.run_with_device_bindings({}, [state, x, y])
    assert state.read().tolist() == [1]
    report = session.try_capture([state, x, y])
    assert set(reasons(report)) == {"Exp", "Sin", "Neg"}
    assert state.read().tolist() == [2], "three attempts failed after the addition, and it counts once"
    assert session.replay([state, x, y])
    assert state.read().tolist() == [3]


def test_when_every_recording_fails_nothing_was_produced() -> None:
    session = session_of(opened(CAST), device=PickyDevice(breaks={"Cast"}))
    buffers = bound(session, x=(1,), y=(1,))
    both = list(buffers.values())
    session.run_with_device_bindings({}, both)
    buffers["x"].write(f32(5))
    report = session.try_capture(both)
    assert (report.captured, report.executed) == (False, False)
    assert report.declines[0].operator == GRAPH_NODE
    assert report.declines[0].domain == "nxrt"
    assert buffers["y"].read().tolist() == [0]


def test_nothing_warmed_is_a_value_and_says_what_to_do() -> None:
    session = session_of(opened(CAST))
    both = list(bound(session, x=(1,), y=(1,)).values())
    report = session.try_capture(both)
    assert (report.captured, report.executed) == (False, False)
    assert str(report).startswith("rejected: node ")
    assert report.declines[1].seam is SeamReason.KERNEL_NOT_WARMED
    assert report.declines[1].remedy == "Run one eager step at these shapes first"


def test_every_output_must_be_bound_and_none_may_be_a_sequence() -> None:
    session = session_of(opened("g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(x) }"))
    buffers = bound(session, x=(2,), y=(2,))
    report = session.try_capture(list(buffers.values()))
    assert not report.executed
    (decline,) = report.declines
    assert (decline.operator, decline.seam) == (GRAPH_NODE, None)
    assert "output z" in decline.reason
    sequence = session_of(
        opened(
            """g (float[4] x) => (float[4] y, seq(float[2]) parts)
            { y = Relu(x) two = Constant<value_ints=[2,2]>() parts = SplitToSequence(x, two) }"""
        )
    )
    report = sequence.try_capture(list(bound(sequence, x=(4,), y=(4,)).values()))
    assert "output parts is a sequence" in report.declines[0].reason


# ------------------------------------------------------------------------------------ slots


def test_c19_switching_slots_resets_nothing_and_each_keeps_its_own() -> None:
    session = session_of(opened(CAST))
    buffers = bound(session, x=(1,), y=(1,))
    both = list(buffers.values())
    names: tuple[SlotName, SlotName] = ("Primary", "Verify")
    assert list(session.state.slots) == list(names)
    session.run_with_device_bindings({}, both)
    for name in names:
        session.set_graph_slot(name)
        session.set_graph_slot(name)
        assert session.captured_segment_count() == 0
        assert session.try_capture(both).captured
    tokens = {name: session.state.slots[name].token for name in names}
    assert len(set(tokens.values())) == 2
    for name in (*names, *names):
        session.set_graph_slot(name)
        assert session.slot.name == name
        assert session.replay(both)
    assert {name: session.state.slots[name].replays for name in names} == dict.fromkeys(names, 2)
    assert session.reset()
    session.set_graph_slot("Primary")
    assert session.captured_segment_count() == 1
    assert session.replay(both)
