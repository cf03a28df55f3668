"""The window fed with messages: what each state shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QAccessible, QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QSpinBox,
    QWidget,
)

from vramscope.messages.live import Empty, Progress
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams, ScenarioInfo
from vramscope.messages.running import CountParams, PrefillParams
from vramscope.protocol import ErrorInfo
from vramscope_app.client import Call, Death, Refusal, Reply
from vramscope_app.look import Look
from vramscope_app.panels.busy import busy_text
from vramscope_app.rows.columns import COLUMNS
from vramscope_app.state import Busy, Engine
from vramscope_app.theme import DARK, LIGHT

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script


@pytest.fixture
def opened(script: Script) -> Script:
    script.open()
    script.plan()
    return script


def refusal(method: str = "prefill", node: str = "") -> Refusal:
    error = ErrorInfo(code="Input", what="the prompt", why="it is empty", remedy="Type one", node=node)
    return Refusal(Call(1, method, PlanParams(scenario=ScenarioInfo()), 0.0), error)


def test_a_plan_fills_verdict_axes_problems_tree_and_bar(opened: Script) -> None:
    window = opened.window
    assert window.overview.verdict.accessibleName().startswith(
        "Fits with 4.00 GiB to spare on GeForce RTX 4060"
    )
    assert window.axes.table.model.rowCount() == 2
    assert window.problems.model.rowCount() == 2
    assert window.nodes.model.total == 6
    assert window.windowTitle() == "tiny — VRAMScope"
    assert "weights: 3,221,225,472 bytes (exact)" in window.overview.bar.accessibleDescription()
    assert window.nodes.phase.currentText() == "decode"


def test_a_newer_plan_of_the_same_nodes_resets_no_tree(opened: Script, qtbot: QtBot) -> None:
    model = opened.window.nodes.model
    with qtbot.assertNotEmitted(model.modelReset), qtbot.waitSignal(model.dataChanged):
        opened.plan(ticket=2, scale=2)


def test_tables_of_an_older_plan_are_dropped(opened: Script, messages: ModuleType) -> None:
    before = opened.controller.state.nodes
    opened.client.table.emit(messages.chunk("prefill", ticket=77, scale=9))
    opened.client.table.emit(messages.chunk("decode", ticket=77, scale=9))
    assert opened.controller.state.nodes is before


def test_an_answer_to_an_older_plan_request_is_dropped(opened: Script, messages: ModuleType) -> None:
    call = Call(99, "plan", PlanParams(scenario=ScenarioInfo()), 0.0)
    opened.client.answered.emit(Reply(call, messages.plan(ticket=9, context=1), 0.1))
    assert opened.controller.state.plan is not None
    assert opened.controller.state.plan.ticket == 1


def test_scenario_widgets_show_what_was_opened_and_edits_change_the_scenario(opened: Script) -> None:
    bar = opened.window.scenario
    assert (bar.context.value(), bar.card.currentText()) == (2048, "GeForce RTX 4060 · 8.00 GiB")
    bar.slider.setValue(0)
    assert opened.controller.state.scenario.context == 16
    bar.batch.setValue(4)
    bar.card.setEditText("6 GiB")
    line = bar.card.lineEdit()
    assert line is not None
    line.editingFinished.emit()
    scenario = opened.controller.state.scenario
    assert (scenario.batch, scenario.budget, scenario.card) == (4, 6 * 2**30, "")
    bar.card.setEditText("no such thing")
    line.editingFinished.emit()
    assert opened.controller.state.scenario.card == "no such thing", "the engine says what is near to it"
    assert bar.card.currentText() == "no such thing"


def test_a_maximum_is_declared_and_taken_back_in_the_axis_table(opened: Script) -> None:
    model = opened.window.axes.table.model
    cell = model.index(1, 2)
    assert model.setData(cell, "4,096")
    assert opened.controller.state.scenario.maxima == {"boxes": 4096}
    assert model.setData(cell, "nonsense")
    assert opened.controller.state.scenario.maxima == {"boxes": 4096}
    assert model.setData(cell, "")
    assert opened.controller.state.scenario.maxima == {}


def test_a_refused_axis_stands_first(script: Script) -> None:
    script.open()
    script.plan(refused=True)
    assert script.window.axes.table.model.index(0, 0).data() == "boxes"
    assert script.window.overview.verdict.property("tone") == "warning"


def test_a_suggestion_changes_the_scenario(opened: Script) -> None:
    window = opened.window
    (action,) = window.overview.suggestions.menu().actions()
    action.trigger()
    assert opened.controller.state.scenario.context == 1024


def test_a_problem_jumps_to_its_node_through_filter_and_scope(opened: Script, qtbot: QtBot) -> None:
    window = opened.window
    window.nodes.search.setText("Gather")
    qtbot.waitUntil(lambda: window.nodes.model.shown == 1)
    window.problems.view.activated.emit(window.problems.model.index(0, 1))
    current = window.nodes.view.currentIndex()
    assert window.nodes.table_name(current) == "/model/layers.1/mlp/MatMul"
    assert window.nodes.search.text() == ""


def test_what_is_open_and_chosen_survives_filter_sort_and_newer_plans(opened: Script, qtbot: QtBot) -> None:
    nodes = opened.window.nodes
    scope = nodes.model.index_of("/model/layers.0/attn/GQA").parent()
    nodes.view.collapse(scope)
    nodes.view.setCurrentIndex(nodes.model.index_of("/lm_head/MatMul"))
    nodes.search.setText("MatMul")
    qtbot.waitUntil(lambda: nodes.model.shown == 4)
    opened.plan(ticket=2, scale=2)
    assert nodes.view.isExpanded(nodes.model.index_of("/model/layers.0/attn/MatMul").parent())
    nodes.view.header().setSortIndicator(2, Qt.SortOrder.DescendingOrder)
    nodes.search.clear()
    qtbot.waitUntil(lambda: nodes.model.shown == 6)
    assert not nodes.view.isExpanded(nodes.model.index_of("/model/layers.0/attn/GQA").parent())
    assert nodes.view.isExpanded(nodes.model.index_of("/model/layers.0/mlp/MatMul").parent())
    assert nodes.table_name(nodes.view.currentIndex()) == "/lm_head/MatMul"


def test_events_tokens_and_snapshots_are_shown_within_a_refresh(
    opened: Script, qtbot: QtBot, messages: ModuleType
) -> None:
    window = opened.window
    opened.events(messages.event(1), messages.event(2))
    opened.client.token.emit(messages.token(0, text="Hello"))
    opened.client.token.emit(messages.token(1, text=" there", replayed=True))
    opened.client.snapshot.emit(messages.snapshot())
    qtbot.waitUntil(lambda: window.run_panel.output.toPlainText() == "Hello there")
    assert window.events.model.rowCount() == 2
    qtbot.waitUntil(lambda: window.counters.table.model.index(0, 0).data() == "weights")
    assert window.capture_panel.slots.model.index(0, 5).data() == "16"
    held = window.live.findChild(QWidget, "live_held")
    assert held is not None
    assert held.property("text") == "4.00 GiB"


def test_the_refresh_timer_rests_when_nothing_comes(
    opened: Script, qtbot: QtBot, messages: ModuleType
) -> None:
    opened.events(messages.event(1))
    assert opened.window.streams.refreshing
    qtbot.waitUntil(lambda: not opened.window.streams.refreshing, timeout=4000)


def test_plots_draw_over_time_and_per_step(opened: Script, messages: ModuleType) -> None:
    live = opened.window.live
    for step in range(6):
        opened.client.token.emit(messages.token(step, replayed=step > 2))
        opened.client.snapshot.emit(messages.snapshot(step + 1))
        opened.client.snapshot.emit(messages.snapshot(step + 1))
    live.refresh()
    assert live.shown_points() == (12, 12)
    live.by_step.setChecked(True)
    assert live.shown_points() == (6, 6)


def test_capture_declines_and_paths(opened: Script, messages: ModuleType) -> None:
    opened.answer("capture", Empty(), messages.capture(declined=True))
    window = opened.window
    assert window.capture_panel.declines.model.rowCount() == 1
    index = window.nodes.model.index_of("/model/layers.0/attn/GQA")
    path = index.siblingAtColumn([column.key for column in COLUMNS].index("path"))
    assert path.data() == "host seam · control flow"
    assert path.data(Qt.ItemDataRole.ToolTipRole) == (
        "host seam: control flow or sequence (HostControlFlowOrSequence)"
    )
    for query, shown in (("path:seam", 1), ("path:host", 1), ("path:device", 0), ("path:captured", 5)):
        window.nodes.search.setText(query)
        window.nodes._filter()
        assert window.nodes.model.shown == shown, query
    window.nodes.search.clear()
    window.nodes._filter()
    window.capture_panel.declines.view.activated.emit(window.capture_panel.declines.model.index(0, 0))
    assert window.nodes.table_name(window.nodes.view.currentIndex()) == "/model/layers.0/attn/GQA"


def test_a_failure_is_a_banner_until_it_is_dismissed(opened: Script) -> None:
    opened.client.failed.emit(refusal(node="/model/embed/Gather"))
    banner = opened.window.overview.failure
    assert banner.isVisible()
    assert banner.accessibleName() == "the prompt: it is empty (at node /model/embed/Gather)"
    assert opened.window.problems.model.rowCount() == 3
    opened.window.actions_by_id["dismiss"].trigger()
    assert not banner.isVisible()


def test_a_cancelled_request_is_no_failure(opened: Script) -> None:
    cancelled = refusal()
    error = ErrorInfo(code="Cancelled", what="prefill", why="it was cancelled")
    opened.client.failed.emit(Refusal(cancelled.call, error))
    assert not opened.window.overview.failure.isVisible()
    assert opened.controller.state.failures == ()


def test_a_dead_engine_keeps_the_last_state_and_says_what_ran(opened: Script, messages: ModuleType) -> None:
    opened.client.snapshot.emit(messages.snapshot())
    call = Call(5, "replay", CountParams(count=32), 0.0)
    opened.client.died.emit(Death("signal 9", (call,)))
    window = opened.window
    assert window.overview.death.isVisible()
    assert "replay × 32" in window.overview.death.accessibleName()
    assert window.nodes.model.total == 6
    assert window.controller.state.engine is Engine.DEAD
    assert not window.actions_by_id["prefill"].isEnabled()
    assert window.actions_by_id["restart"].isEnabled()


def test_progress_shows_stage_and_part(opened: Script) -> None:
    call = Call(3, "prefill", PrefillParams(scenario=ScenarioInfo()), 0.0)
    busy = Busy(call, "loading weights", 3, 10)
    assert busy_text(busy, 0.5) == "prefill: loading weights"
    assert busy_text(busy, 7.2) == "prefill: loading weights · 7 s"
    opened.client.progress.emit(Progress(request=12345, stage="nobody's", done=1, total=2))
    assert opened.controller.state.busy is None


def test_a_model_without_a_tokenizer_takes_token_ids(script: Script) -> None:
    script.open(decoder=False)
    assert script.window.run_panel.prompt.toPlainText() == "1 2 3 4"
    assert not script.window.run_panel.chat.isEnabled()


def test_another_model_opened_after_a_restart_brings_its_own_scenario(
    opened: Script, messages: ModuleType
) -> None:
    opened.window.scenario.batch.setValue(7)
    opened.client.died.emit(Death("signal 9", ()))
    opened.controller.open(OpenParams(path="/another"))
    opened.client.ready.emit(messages.hello())
    opened.answer("open", OpenParams(path="/another"), messages.model())
    assert opened.controller.state.scenario.batch == 1


def test_the_same_model_opened_after_a_restart_keeps_the_scenario(
    opened: Script, messages: ModuleType
) -> None:
    opened.window.scenario.batch.setValue(7)
    opened.client.died.emit(Death("signal 9", ()))
    opened.client.ready.emit(messages.hello())
    opened.answer("open", OpenParams(sample="tiny"), messages.model())
    assert opened.controller.state.scenario.batch == 7


def test_dropping_a_model_opens_it(script: Script, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path))])
    buttons, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    copy = Qt.DropAction.CopyAction
    enter = QDragEnterEvent(QPointF(5, 5).toPoint(), copy, data, buttons, none)
    script.window.dragEnterEvent(enter)
    assert enter.isAccepted()
    script.window.dropEvent(QDropEvent(QPointF(5, 5), copy, data, buttons, none))
    assert script.controller.state.source == OpenParams(path=str(tmp_path))


def test_both_themes_and_the_layout_can_be_switched(opened: Script) -> None:
    window = opened.window
    window.actions_by_id["theme"].trigger()
    assert window.look.theme is DARK
    window.actions_by_id["theme"].trigger()
    assert window.look.theme is LIGHT
    window.docks["live"].close()
    window.actions_by_id["panels"].trigger()
    assert window.docks["live"].isVisible()
    window.set_look(Look.of(DARK))


def test_recent_models_stand_in_the_menu(script: Script, messages: ModuleType) -> None:
    script.client.ready.emit(messages.hello())
    script.answer("open", OpenParams(path="/models/tiny"), messages.model())
    assert script.window.recent_menu.actions()[0].data() == "/models/tiny/model.onnx"
    script.window.recent_menu.actions()[-1].trigger()
    assert not script.window.recent_menu.isEnabled()


def test_everything_that_takes_input_has_an_accessible_name(opened: Script) -> None:
    kinds = (QAbstractButton, QComboBox, QLineEdit, QPlainTextEdit, QSlider, QSpinBox)
    nameless = []
    for kind in kinds:
        for widget in opened.window.findChildren(kind):
            own = not widget.objectName().startswith("qt_") and widget.parent() is not None
            inner = (
                isinstance(widget.parent(), QSpinBox | QComboBox)
                or widget.metaObject().className() in SKIPPED
            )
            if own and not inner and widget.isVisible():
                found = QAccessible.queryAccessibleInterface(widget)
                if not found.text(QAccessible.Text.Name):
                    nameless.append((widget.metaObject().className(), widget.objectName()))
    assert nameless == []


def test_keys_reach_their_commands(opened: Script, qtbot: QtBot) -> None:
    window = opened.window
    window.activateWindow()
    QTest.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: window.nodes.search.hasFocus())


SKIPPED = {"QDockWidgetTitleButton", "QToolBarExtension", "QLineEditIconButton"}
