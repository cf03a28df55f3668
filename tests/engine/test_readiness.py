"""The gate before graphs: epochs, one question each, latched answers, a requirement a replay meets (1.22)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from computing_twin import ComputingDevice
from small_models import bound, opened, session_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.launch import Launch
from vramscope.devices.cuda.prepared import VOLATILE
from vramscope.devices.host import HostDevice
from vramscope.errors import NeverCapturedError, ResourcesChangedError, VramscopeError
from vramscope.plan.types import BucketPolicy, Scenario
from vramscope.run.capture import SeamReason
from vramscope.run.events import Event, EventKind
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import BoundLaunch, Pending
    from vramscope.devices.cuda.library_form import AnyLaunch
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.readiness import Requirement

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
ROWS = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Neg(a) }"
SUMS = """g (float[N,4] x, int64 axis) => (float[N,4] y)
    <int64 zero = {0}>
    { a = CumSum(x, zero) b = CumSum(a, axis) y = Neg(b) }"""
WHY = "what it needs is not final: "


class AskedHost(HostDevice):
    """Counts how often it is asked to make something final; cannot while there is a ``failure``."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.failure = ""

    def finalise(self, launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
        self.asked += 1
        if self.failure:
            raise VramscopeError(self.name, self.failure)
        return super().finalise(launches)


class AskedCard(ComputingDevice):
    """Counts too; ``refused``: kernels that its compiler refuses, by the name of their source."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.refused = ""
        bind = self.twin.bind

        def checked(launch: AnyLaunch, stream: int, *, overlap: bool = False) -> object:
            if isinstance(launch, Launch) and launch.source.name == self.refused:
                raise VramscopeError(f"the CUDA source {self.refused}", "NVRTC refuses it")
            return bind(launch, stream, overlap=overlap)

        self.twin.bind = checked  # type: ignore[method-assign, assignment]  # a compiler that changes its mind

    def finalise(self, launches: Sequence[BoundLaunch]) -> tuple[Pending, ...]:
        self.asked += 1
        return super().finalise(launches)


def session_on(
    text: str, device: HostDevice | ComputingDevice, events: list[Event] | None = None
) -> ProgramSession:
    sink = events.append if events is not None else (lambda _event: None)
    model = opened(text)
    plan = make_plan(model, Scenario(maxima={"N": 8}, runtime=device.runtime))
    session = ProgramSession(model, plan, device, SessionOptions(events=sink))
    session.prepare()
    return session


def requirement(session: ProgramSession) -> Requirement | None:
    return session.slot.requirement


def rows_of(session: ProgramSession, rows: int) -> list[DeviceIoBinding]:
    return list(bound(session, x=(rows, 4), y=(rows, 4)).values())


# ------------------------------------------------------------------------------------ epochs and questions


@pytest.mark.parametrize("device", [AskedHost, AskedCard])
def test_every_kernel_missing_from_the_cache_begins_an_epoch(device: type[AskedHost | AskedCard]) -> None:
    session = session_on(ROWS, device())
    gate = session.runner.gate
    assert gate.epoch == 0
    for rows in (2, 2, 3, 2):
        session.run({"x": np.ones((rows, 4), np.float32)})
        assert gate.epoch == session.variants.misses
    assert gate.epoch == 4, "two nodes at two shapes"


@pytest.mark.parametrize("device", [AskedHost, AskedCard])
def test_the_device_is_asked_once_an_epoch(device: type[AskedHost | AskedCard]) -> None:
    session = session_on(ROWS, card := device())
    two = rows_of(session, 2)
    session.run_with_device_bindings({}, two)
    assert card.asked == 0, "an eager run makes what it needs by itself"
    for _ in range(3):
        assert session.try_capture(two).captured
        assert session.replay(two)
    assert card.asked == 1
    session.run({"x": np.ones((3, 4), np.float32)})
    assert session.replay(two), "an eager run elsewhere leaves the graph installed"
    assert session.replay(two)
    assert card.asked == 2, "a kernel was missing in between"


@pytest.mark.parametrize("runs", [0, 1])
def test_the_first_epochs_are_asked_about_too(runs: int) -> None:
    session = session_on("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }", device := AskedHost())
    two = rows_of(session, 2)
    for _ in range(runs):
        session.run_with_device_bindings({}, two)
    assert session.runner.gate.epoch == runs
    assert session.try_capture(two).captured is bool(runs), "a cold node is declined"
    assert device.asked == 1


def test_a_decoders_epoch_begins_when_its_step_is_bound_anew() -> None:
    model, device = open_path(SAMPLES / "tiny-llama"), AskedHost()
    scenario = Scenario(prompt=8, context=64, bucket=BucketPolicy(minimum=16, growing=True))
    decoder = Decoder(model, make_plan(model, scenario), device=device)
    decoder.load()
    decoder.prefill([[5, 9, 11]])
    while decoder.snapshot().capacity == 16:
        decoder.advance()
    assert decoder.snapshot().steps_replayed > 8
    assert device.asked == 1
    while decoder.snapshot().slots[0].state != "captured":
        decoder.advance()
    decoder.advance()
    assert device.asked == 2, "the grown cache's step"


# ------------------------------------------------------------------------------------ latched answers


def volatile(session: ProgramSession) -> list[DeviceIoBinding]:
    buffers = bound(session, x=(2, 4), axis=(), y=(2, 4))
    buffers["x"].write(np.arange(8, dtype=np.float32).reshape(2, 4))
    buffers["axis"].write(np.array(1, np.int64))
    return list(buffers.values())


def test_a_node_that_reads_what_may_change_is_pending_and_others_of_its_operator_are_captured() -> None:
    session = session_on(SUMS, AskedCard())
    both = volatile(session)
    session.run_with_device_bindings({}, both)
    eager = both[2].read()
    both[2].write(np.zeros((2, 4), np.float32))
    report = session.try_capture(both)
    (seam,) = report.declines
    assert (seam.node, seam.seam) == ("CumSum_b", SeamReason.KERNEL_CAPTURE_UNSUPPORTED)
    assert seam.reason == WHY + VOLATILE
    assert (report.captured_segments, session.slot.quarantined) == (2, set())
    assert both[2].read().tolist() == eager.tolist()
    both[1].write(np.array(0, np.int64))
    assert session.replay(both)
    assert both[2].read().tolist() != eager.tolist(), "the seam reads the axis anew"
    session.run({"x": np.ones((3, 4), np.float32), "axis": np.array(0)})
    assert session.replay(both), "a new epoch: the replay asks"
    again = session.try_capture(both)
    assert [item.node for item in again.declines] == ["CumSum_b"], "and its answer is that of the whole step"
    assert session.slot.quarantined == set()


def test_a_failed_answer_holds_until_the_next_miss() -> None:
    session = session_on(ROWS, device := AskedHost())
    two = rows_of(session, 2)
    session.run_with_device_bindings({}, two)
    device.failure = "it fell off the bus"
    for _ in range(2):
        report = session.try_capture(two)
        assert not report.captured
        reasons = [item.reason for item in report.declines if item.seam is not None]
        assert reasons == [f"{WHY}host: it fell off the bus"] * 2
    assert device.asked == 1
    device.failure = ""
    assert not session.try_capture(two).captured, "nobody asks again"
    session.run({"x": np.ones((3, 4), np.float32)})
    assert session.try_capture(two).is_single_graph
    assert device.asked == 2


def test_code_that_does_not_compile_fails_the_capture_as_it_fails_an_eager_run() -> None:
    card = AskedCard()
    session = session_on(ROWS, card)
    two = rows_of(session, 2)
    session.run_with_device_bindings({}, two)
    card.refused = "each-neg"
    with pytest.raises(VramscopeError, match="NVRTC refuses it"):
        session.try_capture(two)
    assert (card.twin.graphs, session.slot.quarantined) == (1, set()), "no recording was broken off"
    card.refused = ""
    session.run({"x": np.ones((3, 4), np.float32)})
    assert session.try_capture(two).is_single_graph


# ------------------------------------------------------------------------------------ the requirement


@pytest.mark.parametrize("device", [AskedHost, AskedCard])
def test_a_replay_needs_the_very_resources_that_the_graph_was_recorded_with(
    device: type[AskedHost | AskedCard],
) -> None:
    events: list[Event] = []
    session = session_on(ROWS, card := device(), events)
    two = rows_of(session, 2)
    session.run_with_device_bindings({}, two)
    session.try_capture(two)
    assert requirement(session) == session.runner.gate.requirement
    card.close()
    with pytest.raises(ResourcesChangedError, match=f"on {card.name} was given back since"):
        session.replay(two)
    assert requirement(session) is None
    assert "was given back since" in session.slot.last_cause
    assert [item.text for item in events if item.kind is EventKind.INVALIDATE] == [session.slot.last_cause]
    with pytest.raises(NeverCapturedError, match="was given back since"):
        session.replay(two)


def test_closing_a_device_moves_its_generation() -> None:
    for device in (HostDevice(), ComputingDevice()):
        before = device.generation
        device.close()
        assert device.generation == before + 1


def test_each_slot_has_its_own_requirement_and_a_reset_clears_it() -> None:
    session = session_of(opened(ROWS), {"N": 8})
    two = rows_of(session, 2)
    session.run_with_device_bindings({}, two)
    session.try_capture(two)
    session.set_graph_slot("Verify")
    assert requirement(session) is None
    session.set_graph_slot("Primary")
    assert requirement(session) == session.runner.gate.requirement
    session.reset()
    assert requirement(session) is None


def test_another_sessions_graph_or_another_devices_is_refused_by_name() -> None:
    one, two = session_on(ROWS, HostDevice()), session_on(ROWS, HostDevice())
    mine, theirs = one.runner.gate.requirement, two.runner.gate.requirement
    one.runner.gate.acquire(mine)
    with pytest.raises(ResourcesChangedError, match="another session recorded it"):
        one.runner.gate.acquire(theirs)
    one.runner.gate._device = ComputingDevice()
    with pytest.raises(ResourcesChangedError, match="recorded on host, and this is cuda:0"):
        one.runner.gate.acquire(mine)


def test_what_a_closed_session_recorded_never_runs_again() -> None:
    session = session_on(ROWS, HostDevice())
    before = session.runner.gate.requirement
    session.close()
    session.prepare()
    for _ in range(2):
        with pytest.raises(ResourcesChangedError, match="was given back since"):
            session.runner.gate.acquire(before)
        session.runner.device.close()
