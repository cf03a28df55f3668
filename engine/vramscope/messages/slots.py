"""Slots: both graph slots with their signatures and lost graphs, a capture's preconditions, memory slots."""

from __future__ import annotations

import msgspec


class SignatureRow(msgspec.Struct, frozen=True, kw_only=True):
    """One binding as a graph baked it in; ``values`` in the order of ``SlotsInfo.fields``."""

    binding: str
    values: list[str]


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a binding that is not what the graph baked in."""

    binding: str
    field: str
    old: str
    new: str


class LostGraph(msgspec.Struct, frozen=True, kw_only=True):
    """Why a graph died, at which step, and every field that differed, the one to blame first."""

    step: int
    cause: str
    changes: list[FieldChange]


class GraphSlotInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One graph slot in full."""

    name: str
    installed: bool
    captures: int
    replays: int
    invalidations: int
    graphs: int
    """Captured segments: launches of a replay."""
    nodes: int
    """Nodes of the model inside them."""
    quarantined: list[str]
    """Operators whose recording failed."""
    signature: list[SignatureRow]
    """Of the installed graph; of the last lost one where none is installed."""
    lost: list[LostGraph]
    """Oldest first."""


class PreconditionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a whole capture needs; ``met`` is None while it is not known."""

    title: str
    met: bool | None
    detail: str
    remedy: str


class SlotChangeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a memory slot: reserve, replace, release, refuse, or ``count`` reuses (number 0)."""

    number: int
    kind: str
    component: str
    slot: str
    bytes: int
    before: int
    """What the slot held last; 0: nothing."""
    phase: str
    count: int = 1


class SlotsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about slots at one moment; all empty before a generation."""

    fields: list[str] = []
    """Names of the fields of a signature."""
    graphs: list[GraphSlotInfo] = []
    preconditions: list[PreconditionInfo] = []
    memory: list[SlotChangeInfo] = []
    groups: list[list[int]] = []
    """Steps of the program that the device made one launch; none where each node launches for itself."""
