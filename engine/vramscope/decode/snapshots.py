"""A decode session as frozen data at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.decode.types import DecodeSnapshot, DecodeState
from vramscope.plan.types import ComponentName
from vramscope.run.memory_state import memory_state

if TYPE_CHECKING:
    from vramscope.decode.feeds import Feeds
    from vramscope.decode.session_state import RunState
    from vramscope.decode.slot import GraphSlot
    from vramscope.run.runner import Runner


def decode_snapshot(
    runner: Runner, run: RunState, state: DecodeState, slots: tuple[GraphSlot, GraphSlot], feeds: Feeds
) -> DecodeSnapshot:
    """Everything live about a session of ``runner``; ``slots``: Primary and Verify."""
    primary, verify = slots
    ledger = runner.device.ledger
    return DecodeSnapshot(
        state=state,
        position=run.position,
        capacity=run.capacity,
        steps_eager=run.eager_steps,
        steps_replayed=run.replayed_steps,
        steps_timed=run.timed_steps,
        seconds_eager=run.eager_seconds,
        seconds_replayed=run.replayed_seconds,
        allocations_last_step=run.allocations,
        total=ledger.total,
        budget=ledger.budget,
        memory=memory_state(runner.memory),
        components={name.value: ledger.component(name.value) for name in ComponentName},
        kernel_temporaries=runner.temporaries,
        transfers=run.transfers,
        slots=(
            primary.describe(state is DecodeState.READY),
            verify.describe(verify.graph is not None),
        ),
        report=primary.report,
        blocks=None if feeds.blocks is None else feeds.blocks.use(run.position),
    )
