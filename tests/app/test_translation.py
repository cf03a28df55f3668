"""The window's words: every one passes through the catalogue, and a German window shows no English one."""

from __future__ import annotations

import ast
import re
import string
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QLocale, Qt
from PySide6.QtGui import QAction, QFont, QFontDatabase, QFontMetrics
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDockWidget,
    QLabel,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSizePolicy,
    QTabBar,
    QTableView,
    QToolButton,
    QTreeView,
    QWidget,
)
from tests.app.conftest import make_script

from vramscope_app.catalogue import FORMS, look_up, read_catalogue
from vramscope_app.translation import LANGUAGES, choose, install, marked, tr

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tests.app.conftest import Script

    from vramscope_app.look import Look

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "app" / "vramscope_app"
SENTENCE = re.compile(r"[A-Za-z]{2,}[^A-Za-z_{}]* +[^A-Za-z_{}]*[A-Za-z]{2,}")
"""Two words beside each other: no name, no key, no path."""
TERMINAL = frozenset({"main.py", "journey.py", "theme.py"})
"""Modules that speak to the terminal, as the command line does in English, or to Qt's style sheets."""
NOT_SHOWN = frozenset({
    "KV cache", "inputs and outputs", "device context",  # components, by which colours are found
    "fits", "does not fit", "cannot be planned", "no card or budget given",  # kinds of verdicts
    "end of sequence", "context full", "no free KV block",  # why a run ended
})  # fmt: skip
"""The engine's words where they are keys."""
SETTERS = frozenset({
    "setText", "setToolTip", "setPlaceholderText", "setWindowTitle", "setStatusTip", "setAccessibleName",
    "setSpecialValueText", "addTab", "addMenu", "showMessage", "QLabel", "QAction", "QCheckBox", "QMenu",
    "setLabel", "QToolBar", "push_button",
})  # fmt: skip
"""What puts its first argument onto the screen."""


MODELS_OWN = frozenset({"prefill", "total"})
"""Names of a phase and of a dimension."""


def load_translate() -> ModuleType:
    loader = SourceFileLoader("packaging_translate", str(ROOT / "packaging" / "translate"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def translate() -> ModuleType:
    return load_translate()


def documentation(tree: ast.AST) -> set[ast.AST]:
    bodies = [getattr(node, "body", None) for node in ast.walk(tree)]
    lines = [line for body in bodies if isinstance(body, list) for line in body]
    return {line.value for line in lines if isinstance(line, ast.Expr)}


def unspoken(tree: ast.AST, translate: ModuleType) -> set[ast.AST]:
    """Parts of a module whose texts pass through the catalogue, or are no words."""
    found = documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            through = translate.called(node) in ("tr", "marked") or translate.called(node) in translate.TABLES
            found |= set(ast.walk(node)) if through else set()
        elif isinstance(node, ast.AnnAssign | ast.arg) and node.annotation is not None:
            found |= set(ast.walk(node.annotation))
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            found |= set(ast.walk(node.returns))
    return found


def loose_words(tree: ast.AST, translate: ModuleType) -> Iterator[str]:
    """Texts of a module that somebody reads and nobody translates."""
    spoken = unspoken(tree, translate)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in spoken:
            words = re.sub(r"<[^>]*(>|$)", "", node.value)
            if SENTENCE.search(words) and node.value not in NOT_SHOWN:
                yield f"line {node.lineno}: {node.value!r}"
        if isinstance(node, ast.Call) and node.args and node.args[0] not in spoken:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else translate.called(node)
            first = node.args[0]
            told = isinstance(first, ast.Constant) and re.search(r"[A-Za-z]{2,}", str(first.value))
            if name in SETTERS and told:
                yield f"line {node.lineno}: {name}({first.value!r})"  # type: ignore[attr-defined]  # a Constant


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: path.name)
def test_every_word_passes_through_the_catalogue(path: Path, translate: ModuleType) -> None:
    if path.name not in TERMINAL:
        assert not list(loose_words(ast.parse(path.read_text("utf-8")), translate))


def test_a_loose_word_would_be_found(translate: ModuleType) -> None:
    source = 'def build(label):\n    label.setText("Open")\n    label.tip = f"two words {label}"\n'
    assert len(list(loose_words(ast.parse(source), translate))) == 2
    wrapped = 'def build(label):\n    label.setText(tr("Open"))\n    return Heading("Node name", 3)\n'
    assert not list(loose_words(ast.parse(wrapped), translate))
    assert {text.source for text in translate.texts_of(ast.parse(wrapped))} == {"Open", "Node name"}


def test_the_catalogues_are_whole(translate: ModuleType) -> None:
    texts = translate.every_text()
    for language in FORMS:
        assert not translate.faults(translate.CATALOGUES / f"vramscope_{language}.ts", texts)


def test_translations_keep_values_lines_and_mnemonics(translate: ModuleType) -> None:
    known = read_catalogue(translate.CATALOGUES / "vramscope_de.ts")
    for (source, _), forms in known.items():
        for form in forms:
            assert fields(form) == fields(source), source
            assert form.count("\n") == source.count("\n"), source
            assert mnemonics(form) == mnemonics(source), source
            assert (form[:1] == " ") == (source[:1] == " "), source


def test_every_sign_is_in_the_plainest_font(qapp: object, translate: ModuleType) -> None:
    if "DejaVu Sans" not in QFontDatabase.families():
        pytest.skip("the font DejaVu Sans, which every Linux desktop has, is not here")
    metrics = QFontMetrics(QFont("DejaVu Sans"))
    known = read_catalogue(translate.CATALOGUES / "vramscope_de.ts")
    texts = "".join(text for (source, _), forms in known.items() for text in (source, *forms))
    assert not {sign for sign in texts if sign != "\n" and not metrics.inFontUcs4(ord(sign))}


def fields(text: str) -> set[tuple[str, str, str]]:
    parts = string.Formatter().parse(text)
    return {(name, spec or "", kind or "") for _, name, spec, kind in parts if name is not None}


def mnemonics(text: str) -> bool:
    return "&" in text.replace("&nbsp;", "")


def test_a_menu_has_every_mnemonic_once(german: Script) -> None:
    for menu in german.window.menuBar().findChildren(QMenu):
        keys = [found[1].lower() for action in menu.actions() if (found := re.search("&(.)", action.text()))]
        assert len(keys) == len(set(keys)), f"{menu.title()}: {sorted(keys)}"


@pytest.fixture
def spoken(qapp: object) -> Iterator[None]:
    assert isinstance(qapp, QApplication)
    before = QLocale()
    loaded = install(qapp, "de")
    assert len(loaded) == 2, "Qt's own words, and ours"
    yield
    for translator in loaded:
        qapp.removeTranslator(translator)
        translator.deleteLater()
    QLocale.setDefault(before)


@pytest.fixture
def german(spoken: None, tmp_path: Path, light: Look, messages: ModuleType) -> Iterator[Script]:
    made = make_script(tmp_path / "settings.ini", light)
    made.window.show()
    made.open()
    made.plan()
    made.answer("capture", messages.OpenParams(), messages.capture(declined=True))
    made.answer("verify", messages.OpenParams(), messages.verify())
    made.client.snapshot.emit(messages.snapshot())
    made.events(messages.event(1))
    for _ in range(12):
        made.window.streams.refresh()
    yield made
    made.window.close()
    made.window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


def shown_texts(window: QWidget) -> Iterator[str]:
    """Everything that a window says: labels, buttons, actions, titles, tabs, headings, cells, tips, names."""
    for action in window.findChildren(QAction):
        yield from (action.text(), action.toolTip(), action.statusTip())
    for widget in window.findChildren(QWidget):
        yield from (widget.toolTip(), widget.accessibleName(), widget.windowTitle())
        if isinstance(widget, QLabel | QAbstractButton):
            yield widget.text()
        if isinstance(widget, QLineEdit | QPlainTextEdit):
            yield widget.placeholderText()
        if isinstance(widget, QComboBox):
            yield from (widget.itemText(place) for place in range(widget.count()))
        if isinstance(widget, QTabBar):
            yield from (widget.tabText(place) for place in range(widget.count()))
        if isinstance(widget, QTableView | QTreeView):
            yield from table_texts(widget)


def table_texts(view: QTableView | QTreeView) -> Iterator[str]:
    model = view.model()
    for column in range(model.columnCount()):
        yield str(model.headerData(column, Qt.Orientation.Horizontal) or "")
        yield str(model.headerData(column, Qt.Orientation.Horizontal, Qt.ItemDataRole.ToolTipRole) or "")
        for row in range(min(model.rowCount(), 50)):
            yield str(model.index(row, column).data() or "")


def test_a_german_window_shows_no_english_word(german: Script, translate: ModuleType) -> None:
    known = read_catalogue(translate.CATALOGUES / "vramscope_de.ts")
    german_words = {form for forms in known.values() for form in forms}
    english = {source for (source, _), forms in known.items() if source not in forms} - german_words
    shown = [text.replace("\u200b", "") for text in shown_texts(german.window)]
    assert len(shown) > 500
    assert not {text for text in shown if text in english} - MODELS_OWN
    titles = {dock.windowTitle() for dock in german.window.findChildren(QDockWidget)}
    assert {"Lauf", "Achsen", "Speicherkarte"} <= titles


def test_nothing_is_cut_in_a_german_window(german: Script) -> None:
    for size in ((1280, 800), (900, 600)):
        german.window.resize(*size)
        for _ in range(4):
            QCoreApplication.processEvents()
        assert (german.window.width(), german.window.height()) == size
        for dock in german.window.docks.values():
            dock.raise_()
            QCoreApplication.processEvents()
            assert not [part.text() for part in fixed_parts(german.window) if is_cut(part)], (size, dock)


def fixed_parts(window: QWidget) -> Iterator[QLabel | QAbstractButton]:
    for part in window.findChildren(QWidget):
        if isinstance(part, QLabel | QAbstractButton) and part.text() and not flexible(part):
            yield part


def flexible(part: QLabel | QAbstractButton) -> bool:
    """Whether nobody sees a part, or it may be narrower than its text."""
    if isinstance(part, QLabel) and part.wordWrap():
        return True
    if isinstance(part, QToolButton) and part.toolButtonStyle() is Qt.ToolButtonStyle.ToolButtonIconOnly:
        return True
    ignored = part.sizePolicy().horizontalPolicy() is QSizePolicy.Policy.Ignored
    return ignored or part.visibleRegion().isEmpty()


def is_cut(part: QLabel | QAbstractButton) -> bool:
    """Whether a part is narrower than its text; one that may shrink on purpose says so by its minimum."""
    shrinks = 0 < part.minimumWidth() < part.minimumSizeHint().width()
    words = part.fontMetrics().horizontalAdvance(part.text().replace("&", ""))
    needed = part.sizeHint().width() if isinstance(part, QLabel) else words
    return not shrinks and part.width() < needed


def test_numbers_are_the_same_in_every_language(spoken: None) -> None:
    assert tr("{n:,} node(s)", n=1) == "1 Knoten"
    assert tr("{n:,} step(s)", n=1) == "1 Schritt"
    assert tr("{n:,} step(s)", n=1234) == "1,234 Schritte"
    assert QLocale().toString(1234) == "1,234"


def test_a_counted_word_has_a_form_for_one_and_one_for_the_rest() -> None:
    known = {("{n} file(s)", ""): ["{n} Datei", "{n} Dateien"], ("Run", "noun"): ["Lauf"]}
    assert [look_up(known, "{n} file(s)", "", n) for n in (0, 1, 2)] == [
        "{n} Dateien",
        "{n} Datei",
        "{n} Dateien",
    ]
    assert look_up(known, "Run", "noun", -1) == "Lauf"
    assert look_up(known, "Run", "", -1) == "", "another meaning, of which nothing is known"
    assert dict.fromkeys(set(LANGUAGES) - {"en"}, 2) == FORMS


def test_qt_s_own_words_are_german_too(spoken: None) -> None:
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "Abbrechen"
    assert QCoreApplication.translate("elsewhere", "Capture") == "Capture", "ours are of no context"
    assert QCoreApplication.translate("", "no such words") == "no such words"


def test_english_needs_no_catalogue(qapp: object) -> None:
    assert tr("{n:,} eager seam(s)", n=1) == "1 eager seam"
    assert tr("{n:,} eager seam(s)", n=2) == "2 eager seams"
    assert tr("{a} of {b}", a=1, b=2) == "1 of 2"
    assert tr("") == ""
    assert marked("as it is") == "as it is"


def test_a_language_is_chosen_or_the_desktops() -> None:
    assert choose("de", ["en-GB"]) == "de"
    assert choose("system", ["de-AT", "en"]) == "de"
    assert choose("system", ["fr-FR", "de-DE"]) == "de"
    assert choose("system", ["C"]) == "en"
    assert choose("fr", []) == "en"


def test_a_chosen_language_is_remembered(script: Script) -> None:
    window = script.window
    action = next(item for item in window.language_menu.actions() if item.data() == "de")
    action.trigger()
    assert window._settings.language == "de"
    assert action.isChecked()
