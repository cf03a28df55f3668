"""Replaying a session's graph in the rule book's order; what is done when it holds no more (1.17, 1.19)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.model import ABSENT
from vramscope.ops.spec import Lifetime
from vramscope.run.eager import dispatched, placed_for, remember, run_placed
from vramscope.run.events import EventKind
from vramscope.run.graph import StepWork
from vramscope.run.launch import release_unplanned
from vramscope.run.placing import deliver
from vramscope.run.session_state import layout_of, moved_part
from vramscope.run.signature import changed_error, signature_of
from vramscope.run.tracing import ProgramTracer, node_runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.launch import BoundProgram
    from vramscope.run.mapping import Mapped
    from vramscope.run.placing import Placed
    from vramscope.run.session import ProgramSession
    from vramscope.run.session_state import Installed
    from vramscope.run.signature import Difference
    from vramscope.run.slot import GraphSlot


def replay(session: ProgramSession, bindings: Sequence[DeviceIoBinding]) -> bool:
    """As :meth:`~vramscope.run.session.ProgramSession.replay` says."""
    slot = session.slot
    mapped = session.map(bindings) if slot.graph is not None else None
    changed = slot.check(mapped.bindings if mapped is not None else ())
    assert mapped is not None
    if changed:
        error = changed_error(changed)
        drop(session, slot, str(error), changed)
        raise error
    lost = _lost(session, slot)
    if lost:
        drop(session, slot, lost)
        return _eagerly(session, mapped)
    placed = _placed(session, slot, mapped)
    moved_memory = _memory_moved(session, slot)
    if moved_memory:
        drop(session, slot, moved_memory)
        return _eagerly(session, mapped)
    return _launch(session, slot, placed)


def _lost(session: ProgramSession, slot: GraphSlot) -> str:
    """Why the graph cannot be launched any more though nobody told the slot; empty when it can."""
    if not slot.held:
        assert slot.token is not None
        return slot.store.cause(slot.token) or "the graph was dropped out-of-band"
    return _memory_moved(session, slot)


def _memory_moved(session: ProgramSession, slot: GraphSlot) -> str:
    before = session.state.installed[slot.name].layout
    moved = moved_part(before, layout_of(session.runner.memory, step_slot=True))
    return f"the session's {moved} moved or was given back" if moved else ""


def _placed(session: ProgramSession, slot: GraphSlot, mapped: Mapped) -> Placed:
    """The captured run where nothing about it moved, else the step bound anew for its seams."""
    assert slot.graph is not None
    installed: Installed = session.state.installed[slot.name]
    same = all(signature_of(a) == b for a, b in zip(mapped.bindings, slot.graph.signature, strict=True))
    lifetimes = installed.placed.program.lifetimes.values()
    scratch = Lifetime.STEP_SCOPED in lifetimes and not session.pin_step_workspace
    if same and not scratch:
        return installed.placed
    return placed_for(session, {}, mapped, slot.graph.seeds)


def _launch(session: ProgramSession, slot: GraphSlot, placed: Placed) -> bool:
    runner, state = session.runner, session.state

    def finish(program: BoundProgram, step: int) -> None:
        finish_eagerly(session, placed.mapped, program, step)

    try:
        moved = slot.replay(runner, placed.program, StepWork(), finish)
        deliver(runner, state.finished or placed)
    finally:
        state.finished = None
        release_unplanned(placed.program, runner.memory)
    if moved is None:
        return True
    drop(session, slot, str(moved))
    return False


def finish_eagerly(session: ProgramSession, mapped: Mapped, done: BoundProgram, step: int) -> None:
    """Runs every step behind ``step`` at the shapes that values have now; what is done is taken over."""
    runner = session.runner
    placed = placed_for(session, {}, mapped, {})
    program = placed.program
    for item in runner.planner.index.main_steps:
        if item.index <= step:
            outputs = (value for value in item.outputs if value != ABSENT and value in done.values)
            program.values.update({value: done.values[value] for value in outputs})
    seen = None if runner.tracer is None else ProgramTracer(runner.tracer, runner.device.ledger, program)
    run = node_runner(seen)
    for launch in program.launches:
        if launch.step.index > step:
            run(program, launch, runner.memory)
            dispatched(session, launch)
    done.leases.extend(program.leases)
    program.leases.clear()
    remember(session, placed)
    session.state.finished = placed


def _eagerly(session: ProgramSession, mapped: Mapped) -> bool:
    """The whole step without a graph, so that its results are right although the graph is gone."""
    placed = placed_for(session, {}, mapped, {})
    run_placed(session, placed)
    return False


def drop(session: ProgramSession, slot: GraphSlot, cause: str, changed: tuple[Difference, ...] = ()) -> bool:
    """Resets a slot, and says which graph died, at which step and why."""
    alive = slot.graph is not None
    held = slot.reset(cause, session.state.step, changed)
    session.state.installed.pop(slot.name, None)
    if alive:
        session.runner.say(EventKind.INVALIDATE, slot.name, cause, step=session.state.step)
    return held
