"""The host device as a provider of graphs: what is legal while recording (C-05 to C-10; R-01, R-02)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from picky_device import PickyDevice
from small_models import array_of, opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.devices.latch import INVALID_INDEX, ErrorLatch, Latched
from vramscope.devices.ledger import Site
from vramscope.errors import (
    CancelledError,
    DeferredValidationError,
    InputError,
    RecordingError,
    VramscopeError,
)
from vramscope.run.capture import CaptureReport, Segment
from vramscope.run.latching import submission

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.base import Action
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec

PLACE = Site("test", "buffer")


def buffer(device: HostDevice) -> Array:
    """Four floats of device memory, all 0."""
    found = device.allocate(PLACE, 16).bytes.view(np.float32)
    found[:] = 0
    return found


def add(target: Array, amount: float) -> Action:
    def action() -> None:
        np.add(target, amount, out=target)

    return f"add {amount}", action


def counts(device: HostDevice) -> tuple[int, int]:
    total = device.ledger.total
    return total.total_count, total.current_count


def test_c05_a_graph_reads_live_data_and_replays_without_allocating() -> None:
    device = HostDevice()
    x, y = buffer(device), buffer(device)

    def double() -> None:
        np.multiply(x, 2, out=y)

    x[:] = 3
    before = counts(device)
    replay = device.record([("double", double)])
    assert y.tolist() == [6] * 4
    for value in (3, 5, -1, 8):
        x[:] = value
        replay()
        assert y.tolist() == [2 * value] * 4
    assert counts(device) == before
    session = session_of(opened("g (float[4] x) => (float[4] y) { y = Relu(x) }"))
    bindings = [
        session.allocate_binding((4,), input_name="x"),
        session.allocate_binding((4,), output_name="y"),
    ]
    session.run_with_device_bindings({}, bindings)
    session.try_capture(bindings)
    assert (session.reset(), session.reset()) == (True, False)


def test_c06_a_host_excursion_is_legal_between_segments_and_a_drain_inside_is_not() -> None:
    device = HostDevice()
    x = buffer(device)
    first = device.record([add(x, 1)])
    add(x, 1)[1]()
    device.synchronize()
    second = device.record([add(x, 1)])
    assert x.tolist() == [3] * 4
    first()
    add(x, 1)[1]()
    second()
    assert x.tolist() == [6] * 4

    def read() -> None:
        device.download(x)

    waits: list[Action] = [("drain", device.synchronize), ("read", read)]
    for name, wait in waits:
        with pytest.raises(RecordingError) as caught:
            device.record([add(x, 0), (name, wait)])
        assert (caught.value.node, caught.value.action) == (name, 1)
    assert device.download(x).tolist() == [6] * 4
    device.record([add(x, 1)])()
    assert x.tolist() == [8] * 4


@pytest.mark.parametrize("failure", [InputError("x", "bad"), ValueError("bad"), RuntimeError("bad")])
def test_c08_a_failure_while_recording_leaves_a_device_that_works(failure: Exception) -> None:
    device = HostDevice()
    x = buffer(device)

    def fail() -> None:
        raise failure

    with pytest.raises(RecordingError, match="bad") as caught:
        device.record([add(x, 1), ("fail", fail)])
    assert (caught.value.node, caught.value.action) == ("fail", 1)
    device.synchronize()
    device.allocate(PLACE, 8)
    device.record([add(x, 1)])()
    assert x.tolist() == [3] * 4


def test_a_cancelled_recording_is_cancelled_and_not_a_failed_one() -> None:
    device = HostDevice()

    def stop() -> None:
        raise CancelledError("the step", "the user asked to stop")

    with pytest.raises(CancelledError):
        device.record([("stop", stop)])
    device.synchronize()


def test_frees_inside_a_recording_are_done_after_it_and_a_second_recording_is_refused() -> None:
    device = HostDevice()
    gone = device.allocate(PLACE, 16)
    held: list[tuple[int, int]] = []

    def free() -> None:
        device.release(gone)
        held.append(counts(device))

    device.record([("free", free)])
    assert held == [(1, 1)]
    assert counts(device) == (1, 0)
    with pytest.raises(VramscopeError, match="given back already"):
        device.release(gone)

    def nested() -> None:
        device.record([])

    with pytest.raises(RecordingError, match="another graph is being recorded"):
        device.record([("nested", nested)])


def test_c09_what_cannot_be_recorded_is_found_before_anything_is_and_one_segment_is_one_graph() -> None:
    device = PickyDevice({"Neg": "no", "Exp": "no"})
    session = session_of(opened("g (float[4] x) => (float[4] y) { a = Neg(x) y = Exp(a) }"), device=device)
    bindings = [
        session.allocate_binding((4,), input_name="x"),
        session.allocate_binding((4,), output_name="y"),
    ]
    session.run_with_device_bindings({}, bindings)
    assert not session.try_capture(bindings).captured
    assert device.recorded == []
    whole, seam = Segment(0, 3, captured=True, graph=0), Segment(3, 4, captured=False)
    assert CaptureReport((whole,), ()).is_single_graph
    assert not CaptureReport((whole, seam), ()).is_single_graph
    assert not CaptureReport((Segment(0, 3, captured=False),), ()).is_single_graph
    device.refuses.clear()
    session.set_graph_slot("Verify")
    assert session.try_capture(bindings).is_single_graph
    session.set_graph_slot("Primary")
    assert session.captured_segment_count() == 0


def test_c10_an_empty_list_is_a_graph_and_one_bad_action_is_named() -> None:
    device = HostDevice()
    device.record([])()
    x = buffer(device)

    def bad() -> None:
        device.allocate(PLACE, 1)

    with pytest.raises(RecordingError, match="sealed during the recording of bad") as caught:
        device.record([add(x, 1), ("bad", bad), add(x, 1)])
    assert caught.value.node == "bad"
    report = CaptureReport((), ())
    assert (report.captured, report.captured_segments) == (False, 0)


# ------------------------------------------------------------------------------------ deferred validation


class CheckingDevice(HostDevice):
    """A device whose Gather finds a bad index only once its work is waited for, as a GPU's does."""

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        kernel = super().kernel(node, spec)

        def checked(call: Call) -> None:
            if node.operator == "Gather" and np.max(call.array(1).astype(np.int64)) >= call.array(0).shape[0]:
                self.latch.signal(INVALID_INDEX)
                return
            kernel(call)

        return checked


GATHER = "g (float[4] table, int64[2] at) => (float[2] y) { y = Gather(table, at) }"


def test_r01_a_deferred_error_is_reported_after_the_wait_and_fails_only_its_own_request() -> None:
    device = CheckingDevice()
    session = session_of(opened(GATHER), device=device)
    before = device.latch.resets
    table = np.array([1, 2, 3, 4], np.float32)
    with pytest.raises(DeferredValidationError, match="0x1"):
        session.run({"table": table, "at": np.array([0, 7])})
    assert array_of(session.run({"table": table, "at": np.array([3, 0])}), "y").tolist() == [4, 1]
    assert device.latch.resets - before == 4, "before and after each of the two requests"


def test_what_a_run_failed_with_is_told_beside_what_its_kernels_found() -> None:
    class Failing(CheckingDevice):
        def kernel(self, node: Node, spec: OpSpec) -> Kernel:
            def fail(call: Call) -> None:
                raise VramscopeError(call.node.name, "the launch was refused")

            return fail if node.operator == "Neg" else super().kernel(node, spec)

    text = "g (float[4] table, int64[2] at) => (float[2] y) { a = Gather(table, at) y = Neg(a) }"
    session = session_of(opened(text), device=Failing())
    feeds = {"table": np.zeros(4, np.float32), "at": np.array([0, 7])}
    with pytest.raises(
        DeferredValidationError, match="0x1; and the run failed: Neg_y: the launch was"
    ) as caught:
        session.run(feeds)
    assert isinstance(caught.value.__cause__, VramscopeError)
    with pytest.raises(VramscopeError, match="the launch was refused"):
        session.run({**feeds, "at": np.array([0, 3])})


def test_b13_validation_belongs_to_the_request_also_over_bindings_and_in_a_replay() -> None:
    device = CheckingDevice()
    session = session_of(opened(GATHER), device=device)
    other = session_of(opened(GATHER), device=device)
    table, at = (
        session.allocate_binding((4,), input_name="table"),
        session.allocate_binding((2,), input_name="at"),
    )
    y = session.allocate_binding((2,), output_name="y")
    table.write(np.array([1, 2, 3, 4], np.float32))
    bindings = [table, at, y]
    session.run_with_device_bindings({}, bindings)
    assert session.try_capture(bindings).captured
    at.write(np.array([1, 9]))
    with pytest.raises(DeferredValidationError, match="0x1"):
        session.replay(bindings)
    assert other.check_device_capture_error() == 0, "the flags are the session's own"
    assert session.check_device_capture_error() == INVALID_INDEX
    assert session.check_device_capture_error() == 0
    at.write(np.array([1, 2]))
    assert session.replay(bindings)
    assert y.read().tolist() == [2, 3]


class StuckLatch(ErrorLatch):
    """A latch whose reset fails from the second one on."""

    def reset(self) -> None:
        super().reset()
        if self.resets == 2:
            raise VramscopeError("the latch", "its reset failed")


class StuckDevice(HostDevice):
    """A device with a stuck latch."""

    def __init__(self) -> None:
        super().__init__()
        self._latch = StuckLatch()


def test_r02_a_failed_latch_reset_is_not_ignored() -> None:
    session = session_of(opened(GATHER), device=StuckDevice())
    with pytest.raises(VramscopeError, match="reset failed"):
        session.run({"table": np.zeros(4, np.float32), "at": np.zeros(2, np.int64)})


def test_flags_are_sticky_until_they_are_reset() -> None:
    latch = ErrorLatch()
    latch.signal(1)
    latch.signal(4)
    assert (latch.read(), latch.read()) == (5, 5)
    latch.reset()
    assert latch.read() == 0
    assert isinstance(HostDevice(), Latched)


@pytest.mark.parametrize("fails", [True, False])
def test_a_failure_and_flags_are_told_together(fails: bool) -> None:
    device = HostDevice()
    seen: list[int] = []

    def work(action: Callable[[], None]) -> None:
        with submission(device, seen.append):
            action()

    def run() -> None:
        device.latch.signal(2)
        if fails:
            raise InputError("the launch", "it failed")

    with pytest.raises(DeferredValidationError, match="0x2") as caught:
        work(run)
    assert ("the launch" in str(caught.value)) is fails
    assert seen == [2]
    work(lambda: None)
