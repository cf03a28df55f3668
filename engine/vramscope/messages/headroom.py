"""Headroom: components over a range of contexts, as columns."""

from __future__ import annotations

import msgspec

from vramscope.messages.planning import ScenarioInfo


class HeadroomParams(msgspec.Struct, frozen=True, kw_only=True):
    """Plans the open decoder over contexts: those given, or ``points`` spread up to the model's limit."""

    scenario: ScenarioInfo
    contexts: list[int] = []
    points: int = 17
    batches: list[int] = []
    """Batches whose totals are wanted beside the scenario's own."""
    cards: list[str] = []
    """Cards of the catalogue to compare with, beside the scenario's own."""


class HeadroomLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A card or a budget; ``own``: the scenario is judged against it."""

    name: str
    available: int
    own: bool = False


class HeadroomColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One component's bytes at each context; −1 stands for unknown."""

    name: str
    bytes: list[int]


class HeadroomLine(msgspec.Struct, frozen=True, kw_only=True):
    """One batch's total bytes at each context (−1: unknown), and per limit the largest context that fits."""

    batch: int
    totals: list[int]
    largest_contexts: list[int | None]


class HeadroomCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: columns over ``contexts`` for the scenario's batch, lines with that batch's first."""

    scenario: ScenarioInfo
    contexts: list[int]
    components: list[HeadroomColumn]
    lines: list[HeadroomLine]
    limits: list[HeadroomLimit]
    """The scenario's own first, where it has one."""
    milliseconds: float
