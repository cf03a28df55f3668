"""The scenario bar: card, batch, context with a slider, prompt; every edit is one signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QCompleter,
    QHBoxLayout,
    QLabel,
    QSlider,
    QSpinBox,
    QWidget,
)

from vramscope.messages.planning import ScenarioInfo
from vramscope_app.rows.scenario import (
    LARGEST_COUNT,
    NO_CARD,
    SLIDER_STEPS,
    card_label,
    choose_card,
    chosen_card,
    context_limit,
    context_to_slider,
    slider_to_context,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.model import CardInfo, ModelInfo


class ScenarioBar(QWidget):
    """Edits a scenario; it shows what it is given and signals what the user wants."""

    wanted = Signal(object)
    """The edited :class:`ScenarioInfo`."""

    def __init__(self) -> None:
        super().__init__()
        self._scenario = ScenarioInfo()
        self._cards: Sequence[CardInfo] = ()
        self._limit = context_limit(None)
        self.card = QComboBox()
        self.batch, self.context, self.prompt = QSpinBox(), QSpinBox(), QSpinBox()
        self.growing, self.bucket = QCheckBox("&Grow KV from"), QSpinBox()
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self._build()
        self.card.activated.connect(self._card_chosen)
        line = self.card.lineEdit()
        if line is not None:
            line.editingFinished.connect(self._card_typed)
        self.batch.valueChanged.connect(self._counts_edited)
        self.context.valueChanged.connect(self._counts_edited)
        self.prompt.valueChanged.connect(self._counts_edited)
        self.bucket.valueChanged.connect(self._counts_edited)
        self.growing.toggled.connect(self._growth_toggled)
        self.slider.valueChanged.connect(self._slid)

    def _build(self) -> None:
        layout = QHBoxLayout(self)
        layout.setContentsMargins(4, 1, 4, 1)
        layout.setSpacing(6)
        self._build_card()
        self._add(layout, "&Card", self.card, 0)
        self._spin(layout, "&Batch", self.batch, "batch", "Sequences decoded together")
        self._spin(layout, "Conte&xt", self.context, "context", "Prompt and generated tokens together")
        self.context.setSpecialValueText("model's limit")
        self.context.setMinimum(0)
        self.context.setFixedWidth(self.context.fontMetrics().averageCharWidth() * 14 + 20)
        self.slider.setObjectName("context_slider")
        self.slider.setAccessibleName("Context")
        self.slider.setRange(0, SLIDER_STEPS)
        self.slider.setPageStep(SLIDER_STEPS // 10)
        self.slider.setMinimumWidth(160)
        layout.addWidget(self.slider, 1)
        self._spin(layout, "Prom&pt", self.prompt, "prompt", "Tokens of the prompt, prefilled in one pass")
        self._build_growth(layout)

    def _build_growth(self, layout: QHBoxLayout) -> None:
        self.growing.setObjectName("growing")
        self.growing.setToolTip(
            "Start with a small KV cache and double it when it is full, instead of all the context at once;\n"
            "a captured graph dies whenever the cache moves"
        )
        self.growing.setAccessibleName("Grow the KV cache")
        layout.addSpacing(6)
        layout.addWidget(self.growing)
        self._dress_spin(self.bucket, "bucket", "Tokens of the first and smallest KV cache")
        self.bucket.setAccessibleName("Smallest KV cache")
        layout.addWidget(self.bucket)

    def _build_card(self) -> None:
        card = self.card
        card.setObjectName("card")
        card.setEditable(True)
        card.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        card.setMinimumWidth(card.fontMetrics().averageCharWidth() * 36)
        card.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        card.setMaxVisibleItems(24)
        card.setToolTip("Type to search the catalogue, or type an amount such as 6 GiB")
        card.addItem(NO_CARD)
        completer = card.completer()
        if completer is not None:
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)

    def _spin(self, layout: QHBoxLayout, title: str, spin: QSpinBox, name: str, tip: str) -> None:
        self._dress_spin(spin, name, tip)
        self._add(layout, title, spin, 0)

    def _dress_spin(self, spin: QSpinBox, name: str, tip: str) -> None:
        spin.setObjectName(name)
        spin.setRange(1, LARGEST_COUNT)
        spin.setGroupSeparatorShown(True)
        spin.setKeyboardTracking(False)
        spin.setToolTip(tip)
        spin.setFixedWidth(spin.fontMetrics().averageCharWidth() * 11 + 20)

    def _add(self, layout: QHBoxLayout, title: str, widget: QWidget, stretch: int) -> None:
        label = QLabel(title)
        label.setBuddy(widget)
        label.setProperty("role", "muted")
        if layout.count():
            layout.addSpacing(6)
        layout.addWidget(label)
        layout.addWidget(widget, stretch)
        widget.setAccessibleName(title.replace("&", ""))

    def set_cards(self, cards: Sequence[CardInfo]) -> None:
        """The catalogue."""
        self._cards = cards
        with QSignalBlocker(self.card):
            self.card.clear()
            self.card.addItems([NO_CARD, *map(card_label, cards)])
        self.set_scenario(self._scenario)

    def set_model(self, model: ModelInfo | None) -> None:
        """Limits and what makes sense for a model: one that is no decoder has no context."""
        self._limit = context_limit(model)
        decoder = model is not None and model.contract is not None
        for widget in (self.context, self.slider, self.prompt, self.growing):
            widget.setEnabled(decoder)
        self.set_scenario(self._scenario)

    def set_scenario(self, scenario: ScenarioInfo) -> None:
        """Shows a scenario without signalling it back."""
        self._scenario = scenario
        values = (
            (self.batch, scenario.batch),
            (self.context, scenario.context),
            (self.prompt, scenario.prompt),
            (self.bucket, scenario.bucket_minimum),
        )
        for spin, value in values:
            with QSignalBlocker(spin):
                spin.setValue(value)
        place = context_to_slider(scenario.context, self._limit)
        if slider_to_context(self.slider.value(), self._limit) != scenario.context:
            with QSignalBlocker(self.slider):
                self.slider.setValue(place)
        with QSignalBlocker(self.growing):
            self.growing.setChecked(scenario.bucket_growing)
        self.bucket.setEnabled(scenario.bucket_growing and self.growing.isEnabled())
        with QSignalBlocker(self.card):
            self.card.setEditText(chosen_card(scenario, self._cards))

    def _counts_edited(self, _value: int) -> None:
        self._want(
            msgspec.structs.replace(
                self._scenario,
                batch=self.batch.value(),
                context=self.context.value(),
                prompt=self.prompt.value(),
                bucket_minimum=self.bucket.value(),
            )
        )

    def _growth_toggled(self, growing: bool) -> None:
        self._want(msgspec.structs.replace(self._scenario, bucket_growing=growing))

    def _slid(self, place: int) -> None:
        self._want(msgspec.structs.replace(self._scenario, context=slider_to_context(place, self._limit)))

    def _card_chosen(self, place: int) -> None:
        self._take_card(self.card.itemText(place))

    def _card_typed(self) -> None:
        self._take_card(self.card.currentText())

    def _take_card(self, text: str) -> None:
        chosen = choose_card(self._scenario, text, self._cards)
        self._want(self._scenario if chosen is None else chosen)

    def _want(self, scenario: ScenarioInfo) -> None:
        changed = scenario != self._scenario
        self.set_scenario(scenario)
        if changed:
            self.wanted.emit(scenario)
