"""Capturing a session's step: what must hold before it, what it is recorded from, what is kept of it."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.ops.spec import Lifetime
from vramscope.run.audit import graph_decline
from vramscope.run.capture import CaptureReport
from vramscope.run.eager import placed_for
from vramscope.run.events import EventKind
from vramscope.run.graph import Recording
from vramscope.run.launch import release_unplanned
from vramscope.run.placing import deliver
from vramscope.run.replaying import finish_eagerly
from vramscope.run.seeding import capture_seeds
from vramscope.run.session_state import Installed, layout_of
from vramscope.run.slot import CaptureRequest
from vramscope.run.variants import shape_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vramscope.graph.model import Array
    from vramscope.run.capture import Decline
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.mapping import Mapped
    from vramscope.run.placing import Placed
    from vramscope.run.session import ProgramSession


def capture(
    session: ProgramSession, mapped: Mapped, bindings: Sequence[DeviceIoBinding], *, preserve: bool
) -> CaptureReport:
    """Captures on the active slot; an older graph of it goes first."""
    slot, runner = session.slot, session.runner
    session.drop(slot, "a new capture on the same slot")
    refusal = _graph_refusal(session, mapped)
    if refusal is not None:
        slot.report = CaptureReport((), (refusal,), executed=False)
        return _told(session, slot.report)
    seeds = capture_seeds(runner.planner.index, slot.warm, session.resolver(mapped), mapped.bindings)
    placed = _placed(session, mapped, seeds)
    request = _request(session, placed, seeds)
    with preserved(session, mapped) if preserve else nullcontext():
        report = slot.try_capture(runner, request)
        _settle(session, placed, report)
    if report.captured:
        layout = layout_of(runner.memory, step_slot=session.pin_step_workspace)
        session.state.installed[slot.name] = Installed(placed, layout)
        assert slot.token is not None
        for binding in bindings:
            binding.stamp(slot.store, slot.token)
    return _told(session, report)


def _placed(session: ProgramSession, mapped: Mapped, seeds: Mapping[int, tuple[int, ...]]) -> Placed:
    """The step bound for recording, in the workspace that a prepared session has (semantics 1.11)."""
    if session.state.preparation_required:
        kept = [Lifetime.SESSION_PERSISTENT, *([Lifetime.STEP_SCOPED] if session.pin_step_workspace else [])]
        session.runner.require_workspace(session.resolver(mapped), kept)
    return placed_for(session, {}, mapped, seeds)


def _graph_refusal(session: ProgramSession, mapped: Mapped) -> Decline | None:
    """Every output must be a persistent binding, and a sequence cannot be one (semantics 2.1)."""
    program = session.runner.planner.model.program
    for item in program.outputs:
        value = program.values[item]
        if value.is_sequence:
            return graph_decline(f"output {value.name} is a sequence", "Export the step without sequences")
        if value.name not in mapped.outputs:
            return graph_decline(f"output {value.name} is not bound to a buffer", "Bind every output")
    return None


def _state_of(mapped: Mapped) -> list[Array]:
    """Buffers that are both read and written: running a step again would start from its own results."""
    return [item.array for item in mapped.bindings if item.input and item.output]


@contextmanager
def preserved(session: ProgramSession, mapped: Mapped) -> Iterator[None]:
    """Puts back, after the block, what it wrote into buffers that are read and written."""
    device, state = session.runner.device, _state_of(mapped)
    saved = [device.download(item) for item in state]
    try:
        yield
    finally:
        for target, content in zip(state, saved, strict=True):
            device.upload(target, content)


def _request(session: ProgramSession, placed: Placed, seeds: Mapping[int, tuple[int, ...]]) -> CaptureRequest:
    unpinned = () if session.pin_step_workspace else step_scoped(placed)
    return CaptureRequest(
        program=placed.program,
        recording=Recording(
            placed.mapped.bindings,
            seeds=seeds,
            finish=lambda program, step: finish_eagerly(session, placed.mapped, program, step),
        ),
        growing=session.growing,
        warmed=warmed(session, placed),
        unpinned=unpinned,
        state=_state_of(placed.mapped),
    )


def warmed(session: ProgramSession, placed: Placed) -> frozenset[int]:
    """Steps that have run at exactly these input shapes, and whose kernel is still kept."""
    variants = session.state.variants
    launches = placed.program.launches
    return frozenset(item.step.index for item in launches if variants.has(item.step.index, shape_key(item)))


def step_scoped(placed: Placed) -> frozenset[int]:
    """Steps whose scratch lies in the step slot."""
    found = placed.program.lifetimes.items()
    return frozenset(step for step, lifetime in found if lifetime is Lifetime.STEP_SCOPED)


def _settle(session: ProgramSession, placed: Placed, report: CaptureReport) -> None:
    """Outputs that no step writes in place, and memory beside the plan."""
    try:
        if report.executed:
            deliver(session.runner, session.state.finished or placed)
    finally:
        session.state.finished = None
        release_unplanned(placed.program, session.runner.memory)


def _told(session: ProgramSession, report: CaptureReport) -> CaptureReport:
    step, name = session.state.step, session.slot.name
    for item in report.declines:
        session.runner.say(EventKind.DECLINE, item.node or item.operator, str(item), step=step)
    text = f"{report.captured_segments} captured segments of {len(report.segments)}"
    session.runner.say(EventKind.CAPTURE, name, text, step=step)
    return replace(report)
