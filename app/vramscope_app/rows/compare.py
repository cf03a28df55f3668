"""Rows of the comparison: components, layers or nodes, each with both sides, the difference and its bar."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope_app.rows.cells import Cell, Heading, Row, figure_cell
from vramscope_app.rows.nodes import EMPTY_TABLE, NodeTable
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vramscope.messages.planning import BytesFigure
    from vramscope.messages.reporting import CompareInfo, DifferenceInfo, SideInfo

HEADINGS = (
    Heading("What", 36, "A component, a layer or a node; the one that differs most comes first"),
    Heading("Phase", 8),
    Heading("A", 16, "The baseline", right=True),
    Heading("B", 16, "What is shown now", right=True),
    Heading("B − A", 13, "What B takes more (+) or less (−); the bar is its part of the largest", right=True),
    Heading("of A", 9, right=True),
    Heading("Shapes", 26, "Output shapes; both where they differ"),
)
PARTS = (marked("components"), marked("layers"), marked("nodes"))
"""What can be compared, coarse to fine."""
SHOWN = 2000
"""Nodes in the table; ``vramscope compare --json`` has them all."""
ABSENT, UNKNOWN = -2, -1
"""In the node table: the side lacks the node; nobody knows its bytes."""
NODE_PARTS = ("weight_bytes", "output_bytes", "workspace_bytes")
EMPTY = marked(
    "Keep this plan as the baseline (Ctrl+B), then change the scenario or open another model or report: "
    "what differs is shown here. Or compare with a model or a report that is not open, or with the run."
)


@dataclass(frozen=True, slots=True)
class Compared:
    """A baseline and the newest comparison with it, or a comparison with the run."""

    baseline: SideInfo | None = None
    run: bool = False
    found: CompareInfo | None = None
    nodes: NodeTable = EMPTY_TABLE


def words(compared: Compared) -> str:
    """What is compared and how the totals differ, in two lines; what to do where nothing is compared."""
    found = compared.found
    if found is None and compared.baseline is not None:
        return tr(
            "A is {side}. Change the scenario, or open another model, to see B.",
            side=side_text(compared.baseline),
        )
    if found is None:
        return tr(EMPTY)
    return f"{total_text(found)}\n{sides_text(found.left, found.right)}"


def tip(compared: Compared) -> str:
    """Both sides in full, and how many nodes they share."""
    found = compared.found
    if found is None:
        return ""
    lines = [f"A: {side_text(found.left)}", f"B: {side_text(found.right)}"]
    return "\n".join([*lines, matched_text(found)] if compared.nodes.rows else lines)


def side_text(side: SideInfo) -> str:
    """One side in a line."""
    kind = tr(" (run)") if side.kind == "run" else ""
    return f"{side.name}{kind} · {', '.join(side.asked)}"


def sides_text(left: SideInfo, right: SideInfo) -> str:
    """Both sides by what is not the same of them."""
    sides = []
    for letter, side, other in (("A", left, right), ("B", right, left)):
        own = [word for word in side.asked if word not in other.asked]
        name = [side.name] if left.name != right.name else []
        kind = [tr("its run")] if side.kind == "run" else [tr("the plan")] if other.kind == "run" else []
        sides.append(f"{letter}  {', '.join([*name, *kind, *own])}".rstrip())
    text = "   ·   ".join(sides)
    return f"{left.name}: {text}" if left.name == right.name and (left.asked != right.asked) else text


def total_text(found: CompareInfo) -> str:
    """The difference of the totals as a sentence."""
    difference = found.total.difference
    if difference is None:
        return tr("A total is unknown, and so is the difference")
    if difference == 0:
        return tr("B takes as much as A, to the byte")
    size, share = short_bytes(abs(difference)), percent_text(difference, found.total.left)
    more, less = tr("B takes {size} more than A", size=size), tr("B takes {size} less than A", size=size)
    return f"{more if difference > 0 else less}{f' ({share})' if share else ''}"


def matched_text(found: CompareInfo) -> str:
    """How many nodes stand on both sides."""
    alone = tr(
        "{only_left:,} only in A, {only_right:,} only in B",
        only_left=found.only_left,
        only_right=found.only_right,
    )
    return tr(
        "{nodes} on both sides, {changed:,} of them differ; {alone}",
        nodes=tr("{n:,} node(s)", n=found.matched),
        changed=found.changed,
        alone=alone,
    )


def percent_text(difference: int | None, whole: BytesFigure | None) -> str:
    """A difference as a part of A; ``×12`` from tenfold on, empty where A has nothing."""
    size = whole.bytes if whole is not None else None
    if not difference or not size:
        return ""
    if difference >= 10 * size:
        return f"×{(size + difference) / size:,.0f}"
    return f"{100 * difference / size:+.1f} %".replace("-", "−")


def rows_of(compared: Compared, part: str) -> list[Row]:
    """The rows of one part; the total stands above the components."""
    found = compared.found
    if found is None:
        return []
    if part == "nodes":
        return _node_rows(compared.nodes)
    items = [found.total, *found.components] if part == "components" else found.layers
    most = max((abs(item.difference or 0) for item in items), default=0)
    return [_row(item, most) for item in items]


def _row(item: DifferenceInfo, most: int) -> Row:
    cells = (
        Cell(tr(item.name), item.name),
        Cell(item.phase, tone="muted"),
        _side(item.left),
        _side(item.right),
        difference_cell(item.difference, most),
        Cell(percent_text(item.difference, item.left), right=True, tone="muted"),
        Cell(""),
    )
    return Row(f"{item.phase} {item.name}", cells)


def _side(figure: BytesFigure | None) -> Cell:
    if figure is None:
        return Cell("–", tr("not on this side"), "muted", right=True)
    return figure_cell(figure)


def difference_cell(difference: int | None, most: int) -> Cell:
    """More with ``+`` in the tone of a warning, less with ``−`` in that of what is good."""
    if difference is None:
        return Cell("–", tr("a side is unknown"), "muted", right=True)
    if difference == 0:
        return Cell("0", exact_bytes(0), "muted", right=True)
    sign, tone = ("+", "warning") if difference > 0 else ("−", "good")
    text = f"{sign}{short_bytes(abs(difference))}"
    return Cell(
        text, f"{sign}{exact_bytes(abs(difference))}", tone, right=True, share=difference / max(most, 1)
    )


def side_bytes(table: NodeTable, side: str) -> NDArray[np.int64]:
    """A side's weights, outputs and scratch of every node together; −2 without the node, −1 when unknown."""
    parts = [table.integers(f"{side}_{name}") for name in NODE_PARTS]
    total = sum(parts[1:], start=parts[0].copy())
    total[np.any([part == UNKNOWN for part in parts], axis=0)] = UNKNOWN
    total[parts[0] == ABSENT] = ABSENT
    return np.asarray(total, np.int64)


def _node_rows(table: NodeTable) -> list[Row]:
    """The first nodes: they come sorted by their difference."""
    left, right = side_bytes(table, "left"), side_bytes(table, "right")
    sizes = list(zip(left.tolist(), right.tolist(), strict=True))
    differences = [_difference(before, after) for before, after in sizes[:SHOWN]]
    most = max((abs(item or 0) for item in differences), default=0)
    return [_node_row(table, row, sizes[row], size, most) for row, size in enumerate(differences)]


def _difference(before: int, after: int) -> int | None:
    if UNKNOWN in (before, after):
        return None
    return max(after, 0) - max(before, 0)


def _node_row(table: NodeTable, row: int, sizes: tuple[int, int], difference: int | None, most: int) -> Row:
    name, phase = table.text("name", row), table.text("phase", row)
    shapes = _shapes(table, row)
    cells = (
        Cell(name, f"{name}\n{table.text('operator', row)}"),
        Cell(phase, tone="muted"),
        *(_node_side(size) for size in sizes),
        difference_cell(difference, most),
        Cell(_node_percent(difference, sizes[0]), right=True, tone="muted"),
        Cell(shapes, shapes, "muted"),
    )
    return Row(f"{phase} {name}", cells, name)


def _node_side(size: int) -> Cell:
    if size == ABSENT:
        return Cell("–", tr("not on this side"), "muted", right=True)
    return Cell(short_bytes(None if size == UNKNOWN else size), exact_bytes(max(size, 0)), right=True)


def _node_percent(difference: int | None, before: int) -> str:
    if not difference or before <= 0:
        return ""
    return f"{100 * difference / before:+.1f} %".replace("-", "−") if difference < 10 * before else "> ×10"


def _shapes(table: NodeTable, row: int) -> str:
    """The output shapes, both where they differ."""
    left, right = table.text("left_shapes", row), table.text("right_shapes", row)
    return f"{left} → {right}" if left and right and left != right else right or left


def shown_text(compared: Compared, part: str) -> str:
    """What the table leaves out; empty when it has everything."""
    hidden = compared.nodes.rows - SHOWN
    return (
        tr("the {shown:,} that differ most of {rows:,}", shown=SHOWN, rows=compared.nodes.rows)
        if part == "nodes" and hidden > 0
        else ""
    )
