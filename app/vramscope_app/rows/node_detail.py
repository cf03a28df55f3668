"""The inspector as rows: a node's values with bounds and neighbours, and its scratch with its regions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vramscope_app.rows.cells import Cell, Heading, Row, bytes_cell
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import tr

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
        return tr("Choose a node in the tree to look into it")
    scratch = tr("no planned scratch")
    if node.workspace_bytes < 0:
        scratch = tr("scratch unknown: the shape of an input is refused")
    elif node.workspace_bytes:
        aligned = (
            tr("aligned to {workspace_alignment}", workspace_alignment=node.workspace_alignment)
            if node.workspace_alignment > 1
            else tr("unaligned")
        )
        formula = tr(" by {formula}", formula=node.formula) if node.formula else ""
        scratch = tr(
            "scratch {workspace_bytes}{formula}, {workspace_lifetime}, {aligned}",
            workspace_bytes=short_bytes(node.workspace_bytes),
            formula=formula,
            workspace_lifetime=node.workspace_lifetime,
            aligned=aligned,
        )
    what = tr(
        "{operator} (opset {opset}), step {step} of {phase}, kernel: {kernel}",
        operator=node.operator,
        opset=node.opset,
        step=node.step,
        phase=node.phase,
        kernel=node.kernel,
    )
    return f"{node.name} · {what} · {scratch}"


def detail_rows(node: NodeInfo | None) -> list[Row]:
    """Inputs with their makers, outputs with their readers, then the scratch's regions and attributes."""
    if node is None:
        return []
    rows = [
        *(row for value in node.inputs for row in _value_rows(tr("input"), value, tr("from"))),
        *(row for value in node.outputs for row in _value_rows(tr("output"), value, tr("to"))),
    ]
    for region in node.regions:
        place = Cell(tr("at {offset:,}", offset=region.offset), exact_bytes(region.offset))
        cells = (Cell(tr("scratch")), Cell(region.name, region.name), place, bytes_cell(region.size))
        rows.append(Row(f"scratch {region.name}", (*cells, Cell(""), Cell(""), Cell(""))))
    for text in node.attributes:
        told = (Cell(tr("attribute"), tone="muted"), Cell(text, text))
        rows.append(Row(f"attribute {text}", (*told, *(Cell("") for _ in range(5)))))
    return [replace(row, key=f"{place} {row.key}") for place, row in enumerate(rows)]


def _value_rows(role: str, value: ValueInfo, way: str) -> Iterator[Row]:
    because = "; ".join(value.bounds)
    refused = value.bytes < 0
    tone = "bad" if refused else ""
    cells = (
        Cell(tr("weight") if value.kind == "weight" else role),
        Cell(value.name, value.name),
        Cell(value.shape, value.shape, tone),
        bytes_cell(None if refused else value.bytes),
        Cell(because, "\n".join(value.bounds), "bad" if refused else "info"),
        Cell(value.dtype.lower()),
        Cell(value.symbolic, value.symbolic, "muted"),
    )
    full = "\n".join(
        [
            tr(
                "{name}: {symbolic} planned as {shape}",
                name=value.name,
                symbolic=value.symbolic,
                shape=value.shape,
            ),
            *value.bounds,
        ]
    )
    yield Row(f"{role} {value.name}", cells, detail=full if value.bounds else "")
    for name in value.nodes:
        neighbour = (Cell(f"  {way}", tone="muted"), Cell(name, name, "info", icon="jump"))
        yield Row(f"{way} {name}", (*neighbour, *(Cell("") for _ in range(5))), name)
