"""The top of the window: what is wrong, the verdict with its suggestions, and the components."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QVBoxLayout, QWidget

from vramscope_app.panels.assumed import AssumedLine
from vramscope_app.panels.banner import Banner, push_button
from vramscope_app.panels.bar import ComponentBar, Legend
from vramscope_app.panels.suggestions import SuggestionMenu, SuggestionRow
from vramscope_app.rows.bar import legend, measured_bar, plan_bar
from vramscope_app.rows.exports import assumptions
from vramscope_app.rows.report import report_message
from vramscope_app.rows.verdict import death_message, failure_message, lighter_source, verdict_message
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.planning import PlanInfo
    from vramscope_app.client import Refusal
    from vramscope_app.look import Look
    from vramscope_app.state import AppState

BLOCKED = frozenset({"does not fit", "cannot be planned"})
"""Verdicts that ask for a change."""


class Overview(QWidget):
    """Banners, bar and legend."""

    restart = Signal()
    open_model = Signal()
    """The model that a report was planned from is wanted."""
    dismiss = Signal()
    jump = Signal(str)
    plan_without_weights = Signal(object)
    """The model whose data files are missing, as ``OpenParams`` that let them be."""
    suggested = Signal(object)
    """The change of a suggestion, as a mapping."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._node = ""
        self._notice: Refusal | None = None
        self.death = Banner("death_banner", look)
        self.report = Banner("report_banner", look)
        self.failure = Banner("failure_banner", look)
        self.verdict = Banner("verdict_banner", look)
        self.bar, self.legend = ComponentBar(look), Legend(look)
        self.suggestions, self.remedies = SuggestionMenu(look), SuggestionRow()
        self.assumed = AssumedLine()
        self._restart = push_button(tr("Restart engine"), "restart_button", tr("Start the engine again"))
        self._show_node = push_button(tr("Show node"), "failure_jump", tr("Show the node in the tree"))
        self._without = push_button(
            tr("Plan without its weights"),
            "failure_without",
            tr("Types and shapes are enough to plan it; it cannot run"),
        )
        self._copy = push_button(
            tr("Copy details"), "failure_copy", tr("Copy the whole message, for a report or a colleague")
        )
        self._dismiss = push_button(tr("Dismiss"), "failure_dismiss", tr("Close this message"))
        self._open_model = push_button(
            tr("Open its model"), "report_open", tr("Open the model and plan it again")
        )
        self._build()

    def _build(self) -> None:
        self.report.add_button(self._open_model)
        self.death.add_button(self._restart)
        for button in (self._without, self._show_node, self._copy, self._dismiss):
            self.failure.add_button(button)
        self.verdict.add_button(self.suggestions)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (
            self.death,
            self.failure,
            self.report,
            self.verdict,
            self.assumed,
            self.remedies,
            self.bar,
            self.legend,
        ):
            layout.addWidget(widget)
        self.death.hide()
        self.failure.hide()
        self.report.hide()
        self._open_model.clicked.connect(self.open_model)
        self._restart.clicked.connect(self.restart)
        self._dismiss.clicked.connect(self.dismiss)
        self._show_node.clicked.connect(self._jump)
        self._without.clicked.connect(self._plan_without)
        self._copy.clicked.connect(self._copy_details)
        self.suggestions.chosen.connect(self.suggested)
        self.remedies.chosen.connect(self.suggested)

    def set_first(self, state: AppState) -> None:
        """Shows the first state, before anything changed."""
        self.verdict.show_message(verdict_message(state))
        self._show_suggestions(None)

    def set_state(self, old: AppState, new: AppState) -> None:
        """Touches only what differs between two states."""
        if new.death is not old.death:
            self.death.show_message(death_message(new))
            self.death.setVisible(new.death is not None)
        if new.notice is not old.notice:
            self._show_failure(new)
        if new.report != old.report:
            self.report.show_message(report_message(new))
            self.report.setVisible(bool(new.report))
            self.remedies.setEnabled(not new.report)
        if new.plan is not old.plan or new.model is not old.model:
            self.verdict.show_message(verdict_message(new))
        if new.plan is not old.plan or new.scenario != old.scenario:
            self.assumed.set_assumptions(assumptions(new))
        if new.plan is not old.plan:
            self._show_suggestions(new.plan)
        if new.plan is not old.plan or new.measured != old.measured:
            self.bar.set_bars(plan_bar(new.plan), measured_bar(new.measured, new.plan))
            self.legend.set_entries(legend(new.plan, new.measured))

    def _show_failure(self, state: AppState) -> None:
        self.failure.show_message(failure_message(state))
        self.failure.setVisible(state.notice is not None)
        self._notice = state.notice
        self._node = state.notice.error.node if state.notice is not None else ""
        self._show_node.setVisible(bool(self._node))
        self._without.setVisible(lighter_source(state.notice) is not None)

    def _show_suggestions(self, plan: PlanInfo | None) -> None:
        """All of them in the menu; the first as buttons where something stands in the way.

        While a slider moves nobody looks for new ones: the old ones stay in their places, greyed out.
        """
        brief = plan is not None and plan.brief
        self.suggestions.setEnabled(not brief)
        self.remedies.setEnabled(not brief)
        if brief:
            return
        found = plan.suggestions if plan is not None else []
        blocked = plan is not None and plan.verdict.kind in BLOCKED
        self.suggestions.set_suggestions(found)
        self.remedies.set_suggestions(found if blocked else [])

    def _plan_without(self) -> None:
        self.plan_without_weights.emit(lighter_source(self._notice))

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(self._notice.error.text() if self._notice is not None else "")

    def _jump(self) -> None:
        self.jump.emit(self._node)

    def set_look(self, look: Look) -> None:
        """Draws in another theme."""
        self._look = look
        for part in (
            self.suggestions,
            self.death,
            self.report,
            self.failure,
            self.verdict,
            self.bar,
            self.legend,
        ):
            part.set_look(look)
