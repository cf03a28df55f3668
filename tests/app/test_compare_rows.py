"""Rows and words of the comparison, and what it asks the engine for and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from PySide6.QtTest import QAbstractItemModelTester

from vramscope.messages.columns import TableChunk, integer_column, text_column
from vramscope.messages.planning import BytesFigure, PlanParams
from vramscope.messages.reporting import (
    BaselineParams,
    CompareInfo,
    CompareParams,
    DifferenceInfo,
    SideInfo,
)
from vramscope_app.rows import compare
from vramscope_app.rows.compare import Compared, rows_of, sides_text, words
from vramscope_app.rows.nodes import join_chunks
from vramscope_app.rows.report import is_report

if TYPE_CHECKING:
    from types import ModuleType

    import pytest
    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script

MIB = 2**20


def exact(size: int) -> BytesFigure:
    return BytesFigure(bytes=size, certainty="exact")


def side(name: str = "tiny", batch: int = 1, kind: str = "plan") -> SideInfo:
    return SideInfo(
        kind=kind,
        name=name,
        path="/m",
        asked=[f"batch {batch}", "context 64"],
        total=exact(10 * MIB),
        verdict="fits",
        identity="i",
    )


def found(ticket: int = 1, more: int | None = 4 * MIB) -> CompareInfo:
    total = DifferenceInfo(
        name="total",
        left=exact(8 * MIB),
        right=None if more is None else exact(8 * MIB + more),
        difference=more,
    )
    gone = DifferenceInfo(name="KV cache", left=exact(MIB), right=None, difference=-MIB)
    layer = DifferenceInfo(name="model/layers.0", left=None, right=exact(MIB), difference=MIB, phase="decode")
    return CompareInfo(
        ticket=ticket,
        left=side(),
        right=side(batch=4),
        total=total,
        components=[gone],
        layers=[layer],
        matched=2,
        changed=1,
        only_left=0,
        only_right=1,
    )


def chunk(ticket: int = 1) -> TableChunk:
    sizes = {"weight_bytes": ([1, 1, -2], [1, 1, 5]), "output_bytes": ([10, -1, -2], [30, 4, 6]),
             "workspace_bytes": ([0, 0, -2], [0, 0, 0])}  # fmt: skip
    numbers = [
        integer_column(f"{letter}_{name}", values)
        for name, pair in sizes.items()
        for letter, values in zip(("left", "right"), pair, strict=True)
    ]
    texts = {"phase": ["decode"] * 3, "name": ["a", "b", "c"], "operator": ["Add"] * 3,
             "left_shapes": ["1×2", "2", ""], "right_shapes": ["4×2", "2", "3"]}  # fmt: skip
    columns = [*(text_column(name, values) for name, values in texts.items()), *numbers]
    return TableChunk(table="compare:nodes", ticket=ticket, start=0, rows=3, columns=columns, last=True)


def test_components_tell_more_less_and_missing() -> None:
    total, gone = rows_of(Compared(found=found()), "components")
    assert [cell.text for cell in total.cells[:6]] == [
        "total",
        "",
        "8.00 MiB",
        "12.0 MiB",
        "+4.00 MiB",
        "+50.0 %",
    ]
    assert (total.cells[4].tone, total.cells[4].share) == ("warning", 1.0)
    assert [cell.text for cell in gone.cells[2:6]] == ["1.00 MiB", "–", "−1.00 MiB", "−100.0 %"]
    assert (gone.cells[4].tone, gone.cells[4].share) == ("good", -0.25)
    assert gone.cells[4].tip == "−1,048,576 bytes"


def test_nodes_tell_unknown_absent_and_changed_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(found=found(), nodes=join_chunks([chunk()]))
    changed, unknown, alone = rows_of(compared, "nodes")
    assert [cell.text for cell in changed.cells[2:6]] == ["11 B", "31 B", "+20 B", "+181.8 %"]
    assert changed.cells[6].text == "1×2 → 4×2"
    assert changed.node == "a"
    assert [cell.text for cell in unknown.cells[2:5]] == ["unknown", "5 B", "–"]
    assert [cell.text for cell in alone.cells[2:5]] == ["–", "11 B", "+11 B"]
    monkeypatch.setattr(compare, "SHOWN", 2)
    assert len(rows_of(compared, "nodes")) == 2
    assert compare.shown_text(compared, "nodes") == "the 2 that differ most of 3"
    assert compare.shown_text(compared, "layers") == ""


def test_words_say_what_is_compared() -> None:
    assert words(Compared()) == compare.EMPTY
    assert words(Compared(baseline=side())).startswith("A is tiny")
    said = words(Compared(found=found()))
    assert said == "B takes 4.00 MiB more than A (+50.0 %)\ntiny: A  batch 1   ·   B  batch 4"
    assert "unknown" in words(Compared(found=found(more=None)))
    assert "to the byte" in words(Compared(found=found(more=0)))
    assert sides_text(side(), side(kind="run")) == "A  the plan   ·   B  its run"
    assert sides_text(side(), side("other")) == "A  tiny   ·   B  other"


def test_what_is_a_report_by_its_name() -> None:
    assert is_report("/a/B.VRAMSCOPE.JSON")
    assert not is_report("/a/model.onnx")
    assert not is_report("")


def test_a_baseline_is_compared_with_every_newer_plan_while_somebody_looks(
    script: Script, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, messages: ModuleType
) -> None:
    sent: list[tuple[str, msgspec.Struct | None]] = []

    def call(method: str, params: msgspec.Struct | None = None) -> int:
        sent.append((method, params))
        return 0

    monkeypatch.setattr(script.client, "call", call)
    script.open()
    script.plan()
    window = script.window
    window.actions_by_id["keep_baseline"].trigger()
    assert sent[-1] == ("baseline", BaselineParams())
    script.answer("baseline", BaselineParams(), side())
    qtbot.waitUntil(lambda: sent[-1] == ("compare", CompareParams()))
    asked = len(sent)
    script.answer("compare", CompareParams(), found())
    script.client.table.emit(chunk())
    assert window.compare.table.model.rowCount() == 2
    assert window.compare.table.isVisible()
    tester = QAbstractItemModelTester(
        window.compare.table.model, QAbstractItemModelTester.FailureReportingMode.Fatal
    )
    for part in compare.PARTS:
        window.compare.part.setCurrentText(part)
    assert window.compare.table.model.rowCount() == 3
    assert tester.model() is window.compare.table.model
    script.plan(ticket=2)
    qtbot.waitUntil(lambda: [name for name, _ in sent[asked:]].count("compare") == 1)
    moving = msgspec.structs.replace(messages.plan(ticket=3), brief=True)
    script.answer("plan", PlanParams(scenario=moving.scenario), moving)
    qtbot.wait(150)
    assert [name for name, _ in sent[asked:]].count("compare") == 1
    script.plan(ticket=4)
    window.docks["headroom"].raise_()
    qtbot.wait(150)
    assert [name for name, _ in sent[asked:]].count("compare") <= 2
    assert not window.actions_by_id["compare_run"].isEnabled()
    script.client.snapshot.emit(messages.snapshot())
    assert window.actions_by_id["compare_run"].isEnabled()
    window.actions_by_id["compare_run"].trigger()
    qtbot.waitUntil(lambda: sent[-1] == ("compare", CompareParams(run=True)))
    window.actions_by_id["clear_baseline"].trigger()
    assert not window.compare.table.isVisible()
    assert window.compare.words.text() == compare.EMPTY
