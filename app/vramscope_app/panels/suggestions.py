"""Suggestions: what would make it fit as buttons, each with the bytes it saves; the rest in a menu."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLabel, QMenu, QPushButton, QToolButton, QVBoxLayout, QWidget

from vramscope_app.panels.flow import LINE_SPACING, FlowLayout
from vramscope_app.text import exact_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.planning import SuggestionInfo
    from vramscope_app.look import Look

BUTTONS, EXPORTS = 3, 2
"""Buttons for changes of the scenario, and for other exports."""


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
    short = item.headroom is not None and item.headroom < 0
    rest = tr(", still short by {headroom}", headroom=short_bytes(-(item.headroom or 0))) if short else ""
    return saving_text(item, rest)


def saving_text(item: SuggestionInfo, rest: str = "") -> str:
    """A suggestion and the bytes it saves; ``rest`` is what else is to say of it."""
    if not item.saves:
        return suggestion_title(item)
    return tr(
        "{title} · saves {saves}{rest}",
        title=suggestion_title(item),
        saves=short_bytes(item.saves),
        rest=rest,
    )


def suggestion_tip(item: SuggestionInfo) -> str:
    """What a click does, with every byte, and for another export how it is made."""
    export = "as_if" in item.change
    lines = [tr("Plan as if it were exported so") if export else tr("Apply this and plan again")]
    if item.saves:
        lines.append(tr("saves {saves}", saves=exact_bytes(item.saves)))
    if item.headroom is not None:
        word = tr("fits then, to spare:") if item.headroom >= 0 else tr("does not fit then, short by")
        lines.append(f"{word} {exact_bytes(abs(item.headroom))}")
    if item.how:
        lines.append(tr("How to export it so: {how}", how=item.how))
    return "\n".join(lines)


def first_choices(suggestions: Sequence[SuggestionInfo]) -> list[SuggestionInfo]:
    """The suggestions that are worth a button: the first that change the scenario of this file."""
    return [item for item in suggestions if item.change and "as_if" not in item.change][:BUTTONS]


def first_exports(suggestions: Sequence[SuggestionInfo]) -> list[SuggestionInfo]:
    """The other exports that are worth a button: those that are enough, or the first where none is."""
    exports = [item for item in suggestions if "as_if" in item.change]
    enough = [item for item in exports if item.headroom is not None and item.headroom >= 0]
    return (enough or exports)[:EXPORTS]


def exports_first(choices: Sequence[SuggestionInfo], exports: Sequence[SuggestionInfo]) -> bool:
    """Whether only other exports make it fit: they stand above changes after which it is still short."""
    return not _is_enough(choices) and _is_enough(exports)


def _is_enough(items: Sequence[SuggestionInfo]) -> bool:
    """Whether it fits after the first of them; the engine puts those first that are enough."""
    first = items[0].headroom if items else None
    return first is not None and first >= 0


def advice(exports: Sequence[SuggestionInfo]) -> str:
    """What stands in front of the exports' buttons: whether the first of them is enough."""
    return tr("It fits when exported anew:") if _is_enough(exports) else tr("Exported anew:")


class SuggestionMenu(QToolButton):
    """Every suggestion."""

    chosen = Signal(object)
    """The change of a suggestion, as a mapping."""

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._menu = QMenu(self)
        self.setObjectName("suggestions")
        self._menu.setToolTipsVisible(True)
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
            action.setToolTip(suggestion_tip(item))
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
        self.advice = QLabel()
        self.advice.setObjectName("suggestion_advice")
        self.advice.setProperty("role", "muted")
        self.advice.setToolTip(tr("Another export of the model: planned here, made by its exporter"))
        self.exports = [QPushButton() for _ in range(EXPORTS)]
        self._changes: dict[QPushButton, dict[str, int | str]] = {}
        self._lines: list[QWidget] = []
        self._lay_out()
        self.hide()

    def _lay_out(self) -> None:
        """Changes of the scenario in one line, other exports in the next."""
        lines = self._column = QVBoxLayout(self)
        lines.setContentsMargins(0, 0, 0, 0)
        lines.setSpacing(LINE_SPACING)
        parts = (("suggestion", self._label, self.buttons), ("export", self.advice, self.exports))
        for name, label, buttons in parts:
            line = QWidget()
            layout = FlowLayout(line)
            layout.addWidget(label)
            for place, button in enumerate(buttons):
                button.setObjectName(f"{name}_{place}")
                button.clicked.connect(self._clicked)
                layout.addWidget(button)
            lines.addWidget(line)
            self._lines.append(line)

    def set_suggestions(self, suggestions: Sequence[SuggestionInfo]) -> None:
        """Shows other suggestions; hides itself when there are none."""
        choices, exports = first_choices(suggestions), first_exports(suggestions)
        self._changes = {}
        self._fill(self.buttons, [(item, suggestion_text(item)) for item in choices])
        self._fill(self.exports, [(item, saving_text(item)) for item in exports])
        for line, items in zip(self._lines, (choices, exports), strict=True):
            line.setVisible(bool(items))
        self._put_first(exports=exports_first(choices, exports))
        self.advice.setText(advice(exports))
        self.setVisible(bool(choices or exports))

    def _put_first(self, *, exports: bool) -> None:
        """Puts the line of the exports above or below the other, for the eye and for the Tab key."""
        self._column.insertWidget(0, self._lines[exports])
        order = [*self.exports, *self.buttons] if exports else [*self.buttons, *self.exports]
        for before, after in pairwise(order):
            QWidget.setTabOrder(before, after)

    def _fill(self, buttons: Sequence[QPushButton], items: Sequence[tuple[SuggestionInfo, str]]) -> None:
        for button in buttons[len(items) :]:
            button.hide()
        for button, (item, text) in zip(buttons, items, strict=False):
            button.setText(text)
            button.setAccessibleName(text)
            button.setToolTip(suggestion_tip(item))
            button.show()
            self._changes[button] = dict(item.change)

    def _clicked(self) -> None:
        sender = self.sender()
        if isinstance(sender, QPushButton):
            self.chosen.emit(self._changes[sender])
