"""Where the tokens of a PagedAttention lie: positions in their sequences, rows of the pool of blocks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.paged_form import PagedForm
    from vramscope.ops.kernels.storage import Indices


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything is in one call.

    Attributes:
        starts: the first token of each sequence, and the end of the last one.
        past: positions of each sequence in the cache before the step.
        positions: of each new token in its sequence, [end].
        slots: the pool's row that each new token is stored in, [end]; −1: in none.
        table: block of each sequence and place, int64 [batch, width]; −1: none.
        block_size: positions of one block.
    """

    starts: tuple[int, ...]
    past: tuple[int, ...]
    positions: Indices
    slots: Indices
    table: Indices
    block_size: int

    @property
    def end(self) -> int:
        """Tokens that belong to a sequence."""
        return self.starts[-1]

    def span(self, entry: int) -> range:
        """The tokens of one sequence."""
        return range(self.starts[entry], self.starts[entry + 1])

    def rows(self, entry: int, total: int) -> Indices:
        """The pool's row of each of the first ``total`` positions of a sequence; −1: in none."""
        position = np.arange(total)
        return rows_of(self.table[entry, position // self.block_size], position, self.block_size)


def find_places(call: Call, form: PagedForm) -> Places:
    """Places from cumulative_sequence_length (5), past_seqlens (6), block_table (7) and slot_mapping (10).

    Raises:
        BindingError: starts that fall, more tokens than there are, or a length beyond the block table.
    """
    starts = tuple(call.array(5).reshape(-1).tolist())
    past = tuple(call.array(6).reshape(-1).tolist())
    counts = [after - before for before, after in pairwise(starts)]
    if starts[0] != 0 or min(counts, default=0) < 0 or starts[-1] > form.tokens:
        why = f"sequences start at {list(starts)}, and there are {form.tokens} tokens"
        raise _refused("starts", call.node, why, "They rise from 0 to the number of tokens at most")
    for before, count in zip(past, counts, strict=True):
        if before < 0 or before + count > form.capacity:
            room = f"a sequence has {form.table} blocks of {form.block_size}"
            why = f"{before:,} positions and {count:,} new ones; {room}"
            raise _refused("lengths", call.node, why, "Bind a wider block table, or stop at its end")
    table = call.array(7).astype(np.int64)
    table[(table < 0) | (table >= form.blocks)] = -1
    entries = np.repeat(np.arange(form.batch), counts)
    positions = np.arange(starts[-1]) - np.repeat(starts[:-1], counts) + np.repeat(past, counts)
    slots = _slots(call, form, starts[-1])
    if slots is None:
        slots = rows_of(table[entries, positions // form.block_size], positions, form.block_size)
    return Places(starts, past, positions, slots, table, form.block_size)


def rows_of(blocks: Indices, positions: Indices, block_size: int) -> Indices:
    """Rows of the pool: the position's place inside its block; −1 where there is no block."""
    return np.where(np.less(blocks, 0), -1, blocks * block_size + positions % block_size)


def _slots(call: Call, form: PagedForm, end: int) -> Indices | None:
    given = call.optional(10)
    if given is None:
        return None
    slots = given.reshape(-1)[:end].astype(np.int64)
    if slots.size < end or (slots.size and not -1 <= int(slots.min()) <= int(slots.max()) < form.rows):
        why = f"slot_mapping has {slots.size} slots for {end} tokens, in a pool of {form.rows:,} rows"
        raise _refused("slots", call.node, why, "Give every token a row of the pool, or −1 to store nothing")
    return slots


def _refused(what: str, node: Node, why: str, remedy: str) -> BindingError:
    return BindingError(f"{what} of {node.qualified}", why, remedy, node.name)
