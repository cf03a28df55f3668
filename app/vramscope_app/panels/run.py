"""The run panel: prompt, commands, streamed text, where the run stands and how fast it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSizePolicy,
    QSpinBox,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from vramscope_app.panels.banner import restyle
from vramscope_app.panels.gauge import Gauge
from vramscope_app.panels.sampling import SamplingRow
from vramscope_app.panels.steady import SteadyLabel
from vramscope_app.panels.table import TablePanel
from vramscope_app.rows.run import blocks_words, position_words, rates_text, run_summary, state_chip
from vramscope_app.rows.tables import OUTPUT_HEADINGS, output_rows
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PySide6.QtGui import QAction

    from vramscope.messages.live import TokenInfo
    from vramscope.messages.model import ModelInfo
    from vramscope_app.look import Look
    from vramscope_app.state import AppState

BUTTONS = (("step", "steps", "capture"), ("replay", "verify", "reset"))
CHAT_TIP = marked("Wrap the prompt in the model's chat template")
NO_CHAT_TIP = marked("The model's folder has no chat template")
PLAIN_WORDS = marked("This model is no decoder: it runs once, on seeded random inputs of the planned shapes.")
EMPTY_OUTPUT = marked("Generated text appears here")
STATE_CHARACTERS = 14
RATES_CHARACTERS = 48
KEPT_PIECES = 20_000
"""Pieces of generated text that are coloured anew when the theme changes."""


class RunPanel(QWidget):
    """A page for decoders and one for models that are none."""

    def __init__(self, actions: Mapping[str, QAction], look: Look) -> None:
        super().__init__()
        self._look = look
        self._pending: list[TokenInfo] = []
        self._written: list[tuple[bool, str]] = []
        self.prompt, self.output = QPlainTextEdit(), QPlainTextEdit()
        self.chat = QCheckBox(tr("C&hat template"))
        self.count = QSpinBox()
        self.sampling = SamplingRow()
        self.outputs = TablePanel("outputs", tr("Outputs"), OUTPUT_HEADINGS, look)
        self._state_room = SteadyLabel("run_state", STATE_CHARACTERS)
        self._rates_room = SteadyLabel("run_rates", RATES_CHARACTERS)
        self._state, self._rates, self._summary = self._state_room.label, self._rates_room.label, QLabel()
        self._position, self._plain_words = Gauge(look), QLabel(tr(PLAIN_WORDS))
        self._pages = QStackedWidget()
        self._pages.addWidget(self._decoder_page(actions))
        self._pages.addWidget(self._plain_page(actions))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._pages)

    def _decoder_page(self, actions: Mapping[str, QAction]) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(6, 4, 6, 4)
        layout.setSpacing(6)
        self._dress_texts()
        layout.addWidget(self.prompt)
        layout.addWidget(self.sampling)
        layout.addLayout(self._prefill_row(actions))
        layout.addLayout(self._button_grid(actions))
        layout.addLayout(self._state_row())
        layout.addWidget(self._rates_room)
        layout.addWidget(self.output, 1)
        layout.addWidget(self._summary)
        return page

    def _dress_texts(self) -> None:
        self.prompt.setObjectName("prompt_text")
        self.prompt.setAccessibleName(tr("Prompt"))
        self.prompt.setTabChangesFocus(True)
        self.prompt.setFixedHeight(self.prompt.fontMetrics().height() * 2 + 16)
        self.output.setObjectName("output_text")
        self.output.setAccessibleName(tr("Generated text"))
        self.output.setReadOnly(True)
        self.output.setPlaceholderText(tr(EMPTY_OUTPUT))
        self.output.setMaximumBlockCount(5000)
        # The panel scrolls once there is not even its least height, not when it lacks what it would like.
        self.output.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.outputs.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.output.setMinimumHeight(self.output.fontMetrics().height() * 2 + 16)
        self._summary.setProperty("role", "muted")
        self._summary.setWordWrap(True)
        self._summary.setObjectName("run_summary")

    def _prefill_row(self, actions: Mapping[str, QAction]) -> QHBoxLayout:
        row = QHBoxLayout()
        self.chat.setObjectName("chat")
        self.chat.setToolTip(tr(NO_CHAT_TIP))
        self.chat.setEnabled(False)
        row.addWidget(self.chat)
        row.addStretch(1)
        label = QLabel("N")
        label.setBuddy(self.count)
        label.setProperty("role", "muted")
        self.count.setObjectName("count")
        self.count.setRange(1, 100_000)
        self.count.setValue(32)
        self.count.setToolTip(tr("How many steps Steps ×N, Replay ×N and Verify ×N make"))
        self.count.setAccessibleName(tr("Number of steps"))
        row.addWidget(label)
        row.addWidget(self.count)
        row.addWidget(_button(actions["prefill"]))
        return row

    def _button_grid(self, actions: Mapping[str, QAction]) -> QGridLayout:
        grid = QGridLayout()
        grid.setSpacing(4)
        for line, names in enumerate(BUTTONS):
            for place, name in enumerate(names):
                grid.addWidget(_button(actions[name]), line, place)
        return grid

    def _state_row(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(8)
        self._position.setObjectName("run_position")
        self._position.setAccessibleName(tr("Position in the KV cache"))
        row.addWidget(self._state_room)
        row.addWidget(self._position, 1)
        return row

    def _plain_page(self, actions: Mapping[str, QAction]) -> QWidget:
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(6, 4, 6, 4)
        self._plain_words.setWordWrap(True)
        self._plain_words.setProperty("role", "muted")
        layout.addWidget(self._plain_words)
        layout.addWidget(_button(actions["run_model"]))
        layout.addWidget(self.outputs, 1)
        return page

    def set_model(self, model: ModelInfo | None) -> None:
        """The page and the first prompt for a model."""
        plain = model is not None and model.contract is None
        self._pages.setCurrentIndex(1 if plain else 0)
        if model is None:
            return
        hint = (
            tr("Prompt")
            if model.has_tokenizer
            else tr("Token ids separated by spaces: this model has no tokenizer")
        )
        self.prompt.setPlaceholderText(hint)
        self.prompt.setPlainText(model.default_prompt or ("" if model.has_tokenizer else "1 2 3 4"))
        self.chat.setEnabled(model.has_chat_template)
        self.chat.setToolTip(tr(CHAT_TIP if model.has_chat_template else NO_CHAT_TIP))

    def set_state(self, state: AppState) -> None:
        """Where the run stands."""
        self._tell_obstacle(state.obstacle)
        text, tone = state_chip(state)
        self._state.setText(text)
        if self._state.property("tone") != tone:
            self._state.setProperty("tone", tone)
            restyle(self._state)
        position, capacity = max(state.run.position, state.live.position), state.run.capacity
        words = position_words(position, capacity, state.live.blocks)
        self._position.show_part(position / capacity if capacity else 0.0, words)
        self._position.setToolTip(blocks_words(state.live.blocks))
        self._rates.setText(rates_text(state))
        self._summary.setText(run_summary(state))
        self._summary.setVisible(bool(self._summary.text()))
        self.outputs.set_rows(output_rows(state.outputs))

    def _tell_obstacle(self, why: str) -> None:
        """Why the buttons are grey, where the results would stand."""
        if self.output.placeholderText() != (why or tr(EMPTY_OUTPUT)):
            self.output.setPlaceholderText(why or tr(EMPTY_OUTPUT))
            self._plain_words.setText(why or tr(PLAIN_WORDS))

    def clear(self) -> None:
        """A generation begins."""
        self._pending, self._written = [], []
        self.output.clear()

    def add_token(self, token: TokenInfo) -> None:
        """Takes a token; written at the next refresh."""
        self._pending.append(token)

    def refresh(self) -> None:
        """Writes the tokens that came in: eager ones plain, replayed ones in the accent colour."""
        if not self._pending:
            return
        tokens, self._pending = self._pending, []
        self._write(_joined(tokens))

    def _write(self, pieces: list[tuple[bool, str]]) -> None:
        """Appends pieces of text, each replayed or not, and stays at the end when it was there."""
        self._written = (self._written + pieces)[-KEPT_PIECES:]
        cursor = QTextCursor(self.output.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        bar = self.output.verticalScrollBar()
        follow = bar.value() >= bar.maximum() - 4
        for replayed, text in pieces:
            cursor.insertText(text, self._format(replayed=replayed))
        if follow:
            bar.setValue(bar.maximum())

    def _format(self, *, replayed: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        made.setForeground(QColor(self._look.theme.replayed if replayed else self._look.theme.text))
        if replayed:
            made.setFontUnderline(True)
            made.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
        return made

    def set_look(self, look: Look) -> None:
        """Draws in another theme; text that is already there is coloured anew."""
        self._look = look
        self.outputs.set_look(look)
        self._position.set_look(look)
        written, self._written = self._written, []
        self.output.clear()
        self._write(written)


def _joined(tokens: list[TokenInfo]) -> list[tuple[bool, str]]:
    """Texts of neighbouring tokens of one kind put together; tokens without a text show their ids."""
    joined: list[tuple[bool, str]] = []
    for token in tokens:
        text = token.text if token.text or not token.tokens else f"{token.tokens[0]} "
        if joined and joined[-1][0] == token.replayed:
            joined[-1] = (token.replayed, joined[-1][1] + text)
        else:
            joined.append((token.replayed, text))
    return joined


def _button(action: QAction) -> QToolButton:
    button = QToolButton()
    button.setDefaultAction(action)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
    button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
    button.setObjectName(f"button_{action.objectName()}")
    button.setAccessibleName(action.text())
    return button
