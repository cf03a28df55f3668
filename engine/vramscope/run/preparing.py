"""Preparing a session: weights and the plan's memory, then what inputs and bindings need (1.7, 1.13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.ops.spec import Lifetime
from vramscope.plan.phase import plan_phase
from vramscope.run.mapping import bind_shapes
from vramscope.run.workspace import reserve_slot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.graph.model import Array
    from vramscope.plan.types import PhasePlan
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session import ProgramSession


def prepare(
    session: ProgramSession, inputs: Mapping[str, Array], bindings: Sequence[DeviceIoBinding]
) -> PhasePlan | None:
    """As :meth:`~vramscope.run.session.ProgramSession.prepare` says."""
    runner, state, options = session.runner, session.state, session.options
    if not state.prepared:
        runner.prepare(options.progress, options.cancel)
        state.prepared = True
    if not inputs and not bindings:
        return None
    mapped = session.map(bindings)
    shapes = bind_shapes(runner.planner.model, session.scenario, inputs, mapped, capacity=True)
    plan = plan_phase(runner.planner.index, shapes, runner.resolver(shapes))
    for refusal in plan.refusals:
        raise refusal.error()
    state.preparation_required = True
    for lifetime in (Lifetime.SESSION_PERSISTENT, Lifetime.STEP_SCOPED):
        reserve_slot(runner.memory, lifetime, plan.workspace)
    return plan
