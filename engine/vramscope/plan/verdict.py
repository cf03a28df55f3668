"""The verdict.

Does it fit, by how much, what is to blame, and the largest context and batch that would fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.plan.types import (
    Component,
    ComponentName,
    Figure,
    PhasePlan,
    Scenario,
    Verdict,
    VerdictKind,
)
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.plan.kv import Context


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest context and batch that fit; None where not asked or none fits."""

    context: int | None = None
    batch: int | None = None


def largest_fit(total: Callable[[int], int | None], low: int, high: int, available: int) -> int | None:
    """The largest ``n`` in [low, high] with ``total(n) ≤ available``; None when not even ``low`` fits.

    ``total`` grows with ``n`` and is nearly affine, so interpolation finds the edge in a few evaluations;
    bisection steps in between bound the worst case.
    """
    low_bytes = total(low)
    if low > high or low_bytes is None or low_bytes > available:
        return None
    high_bytes = total(high)
    if high_bytes is not None and high_bytes <= available:
        return high
    interpolate = True
    while high - low > 1:
        middle = (low + high) // 2
        if interpolate and high_bytes is not None and high_bytes > low_bytes:
            middle = low + (available - low_bytes) * (high - low) // (high_bytes - low_bytes)
            middle = min(max(middle, low + 1), high - 1)
        size = total(middle)
        narrowed = high - low
        if size is not None and size <= available:
            # The edge is often the very next integer: look there before narrowing from above.
            low, low_bytes = middle, size
            above = total(middle + 1) if middle + 1 < high else None
            if above is not None and above > available:
                return middle
        else:
            high, high_bytes = middle, size
        interpolate = (high - low) * 2 < narrowed or not interpolate
    return low


def judge(
    scenario: Scenario,
    context: Context | None,
    components: tuple[Component, ...],
    total: Figure,
    available: int | None,
    limits: Limits,
    phases: tuple[PhasePlan, ...],
    output_node: str = "",
) -> Verdict:
    """The verdict and its sentence; ``output_node`` gives the largest graph output."""
    blame = blame_of(components, phases, output_node)
    kind = _kind(total, available)
    headroom = available - total.known if available is not None and total.bytes is not None else None
    where = _where(scenario, context)
    return Verdict(
        kind=kind,
        needed=total,
        available=available,
        headroom=headroom,
        blame=blame,
        largest_context=limits.context,
        largest_batch=limits.batch,
        sentence=_sentence(
            kind, total, headroom, where, blame, _largest(limits, context, scenario.batch), phases
        ),
    )


def _kind(total: Figure, available: int | None) -> VerdictKind:
    if total.bytes is None:
        return VerdictKind.REFUSED
    if available is None:
        return VerdictKind.UNJUDGED
    return VerdictKind.FITS if total.bytes <= available else VerdictKind.SHORT


def blame_of(components: tuple[Component, ...], phases: tuple[PhasePlan, ...], output_node: str = "") -> str:
    """The largest component, or the node behind it.

    For activations the node at whose step the most bytes are alive, for scratch the one that asks for the
    most, for inputs and outputs the one that gives the largest output.
    """
    largest = max(components, key=lambda item: item.figure.known)
    if largest.name is ComponentName.ACTIVATIONS:
        return f"node {peak_node(max(phases, key=lambda phase: phase.arena.bytes))}"
    if largest.name is ComponentName.WORKSPACE:
        return f"node {_scratch_node(phases)}"
    if largest.name is ComponentName.BINDINGS and output_node:
        return f"node {output_node}"
    return f"the {largest.name.value}"


def _scratch_node(phases: tuple[PhasePlan, ...]) -> str:
    asked = [
        (size, phase.workspace.blame[key]) for phase in phases for key, size in phase.workspace.bytes.items()
    ]
    return max(asked)[1]


def peak_node(phase: PhasePlan) -> str:
    """The name of the node at which most arena bytes are alive."""
    for row in phase.nodes:
        if row.step == phase.arena.peak_step:
            return row.name or row.operator
    return ""


def _where(scenario: Scenario, context: Context | None) -> str:
    target = f" on {scenario.card}" if scenario.card and scenario.budget is None else ""
    if scenario.budget is not None:
        target = f" in {format_bytes(scenario.budget)}"
    length = f", context {context.tokens:,}" if context else ""
    return f"{target} at batch {scenario.batch}{length}"


def _sentence(
    kind: VerdictKind,
    total: Figure,
    headroom: int | None,
    where: str,
    blame: str,
    largest: str,
    phases: tuple[PhasePlan, ...],
) -> str:
    if kind is VerdictKind.REFUSED:
        return _refusal_sentence(phases)
    if kind is VerdictKind.UNJUDGED or headroom is None:
        return f"needs {format_bytes(total.known)}{where}; choose a card to judge it"
    if kind is VerdictKind.FITS:
        return f"fits with {format_bytes(headroom)} to spare{where}"
    return f"short by {format_bytes(-headroom)}{where}{largest}; {blame_words(blame)}"


def blame_words(blame: str) -> str:
    """That a verdict's ``blame`` is to blame, as a clause: a component or a node."""
    verb = "are" if blame.startswith("the ") and blame.endswith("s") else "is"
    return f"{blame} {verb} to blame"


def _largest(limits: Limits, context: Context | None, batch: int) -> str:
    """What would fit; a decoder's batch alone fits only at the context that was asked for."""
    if limits.context:
        return f"; the largest context that fits is {limits.context:,}"
    none = "; no context fits" if context else ""
    if none and (batch > 1 or limits.batch):
        none += " at this batch"
    if limits.batch:
        return f"{none}{',' if none else ';'} the largest batch that fits is {limits.batch:,}"
    return none


def _refusal_sentence(phases: tuple[PhasePlan, ...]) -> str:
    first = next(refusal for phase in phases for refusal in phase.refusals)
    where = f"{first.place} of {first.node}" if first.node else "an input of the graph"
    axis = f"axis {first.axis}" if first.axis >= 0 else "the rank"
    symbol = f" ({first.symbol})" if first.symbol else ""
    ceiling = "has no ceiling" if first.symbol else "cannot be"
    which = f"{axis}{symbol} of {first.value}, {where}"
    return f"cannot be planned: {which}, {ceiling}: {first.reason}. {first.remedy}"
