"""Admits a session: its whole plan is claimed before anything is allocated, or refused with what fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import Tier
from vramscope.errors import OutOfBudgetError, TierExhaustedError, VramscopeError
from vramscope.ops.spec import Lifetime
from vramscope.plan.streaming import StreamedWeights
from vramscope.plan.types import OWN_RUNTIME, ComponentName, VerdictKind
from vramscope.plan.verdict import blame_words
from vramscope.run.leases import workspace_purpose

if TYPE_CHECKING:
    from vramscope.devices.base import Device
    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Plan, Verdict
    from vramscope.run.leases import SessionLeases


def own_governor(device: Device) -> Governor:
    """A governor for one session alone: its limit is the device's budget."""
    return Governor({Tier.DEVICE: device.ledger.budget}, device.name)


def session_needs(plan: Plan) -> dict[str, int]:
    """Bytes by purpose that a session of ``plan`` takes, without a KV cache: that is its owner's."""
    slots = {
        workspace_purpose(lifetime): max(phase.workspace.bytes[lifetime] for phase in plan.phases)
        for lifetime in Lifetime
    }
    return {
        ComponentName.WEIGHTS.value: plan.weights.bytes,
        ComponentName.ACTIVATIONS.value: max(phase.arena.bytes for phase in plan.phases),
        ComponentName.BINDINGS.value: sum(row.figure.known for row in plan.bindings),
        **slots,
    }


def admit(leases: SessionLeases, planner: Planner, plan: Plan, kv: int = 0) -> None:
    """Pledges everything that a session of ``plan`` needs.

    Args:
        leases: of the session.
        planner: of its model, to say what would fit.
        plan: what to hold.
        kv: bytes of the KV cache; 0 leaves that pledge as it is.

    Raises:
        InputError: the model's weights are not here; no lease changed.
        OutOfBudgetError: the governor's limit does not hold it; no lease changed.
        CapacityUnavailableError: somebody who was asked for bytes failed, or the device is lost.
    """
    planner.model.require_weights()
    needs = session_needs(plan)
    if kv:
        needs[ComponentName.KV_CACHE.value] = kv
    held = leases.total
    kept = sum(size for purpose, size in leases.sizes.items() if purpose not in needs)
    try:
        leases.pledge(needs)
    except TierExhaustedError as refusal:
        left = leases.governor.available(Tier.DEVICE) or 0
        raise _refused(leases.session, sum(needs.values()) + kept, left + held, planner, plan) from refusal


def _refused(session: str, needed: int, available: int, planner: Planner, plan: Plan) -> OutOfBudgetError:
    """What is missing, what is to blame for it, and what would fit into what is left."""
    verdict = _verdict(planner, plan, available)
    weights = available - (needed - plan.weights.bytes)
    sizes = (
        ("a context of", verdict.largest_context),
        ("a batch of", verdict.largest_batch),
        ("a weight budget of", weights if _can_stream(planner, plan, weights) else None),
    )
    fits = [f"{what} {number:,}" for what, number in sizes if number]
    more = f"raise the budget by at least {needed - available:,} B"
    remedy = f"{' or '.join(fits)} would fit; or {more}" if fits else f"{more}, or export the model smaller"
    return OutOfBudgetError(
        what=f"a session of {session}",
        why=f"it needs {needed:,} bytes and {available:,} are left; {blame_words(verdict.blame)}",
        remedy=f"{remedy[0].upper()}{remedy[1:]}",
        requested=needed,
        available=available,
        site=verdict.blame,
    )


def _can_stream(planner: Planner, plan: Plan, budget: int) -> bool:
    """Whether the host device could run with this many bytes of weights, the rest streamed."""
    if plan.weights.streaming is not None or plan.scenario.runtime != OWN_RUNTIME:
        return False
    return budget >= StreamedWeights(planner.index, plan.weights).least


def _verdict(planner: Planner, plan: Plan, available: int) -> Verdict:
    """The plan's verdict for what is really left, which other sessions may have lessened."""
    if plan.verdict.kind is VerdictKind.SHORT and plan.verdict.available == available:
        return plan.verdict
    try:
        return planner.plan(replace(plan.scenario, budget=available)).verdict
    except VramscopeError:
        return replace(plan.verdict, largest_context=None, largest_batch=None)
