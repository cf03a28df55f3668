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


class HeadroomColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One component's bytes at each context; −1 stands for unknown."""

    name: str
    bytes: list[int]


class HeadroomLine(msgspec.Struct, frozen=True, kw_only=True):
    """One batch's total bytes at each context (−1: unknown), and the largest context that fits, if any."""

    batch: int
    totals: list[int]
    largest_context: int | None


class HeadroomCurves(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: columns over ``contexts`` for the scenario's batch, lines with that batch's first."""

    scenario: ScenarioInfo
    contexts: list[int]
    components: list[HeadroomColumn]
    lines: list[HeadroomLine]
    available: int | None
    milliseconds: float
