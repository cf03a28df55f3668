"""Starting the application: arguments, samples, the picture without a display."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QByteArray, QMimeData, QSettings, QUrl

from vramscope_app.main import NO_DISPLAY, lacks_display, parse
from vramscope_app.menus import path_of_drop
from vramscope_app.run import _store, source_of, wishes_of
from vramscope_app.settings import RECENT_KEPT, MemoryStore, Settings, parse_recent, with_recent


def test_a_missing_display_is_said_clearly_and_ends_with_1() -> None:
    hidden = ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-m", "vramscope_app"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip() == NO_DISPLAY.strip()


@pytest.mark.parametrize(
    ("environment", "platform", "lacks"),
    [
        ({}, "linux", True),
        ({"DISPLAY": ":0"}, "linux", False),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", False),
        ({"QT_QPA_PLATFORM": "offscreen"}, "linux", False),
        ({}, "darwin", False),
    ],
)
def test_when_there_is_a_display(environment: dict[str, str], platform: str, lacks: bool) -> None:
    assert lacks_display(environment, platform) is lacks


def test_what_the_command_line_opens() -> None:
    assert source_of(parse([])).sample == "tiny-llama"
    assert source_of(parse(["--sample", "x"])).sample == "x"
    opened = source_of(parse(["m.onnx", "--theme", "dark"]))
    assert (opened.path, opened.sample) == ("m.onnx", "")


def test_the_command_line_judges_a_scenario() -> None:
    options = parse(["--card", "6 GiB", "--context", "4096", "--batch", "2"])
    assert wishes_of(options) == {"budget": 6 * 2**30, "card": "", "context": 4096, "batch": 2}
    assert wishes_of(parse(["--card", "RTX 4090"])) == {"budget": None, "card": "RTX 4090"}
    assert wishes_of(parse([])) == {}
    with pytest.raises(SystemExit):
        parse(["--context", "0"])


def test_recent_models_keep_their_order_once_each() -> None:
    assert with_recent(["a", "b"], "b") == ["b", "a"]
    assert len(with_recent([str(place) for place in range(30)], "new")) == RECENT_KEPT
    assert parse_recent("not json") == []
    assert parse_recent('{"a": 1}') == []
    assert parse_recent('["a", 3]') == ["a"]


def test_settings_survive_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "s.ini")
    first = QSettings(path, QSettings.Format.IniFormat)
    settings = Settings(first)
    assert (settings.recent, settings.theme) == ([], "system")
    settings.remember("/a/model.onnx")
    settings.theme = "dark"
    settings.store_layout(QByteArray(b"g"), QByteArray(b"d"))
    first.sync()
    again = Settings(QSettings(path, QSettings.Format.IniFormat))
    assert (again.recent, again.theme) == (["/a/model.onnx"], "dark")
    assert again.layout() == (QByteArray(b"g"), QByteArray(b"d"))
    assert json.loads(str(first.value("recent"))) == ["/a/model.onnx"]


def test_a_journey_keeps_its_settings_to_itself_and_the_null_device_stays_one() -> None:
    settings = Settings(MemoryStore())
    settings.remember("/a/model.onnx")
    settings.store_layout(QByteArray(b"g"), QByteArray(b"d"))
    settings.keep_columns(["name"])
    assert (settings.recent, settings.theme, settings.columns) == (["/a/model.onnx"], "system", ["name"])
    assert settings.layout() == (QByteArray(b"g"), QByteArray(b"d"))
    assert isinstance(_store("vramscope-test", forgetful=True), MemoryStore)
    assert Path(os.devnull).is_char_device()


def test_a_drop_is_one_local_model(tmp_path: Path) -> None:
    def dropped(*urls: QUrl) -> str:
        data = QMimeData()
        data.setUrls(list(urls))
        return path_of_drop(data)

    model = QUrl.fromLocalFile(str(tmp_path / "m.ONNX"))
    assert dropped(model) == str(tmp_path / "m.ONNX")
    assert dropped(QUrl.fromLocalFile(str(tmp_path))) == str(tmp_path)
    assert dropped(model, model) == ""
    assert dropped(QUrl("https://example.com/m.onnx")) == ""
    assert dropped(QUrl.fromLocalFile(str(tmp_path / "text.txt"))) == ""
