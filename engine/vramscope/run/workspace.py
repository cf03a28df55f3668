"""The two workspace slots of a session: reserved, reused, replaced, or refused (semantics 1.8, 1.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import AllocationFailedError, WorkspaceNotPreparedError
from vramscope.ops.spec import Lifetime
from vramscope.plan.types import ComponentName, WorkspacePlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.run.memory import SessionMemory


def peak_of(needs: Sequence[WorkspacePlan]) -> WorkspacePlan:
    """What one session needs for all of these: bytes and alignment kept independently (semantics 1.2)."""
    largest = {lifetime: max(needs, key=lambda need: need.bytes[lifetime]) for lifetime in Lifetime}
    return WorkspacePlan(
        {lifetime: need.bytes[lifetime] for lifetime, need in largest.items()},
        {lifetime: max(need.alignment[lifetime] for need in needs) for lifetime in Lifetime},
        {lifetime: need.blame[lifetime] for lifetime, need in largest.items()},
    )


def reserve_slot(memory: SessionMemory, lifetime: Lifetime, need: WorkspacePlan) -> bool:
    """Makes one slot hold ``need``; True when it was replaced.

    A slot never shrinks, in bytes or in alignment. The old one is released first, so the two are never
    charged together; where the new one is refused the slot is left empty, and a later attempt can succeed.

    Raises:
        OutOfBudgetError: the budget does not hold it.
        ReleasePendingError: the old one is not freed in time; trying again may succeed.
        AllocationFailedError: the device gives no such alignment.
    """
    size, alignment = need.bytes[lifetime], need.alignment[lifetime]
    held = memory.workspace.get(lifetime)
    if size == 0:
        return False
    if held is not None and _holds(memory, lifetime, size, alignment):
        memory.device.ledger.history.reused(held.lease.site)
        return False
    if held is not None:
        size, alignment = max(size, held.size), max(alignment, memory.alignments[lifetime])
        memory.give(memory.workspace.pop(lifetime))
        memory.releases.settle(held.lease.site)
    buffer = memory.take(ComponentName.WORKSPACE, lifetime.value, size)
    if buffer.address % alignment:
        memory.give(buffer)
        raise AllocationFailedError(
            f"{size:,} bytes of {lifetime.value} workspace",
            f"{memory.device.name} does not align buffers to {alignment:,} bytes",
            requested=size,
        )
    memory.workspace[lifetime], memory.alignments[lifetime] = buffer, alignment
    return True


def require_slot(memory: SessionMemory, lifetime: Lifetime, need: WorkspacePlan) -> None:
    """Passes when a slot that may not be replaced holds ``need``.

    Raises:
        WorkspaceNotPreparedError: it is empty, too small, or too weakly aligned.
    """
    size, alignment = need.bytes[lifetime], need.alignment[lifetime]
    if size == 0 or _holds(memory, lifetime, size, alignment):
        return
    held = memory.workspace.get(lifetime)
    have, aligned = (0, 0) if held is None else (held.size, memory.alignments[lifetime])
    there = f"{have:,} aligned to {aligned:,} are prepared" if held is not None else "none is prepared"
    raise WorkspaceNotPreparedError(
        what=f"the {lifetime.value} workspace",
        why=f"{size:,} bytes aligned to {alignment:,} are needed, {there}",
        remedy="Prepare the session with these bindings, or run an eager step with them, then capture",
        node=need.blame[lifetime],
        required=size,
        prepared=have,
        required_alignment=alignment,
        prepared_alignment=aligned,
    )


def _holds(memory: SessionMemory, lifetime: Lifetime, size: int, alignment: int) -> bool:
    held = memory.workspace.get(lifetime)
    return held is not None and held.size >= size and memory.alignments[lifetime] >= alignment
