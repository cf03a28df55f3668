"""Our bytes for graph viewers: an attachment for Netron, node data for Model Explorer.

Netron takes a ``.json`` file with the signature ``netron:attachment`` that is dropped on the open model; its
``metrics`` are shown in the sidebar of the node with that name. Model Explorer takes node data: one number a
node, found by the node's id, which is its name in the ONNX adapter, and colours the nodes by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from vramscope.report.entries import entries
from vramscope.report.text import asked_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.report.document import PlanDocument

SIGNATURE = "netron:attachment"

METRICS = (
    ("weights, bytes", "weight_bytes"),
    ("outputs, bytes", "output_bytes"),
    ("workspace, bytes", "workspace_bytes"),
    ("arena alive, bytes", "live_bytes"),
    ("alive at the peak, bytes", "peak_bytes"),
)
"""What a node's numbers are called, and the column they are in."""

GRADIENT = [
    {"stop": 0, "bgColor": "#f7fbff", "textColor": "#08306b"},
    {"stop": 0.5, "bgColor": "#6baed6", "textColor": "#08306b"},
    {"stop": 1, "bgColor": "#08306b", "textColor": "#ffffff"},
]
"""From the fewest bytes to the most: one hue from light to dark, readable without telling colours apart."""


def netron_text(document: PlanDocument) -> str:
    """Every known number of every node, by phase, and the verdict of the model."""
    metrics = [item for phase in document.nodes for item in _metrics(document, phase)]
    asked = ", ".join(asked_words(document.model, document.plan))
    said = {"verdict": document.plan.verdict.sentence, "planned for": asked}
    total = document.plan.total.bytes
    if total is not None:
        metrics.append(_item("model", "", "total, bytes", total))
    return _json(
        {
            "signature": SIGNATURE,
            "metadata": [_item("model", "", name, value) for name, value in said.items()],
            "metrics": metrics,
        }
    )


def _metrics(document: PlanDocument, phase: str) -> Iterator[dict[str, Any]]:
    """What is unknown is left out: it is not 0."""
    for row in entries(document, phase):
        for name, column in METRICS:
            size = getattr(row, column)
            if size is not None:
                yield _item("node", row.name, f"{phase}: {name}", size)


def _item(kind: str, target: str, name: str, value: int | str) -> dict[str, Any]:
    return {"kind": kind, "target": target, "name": name, "value": value}


def explorer_text(document: PlanDocument) -> str:
    """A node's weights, outputs and scratch together, in the phase where they are the most."""
    most: dict[str, int] = {}
    for phase in document.nodes:
        for row in entries(document, phase):
            size = row.own_bytes
            if size is not None:
                most[row.name] = max(size, most.get(row.name, 0))
    results = {name: {"value": size} for name, size in most.items()}
    return _json({"results": results, "gradient": GRADIENT})


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content), indent=1).decode() + "\n"
