"""What changes while a program session lives, apart from its memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from vramscope.ops.spec import Lifetime
from vramscope.run.session_types import PRIMARY, SLOT_NAMES
from vramscope.run.slot import GraphSlot
from vramscope.run.store import GraphStore

if TYPE_CHECKING:
    from vramscope.run.branches import BranchMemo
    from vramscope.run.memory import SessionMemory
    from vramscope.run.placing import Placed
    from vramscope.run.variants import VariantCache

Layout: TypeAlias = tuple[tuple[str, int], ...]
"""Where the session's own memory lies, by name: a captured graph holds these addresses."""


@dataclass(frozen=True, slots=True)
class Installed:
    """The run that a slot's graph was captured from, and where memory lay then."""

    placed: Placed
    layout: Layout


@dataclass(slots=True, eq=False)
class SessionState:
    """Slots, kernel variants, pins, the run at hand."""

    variants: VariantCache
    memo: BranchMemo | None
    store: GraphStore
    slots: dict[str, GraphSlot]
    installed: dict[str, Installed] = field(default_factory=dict)
    active: str = PRIMARY
    step: int = 0
    pin_step: bool = False
    pinned: frozenset[str] = frozenset()
    growing: frozenset[str] | None = None
    pending_flags: int = 0
    finished: Placed | None = None
    """The eager rest of a step whose graph was retired under way."""
    prepared: bool = False
    preparation_required: bool = False
    """Latched by the first preparation for given shapes: a capture may not replace workspace from then on."""

    @property
    def slot(self) -> GraphSlot:
        """The active slot."""
        return self.slots[self.active]


def new_state(variants: VariantCache, memo: BranchMemo | None) -> SessionState:
    """Two empty slots over one store."""
    store = GraphStore()
    slots = {name: GraphSlot(name, store) for name in SLOT_NAMES}
    return SessionState(variants, memo, store, slots)


def layout_of(memory: SessionMemory, *, step_slot: bool) -> Layout:
    """Addresses of the arena and the workspace slots; the step slot only where it is pinned."""
    held: list[tuple[str, int]] = [] if memory.arena is None else [("arena", memory.arena.address)]
    for lifetime, buffer in memory.workspace.items():
        if step_slot or lifetime is not Lifetime.STEP_SCOPED:
            held.append((f"{lifetime.value} workspace", buffer.address))
    return tuple(sorted(held))


def moved_part(old: Layout, new: Layout) -> str:
    """The first part whose address differs; empty when none does."""
    before, now = dict(old), dict(new)
    return next((name for name in before if before[name] != now.get(name)), "")
