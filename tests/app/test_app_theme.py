"""Both themes: contrast, palette, icons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PySide6.QtGui import QPalette

from vramscope_app import icons
from vramscope_app.commands import COMMANDS
from vramscope_app.rows.tables import PROBLEM_HEADINGS
from vramscope_app.rows.verdict import TONES
from vramscope_app.theme import (
    COMPONENT_COLOURS,
    MINIMUM_CONTRAST,
    THEMES,
    Theme,
    contrast,
    palette,
    style_sheet,
    text_pairs,
)

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from vramscope_app.look import Look


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_every_text_can_be_read_on_every_background(theme: Theme) -> None:
    weak = [pair for pair in text_pairs(theme) if pair[2] < MINIMUM_CONTRAST]
    assert weak == []
    assert len(text_pairs(theme)) > 30


def test_contrast_is_the_wcag_ratio() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_components_stand_out_from_each_other_and_from_the_background(theme: Theme) -> None:
    assert len(set(COMPONENT_COLOURS.values())) == len(COMPONENT_COLOURS)
    assert all(contrast(colour, theme.base) >= 1.9 for colour in COMPONENT_COLOURS.values())


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_palette_and_style_sheet_use_the_theme(qtbot: QtBot, theme: Theme) -> None:
    made = palette(theme)
    assert made.color(QPalette.ColorRole.Base).name() == theme.base
    assert made.color(QPalette.ColorRole.Text).name() == theme.text
    sheet = style_sheet(theme)
    assert theme.border in sheet
    assert "{" + "border}" not in sheet


def test_every_icon_that_is_named_exists_and_paints(qtbot: QtBot, light: Look) -> None:
    named = {command.icon for command in COMMANDS if command.icon}
    named |= {icon for _, icon in TONES.values()}
    named |= {"error", "warning", "note", "engine", "open", "search", "tree", "sample", "suggest", "refused"}
    assert named <= set(icons.names())
    for name in icons.names():
        picture = icons.pixmap(icons.source(name), "#ff0000", 24).toImage()
        inked = sum(picture.pixelColor(x, y).alpha() > 0 for x in range(24) for y in range(24))
        assert inked > 10, name
    assert light.icons.get("open") is light.icons.get("open")
    assert PROBLEM_HEADINGS[0].title == ""
