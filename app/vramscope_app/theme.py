"""Light and dark: colours as data, palette and style sheet made from them, contrast computed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette

from vramscope.resources import folder

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

MINIMUM_CONTRAST = 4.5
"""WCAG 2.1 AA for text."""

COMPONENT_COLOURS = {
    "weights": "#0072B2",
    "KV cache": "#E69F00",
    "activations": "#009E73",
    "workspace": "#CC79A7",
    "inputs and outputs": "#56B4E9",
    "device context": "#8A929C",
}
"""Okabe and Ito's palette: distinguishable with every common colour-vision deficiency."""

OTHER_COMPONENT = "#8A929C"


@dataclass(frozen=True, slots=True)
class Theme:
    """Every colour that the window uses, as ``#rrggbb``."""

    name: str
    window: str
    base: str
    stripe: str
    """Every second row of a table."""
    raised: str
    hover: str
    border: str
    text: str
    muted: str
    accent: str
    selection: str
    selection_text: str
    good: str
    warning: str
    bad: str
    info: str
    good_tint: str
    warning_tint: str
    bad_tint: str
    info_tint: str
    replayed: str

    @property
    def dark(self) -> bool:
        """Whether the background is darker than the text."""
        return luminance(self.window) < luminance(self.text)


LIGHT = Theme(
    name="light",
    window="#f2f4f6",
    base="#ffffff",
    stripe="#f7f9fa",
    raised="#fafbfc",
    hover="#e4e9ee",
    border="#cdd3da",
    text="#1b2229",
    muted="#59636e",
    accent="#0068a8",
    selection="#cfe5f5",
    selection_text="#10202c",
    good="#00694c",
    warning="#855300",
    bad="#a83c00",
    info="#0062a0",
    good_tint="#e0f2ec",
    warning_tint="#fbf0d9",
    bad_tint="#fbe6da",
    info_tint="#e2eff9",
    replayed="#0068a8",
)

DARK = Theme(
    name="dark",
    window="#20252b",
    base="#181c21",
    stripe="#1c2127",
    raised="#282e35",
    hover="#323941",
    border="#3b434c",
    text="#e2e6ea",
    muted="#a3adb8",
    accent="#5cb8ee",
    selection="#24465e",
    selection_text="#f2f6f9",
    good="#4fd0a5",
    warning="#f0b848",
    bad="#ff9560",
    info="#7cc4f0",
    good_tint="#1b3a32",
    warning_tint="#3d3119",
    bad_tint="#43281b",
    info_tint="#1d3547",
    replayed="#5cb8ee",
)

THEMES = {theme.name: theme for theme in (LIGHT, DARK)}


def _linear(channel: int) -> float:
    part = channel / 255
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0 to 1 (WCAG 2.1)."""
    red, green, blue = (int(colour[index : index + 2], 16) for index in (1, 3, 5))
    return 0.2126 * _linear(red) + 0.7152 * _linear(green) + 0.0722 * _linear(blue)


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21 (WCAG 2.1)."""
    bright, dim = sorted((luminance(first), luminance(second)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def text_pairs(theme: Theme) -> list[tuple[str, str, float]]:
    """Every text colour on every background it is written on: names and contrast."""
    tones = ("good", "warning", "bad", "info")
    pairs = [
        (ink, ground)
        for ink in ("text", "muted")
        for ground in ("window", "base", "stripe", "raised", "hover")
    ]
    pairs += [("accent", "window"), ("accent", "base"), ("replayed", "base"), ("selection_text", "selection")]
    pairs += [(tone, ground) for tone in tones for ground in ("window", "base", "stripe", f"{tone}_tint")]
    pairs += [(ink, f"{tone}_tint") for ink in ("text", "muted") for tone in tones]
    colours = {item.name: str(getattr(theme, item.name)) for item in fields(theme)}
    return [(ink, ground, contrast(colours[ink], colours[ground])) for ink, ground in pairs]


def resolve(wish: str) -> Theme:
    """The theme for ``light``, ``dark`` or ``system`` (the desktop's wish; light when it has none)."""
    if wish in THEMES:
        return THEMES[wish]
    return DARK if QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark else LIGHT


def component_colour(name: str) -> str:
    """The fill colour of a component."""
    return COMPONENT_COLOURS.get(name, OTHER_COMPONENT)


def palette(theme: Theme) -> QPalette:
    """The palette: Qt computes bevels from button and window, the roles for text are set by hand."""
    made = QPalette(QColor(theme.raised), QColor(theme.window))
    role = QPalette.ColorRole
    colours = {
        role.WindowText: theme.text,
        role.Text: theme.text,
        role.ButtonText: theme.text,
        role.Base: theme.base,
        role.AlternateBase: theme.stripe,
        role.ToolTipBase: theme.raised,
        role.ToolTipText: theme.text,
        role.PlaceholderText: theme.muted,
        role.Highlight: theme.selection,
        role.HighlightedText: theme.selection_text,
        role.Link: theme.accent,
        role.Accent: theme.accent,
    }
    for which, colour in colours.items():
        made.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        made.setColor(QPalette.ColorGroup.Disabled, which, QColor(disabled_colour(theme)))
    return made


def disabled_colour(theme: Theme) -> str:
    """The colour of what cannot be used just now."""
    return _mixed(theme.muted, theme.window)


def _mixed(first: str, second: str) -> str:
    pairs = ((int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5))
    return "#" + "".join(f"{(6 * a + 4 * b) // 10:02x}" for a, b in pairs)


def style_sheet(theme: Theme) -> str:
    """What Fusion and a palette cannot say: hairlines, paddings, dock titles, headers, tabs."""
    colours = {item.name: getattr(theme, item.name) for item in fields(theme)}
    mark = folder() / "icons" / f"check-{'dark' if theme.dark else 'light'}.svg"
    return _SHEET.format(**colours, mark=mark.as_posix())


def apply_theme(application: QApplication, theme: Theme) -> None:
    """Dresses the whole application."""
    application.setStyle("Fusion")
    application.setPalette(palette(theme))
    application.setStyleSheet(style_sheet(theme))


_SHEET = """
QMainWindow::separator {{ background: {window}; width: 5px; height: 5px; }}
QMainWindow::separator:hover {{ background: {accent}; }}
QToolBar {{ background: {window}; border: 0; border-bottom: 1px solid {border};
  padding: 3px 6px; spacing: 2px; }}
QToolBar::separator {{ background: {border}; width: 1px; margin: 5px 5px; }}
QToolBar QToolButton {{ padding: 4px 7px; border: 1px solid transparent; border-radius: 4px; }}
QToolButton:hover {{ background: {hover}; }}
QToolButton:pressed, QToolButton:checked {{ background: {selection}; color: {selection_text}; }}
QToolBar QToolButton::menu-indicator {{ image: none; }}
QDockWidget::title {{ background: {window}; padding: 5px 8px 4px 8px; text-align: left; }}
QDockWidget {{ font-weight: 600; color: {muted}; }}
QDockWidget > QWidget {{ font-weight: 400; color: {text}; }}
QTabBar::tab {{ background: transparent; color: {muted}; padding: 5px 8px; border: 0;
  border-bottom: 2px solid transparent; }}
QTabBar::tab:selected {{ color: {text}; border-bottom: 2px solid {accent}; }}
QTabBar::tab:hover {{ color: {text}; background: {hover}; }}
QHeaderView::section {{ background: {raised}; color: {muted}; border: 0; border-right: 1px solid {border};
  border-bottom: 1px solid {border}; padding: 3px 6px; }}
QAbstractItemView {{ border: 1px solid {border}; gridline-color: {border}; outline: 0;
  selection-background-color: {selection}; selection-color: {selection_text}; }}
QAbstractItemView::item {{ padding: 2px 4px; }}
QPlainTextEdit, QTextEdit {{ border: 1px solid {border}; border-radius: 4px; background: {base}; }}
QPlainTextEdit:focus, QTextEdit:focus {{ border-color: {accent}; }}
QCheckBox::indicator {{ width: 13px; height: 13px; border: 1px solid {muted}; border-radius: 3px;
  background: {base}; }}
QCheckBox::indicator:checked {{ background: {accent}; border-color: {accent}; image: url("{mark}"); }}
QCheckBox::indicator:disabled {{ border-color: {border}; }}
QCheckBox::indicator:focus {{ border-color: {accent}; }}
QLineEdit {{ border: 1px solid {border}; border-radius: 4px; padding: 2px 5px; background: {base}; }}
QLineEdit:focus {{ border-color: {accent}; }}
QAbstractSpinBox QLineEdit, QComboBox QLineEdit {{ border: 0; padding: 0; }}
QStatusBar {{ background: {window}; border-top: 1px solid {border}; }}
QStatusBar::item {{ border: 0; }}
QToolTip {{ background: {raised}; color: {text}; border: 1px solid {border}; padding: 4px; }}
QLabel[role="muted"] {{ color: {muted}; }}
QLabel[role="value"] {{ font-weight: 600; }}
QLabel[role="heading"] {{ font-weight: 600; }}
QLabel[tone="good"] {{ color: {good}; }}
QLabel[tone="warning"] {{ color: {warning}; }}
QLabel[tone="bad"] {{ color: {bad}; }}
QLabel[tone="info"] {{ color: {info}; }}
QFrame[banner="true"] {{ border: 1px solid {border}; border-radius: 5px; background: {base}; }}
QFrame[banner="true"][tone="good"] {{ background: {good_tint}; border-left: 4px solid {good}; }}
QFrame[banner="true"][tone="warning"] {{ background: {warning_tint}; border-left: 4px solid {warning}; }}
QFrame[banner="true"][tone="bad"] {{ background: {bad_tint}; border-left: 4px solid {bad}; }}
QFrame[banner="true"][tone="info"] {{ background: {info_tint}; border-left: 4px solid {info}; }}
QFrame[card="true"] {{ border: 1px solid {border}; border-radius: 5px; background: {base}; }}
QProgressBar {{ border: 1px solid {border}; border-radius: 3px; background: {base}; text-align: center;
  max-height: 15px; }}
QProgressBar::chunk {{ background: {selection}; }}
"""
