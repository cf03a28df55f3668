"""The inspector: rows of a node, what is unknown, and going to its neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.node import NodeInfo, NodeParams, RegionInfo, ValueInfo
from vramscope_app.rows.node_detail import detail_rows, node_heading

if TYPE_CHECKING:
    import pytest
    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script


def value(
    name: str, *, size: int = 256, bounds: tuple[str, ...] = (), nodes: tuple[str, ...] = ()
) -> ValueInfo:
    return ValueInfo(
        name=name,
        kind="activation",
        dtype="FLOAT",
        symbolic="batch×n",
        shape="1×≤64",
        bytes=size,
        bounds=list(bounds),
        nodes=list(nodes),
    )


NODE = NodeInfo(
    ticket=1,
    phase="decode",
    step=2,
    name="/model/layers.0/attn/GQA",
    operator="com.microsoft::GroupQueryAttention",
    opset=1,
    kernel="host",
    attributes=["num_heads = 4"],
    inputs=[value("q", bounds=("axis 1: n ≤ 64 (KvCapacity: KV bucket)",), nodes=("/model/embed/Gather",))],
    outputs=[value("o", size=-1, bounds=("axis 1: nothing bounds n",), nodes=("/lm_head/MatMul",))],
    workspace_bytes=2048,
    workspace_alignment=256,
    workspace_lifetime="step-scoped",
    formula="scores",
    regions=[RegionInfo(name="scores", offset=0, size=1024), RegionInfo(name="sums", offset=1024, size=1024)],
)


def test_values_neighbours_regions_and_attributes_are_rows() -> None:
    rows = detail_rows(NODE)
    texts = [[cell.text for cell in row.cells[:4]] for row in rows]
    assert texts == [
        ["input", "q", "1×≤64", "256 B"],
        ["  from", "/model/embed/Gather", "", ""],
        ["output", "o", "1×≤64", "unknown"],
        ["  to", "/lm_head/MatMul", "", ""],
        ["scratch", "scores", "at 0", "1.00 KiB"],
        ["scratch", "sums", "at 1,024", "1.00 KiB"],
        ["attribute", "num_heads = 4", "", ""],
    ]
    assert rows[0].cells[4].text == "axis 1: n ≤ 64 (KvCapacity: KV bucket)"
    assert rows[0].detail.endswith("axis 1: n ≤ 64 (KvCapacity: KV bucket)")
    assert {len(row.cells) for row in rows} == {7}
    assert detail_rows(None) == []


def test_the_heading_says_where_scratch_comes_from_or_that_it_is_unknown() -> None:
    assert "scratch 2.00 KiB by scores, step-scoped, aligned to 256" in node_heading(NODE)
    assert "unknown" in node_heading(msgspec.structs.replace(NODE, workspace_bytes=-1))
    assert "no planned scratch" in node_heading(msgspec.structs.replace(NODE, workspace_bytes=0))


def test_the_chosen_node_is_asked_for_and_its_neighbours_can_be_gone_to(
    script: Script, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    script.open()
    script.plan()
    sent: list[NodeParams] = []
    monkeypatch.setattr(
        script.client, "call", lambda method, params: sent.append(params) if method == "node" else None
    )
    window = script.window
    qtbot.waitUntil(lambda: not window.inspector.seen)
    window.jump("/model/layers.0/attn/GQA")
    assert sent == []
    window.docks["inspector"].raise_()
    qtbot.waitUntil(lambda: bool(sent))
    assert sent[-1] == NodeParams(phase="decode", step=2)
    script.answer("node", sent[-1], NODE)
    assert window.inspector.words.text().startswith("/model/layers.0/attn/GQA")
    window.inspector.table.view.activated.emit(window.inspector.table.model.index(3, 0))
    assert window.nodes.table_name(window.nodes.view.currentIndex()) == "/lm_head/MatMul"
    assert sent[-1] == NodeParams(phase="decode", step=5)
