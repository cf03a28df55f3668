"""Suggestions: what would make it fit as buttons, each with the bytes it saves; the rest in a menu."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QMenu, QPushButton, QToolButton, QWidget

from vramscope_app.panels.flow import FlowLayout
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.planning import SuggestionInfo
    from vramscope_app.look import Look

BUTTONS = 3


CHANGES = {
    "maxima": marked("Declare a maximum for {value}"),
    "context": marked("Lower the context to {value:,}"),
    "batch": marked("Lower the batch to {value:,}"),
}
"""What a suggestion is called by the one field of the scenario that it changes."""


def suggestion_title(item: SuggestionInfo) -> str:
    """What a suggestion would do."""
    field, value = next(iter(item.change.items()), ("", 0))
    return tr(CHANGES[field], value=value) if field in CHANGES else tr(item.title)


def suggestion_text(item: SuggestionInfo) -> str:
    """A suggestion in one line, with what is still missing after it; a declared maximum saves nothing."""
    if not item.saves:
        return suggestion_title(item)
    short = item.headroom is not None and item.headroom < 0
    rest = tr(", still short by {headroom}", headroom=short_bytes(-(item.headroom or 0))) if short else ""
    return tr(
        "{title} · saves {saves}{rest}",
        title=suggestion_title(item),
        saves=short_bytes(item.saves),
        rest=rest,
    )


def suggestion_tip(item: SuggestionInfo) -> str:
    """What a click does, with every byte."""
    lines = [tr("Apply this and plan again")]
    if item.saves:
        lines.append(tr("saves {saves}", saves=exact_bytes(item.saves)))
    if item.headroom is not None:
        word = tr("fits then, to spare:") if item.headroom >= 0 else tr("does not fit then, short by")
        lines.append(f"{word} {exact_bytes(abs(item.headroom))}")
    return "\n".join(lines)


def first_choices(suggestions: Sequence[SuggestionInfo]) -> list[SuggestionInfo]:
    """The suggestions that are worth a button: the first that one click can apply."""
    return [item for item in suggestions if item.change][:BUTTONS]


def only_cure(suggestions: Sequence[SuggestionInfo]) -> SuggestionInfo | None:
    """The first change of the model itself that makes it fit, where no click does."""
    fitting = [item for item in suggestions if (item.headroom or 0) >= 0 and item.saves]
    return next(iter(fitting), None) if not any(item.change for item in fitting) else None


class SuggestionMenu(QToolButton):
    """Every suggestion; those that change the model itself can only be read."""

    chosen = Signal(object)
    """The change of a suggestion, as a mapping."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._menu = QMenu(self)
        self.setObjectName("suggestions")
        self.setMenu(self._menu)
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(18, 18))
        self.setToolTip(tr("Changes that save memory"))
        self._menu.triggered.connect(self._triggered)
        self.set_look(look)

    def set_suggestions(self, suggestions: Sequence[SuggestionInfo]) -> None:
        """Shows other suggestions."""
        self._menu.clear()
        for item in suggestions:
            action = QAction(suggestion_text(item), self._menu)
            action.setData(dict(item.change))
            action.setEnabled(bool(item.change))
            self._menu.addAction(action)
        self.setText(tr("{n:,} suggestion(s)", n=len(suggestions)))
        self.setVisible(bool(suggestions))

    def _triggered(self, action: QAction) -> None:
        self.chosen.emit(action.data())

    def set_look(self, look: Look) -> None:
        """The icon in another theme."""
        self.setIcon(look.icons.get("suggest"))


class SuggestionRow(QWidget):
    """The first few as buttons, shown where something stands in the way."""

    chosen = Signal(object)
    """The change of a suggestion, as a mapping."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("suggestion_row")
        self._label = QLabel(tr("Try"))
        self._label.setProperty("role", "muted")
        self.buttons = [QPushButton() for _ in range(BUTTONS)]
        self._changes: list[dict[str, int | str]] = []
        layout = FlowLayout(self)
        layout.addWidget(self._label)
        for place, button in enumerate(self.buttons):
            button.setObjectName(f"suggestion_{place}")
            button.clicked.connect(self._clicked)
            layout.addWidget(button)
        self.advice = QLabel()
        self.advice.setObjectName("suggestion_advice")
        self.advice.setToolTip(tr("A click cannot do this: it is another export of the model"))
        layout.addWidget(self.advice)
        self.hide()

    def set_suggestions(self, suggestions: Sequence[SuggestionInfo]) -> None:
        """Shows other suggestions; hides itself when there are none."""
        first = first_choices(suggestions)
        self._changes = [dict(item.change) for item in first]
        for place, button in enumerate(self.buttons):
            button.setVisible(place < len(first))
            if place < len(first):
                text = suggestion_text(first[place])
                button.setText(text)
                button.setAccessibleName(text)
                button.setToolTip(suggestion_tip(first[place]))
        cure = only_cure(suggestions)
        self.advice.setVisible(cure is not None)
        if cure is not None:
            self.advice.setText(tr("It fits when exported anew: {change}", change=suggestion_text(cure)))
        self.setVisible(bool(first) or cure is not None)

    def _clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, QPushButton):
            self.chosen.emit(self._changes[self.buttons.index(sender)])
