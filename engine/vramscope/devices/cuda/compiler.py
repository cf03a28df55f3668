"""Compiles CUDA C++ through NVRTC to machine code of one architecture, once: results are kept on the disk."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from vramscope.devices.cuda.launch import Source

OPTIONS = ("--std=c++17", "--device-as-default-execution-space", "-dw")
"""Compile options besides the architecture."""


def cache_folder() -> Path:
    """Where compiled kernels are kept."""
    return platformdirs.user_cache_path("vramscope", appauthor=False) / "cuda-kernels"


def compiled(text: Source, architecture: str, folder: Path) -> bytes:
    """Machine code of a source, from the folder or fresh from NVRTC.

    Args:
        text: the source.
        architecture: as ``sm_90``.
        folder: where results are kept; made when it is missing, done without when it cannot be.

    Raises:
        VramscopeError: the source does not compile.
    """
    key = hashlib.sha256("\0".join((text.text, architecture, *OPTIONS)).encode()).hexdigest()
    path = folder / f"{text.name}-{key[:32]}.cubin"
    try:
        return path.read_bytes()
    except OSError:
        pass
    code = _compile(text, architecture)
    _keep(path, code)
    return code


def _keep(path: Path, code: bytes) -> None:
    """Writes the file whole or not at all, whoever else is writing it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(code)
        Path(name).replace(path)
    except OSError:
        return


def _compile(text: Source, architecture: str) -> bytes:
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(text.text, f"{text.name}.cu", (), ())
    try:
        nvrtc.compileProgram(program, (f"-arch={architecture}", *OPTIONS))
        return bytes(nvrtc.getCUBIN(program))
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program)
        raise VramscopeError(
            f"the CUDA source {text.name}", f"NVRTC refuses it: {error}: {log[:2000]}", "Report this"
        ) from error
    finally:
        nvrtc.destroyProgram(program)
