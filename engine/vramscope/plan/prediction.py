"""A plan beside what a session held: bytes predicted and measured, component by component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.plan.types import ComponentName, Figure, Plan


@dataclass(frozen=True, slots=True)
class PredictionRow:
    """One component.

    Attributes:
        component: which part.
        predicted: the plan's figure.
        measured: the most bytes it held; None where nothing counts it.
    """

    component: ComponentName
    predicted: Figure
    measured: int | None

    @property
    def error(self) -> int | None:
        """Measured less predicted, in bytes: above 0 the plan promised too little; None: unknown."""
        if self.measured is None or self.predicted.bytes is None:
            return None
        return self.measured - self.predicted.bytes


def prediction(plan: Plan, peaks: Mapping[str, int]) -> tuple[PredictionRow, ...]:
    """Every component of ``plan`` beside its peak.

    Args:
        plan: what was planned.
        peaks: the most bytes that a ledger saw out at once, by component; what it lacks is unknown.
    """
    return tuple(
        PredictionRow(item.name, item.figure, peaks.get(item.name.value)) for item in plan.components
    )
