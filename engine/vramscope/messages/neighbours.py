"""A node's neighbourhood: who feeds it and who reads it, up to some hops away."""

from __future__ import annotations

import msgspec


class NeighboursParams(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the nodes around one of a phase, given by its step in the program."""

    phase: str
    step: int
    hops: int = 2


class NeighbourInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One node; ``bytes`` of its outputs (−1: unknown); ``hops`` from the chosen one, negative before it."""

    step: int
    name: str
    operator: str
    kernel: str
    bytes: int
    hops: int


class LinkInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One value that goes from a step to another; ``shape`` as planned."""

    source: int
    target: int
    value: str
    shape: str


class NeighboursInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: nodes in program order, the chosen one among them, and every value between two of them."""

    ticket: int
    phase: str
    step: int
    hops: int
    nodes: list[NeighbourInfo]
    links: list[LinkInfo]
    left_out: int
    """Neighbours that were too many to draw."""
