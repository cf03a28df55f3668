"""Launches around a decode step: feeds moved on by one token, and the token chosen for every sequence."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, cast

import numpy as np

from vramscope.devices.cuda.launch import Launch, i64, pointer, source
from vramscope.devices.cuda.strided import type_name
from vramscope.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import FeedWrite
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.sampling import Sampling

MOST_FEEDS = 8
CHOOSING_THREADS = 1024
CHOOSING_BLOCKS = 8
"""Blocks that share one row of logits."""

_TYPES = {np.dtype(np.int64): 0, np.dtype(np.int32): 1, np.dtype(np.bool_): 2, np.dtype(np.float32): 3}
_KINDS = {"copy": 0, "mark": 1, "fill": 2}


def advance_launch(writes: Sequence[FeedWrite]) -> Launch:
    """One block a feed.

    Raises:
        UnsupportedOperatorError: more feeds, or feeds of another type, than the kernel knows.
    """
    packed = [_packed(item) for item in writes]
    if len(packed) > MOST_FEEDS:
        raise UnsupportedOperatorError("the feeds of a step", f"{len(packed)} inputs move with every token")
    batch = max((_batch(item) for item in writes), default=0)
    room = b"\0" * 48 * (MOST_FEEDS - len(packed))
    argument = struct.pack("<q", batch) + b"".join(packed) + room
    return Launch(source("stepping"), "advance", (max(len(packed), 1), 1, 1), (32, 1, 1), (argument,))


def _batch(write: FeedWrite) -> int:
    return write.target.shape[0] if write.target.ndim else 1


def _packed(write: FeedWrite) -> bytes:
    target = cast("DeviceArray", write.target)
    known = _TYPES.get(target.dtype)
    if known is None:
        raise UnsupportedOperatorError("the feeds of a step", f"an input of type {target.dtype} moves")
    origin = 0 if write.source is None else cast("DeviceArray", write.source).address
    step = target.steps[0] if target.ndim else 0
    return struct.pack("<QQ4q", target.address, origin, write.offset, step, _KINDS[write.kind], known)


def choose_launch(
    logits: DeviceArray,
    state: tuple[DeviceArray, DeviceArray, DeviceArray | None],
    sampling: Sampling,
    *,
    clusters: bool,
) -> Launch:
    """The token chosen from every row of [batch, vocabulary], and 1 added to every length.

    Args:
        logits: rows to choose from.
        state: token and length of every sequence, int64 [batch]; where tokens are kept, int64 [slots, batch].
        sampling: how.
        clusters: several blocks may share a row.

    Raises:
        UnsupportedOperatorError: logits of another type, or strided ones.
    """
    kind = type_name(logits.dtype)
    if kind not in ("float", "f16", "bf16") or logits.steps[1] != 1:
        raise UnsupportedOperatorError("choosing a token", f"logits of {logits.dtype} or strided ones")
    parts = CHOOSING_BLOCKS if clusters and logits.shape[1] >= CHOOSING_BLOCKS * CHOOSING_THREADS else 1
    numbers = (i64(logits.steps[0]), i64(logits.shape[1]), i64(parts))
    token, length, ring = state
    kept = (ring.address, ring.shape[0], ring.steps[0]) if ring is not None else (0, 1, 0)
    arguments = [pointer(logits), *numbers, pointer(token), pointer(length), struct.pack("<Qqq", *kept)]
    grid, block = (logits.shape[0] * parts, 1, 1), (CHOOSING_THREADS, 1, 1)
    if sampling.greedy:
        return Launch(source("stepping"), f"choose_{kind}", grid, block, tuple(arguments), cluster=parts)
    likeliest = min(sampling.top_k or logits.shape[1], logits.shape[1])
    drawing = (likeliest, sampling.seed & (2**64 - 1), sampling.top_p, sampling.divisor)
    arguments.append(struct.pack("<qQdd", *drawing))
    return Launch(source("drawing"), f"draw_{kind}", grid, block, tuple(arguments), cluster=parts)
