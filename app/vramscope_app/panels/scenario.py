"""The scenario bar: card, batch, context with a slider, prompt and its passes; every edit is one signal."""

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
    QSizePolicy,
    QSlider,
    QSpinBox,
    QWidget,
)

from vramscope.messages.planning import ScenarioInfo
from vramscope_app.panels.flow import FlowLayout, HeightKeeper
from vramscope_app.rows.scenario import (
    BATCHES,
    LARGEST_COUNT,
    NO_CARD,
    SLIDER_STEPS,
    batch_to_slider,
    card_label,
    choose_card,
    chosen_card,
    context_limit,
    context_to_slider,
    is_paged,
    slider_to_batch,
    slider_to_context,
    wished,
)
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.model import CardInfo, ModelInfo
    from vramscope_app.rows.devices import DeviceChoice

DEVICE_CHARACTERS = 6
SPIN_FRAME = 26
"""Of a number: arrows and what is around its text."""
CHUNK_STEP = 64
"""Tokens that an arrow adds to a pass."""


class ScenarioBar(QWidget):
    """Edits a scenario; it shows what it is given and signals what the user wants."""

    wanted = Signal(object)
    """The edited :class:`ScenarioInfo`."""

    def __init__(self) -> None:
        super().__init__()
        self._scenario = ScenarioInfo()
        self._cards: Sequence[CardInfo] = ()
        self._devices: Sequence[DeviceChoice] = ()
        self._limit = context_limit(None)
        self.card, self.device = QComboBox(), QComboBox()
        self.batch, self.context, self.prompt = QSpinBox(), QSpinBox(), QSpinBox()
        self.chunk = QSpinBox()
        self.growing, self.bucket = QCheckBox(tr("&Grow from")), QSpinBox()
        self.block_size, self.kv_blocks = QSpinBox(), QSpinBox()
        self.batch_slider, self.slider = QSlider(), QSlider()
        self._flow = FlowLayout(self, spacing=10)
        self._build()
        self._pool.hide()
        HeightKeeper(self)
        self._connect()
        self.set_scenario(self._scenario)

    def _connect(self) -> None:
        self.card.activated.connect(self._card_chosen)
        line = self.card.lineEdit()
        if line is not None:
            line.editingFinished.connect(self._card_typed)
        self.device.activated.connect(self._device_chosen)
        for spin in self._spins:
            spin.valueChanged.connect(self._counts_edited)
        self.growing.toggled.connect(self._growth_toggled)
        self.slider.valueChanged.connect(self._slid)
        self.batch_slider.valueChanged.connect(self._batch_slid)

    @property
    def _spins(self) -> tuple[QSpinBox, ...]:
        counts = (self.batch, self.context, self.prompt, self.chunk)
        return (*counts, self.bucket, self.block_size, self.kv_blocks)

    def _build(self) -> None:
        self._flow.setContentsMargins(4, 1, 4, 1)
        self._build_card()
        self._group(tr("&Card"), self.card)
        self.device.setObjectName("device")
        self.device.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.device.setMinimumContentsLength(DEVICE_CHARACTERS)
        self.device.setToolTip(tr("Whose kernels' scratch is planned, and what runs the model"))
        self._group(tr("&Device"), self.device)
        self._dress_spin(self.batch, "batch", tr("Sequences decoded together"), 7)
        self._dress_slider(self.batch_slider, "batch_slider", tr("Batch"), len(BATCHES) - 1, 56)
        self._group(tr("&Batch"), self.batch, self.batch_slider)
        self._dress_spin(self.context, "context", tr("Prompt and generated tokens together"), 13)
        self.context.setSpecialValueText(tr("model's limit"))
        self.context.setMinimum(0)
        self._dress_slider(self.slider, "context_slider", tr("Context"), SLIDER_STEPS, 80)
        self._group(tr("Conte&xt"), self.context, self.slider)
        self._dress_spin(self.prompt, "prompt", tr("Tokens of the prompt"), 9)
        self._build_chunk()
        self._group(tr("Prom&pt"), self.prompt, self.chunk)
        self._growth = self._build_growth()
        self._pool = self._build_pool()

    def _dress_slider(self, slider: QSlider, name: str, title: str, steps: int, width: int) -> None:
        slider.setOrientation(Qt.Orientation.Horizontal)
        slider.setObjectName(name)
        slider.setAccessibleName(title)
        slider.setRange(0, steps)
        slider.setPageStep(max(steps // 10, 1))
        slider.setMinimumWidth(width)

    def _build_chunk(self) -> None:
        tip = tr(
            "Tokens that one pass over the prompt takes at most: more passes, of few shapes,\n"
            "in a smaller arena than one pass over all of it"
        )
        self._dress_spin(self.chunk, "chunk", tip, 0)
        self.chunk.setMinimum(0)
        self.chunk.setSingleStep(CHUNK_STEP)
        self.chunk.setSpecialValueText(tr("in one pass"))
        self.chunk.setPrefix(tr("in passes of "))
        self.chunk.setAccessibleName(tr("Tokens of a pass over the prompt"))
        words = (self.chunk.specialValueText(), f"{self.chunk.prefix()}8,192")
        self.chunk.setFixedWidth(max(map(self.chunk.fontMetrics().horizontalAdvance, words)) + SPIN_FRAME)

    def _build_growth(self) -> QWidget:
        self.growing.setObjectName("growing")
        self.growing.setToolTip(
            tr(
                "Start with a small KV cache and double it when it is full, instead of all the context at "
                "once;\na captured graph dies whenever the cache moves"
            )
        )
        self.growing.setAccessibleName(tr("Grow the KV cache"))
        self._dress_spin(self.bucket, "bucket", tr("Tokens of the first and smallest KV cache"), 8)
        self.bucket.setAccessibleName(tr("Smallest KV cache"))
        return self._group("", self.growing, self.bucket)

    def _build_pool(self) -> QWidget:
        """Of a paged cache: it is reserved at once, and sequences grow by blocks inside it."""
        self._dress_spin(self.block_size, "block_size", tr("Tokens of one block of the KV cache"), 0)
        self._dress_spin(
            self.kv_blocks, "kv_blocks", tr("Blocks of the KV cache that all sequences share"), 0
        )
        for spin, words in (
            (self.block_size, tr("of the model's size")),
            (self.kv_blocks, tr("as many as needed")),
        ):
            spin.setMinimum(0)
            spin.setSpecialValueText(words)
            spin.setFixedWidth(spin.fontMetrics().horizontalAdvance(words) + SPIN_FRAME)
        self.block_size.setPrefix(tr("of "))
        box = self._group(tr("Blocks"), self.block_size, self.kv_blocks)
        self.block_size.setAccessibleName(tr("Tokens of a block"))
        self.kv_blocks.setAccessibleName(tr("Blocks of the KV cache"))
        return box

    def _build_card(self) -> None:
        card = self.card
        card.setObjectName("card")
        card.setEditable(True)
        card.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        card.setMinimumWidth(card.fontMetrics().averageCharWidth() * 24)
        card.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        card.setMaxVisibleItems(24)
        card.setToolTip(tr("Type to search the catalogue, or type an amount such as 6 GiB"))
        card.addItem(tr(NO_CARD))
        completer = card.completer()
        if completer is not None:
            completer.setFilterMode(Qt.MatchFlag.MatchContains)
            completer.setCompletionMode(QCompleter.CompletionMode.PopupCompletion)

    def _dress_spin(self, spin: QSpinBox, name: str, tip: str, digits: int) -> None:
        spin.setObjectName(name)
        spin.setRange(1, LARGEST_COUNT)
        spin.setGroupSeparatorShown(True)
        spin.setKeyboardTracking(False)
        spin.setToolTip(tip)
        spin.setFixedWidth(spin.fontMetrics().averageCharWidth() * digits + SPIN_FRAME)

    def _group(self, title: str, *widgets: QWidget) -> QWidget:
        """A label and what it names: they stay together where the bar goes on in another line."""
        box = QWidget()
        row = QHBoxLayout(box)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        if title:
            label = QLabel(title)
            label.setBuddy(widgets[0])
            label.setProperty("role", "muted")
            row.addWidget(label)
            widgets[0].setAccessibleName(title.replace("&", ""))
        for widget in widgets:
            row.addWidget(widget)
        grows = self.slider in widgets
        policy = QSizePolicy.Policy.Expanding if grows else QSizePolicy.Policy.Preferred
        box.setSizePolicy(policy, QSizePolicy.Policy.Preferred)
        self._flow.addWidget(box)
        return box

    def set_cards(self, cards: Sequence[CardInfo]) -> None:
        """The catalogue."""
        self._cards = cards
        with QSignalBlocker(self.card):
            self.card.clear()
            self.card.addItems([tr(NO_CARD), *map(card_label, cards)])
        self.set_scenario(self._scenario)

    def set_devices(self, devices: Sequence[DeviceChoice]) -> None:
        """What can be planned for, in the order of the list."""
        self._devices = devices
        with QSignalBlocker(self.device):
            self.device.clear()
            for place, choice in enumerate(devices):
                self.device.addItem(choice.label)
                self.device.setItemData(place, choice.tip, Qt.ItemDataRole.ToolTipRole)
        self.set_scenario(self._scenario)

    def set_model(self, model: ModelInfo | None) -> None:
        """Limits and what makes sense for a model: one that is no decoder has no context."""
        self._limit = context_limit(model)
        decoder = model is not None and model.contract is not None
        for widget in (self.context, self.slider, self.prompt, self.chunk, self.growing):
            widget.setEnabled(decoder)
        paged = is_paged(model)
        self._pool.setVisible(paged)
        self._growth.setVisible(not paged)
        self.set_scenario(self._scenario)

    def set_scenario(self, scenario: ScenarioInfo) -> None:
        """Shows a scenario without signalling it back."""
        self._scenario = scenario
        values = (
            (self.batch, scenario.batch),
            (self.context, scenario.context),
            (self.prompt, scenario.prompt),
            (self.chunk, scenario.prefill_chunk),
            (self.bucket, scenario.bucket_minimum),
            (self.block_size, scenario.block_size),
            (self.kv_blocks, scenario.kv_blocks),
        )
        for spin, value in values:
            with QSignalBlocker(spin):
                spin.setValue(value)
        place = context_to_slider(scenario.context, self._limit)
        if slider_to_context(self.slider.value(), self._limit) != scenario.context:
            with QSignalBlocker(self.slider):
                self.slider.setValue(place)
        if slider_to_batch(self.batch_slider.value()) != scenario.batch:
            with QSignalBlocker(self.batch_slider):
                self.batch_slider.setValue(batch_to_slider(scenario.batch))
        names = [choice.runtime for choice in self._devices]
        with QSignalBlocker(self.device):
            self.device.setCurrentIndex(names.index(scenario.runtime) if scenario.runtime in names else -1)
        with QSignalBlocker(self.growing):
            self.growing.setChecked(scenario.bucket_growing)
        self.bucket.setEnabled(scenario.bucket_growing and self.growing.isEnabled())
        with QSignalBlocker(self.card):
            self.card.setEditText(chosen_card(scenario, self._cards))
            line = self.card.lineEdit()
            if line is not None and not line.hasFocus():
                line.setCursorPosition(0)  # a long name shows its beginning

    def _counts_edited(self, _value: int) -> None:
        self._want(
            msgspec.structs.replace(
                self._scenario,
                batch=self.batch.value(),
                context=self.context.value(),
                prompt=self.prompt.value(),
                prefill_chunk=self.chunk.value(),
                bucket_minimum=self.bucket.value(),
                block_size=self.block_size.value(),
                kv_blocks=self.kv_blocks.value(),
            )
        )

    def _growth_toggled(self, growing: bool) -> None:
        self._want(msgspec.structs.replace(self._scenario, bucket_growing=growing))

    def _slid(self, place: int) -> None:
        self._want(wished(self._scenario, {"context": slider_to_context(place, self._limit)}))

    def _batch_slid(self, place: int) -> None:
        self._want(msgspec.structs.replace(self._scenario, batch=slider_to_batch(place)))

    def _device_chosen(self, place: int) -> None:
        self._want(msgspec.structs.replace(self._scenario, runtime=self._devices[place].runtime))

    def _card_chosen(self, place: int) -> None:
        self._take_card(self.card.itemText(place))

    def _card_typed(self) -> None:
        self._take_card(self.card.currentText())
        line = self.card.lineEdit()
        if line is not None:
            line.setCursorPosition(0)  # what was typed is done: its whole name shows its beginning

    def _take_card(self, text: str) -> None:
        self._want(choose_card(self._scenario, text, self._cards))

    def _want(self, scenario: ScenarioInfo) -> None:
        changed = scenario != self._scenario
        self.set_scenario(scenario)
        if changed:
            self.wanted.emit(scenario)
