"""Reading a weight when a session needs it: a read-only view of the mapped file, never a copy."""

from __future__ import annotations

import json
import mmap
import os
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelFileError
from vramscope.graph.dtypes import ElementType, is_packed, numpy_dtype

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Array, WeightSource


def read_weight(source: WeightSource) -> Array:
    """The weight as a read-only array in its own shape; packed 4-bit and 2-bit types as flat ``uint8``.

    External weights are memory-mapped: pages are read when they are touched. Strings come as objects.

    Raises:
        ModelFileError: the file is gone, was replaced by a shorter one, or became a link out of its folder.
    """
    if source.dtype is ElementType.STRING:
        return _strings(source)
    if source.file is None:
        return _shaped(np.frombuffer(source.inline, dtype=np.uint8), source)
    if source.size == 0:
        return _shaped(np.empty(0, dtype=np.uint8), source)
    return _shaped(_mapped(source.file, source.offset, source.size), source)


def _strings(source: WeightSource) -> Array:
    items = np.empty(source.shape, dtype=object)
    items.reshape(-1)[:] = json.loads(source.inline)
    items.flags.writeable = False
    return items


def _shaped(raw: Array, source: WeightSource) -> Array:
    if is_packed(source.dtype):
        view = raw
    else:
        kind = numpy_dtype(source.dtype)
        view = raw.view(kind).reshape(source.shape) if raw.size else np.empty(source.shape, kind)
    view.flags.writeable = False
    return view


def _mapped(file: Path, offset: int, size: int) -> Array:
    """``size`` bytes of ``file`` from ``offset``, mapped from the page boundary before it."""
    descriptor = _opened(file)
    try:
        have = os.fstat(descriptor).st_size
        if offset + size > have:
            why = f"bytes {offset:,} to {offset + size:,} are needed, the file has {have:,} now"
            raise ModelFileError(str(file), why, "The file changed since it was opened: open the model again")
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        view = mmap.mmap(descriptor, offset + size - start, access=mmap.ACCESS_READ, offset=start)
    finally:
        os.close(descriptor)
    return np.frombuffer(view, dtype=np.uint8, offset=offset - start, count=size)


def _opened(file: Path) -> int:
    """Open the very file that was checked when the model was opened: its path held no link then."""
    if os.path.realpath(file) != str(file):
        raise ModelFileError(str(file), "a symbolic link has taken its place", "Open the model again")
    try:
        return os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise ModelFileError(
            str(file), f"it cannot be read: {error.strerror}", "Open the model again"
        ) from error
