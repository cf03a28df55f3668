"""A session's step without a graph: placed for what is given now, run, and remembered for a later capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.run.mapping import bind_shapes
from vramscope.run.placing import deliver, fetch, place, upload
from vramscope.run.seeding import WarmShapes, capture_signature, seen_shapes
from vramscope.run.variants import shape_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array
    from vramscope.run.launch import Launch
    from vramscope.run.mapping import Mapped
    from vramscope.run.placing import Placed
    from vramscope.run.session import ProgramSession
    from vramscope.run.session_types import Outputs


def run(session: ProgramSession, inputs: Mapping[str, Array], mapped: Mapped) -> Outputs:
    """Runs the graph; outputs are copies, None for one that went into its binding."""
    placed = placed_for(session, inputs, mapped, {})
    upload(session.runner, placed, inputs)
    run_placed(session, placed)
    return _outputs(session, placed)


def placed_for(
    session: ProgramSession,
    inputs: Mapping[str, Array],
    mapped: Mapped,
    seeds: Mapping[int, tuple[int, ...]],
) -> Placed:
    """The program bound at what is given now."""
    shapes = bind_shapes(session.runner.planner.model, session.scenario, inputs, mapped)
    placed = place(session.runner, shapes, inputs, mapped, seeds)
    if session.state.memo is not None:
        session.state.memo.attach(placed.program)
    return placed


def run_placed(session: ProgramSession, placed: Placed) -> None:
    """Every node of it, and what could not be written in place into its binding."""

    def ran(launch: Launch) -> None:
        dispatched(session, launch)

    session.runner.run(placed.program, session.cancel, dispatched=ran)
    deliver(session.runner, placed)
    remember(session, placed)


def remember(session: ProgramSession, placed: Placed) -> None:
    """What an eager run saw seeds the next capture on the active slot (semantics 2.1)."""
    program = session.runner.planner.model.program
    signature = capture_signature(program, placed.mapped.bindings)
    seen = seen_shapes(placed.program, placed.resolver, program.outputs)
    session.slot.warm = WarmShapes(signature, seen)


def dispatched(session: ProgramSession, launch: Launch) -> None:
    """Counts a kernel variant; one that is evicted takes the graphs that hold its node with it."""
    state = session.state
    used = state.variants.use(launch.step.index, shape_key(launch))
    if used.missed:
        session.runner.gate.missed()
    if not used.evicted:
        return
    cause = f"a kernel variant of {launch.step.node.name} was evicted"
    for slot in state.slots.values():
        if slot.graph is not None and slot.token is not None and launch.step.index in slot.graph.steps:
            state.store.retire(slot.token, cause)


def _outputs(session: ProgramSession, placed: Placed) -> Outputs:
    program = session.runner.planner.model.program
    bound = placed.mapped.outputs
    return {
        name: None if name in bound else fetch(session.runner, placed.program.values[item])
        for item in program.outputs
        for name in (program.values[item].name,)
    }
