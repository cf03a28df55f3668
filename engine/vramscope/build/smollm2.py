"""``vramscope sample smollm2``: SmolLM2-135M-Instruct in the user's cache, fetched and exported once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vramscope.build.fetch import GGUF, default_cache, fetch_smollm2
from vramscope.build.folder import MODEL_FILE, staged
from vramscope.build.genai import CONFIG_FILE
from vramscope.build.gguf_export import export_gguf
from vramscope.build.work import never, silent
from vramscope.build.writer import DATA_FILE
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.build.work import Cancel, Progress

PRECISIONS = ("fp32", "fp16", "q4")
"""What SmolLM2 can be exported as; q4 keeps the file's own blocks, the others dequantise them."""

STAMP_FILE = "export.json"
REVISION = 1
"""Raised when the exported bytes change, so that an older folder in a cache is made anew."""

_FILES = (MODEL_FILE, DATA_FILE, CONFIG_FILE, "tokenizer.json", "tokenizer_config.json")


def export_smollm2(
    out: Path | None = None,
    precision: str = "fp32",
    *,
    cache: Path | None = None,
    progress: Progress = silent,
    cancel: Cancel = never,
) -> Path:
    """SmolLM2's folder in ``precision``: a complete one is returned as it is, else it is fetched and made.

    Args:
        out: the folder to make; None: a folder in the cache.
        precision: one of :data:`PRECISIONS`.
        cache: where the GGUF file is kept; None: the user's cache folder.
        progress: told stage ("download", "unpack", "check", "weights"), bytes done and in all.
        cancel: raises to stop; nothing half-made stays.

    Raises:
        InputError: unknown precision, no way to download, or ``out`` holds something else.
        ModelFileError: the downloaded file is not the expected one.
    """
    if precision not in PRECISIONS:
        raise InputError(
            what=f"precision {precision!r} of SmolLM2",
            why="there is no such export",
            remedy=f"Use one of {', '.join(PRECISIONS)}",
        )
    cache = cache or default_cache()
    folder = out or cache / f"smollm2-135m-instruct-{precision}"
    if is_complete(folder, precision):
        return folder
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(what=str(out), why="it holds something else", remedy="Give a new or an empty folder")
    gguf = fetch_smollm2(cache, progress=progress, cancel=cancel)
    with staged(folder) as staging:
        export_gguf(gguf, staging, precision, progress=progress, cancel=cancel)
        (staging / STAMP_FILE).write_text(json.dumps(_stamp(staging, precision)) + "\n", encoding="utf-8")
    return folder


def is_complete(folder: Path, precision: str) -> bool:
    """Whether ``folder`` holds a whole export of this revision and precision, file sizes included."""
    try:
        stamp = json.loads((folder / STAMP_FILE).read_text(encoding="utf-8"))
        return bool(stamp == _stamp(folder, precision))
    except (OSError, ValueError):
        return False


def _stamp(folder: Path, precision: str) -> dict[str, object]:
    sizes = {name: (folder / name).stat().st_size for name in _FILES}
    return {"source": GGUF, "revision": REVISION, "precision": precision, "sizes": sizes}
