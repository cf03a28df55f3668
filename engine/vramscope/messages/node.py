"""One node of the newest plan in full: its values, their bounds, its scratch, who feeds and who reads it."""

from __future__ import annotations

import msgspec


class NodeParams(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for a node of a phase by its step in the program."""

    phase: str
    step: int


class PlannedValue(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a phase; ``bytes`` −1 stands for unknown."""

    name: str
    kind: str
    """input, weight, activation or capture."""
    dtype: str
    symbolic: str
    """The shape as the model says it: ``batch×sequence×576``."""
    shape: str
    """The shape that was planned: ``1×≤64×576``."""
    bytes: int
    bounds: list[str] = []
    """Per bounded or refused axis where its ceiling comes from, or why there is none."""


class ValueInfo(PlannedValue, frozen=True, kw_only=True):
    """One input or output of a node."""

    nodes: list[str]
    """Of an input who makes it, of an output who reads it."""


class RegionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One named part of a node's scratch."""

    name: str
    offset: int
    size: int


class NodeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The answer; ``workspace_bytes`` −1 stands for unknown."""

    ticket: int
    phase: str
    step: int
    name: str
    operator: str
    opset: int
    kernel: str
    attributes: list[str]
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    workspace_bytes: int
    workspace_alignment: int
    workspace_lifetime: str
    formula: str
    regions: list[RegionInfo]
