"""How the next token is chosen: temperature, top-k, top-p and seed; greedy at temperature 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtWidgets import QAbstractSpinBox, QDoubleSpinBox, QGridLayout, QLabel, QSpinBox, QWidget

from vramscope.messages.running import SamplingInfo
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Sequence

LARGEST_SEED = 2**31 - 1
LEAST_WIDTH, ROOM = 64, 8
"""Of a number: a narrow window shows the beginning of a long one, but no letter's tail is cut."""


class SamplingRow(QWidget):
    """Four numbers side by side; the last three only matter where something is drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.temperature, self.top_p = QDoubleSpinBox(), QDoubleSpinBox()
        self.top_k, self.seed = QSpinBox(), QSpinBox()
        self._build()
        self.temperature.valueChanged.connect(self._enable)
        self._enable()

    def _build(self) -> None:
        _dress_real(self.temperature, (0.0, 10.0), 0.1)
        self.temperature.setSpecialValueText(tr("greedy"))
        _dress_real(self.top_p, (0.01, 1.0), 0.05)
        self.top_p.setValue(1.0)
        self.top_k.setRange(0, 10_000_000)
        self.top_k.setSpecialValueText(tr("all"))
        self.seed.setRange(0, LARGEST_SEED)
        layout = QGridLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setHorizontalSpacing(8)
        layout.setVerticalSpacing(1)
        for column, (title, spin, name, tip) in enumerate(self._columns()):
            label = QLabel(title)
            label.setBuddy(spin)
            label.setProperty("role", "muted")
            spin.setObjectName(name)
            spin.setAccessibleName(title.replace("&", ""))
            spin.setToolTip(tip)
            spin.setMinimumSize(LEAST_WIDTH, spin.fontMetrics().height() + ROOM)
            layout.addWidget(label, 0, column)
            layout.addWidget(spin, 1, column)
            layout.setColumnStretch(column, 1)

    def _columns(self) -> Sequence[tuple[str, QAbstractSpinBox, str, str]]:
        return (
            (
                tr("&Temperature"),
                self.temperature,
                "temperature",
                tr("How even the odds are. 0 is greedy: always the likeliest token"),
            ),
            (tr("Top-&k"), self.top_k, "top_k", tr("Draw from so many of the likeliest tokens")),
            (
                tr("Top-&p"),
                self.top_p,
                "top_p",
                tr("Draw from the likeliest tokens that together have these odds"),
            ),
            (tr("See&d"), self.seed, "seed", tr("The same seed draws the same tokens again")),
        )

    def _enable(self) -> None:
        for spin in (self.top_k, self.top_p, self.seed):
            spin.setEnabled(self.temperature.value() > 0)

    def sampling(self) -> SamplingInfo:
        """What is chosen; greedy leaves the other numbers out, for they change nothing."""
        if not self.temperature.value():
            return SamplingInfo()
        return SamplingInfo(
            temperature=round(self.temperature.value(), 2),
            top_k=self.top_k.value(),
            top_p=round(self.top_p.value(), 2),
            seed=self.seed.value(),
        )


def _dress_real(spin: QDoubleSpinBox, limits: tuple[float, float], step: float) -> None:
    spin.setRange(*limits)
    spin.setSingleStep(step)
    spin.setDecimals(2)
