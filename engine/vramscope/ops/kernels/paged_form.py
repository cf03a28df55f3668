"""What a PagedAttention node asks for: extents from its shapes, numbers from its attributes, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import UnsupportedOperatorError
from vramscope.ops.kernels.grouped_form import wrong

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Node

CACHE_INPUTS = (3, 4)
SHAPED_INPUTS = 8
"""So many inputs' shapes say a node's extents."""

_WHOLE_BYTES = ("", "float16", "bfloat16", "int8")
"""Logical cache types that take whole bytes, floats or codes with a scale."""


@dataclass(frozen=True, slots=True)
class PagedForm:
    """Extents of one PagedAttention.

    Attributes:
        tokens: rows of the query: the new tokens of all sequences, one sequence after the other.
        batch: sequences.
        heads: query heads.
        kv_heads: key/value heads.
        width: D, the head size.
        value_width: elements of a value; less than ``width`` where a latent row serves as key and as value.
        packed: a query row carries all Q heads, then all K heads, then all V heads.
        latent: one cache, whose rows are keys and, in their first ``value_width`` channels, values.
        blocks: blocks of the pool.
        block_size: positions of one block.
        table: blocks that one sequence has at most.
        window: keys seen, the own one included; 0: all.
        rotary_offset: the first channel that is rotated.
    """

    tokens: int
    batch: int
    heads: int
    kv_heads: int
    width: int
    value_width: int
    packed: bool
    latent: bool
    blocks: int
    block_size: int
    table: int
    window: int
    rotary_offset: int

    @property
    def capacity(self) -> int:
        """Positions that one sequence has at most."""
        return self.table * self.block_size

    @property
    def rows(self) -> int:
        """Rows of the pool, each of one position."""
        return self.blocks * self.block_size


def paged_form(node: Node, shapes: Sequence[tuple[int, ...] | None]) -> PagedForm:
    """Extents from the node's attributes and the shapes of inputs 0 to 7 (None: absent).

    Raises:
        ModelGraphError: a rank, a head count or an attribute that the operator does not allow.
    """
    query, key, value, cache, _, _, past, table = shapes
    heads, kv_heads = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    if heads <= 0 or kv_heads <= 0 or heads % kv_heads:
        raise wrong(node, f"num_heads {heads} must be a positive multiple of kv_num_heads {kv_heads}")
    latent = node.text("kv_cache_layout", "SEPARATE") == "LATENT"
    packed = key is None
    parts = heads + 2 * kv_heads if packed else heads
    if query is None or len(query) != 2 or query[1] == 0 or query[1] % parts:
        raise wrong(node, f"query is {query}: rank 2, its width a multiple of {parts} heads")
    if cache is None or len(cache) != 4 or table is None or len(table) != 2 or past is None:
        raise wrong(node, f"key_cache is {cache}, block_table {table}, past_seqlens {past}: ranks 4, 2 and 1")
    width = query[1] // parts
    form = PagedForm(
        *(query[0], past[0], heads, kv_heads, width, node.integer("v_head_size", 0) or width),
        packed=packed,
        latent=latent,
        blocks=cache[0],
        block_size=cache[1],
        table=table[1],
        window=_window(node),
        rotary_offset=node.integer("rotary_offset", 0),
    )
    _check(node, form, shapes)
    if latent and (packed or kv_heads != 1 or value is not None or shapes[4] is not None):
        raise wrong(node, "a LATENT cache has one key head, a key input and neither value nor value_cache")
    return form


def _check(node: Node, form: PagedForm, shapes: Sequence[tuple[int, ...] | None]) -> None:
    rows = (form.tokens, form.kv_heads * form.width)
    given = ((1, "key", rows), (2, "value", rows), (5, "cumulative_sequence_length", (form.batch + 1,)))
    for index, name, expected in given:
        shape = shapes[index]
        if shape is not None and shape != expected:
            raise wrong(node, f"{name} is {shape} and must be {expected}")
    for index in CACHE_INPUTS:
        cache = shapes[index]
        if cache is not None and cache[:3] != (form.blocks, form.block_size, form.kv_heads):
            why = f"must hold {form.kv_heads} heads in {form.blocks} blocks of {form.block_size}"
            raise wrong(node, f"input {index} is {cache} and {why}")
    if not form.latent and (form.packed != (shapes[2] is None) or shapes[4] is None):
        raise wrong(node, "key and value must be given both or neither, and value_cache with key_cache")
    if not form.latent and form.value_width != form.width:
        raise wrong(node, f"v_head_size {form.value_width} differs from {form.width} without a LATENT cache")
    table = shapes[7]
    if table is not None and table[0] != form.batch:
        raise wrong(node, f"block_table has {table[0]} rows for {form.batch} sequences")


def _window(node: Node) -> int:
    window = node.integer("local_window_size", -1)
    if window == 0:
        raise wrong(node, "local_window_size 0 is not allowed")
    return max(window, 0)


def cache_bits(node: Node, index: int, itemsize: int) -> int:
    """0 for a cache of floats, 8 for one of int8 codes; ``index``: 0 the key cache, 1 the value cache.

    Raises:
        UnsupportedOperatorError: elements that share bytes, or 8-bit floats.
    """
    side = "kv"[index]
    logical = node.text(f"{side}_cache_dtype", "")
    quantised = node.text(f"{side}_quant_type", "NONE") != "NONE"
    if logical not in _WHOLE_BYTES or (itemsize == 1) != quantised:
        kind = logical or ("of 1-byte elements without a scale" if itemsize == 1 else "of scaled floats")
        raise UnsupportedOperatorError(
            node.qualified,
            f"its cache is {kind}, and no kernel here has that form",
            "Export the model with a cache of float16, bfloat16 or int8",
            node.name,
        )
    return 8 if quantised else 0
