"""Saves what a decode step changes, and goes back to it: verification runs the same steps twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.session_state import SavedState
from vramscope.graph.model import Feed

if TYPE_CHECKING:
    from vramscope.decode.session_state import RunState
    from vramscope.graph.model import DecoderContract
    from vramscope.run.memory import SessionMemory


def save_state(memory: SessionMemory, contract: DecoderContract, run: RunState) -> SavedState:
    """Position, device state, feeds, sliding caches.

    A block table only gains blocks while a sequence grows, and those stay its own.
    """
    sliding = {pair.input for pair in contract.kv if pair.window}
    tables = {name for name, feed in contract.feeds.items() if feed is Feed.BLOCK_TABLE}
    held = {name: np.array(buffer.bytes) for name, buffer in memory.io.items() if name not in tables}
    held.update({name: np.array(memory.kv[name].bytes) for name in sliding})
    return SavedState(run.position, run.tokens, held)


def restore_state(memory: SessionMemory, run: RunState, saved: SavedState) -> None:
    """Goes back to a saved state; the addresses of all buffers stay."""
    for name, content in saved.contents.items():
        buffer = memory.io.get(name) or memory.kv[name]
        buffer.bytes[:] = content
    run.position, run.tokens = saved.position, saved.tokens
    run.finished = ""
