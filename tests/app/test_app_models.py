"""The item models keep Qt's rules, and stay quick with many rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtTest import QAbstractItemModelTester

from vramscope.messages.columns import TableChunk, integer_column, text_column
from vramscope_app.models.event_model import CAPACITY, SLACK, EventModel
from vramscope_app.models.node_model import NodeModel
from vramscope_app.models.rows_model import RowsModel
from vramscope_app.rows.axes import AXIS_HEADINGS, axis_rows
from vramscope_app.rows.cells import Cell, Heading, Row
from vramscope_app.rows.nodes import NodeTable, join_chunks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from PySide6.QtCore import QAbstractItemModel
    from pytestqt.qtbot import QtBot

    from vramscope_app.look import Look

FATAL = QAbstractItemModelTester.FailureReportingMode.Fatal


def synthetic(rows: int) -> NodeTable:
    scopes = [f"model/layers.{row // 60}/{'attn' if row % 2 else 'mlp'}" for row in range(rows)]
    columns = [
        text_column("name", [f"/{scope}/MatMul_{row}" for row, scope in enumerate(scopes)]),
        text_column("operator", ["MatMul"] * rows),
        text_column("scope", scopes),
        text_column("certainty", ["exact"] * rows),
        integer_column("weight_bytes", [row * 1024 for row in range(rows)]),
        integer_column("output_bytes", [4096] * rows),
    ]
    return join_chunks(
        [TableChunk(table="nodes:run", ticket=1, start=0, rows=rows, columns=columns, last=True)]
    )


def count_all(model: QAbstractItemModel, parent: QModelIndex | None = None) -> int:
    here = parent if parent is not None else QModelIndex()
    total = model.rowCount(here)
    return total + sum(count_all(model, model.index(row, 0, here)) for row in range(total))


def test_the_node_model_keeps_qts_rules_through_every_change(qtbot: QtBot, light: Look) -> None:
    model = NodeModel(light)
    tester = QAbstractItemModelTester(model, FATAL)
    model.set_table(synthetic(600))
    model.set_filter("layers.3 attn")
    model.sort(2, Qt.SortOrder.DescendingOrder)
    model.set_grouped(grouped=False)
    model.set_filter("")
    model.sort(-1)
    model.set_grouped(grouped=True)
    model.set_table(synthetic(30))
    assert model.shown == 30
    assert count_all(model) == 30 + 1 + 1 + 2
    tester.deleteLater()


def test_the_same_nodes_with_other_bytes_change_cells_and_reset_nothing(
    qtbot: QtBot, light: Look, messages: ModuleType
) -> None:
    model = NodeModel(light)
    model.set_table(join_chunks([messages.chunk("decode")]))
    index = model.index_of("/model/layers.0/mlp/MatMul")
    with qtbot.assertNotEmitted(model.modelReset), qtbot.waitSignal(model.dataChanged):
        model.set_table(join_chunks([messages.chunk("decode", scale=2)]))
    assert model.index(index.row(), 3, index.parent()).data() == "≤ 64.0 MiB"


def test_a_node_is_found_by_name_unless_the_filter_hides_it(
    qtbot: QtBot, light: Look, messages: ModuleType
) -> None:
    model = NodeModel(light)
    model.set_table(join_chunks([messages.chunk("decode")]))
    index = model.index_of("/model/layers.0/attn/GQA")
    assert index.data() == "GQA"
    assert index.parent().data() == "attn"
    assert not model.index_of("nobody").isValid()
    model.set_filter("Gather")
    assert not model.index_of("/model/layers.0/attn/GQA").isValid()


def row(key: str, text: str) -> Row:
    return Row(key, (Cell(text, edit=text), Cell("fixed")))


@pytest.fixture
def rows_model(qtbot: QtBot, light: Look) -> RowsModel:
    model = RowsModel((Heading("a", 5), Heading("b", 5)), light)
    QAbstractItemModelTester(model, FATAL, model)
    model.set_rows([row("x", "1"), row("y", "2")])
    return model


def test_a_changed_row_tells_only_itself(qtbot: QtBot, rows_model: RowsModel) -> None:
    with qtbot.assertNotEmitted(rows_model.modelReset), qtbot.waitSignal(rows_model.dataChanged) as changed:
        rows_model.set_rows([row("x", "1"), row("y", "3")])
    first, last = changed.args[0], changed.args[1]
    assert (first.row(), last.row()) == (1, 1)


def test_added_rows_are_inserted_and_others_reset(qtbot: QtBot, rows_model: RowsModel) -> None:
    with qtbot.assertNotEmitted(rows_model.modelReset), qtbot.waitSignal(rows_model.rowsInserted):
        rows_model.set_rows([row("x", "1"), row("y", "2"), row("z", "3")])
    with qtbot.waitSignal(rows_model.modelReset):
        rows_model.set_rows([row("z", "3")])
    with qtbot.waitSignal(rows_model.modelReset):
        rows_model.set_rows([])
    assert rows_model.rowCount() == 0


def test_editing_signals_and_changes_nothing_itself(qtbot: QtBot, rows_model: RowsModel) -> None:
    with qtbot.waitSignal(rows_model.edited) as edited:
        assert rows_model.setData(rows_model.index(1, 0), " 7 ")
    assert edited.args == ["y", "7"]
    assert rows_model.index(1, 0).data() == "2"
    assert not rows_model.setData(rows_model.index(1, 0), "2")
    assert not rows_model.flags(rows_model.index(0, 1)) & Qt.ItemFlag.ItemIsEditable


def test_the_axis_model_is_a_good_model(qtbot: QtBot, light: Look, messages: ModuleType) -> None:
    model = RowsModel(AXIS_HEADINGS, light)
    tester = QAbstractItemModelTester(model, FATAL)
    model.set_rows(axis_rows(messages.plan(refused=True)))
    assert model.index(0, 0).data(Qt.ItemDataRole.DecorationRole) is not None
    tester.deleteLater()


def test_events_are_bounded_and_filtered(qtbot: QtBot, light: Look, messages: ModuleType) -> None:
    model = EventModel(light)
    tester = QAbstractItemModelTester(model, FATAL)
    model.append([messages.event(1), messages.event(2, "decline")])
    assert model.rowCount() == 2
    model.set_kind("decline")
    assert model.rowCount() == 1
    model.append([messages.event(3), messages.event(4, "decline")])
    assert [model.index(place, 0).data() for place in range(2)] == ["2", "4"]
    model.set_kind("")
    assert model.rowCount() == 4
    tester.deleteLater()


def test_events_beyond_the_capacity_push_out_the_oldest(
    qtbot: QtBot, light: Look, messages: ModuleType
) -> None:
    model = EventModel(light)
    for start in range(0, CAPACITY + SLACK + 2000, 1000):
        model.append([messages.event(start + place) for place in range(1000)])
    assert CAPACITY <= model.rowCount() <= CAPACITY + SLACK
    assert model.index(model.rowCount() - 1, 7).data() is not None


def test_fifty_thousand_nodes_open_and_filter(
    qtbot: QtBot, light: Look, capsys: pytest.CaptureFixture[str]
) -> None:
    table = synthetic(50_000)
    model = NodeModel(light)
    works: dict[str, Callable[[], object]] = {
        "open": lambda: model.set_table(table),
        "filter": lambda: model.set_filter("layers.77"),
        "clear the filter": lambda: model.set_filter(""),
        "sort by weights": lambda: model.sort(2, Qt.SortOrder.DescendingOrder),
        "flat": lambda: model.set_grouped(grouped=False),
    }
    times = {}
    for name, work in works.items():
        started = time.perf_counter()
        work()
        times[name] = (time.perf_counter() - started) * 1000
    assert model.shown == 50_000
    assert model.index(0, 0).data().endswith("MatMul_49999")
    with capsys.disabled():
        print("\n50,000 nodes: " + ", ".join(f"{name} {took:.0f} ms" for name, took in times.items()))
