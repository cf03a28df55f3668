"""Slots as rows: preconditions, signature, lost graphs, verification, memory slots; and the capture dock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF
from PySide6.QtTest import QAbstractItemModelTester

from vramscope.messages.live import Empty
from vramscope.messages.running import (
    CaptureInfo,
    CountParams,
    DeclineInfo,
    SeamSpan,
    SegmentInfo,
    VerifyInfo,
    VerifyStep,
)
from vramscope.messages.slots import (
    FieldChange,
    GraphSlotInfo,
    LostGraph,
    PreconditionInfo,
    SignatureRow,
    SlotChangeInfo,
    SlotsInfo,
)
from vramscope_app.rows.segments import kinds, stretches
from vramscope_app.rows.slots import (
    changed_columns,
    lost_rows,
    memory_rows,
    memory_words,
    precondition_rows,
    precondition_words,
    signature_rows,
    signature_words,
    slot_rows,
    verify_rows,
)

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script

FIELDS = ["input_name", "dtype", "physical_shape", "binds_input"]


def signature(*names: str) -> list[SignatureRow]:
    return [SignatureRow(binding=name, values=[name, "FLOAT", "(1, 32)", "True"]) for name in names]


def lost(*bindings: str) -> LostGraph:
    changes = [FieldChange(binding=name, field="physical_shape", old="16", new="32") for name in bindings]
    return LostGraph(step=16, cause="the cache grew", changes=changes)


def graph(*, installed: bool = True, losses: tuple[LostGraph, ...] = ()) -> GraphSlotInfo:
    return GraphSlotInfo(
        name="Primary",
        installed=installed,
        captures=2,
        replays=16,
        invalidations=len(losses),
        graphs=1,
        nodes=42,
        quarantined=["ai.onnx::Relu"],
        signature=signature("ids", "past.key"),
        lost=list(losses),
    )


def slots(graph_slot: GraphSlotInfo, *memory: SlotChangeInfo) -> SlotsInfo:
    needs = [
        PreconditionInfo(title="met", met=True, detail="", remedy="never told"),
        PreconditionInfo(title="open", met=None, detail="later", remedy=""),
        PreconditionInfo(title="broken", met=False, detail="node a", remedy="mend it"),
    ]
    return SlotsInfo(fields=FIELDS, graphs=[graph_slot], preconditions=needs, memory=list(memory))


def change(number: int, kind: str, size: int = 64, before: int = 0, count: int = 1) -> SlotChangeInfo:
    return SlotChangeInfo(
        number=number,
        kind=kind,
        component="workspace",
        slot="step",
        bytes=size,
        before=before,
        phase="decode",
        count=count,
    )


def test_what_is_not_met_stands_first_and_says_what_to_do() -> None:
    rows = precondition_rows(slots(graph()).preconditions)
    assert [row.cells[0].text for row in rows] == ["✗", "?", "✓"]
    assert rows[0].cells[2].text == "node a – mend it"
    assert rows[2].cells[2].text == ""
    assert precondition_words(slots(graph()).preconditions) == "1 of 3 preconditions met"


def test_a_field_that_ended_the_graph_says_old_and_new_and_its_binding_comes_first() -> None:
    dead = graph(installed=False, losses=(lost("past.key"),))
    first, second = signature_rows(slots(dead), dead)
    assert first.cells[0].text == "past.key"
    assert first.cells[2].text == "✗ 16 → 32"
    assert (first.cells[0].icon, first.cells[2].tone) == ("warning", "bad")
    assert second.cells[2].text == "(1, 32)"
    assert changed_columns(dead) == [2]
    assert "died" in signature_words(dead)
    again = graph(losses=(lost("past.key"),))
    assert signature_rows(slots(again), again)[0].cells[2].tone == "warning"
    assert "the one before died at step 16" in signature_words(again)
    assert changed_columns(graph()) == []


def test_lost_graphs_name_the_first_difference_and_count_the_rest() -> None:
    loss, reset = lost("a", "b", "c"), LostGraph(step=3, cause="the session was reset", changes=[])
    newest, oldest = lost_rows([graph(losses=(loss, reset))])
    assert [cell.text for cell in newest.cells] == [
        "Primary", "3", "", "", "", "", "", "the session was reset",
    ]  # fmt: skip
    assert [cell.text for cell in oldest.cells[2:7]] == ["a", "physical_shape", "16", "32", "2 more"]


def test_a_slot_shows_live_counts_and_dashes_for_what_was_not_asked(messages: ModuleType) -> None:
    live = messages.snapshot().slots
    (row,) = slot_rows(live, [graph()])
    assert [cell.text for cell in row.cells[:8]] == [
        "Primary", "ready", "1", "42", "2", "16", "0", "ai.onnx::Relu",
    ]  # fmt: skip
    (row,) = slot_rows(live, [])
    assert [cell.text for cell in row.cells[3:5]] == ["–", "–"]


def test_memory_slots_are_told_newest_first_and_reuses_last() -> None:
    changes = [change(1, "reserve"), change(0, "reuse", 0, count=7), change(2, "replace", 128, 64)]
    rows = memory_rows(changes)
    assert [row.cells[1].text for row in rows] == ["replace", "reserve", "reuse ×7"]
    assert [cell.text for cell in rows[0].cells[4:6]] == ["128 B", "64 B"]
    assert "reuse 7" in memory_words(changes)
    assert "refuse 0" in memory_words(changes)


def verify_info(messages: ModuleType, *, equal: bool) -> VerifyInfo:
    steps = [
        VerifyStep(
            replayed=7, eager=7 if equal or place < 2 else 8, replayed_text=" a", eager_text="",
            equal=equal or place < 2, logit_difference=0.0 if equal else 0.25,
        )
        for place in range(3)
    ]  # fmt: skip
    return VerifyInfo(
        equal=equal,
        steps=3,
        first_difference=None if equal else 2,
        largest_logit_difference=0.0 if equal else 0.25,
        run=messages.run(),
        compared=steps,
    )


def test_a_verification_is_shown_token_by_token(messages: ModuleType) -> None:
    rows = verify_rows(verify_info(messages, equal=False))
    assert [row.cells[0].text for row in rows] == ["✓", "✓", "✗"]
    assert [cell.text for cell in rows[2].cells[2:]] == ["7", "8", "' a'", "–", "0.25"]
    assert verify_rows(None) == []


def cut(messages: ModuleType) -> CaptureInfo:
    reasons = ("KernelNotWarmed", "KernelNotWarmed", "UnresolvedOutputShape")
    declines = [
        DeclineInfo(node=f"n{place}", operator="Op", seam=seam, reason="why", remedy="", step=place)
        for place, seam in enumerate(reasons)
    ]
    spans = [
        SeamSpan(start=2, end=4, reason="KernelNotWarmed"),
        SeamSpan(start=4, end=5, reason="UnresolvedOutputShape"),
    ]
    segments = [
        SegmentInfo(start=0, end=2, captured=True),
        SegmentInfo(start=2, end=5, captured=False, seams=spans),
        SegmentInfo(start=5, end=10, captured=True),
    ]
    return CaptureInfo(
        captured=True, segments=segments, declines=declines, nodes_captured=7, nodes_total=10,
        run=messages.run(),
    )  # fmt: skip


def test_the_strip_names_each_kind_of_seam_and_its_first_node(messages: ModuleType) -> None:
    parts = stretches(cut(messages))
    assert [(part.start, part.end, part.node) for part in parts] == [
        (0, 2, ""), (2, 4, "n0"), (4, 5, "n2"), (5, 10, ""),
    ]  # fmt: skip
    assert kinds(parts) == [("captured", 7), ("UnresolvedOutputShape", 1), ("KernelNotWarmed", 2)]
    assert parts[2].words == "step 4 (1 node): output shape depends on data · n2"


def test_the_capture_dock_follows_capture_verify_and_loss(script: Script, messages: ModuleType) -> None:
    script.open()
    script.plan()
    panel = script.window.capture_panel
    testers = [QAbstractItemModelTester(table.model) for table in (panel.needs, panel.signature, panel.lost)]
    script.answer("capture", Empty(), cut(messages))
    assert panel.pages.tabText(panel.pages.currentIndex()) == "Declines (3)"
    panel.strip.resize(100, 18)
    stretch = panel.strip.stretch_at(QPointF(45, 5))
    assert stretch is not None
    assert stretch.node == "n2"
    assert panel.strip.stretch_at(QPointF(45, 50)) is None
    script.answer("verify", CountParams(count=3), verify_info(messages, equal=False))
    assert panel.pages.tabText(panel.pages.currentIndex()) == "Verify ✗"
    assert "step 2" in panel.verify_words.text()
    dead = slots(graph(installed=False, losses=(lost("past.key"),)), change(1, "reserve"))
    script.answer("slots", Empty(), dead)
    assert panel.signature.model.index(0, 2).data() == "✗ 16 → 32"
    assert panel.pages.tabText(2) == "Lost graphs (1)"
    assert script.window.counters.slots.model.rowCount() == 1
    script.open()
    assert panel.signature.model.rowCount() == 0
    assert panel.pages.tabText(4) == "Verify"
    assert testers
