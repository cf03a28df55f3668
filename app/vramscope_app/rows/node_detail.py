"""The inspector as rows: a node's values with bounds and neighbours, and its scratch with its regions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope_app.rows.cells import Cell, Heading, Row, bytes_cell
from vramscope_app.text import exact_bytes, short_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.messages.node import NodeInfo, ValueInfo

DETAIL_HEADINGS = (
    Heading("", 8, "An input, an output, a neighbour or a part of the scratch"),
    Heading("Name", 30, "Double-click or press Enter on a neighbour to go there"),
    Heading("Planned shape", 18, "≤ before a bounded extent"),
    Heading("Bytes", 9, right=True),
    Heading("Because of", 22, "Where a bounded extent comes from; below the table in full"),
    Heading("Type", 7),
    Heading("Shape in the model", 34),
)


def node_heading(node: NodeInfo | None) -> str:
    """The node in a line or two."""
    if node is None:
        return "Choose a node in the tree to look into it"
    scratch = "no planned scratch"
    if node.workspace_bytes < 0:
        scratch = "scratch unknown: the shape of an input is refused"
    elif node.workspace_bytes:
        aligned = f"aligned to {node.workspace_alignment}" if node.workspace_alignment > 1 else "unaligned"
        formula = f" by {node.formula}" if node.formula else ""
        scratch = (
            f"scratch {short_bytes(node.workspace_bytes)}{formula}, {node.workspace_lifetime}, {aligned}"
        )
    what = f"{node.operator} (opset {node.opset}), step {node.step} of {node.phase}, kernel: {node.kernel}"
    return f"{node.name} · {what} · {scratch}"


def detail_rows(node: NodeInfo | None) -> list[Row]:
    """Inputs with their makers, outputs with their readers, then the scratch's regions and attributes."""
    if node is None:
        return []
    rows = [
        *(row for value in node.inputs for row in _value_rows("input", value, "from")),
        *(row for value in node.outputs for row in _value_rows("output", value, "to")),
    ]
    for region in node.regions:
        place = Cell(f"at {region.offset:,}", exact_bytes(region.offset))
        cells = (Cell("scratch"), Cell(region.name, region.name), place, bytes_cell(region.size))
        rows.append(Row(f"scratch {region.name}", (*cells, Cell(""), Cell(""), Cell(""))))
    for text in node.attributes:
        told = (Cell("attribute", tone="muted"), Cell(text, text))
        rows.append(Row(f"attribute {text}", (*told, *(Cell("") for _ in range(5)))))
    return [replace(row, key=f"{place} {row.key}") for place, row in enumerate(rows)]


def _value_rows(role: str, value: ValueInfo, way: str) -> Iterator[Row]:
    because = "; ".join(value.bounds)
    refused = value.bytes < 0
    tone = "bad" if refused else ""
    cells = (
        Cell("weight" if value.kind == "weight" else role),
        Cell(value.name, value.name),
        Cell(value.shape, value.shape, tone),
        bytes_cell(None if refused else value.bytes),
        Cell(because, "\n".join(value.bounds), "bad" if refused else "info"),
        Cell(value.dtype.lower()),
        Cell(value.symbolic, value.symbolic, "muted"),
    )
    full = "\n".join([f"{value.name}: {value.symbolic} planned as {value.shape}", *value.bounds])
    yield Row(f"{role} {value.name}", cells, detail=full if value.bounds else "")
    for name in value.nodes:
        neighbour = (Cell(f"  {way}", tone="muted"), Cell(name, name, "info", icon="jump"))
        yield Row(f"{way} {name}", (*neighbour, *(Cell("") for _ in range(5))), name)
