"""What a desktop needs to find VRAMScope: one id everywhere, types for its files, programs that start."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement

import vramscope
from vramscope.programs import FROZEN, command_of
from vramscope_app import DESKTOP_ID

REPOSITORY = Path(__file__).resolve().parents[2]
LINUX = REPOSITORY / "packaging" / "linux"
ONNX, REPORT = "application/x-onnx", "application/x-vramscope-report+json"
MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"


def component() -> ElementTree.Element:
    return ElementTree.parse(LINUX / f"{DESKTOP_ID}.metainfo.xml").getroot()


def test_the_desktop_entry_starts_the_window_with_the_file_it_is_given() -> None:
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read(LINUX / f"{DESKTOP_ID}.desktop", encoding="utf-8")
    entry = parsed["Desktop Entry"]
    assert (entry["Exec"], entry["Icon"], entry["StartupWMClass"]) == (
        "vramscope-app %f",
        DESKTOP_ID,
        DESKTOP_ID,
    )
    assert {ONNX, REPORT} <= set(entry["MimeType"].split(";"))


def test_the_store_s_description_names_the_same_things() -> None:
    root = component()
    assert root.findtext("id") == DESKTOP_ID
    assert root.findtext("launchable") == f"{DESKTOP_ID}.desktop"
    assert {item.text for item in root.iterfind("provides/mediatype")} == {ONNX, REPORT}
    assert {item.text for item in root.iterfind("provides/binary")} == set(FROZEN.values())
    releases = [item.get("version") for item in root.iterfind("releases/release")]
    assert releases[0] == vramscope.__version__


def test_both_kinds_of_file_have_a_type() -> None:
    root = ElementTree.parse(LINUX / f"{DESKTOP_ID}-mime.xml").getroot()
    found = {
        kind.get("type"): [glob.get("pattern") for glob in kind.iterfind(f"{MIME}glob")]
        for kind in root.iterfind(f"{MIME}mime-type")
    }
    assert found == {ONNX: ["*.onnx"], REPORT: ["*.vramscope.json"]}


@pytest.mark.skipif(shutil.which("appstreamcli") is None, reason="appstreamcli is not installed")
def test_the_store_accepts_the_description() -> None:
    path = str(LINUX / f"{DESKTOP_ID}.metainfo.xml")
    done = subprocess.run(
        ["appstreamcli", "validate", "--no-net", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_installed_releases_are_pinned_and_are_ones_that_we_declare() -> None:
    lines = (REPOSITORY / "packaging" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {}
    for line in lines[1:]:
        name, _, release = line.partition("==")
        assert name.replace("-", "").replace(".", "").isalnum(), f"not name==release: {line}"
        pinned[name] = release
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    declared = [Requirement(text) for text in (*project["dependencies"], *extras["gui"], *extras["test"])]
    for wanted in declared:
        if wanted.name != project["name"]:
            assert wanted.specifier.contains(pinned[wanted.name.lower().replace("_", "-")]), wanted


def test_everything_lands_below_the_prefix(tmp_path: Path) -> None:
    subprocess.run([LINUX / "install", str(tmp_path)], check=True, capture_output=True)
    share = tmp_path / "share"
    for path in (
        f"applications/{DESKTOP_ID}.desktop",
        f"metainfo/{DESKTOP_ID}.metainfo.xml",
        f"mime/packages/{DESKTOP_ID}.xml",
        f"icons/hicolor/scalable/apps/{DESKTOP_ID}.svg",
    ):
        assert (share / path).is_file(), path


def test_a_frozen_program_starts_the_one_beside_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert command_of("vramscope") == (sys.executable, "-m", "vramscope")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "vramscope-app"))
    assert command_of("vramscope") == (str(tmp_path / "vramscope"),)
    assert command_of("vramscope_app") == (str(tmp_path / "vramscope-app"),)
