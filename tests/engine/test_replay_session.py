"""Replaying: what must match, what retires a graph and how that is told (semantics 1.17-1.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from picky_device import PickyDevice
from small_models import array_of, opened, session_of

from vramscope.devices.ledger import Site
from vramscope.errors import BindingsChangedError, LedgerSealedError, NeverCapturedError, VramscopeError
from vramscope.run.capture import SeamReason
from vramscope.run.events import Event, EventKind
from vramscope.run.session_types import SessionOptions
from vramscope.run.slot import Invalidation

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session import ProgramSession

DOUBLE = "g (float[N,3] x) => (float[N,3] y) { two = Constant<value_float=2.0>() y = Mul(x, two) }"


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def doubling(
    rows: int = 2, options: SessionOptions | None = None
) -> tuple[ProgramSession, DeviceIoBinding, DeviceIoBinding]:
    session = session_of(opened(DOUBLE), {"N": 64}, options=options)
    x = session.allocate_binding((rows, 3), input_name="x")
    y = session.allocate_binding((rows, 3), output_name="y")
    return session, x, y


def captured(session: ProgramSession, *bindings: DeviceIoBinding) -> None:
    session.run_with_device_bindings({}, bindings)
    assert session.try_capture(bindings).captured


# ------------------------------------------------------------------------------------ what must match


def test_case_10_a_new_host_array_is_refused_by_its_address_and_the_same_one_is_read_live() -> None:
    session = session_of(opened(DOUBLE), {"N": 2})
    one, five = np.full((2, 3), 1, np.float32), np.full((2, 3), 5, np.float32)
    result = np.zeros((2, 3), np.float32)
    x = session.bind_external(one, (2, 3), input_name="x")
    y = session.bind_external(result, (2, 3), output_name="y")
    captured(session, x, y)
    one[:] = 5
    assert session.replay([x, y])
    assert result.tolist() == [[10.0] * 3] * 2
    result[:] = 0
    with pytest.raises(BindingsChangedError) as caught:
        session.replay([session.bind_external(five, (2, 3), input_name="x"), y])
    error = caught.value
    assert (error.binding, error.field) == ("x", "device_pointer")
    assert (error.old, error.new) == (f"0x{one.ctypes.data:x}", f"0x{five.ctypes.data:x}")
    assert error.why == f"device_pointer was {error.old} and is {error.new}", "nothing else changed"
    assert not result.any(), "the step was not produced"


def test_never_captured_and_bindings_changed_are_different_errors() -> None:
    session, x, y = doubling()
    with pytest.raises(NeverCapturedError, match="no graph is installed on it"):
        session.replay([x, y])
    captured(session, x, y)
    with pytest.raises(BindingsChangedError) as caught:
        session.replay([y, x])
    assert (caught.value.binding, caught.value.field) == ("x", "input_name")
    (lost,) = session.slot.history
    assert (lost.binding, lost.field, lost.cause) == ("x", "input_name", str(caught.value))
    assert f"and {len(lost.changed) - 1} more changed: binds_input, output_name, " in lost.cause
    assert session.captured_segment_count() == 0
    with pytest.raises(NeverCapturedError, match=r"the last one died: .*input_name was x and is nothing, "):
        session.replay([x, y])


def test_the_number_of_bindings_counts() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    with pytest.raises(BindingsChangedError) as caught:
        session.replay([x])
    assert (caught.value.field, caught.value.old, caught.value.new) == ("count", "2", "1")


def test_a_moved_length_is_the_first_difference_and_is_recorded_with_its_step() -> None:
    events: list[Event] = []
    session, x, y = doubling(4, SessionOptions(events=events.append))
    x.set_logical((2, 3))
    y.set_logical((2, 3))
    captured(session, x, y)
    x.set_logical((3, 3))
    with pytest.raises(BindingsChangedError):
        session.replay([x, y])
    (record,) = session.slot.history
    assert record == Invalidation(3, "Primary", record.cause, "x", "kernel_input_shape", "(2, 3)", "(3, 3)")
    (told,) = [item for item in events if item.kind is EventKind.INVALIDATE]
    assert (told.step, told.text) == (3, record.cause)


def test_contents_are_never_part_of_the_signature_and_eager_runs_keep_the_graph() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    for value in range(5):
        x.write(np.full((2, 3), value, np.float32))
        session.run_with_device_bindings({}, [x, y])
        assert array_of(session.run({"x": np.ones((7, 3), np.float32)}), "y").shape == (7, 3)
        assert session.replay([x, y])
        assert y.read().tolist() == [[2.0 * value] * 3] * 2
    assert session.slot.invalidations == 0


# ------------------------------------------------------------------------------------ lengths that may move


SEGMENTED = """g (float[N] lengths, float[4] x) => (float[4] y, float total)
    { a = Relu(x) total = ReduceL1<keepdims=0>(lengths) y = Add(a, total) }"""


def segmented() -> tuple[ProgramSession, dict[str, DeviceIoBinding]]:
    """The growing input is read by an eager seam alone; what comes after it is captured again."""
    session = session_of(opened(SEGMENTED), {"N": 8}, device=PickyDevice({"ReduceL1": "no"}))
    buffers = {
        "lengths": session.allocate_binding((8,), input_name="lengths"),
        "x": session.allocate_binding((4,), input_name="x"),
        "y": session.allocate_binding((4,), output_name="y"),
        "total": session.allocate_binding((), output_name="total"),
    }
    buffers["lengths"].write(np.arange(1, 9, dtype=np.float32))
    buffers["lengths"].set_logical((2,))
    return session, buffers


def test_the_segmented_exception_lets_a_length_move_that_only_seams_read() -> None:
    session, buffers = segmented()
    every = list(buffers.values())
    captured(session, *every)
    assert session.captured_segment_count() == 2
    for length in (3, 8, 1):
        buffers["lengths"].set_logical((length,))
        assert session.replay(every)
        assert buffers["y"].read().tolist() == [length * (length + 1) / 2] * 4
    assert session.slot.invalidations == 0


def test_the_exception_does_not_hold_where_a_captured_segment_reads_the_input() -> None:
    model = opened(
        """g (float[N] lengths, float[4] x) => (float[4] y, float[N] z)
        { z = Relu(lengths) total = ReduceL1<keepdims=0>(lengths) y = Add(x, total) }"""
    )
    session = session_of(model, {"N": 8}, device=PickyDevice({"ReduceL1": "no"}))
    lengths = session.allocate_binding((8,), input_name="lengths")
    lengths.set_logical((2,))
    z = session.allocate_binding((8,), output_name="z")
    z.set_logical((2,))
    x, y = session.allocate_binding((4,), input_name="x"), session.allocate_binding((4,), output_name="y")
    captured(session, lengths, x, y, z)
    lengths.set_logical((3,))
    with pytest.raises(BindingsChangedError, match="kernel_input_shape"):
        session.replay([lengths, x, y, z])


def test_under_fixed_strides_a_moved_length_is_no_difference_but_no_wrong_answer_either() -> None:
    session = session_of(opened("g (float[M,N] x) => (float[M,N] y) { y = Neg(x) }"), {"M": 4, "N": 4})
    x = session.allocate_binding((4, 4), input_name="x", output_name="y", fixed_strides=True)
    x.write(np.ones((4, 4), np.float32))
    x.set_logical((2, 4))
    captured(session, x)
    assert session.replay([x])
    assert x.read()[:, 0].tolist() == [-1, -1, 1, 1]
    x.set_logical((3, 4))
    assert session.replay([x]) is False, "the captured node sees the length: the step ran eagerly"
    assert x.read()[:, 0].tolist() == [1, 1, -1, 1]
    assert "(2, 4)" in session.slot.last_cause.replace("[", "(").replace("]", ")")


# ------------------------------------------------------------------------------------ what retires a graph


def test_an_out_of_band_loss_is_false_and_the_step_is_right_all_the_same() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    assert session.slot.token is not None
    session.state.store.retire(session.slot.token, "somebody else reset it")
    x.write(np.full((2, 3), 4, np.float32))
    assert session.replay([x, y]) is False
    assert y.read().tolist() == [[8.0] * 3] * 2
    assert session.slot.last_cause == "somebody else reset it"
    with pytest.raises(NeverCapturedError, match="somebody else reset it"):
        session.replay([x, y])
    assert session.reset() is False
    assert session.try_capture([x, y]).captured
    assert session.replay([x, y])


def test_c11_a_loss_of_both_slots_is_seen_by_both() -> None:
    session, x, y = doubling()
    session.run_with_device_bindings({}, [x, y])
    for name in ("Primary", "Verify"):
        session.set_graph_slot("Verify" if name == "Verify" else "Primary")
        assert session.try_capture([x, y]).captured
    slots = session.state.slots.values()
    assert [slot.held for slot in slots] == [True, True]
    for slot in slots:
        assert slot.token is not None
        assert session.state.store.retire(slot.token, "evicted")
        assert not session.state.store.retire(slot.token, "evicted"), "it is gone already"
    assert [slot.held for slot in slots] == [False, False]
    assert session.captured_segment_count() == 0
    assert session.replay([x, y]) is False


def test_a_token_of_an_older_generation_is_not_held() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    old = session.slot.token
    assert old is not None
    assert session.try_capture([x, y]).captured
    store = session.state.store
    assert not store.has(old)
    assert store.retire(old, "late") is False
    with pytest.raises(NeverCapturedError, match="0 segments are held"):
        store.segment(old, 0)
    assert session.slot.token is not None
    with pytest.raises(NeverCapturedError, match="segment 1 of slot Primary: 1 segments"):
        store.segment(session.slot.token, 1)
    assert session.replay([x, y])


FLIP = """g (bool c, float[4] x) => (float[4] w, float s)
    { a = If(c) <then_branch = t () => (float[2] p) { i = Constant<value_ints=[0,1]>() p = Gather(x, i) },
                 else_branch = o () => (float[4] q) { q = Neg(x) }>
      b = Exp(a) s = ReduceSum<keepdims=0>(b) w = Add(x, s) }"""


def test_a_branch_flip_that_changes_a_shape_is_false_with_the_right_step() -> None:
    model = opened(FLIP)
    names = sorted(
        {str(dim) for value in model.program.values for dim in value.shape or () if not isinstance(dim, int)}
    )
    session = session_of(model, dict.fromkeys(names, 4))
    c = session.allocate_binding((), input_name="c")
    x = session.allocate_binding((4,), input_name="x")
    w, s = session.allocate_binding((4,), output_name="w"), session.allocate_binding((), output_name="s")
    every = [c, x, w, s]
    c.write(np.array(True))
    x.write(f32(0, 0, 1, 1))
    captured(session, *every)
    report = session.slot.report
    assert report is not None
    assert [item.operator for item in report.declines] == ["If"]
    x.write(f32(1, 2, 3, 4))
    assert session.replay(every)
    assert s.read() == pytest.approx(np.exp(1) + np.exp(2), rel=1e-6)
    c.write(np.array(False))
    assert session.replay(every) is False
    expected = np.exp(np.negative(x.read())).sum()
    assert s.read() == pytest.approx(expected, rel=1e-6)
    assert w.read() == pytest.approx(x.read() + expected, rel=1e-6)
    assert session.captured_segment_count() == 0
    assert "[2] and is [4]" in session.slot.last_cause
    assert session.try_capture(every).captured
    assert session.replay(every)
    assert s.read() == pytest.approx(expected, rel=1e-6)


def test_a_branch_flip_that_keeps_the_shape_is_replayed_with_the_live_branch() -> None:
    model = opened(
        """g (bool c, float[2] x) => (float[2] y)
        { a = If(c) <then_branch = t () => (float[2] p) { p = Relu(x) },
                     else_branch = o () => (float[2] q) { q = Neg(x) }>
          y = Exp(a) }"""
    )
    session = session_of(model)
    c, x = session.allocate_binding((), input_name="c"), session.allocate_binding((2,), input_name="x")
    y = session.allocate_binding((2,), output_name="y")
    c.write(np.array(True))
    x.write(f32(1, 2))
    captured(session, c, x, y)
    c.write(np.array(False))
    assert session.replay([c, x, y])
    assert y.read() == pytest.approx(np.exp([-1, -2]), rel=1e-6)


def test_memory_that_moves_under_a_graph_retires_it() -> None:
    model = opened("g (float[N,3] x) => (float[N,3] y) { a = Exp(x) b = Sin(a) y = Neg(b) }")
    session = session_of(model, {"N": 4})
    x, y = session.allocate_binding((2, 3), input_name="x"), session.allocate_binding((2, 3), output_name="y")
    captured(session, x, y)
    small = session.runner.memory.arena
    assert small is not None
    with pytest.raises(VramscopeError, match="maximum 4"):
        session.run({"x": np.ones((5, 3), np.float32)})
    assert session.replay([x, y])
    session.runner.memory.device.release(small)
    session.runner.memory.arena = session.runner.memory.device.allocate(small.lease.site, small.size)
    assert session.replay([x, y]) is False
    assert session.slot.last_cause == "the session's arena moved or was given back"
    assert y.read() == pytest.approx(-np.sin(np.exp(x.read())), rel=1e-6)


def test_every_invalidation_is_kept_with_its_cause_and_a_new_capture_resets_first() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    assert session.try_capture([x, y]).captured
    session.reset()
    session.close()
    assert [item.cause for item in session.slot.history] == [
        "a new capture on the same slot",
        "it was reset",
    ]
    assert [item.step for item in session.slot.history] == [3, 3]
    assert session.slot.invalidations == 2


def test_closing_a_session_drops_its_graphs_and_only_its_own_memory() -> None:
    session, x, y = doubling()
    captured(session, x, y)
    held = x.size + y.size
    session.close()
    assert session.slot.last_cause == "the session was closed"
    assert session.runner.device.ledger.total.current_bytes == held


# ------------------------------------------------------------------------------------ state


STATE = "g (float[1,8] s, float[1,8] x) => (float[1,8] t) { t = Add(s, x) }"


def counting() -> tuple[ProgramSession, list[DeviceIoBinding]]:
    session = session_of(opened(STATE))
    state = session.allocate_binding((1, 8), input_name="s", output_name="t")
    x = session.allocate_binding((1, 8), input_name="x")
    x.write(np.ones((1, 8), np.float32))
    return session, [state, x]


def test_case_11_warm_up_and_capture_do_not_advance_state_unseen() -> None:
    session, every = counting()
    state = every[0]
    for _ in range(2):
        session.warm_up(every)
        assert state.read().tolist() == [[0.0] * 8]
    assert session.try_capture(every, preserve=True).captured
    assert state.read().tolist() == [[0.0] * 8]
    for _ in range(5):
        assert session.replay(every)
    assert state.read().tolist() == [[5.0] * 8]


def test_a_capture_that_does_not_preserve_is_one_step_and_says_so() -> None:
    session, every = counting()
    session.warm_up(every)
    report = session.try_capture(every)
    assert report.executed
    assert every[0].read().tolist() == [[1.0] * 8]
    for _ in range(4):
        assert session.replay(every)
    assert every[0].read().tolist() == [[5.0] * 8]


class GreedyDevice(PickyDevice):
    """A device whose kernels take memory of their own when told to."""

    greedy = False

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        kernel = super().kernel(node, spec)

        def watched(call: Call) -> None:
            if self.greedy:
                self.allocate(Site("test", f"greedy {node.name}"), 8)
            kernel(call)

        return watched


def test_an_allocation_in_a_segment_ends_the_recording_and_is_stopped_in_a_replay() -> None:
    device = GreedyDevice()
    session = session_of(opened(DOUBLE), {"N": 2}, device=device)
    x, y = session.allocate_binding((2, 3), input_name="x"), session.allocate_binding((2, 3), output_name="y")
    captured(session, x, y)
    device.greedy = True
    before = session.device_allocation_counts()
    with pytest.raises(LedgerSealedError, match="greedy Mul_y"):
        session.replay([x, y])
    report = session.try_capture([x, y])
    assert not report.captured
    assert [item.seam for item in report.declines[1:]] == [SeamReason.CAPTURE_RECORDING_FAILED]
    assert session.device_allocation_counts() == before
