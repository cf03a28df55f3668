"""A plan as Markdown: the verdict, the components, what would help, for an issue or a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.report.text import (
    after_text,
    asked_words,
    assumed_words,
    difference_text,
    figure_text,
    percent_text,
    shown_components,
)
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import BytesFigure, PlanInfo
    from vramscope.messages.reporting import CompareInfo, DifferenceInfo

SHOWN = 8
"""Suggestions and layers that are told; the other reports have them all."""


def summary(model: ModelInfo, plan: PlanInfo) -> str:
    """The verdict with its components and suggestions."""
    verdict = plan.verdict
    asked = ", ".join([*asked_words(model, plan), *([plan.scenario.card] if plan.scenario.card else [])])
    rows = [
        (item.name, figure_text(item.figure), item.figure.certainty, item.detail)
        for item in shown_components(plan.components)
    ]
    rows.append(("**total**", f"**{figure_text(plan.total)}**", plan.total.certainty, ""))
    if verdict.available is not None:
        rows.append((plan.scenario.card or "budget", format_bytes(verdict.available), "available", ""))
    parts = [
        f"### {escape(model.name)}: {escape(verdict.kind)}",
        escape(f"{verdict.sentence[:1].upper()}{verdict.sentence[1:]}."),
        escape(f"Planned for {asked}."),
        *map(escape, assumed_words(plan)),
        table(("component", "bytes", "known as", "made of"), rows, numbers=(1,)),
    ]
    helping = [
        (item.title, format_bytes(item.saves) if item.saves else "–", after_text(item.headroom))
        for item in plan.suggestions[:SHOWN]
    ]
    if helping:
        parts.append(table(("what would help", "saves", "then"), helping, numbers=(1,)))
    return "\n\n".join(parts) + "\n"


def comparison(found: CompareInfo) -> str:
    """Two sides: what each is, components, and the layers that differ most."""
    left, right = found.left, found.right
    sides = [
        f"- **{letter}** {escape(side.name)} ({side.kind}): {escape(', '.join(side.asked))}"
        for letter, side in (("A", left), ("B", right))
    ]
    layers = [item for item in found.layers if item.difference != 0][:SHOWN]
    parts = [
        f"### {escape(left.name)} against {escape(right.name)}: {difference_text(found.total.difference)}",
        "\n".join(sides),
        table(("component", "A", "B", "B − A", ""), map(_difference, [*found.components, found.total]),
              numbers=(1, 2, 3, 4)),
    ]  # fmt: skip
    if layers:
        rows = [(f"{item.phase}: {item.name}", *_difference(item)[1:]) for item in layers]
        parts.append(table(("layer", "A", "B", "B − A", ""), rows, numbers=(1, 2, 3, 4)))
    return "\n\n".join(parts) + "\n"


def _difference(item: DifferenceInfo) -> tuple[str, ...]:
    whole = item.left.bytes if item.left is not None else None
    return (
        item.name,
        side_text(item.left),
        side_text(item.right),
        difference_text(item.difference),
        percent_text(item.difference, whole),
    )


def side_text(figure: BytesFigure | None) -> str:
    """One side's figure; a dash where the side lacks the thing."""
    return "–" if figure is None else figure_text(figure)


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: tuple[int, ...] = ()) -> str:
    """A table of texts; ``numbers`` are the columns set to the right."""
    rule = ["---:" if place in numbers else "---" for place in range(len(headings))]
    lines = [
        [cell_text(text) for text in headings],
        rule,
        *([cell_text(text) for text in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell_text(text: str) -> str:
    """A cell that breaks no table; what is bold stays bold."""
    flat = " ".join(text.split())
    bold = len(flat) > 4 and flat.startswith("**") and flat.endswith("**")
    return flat if bold else escape(flat)


def escape(text: str) -> str:
    """Text that Markdown takes for nothing else: names of nodes may hold anything."""
    flat = " ".join(text.split())
    for mark in "\\`*_[]<>|":
        flat = flat.replace(mark, f"\\{mark}")
    return flat
