"""What a GroupQueryAttention node asks for: extents from its shapes, numbers from its attributes, checked."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from vramscope.errors import BindingError, ModelGraphError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Node


@dataclass(frozen=True, slots=True)
class GroupedForm:
    """Extents of one GroupQueryAttention.

    Attributes:
        batch: B.
        positions: S, positions of the query input.
        heads: query heads.
        kv_heads: key/value heads.
        width: D, the head size.
        packed: query carries all Q heads, then all K heads, then all V heads.
        past: rows of the past buffer (its physical extent), 0 without one.
        bits: 0, or 8 or 4 for a quantised cache.
        window: keys seen, the own one included; 0: all.
        sliding: the cache holds the newest positions only (``sliding_window_cache``).
    """

    batch: int
    positions: int
    heads: int
    kv_heads: int
    width: int
    packed: bool
    past: int
    bits: int = 0
    window: int = 0
    sliding: bool = False

    @property
    def stored_width(self) -> int:
        """Elements of one cached row."""
        return self.width // 2 if self.bits == 4 else self.width


def grouped_form(node: Node, shapes: Sequence[tuple[int, ...] | None]) -> GroupedForm:
    """Extents from the node's attributes and the shapes of inputs 0 to 4 (None: absent).

    Raises:
        ModelGraphError: a rank, a head count or an attribute that the operator does not allow.
    """
    query, key, past = shapes[0], shapes[1], shapes[3]
    heads, kv_heads = node.integer("num_heads", 0), node.integer("kv_num_heads", 0)
    if heads <= 0 or kv_heads <= 0 or heads % kv_heads:
        raise wrong(node, f"num_heads {heads} must be a positive multiple of kv_num_heads {kv_heads}")
    if query is None or len(query) != 3 or (key is None) != (shapes[2] is None):
        raise wrong(node, f"query is {query}, key {key}, value {shapes[2]}: rank 3, key and value or neither")
    parts = heads + 2 * kv_heads if key is None else heads
    if query[2] == 0 or query[2] % parts:
        raise wrong(node, f"the query's width {query[2]} is not a multiple of {parts} heads")
    if (past is None) != (shapes[4] is None):
        raise wrong(node, "past_key and past_value must be given both or neither")
    bits, window = _cache_bits(node), _window(node)
    form = GroupedForm(
        *(query[0], query[1], heads, kv_heads, query[2] // parts, key is None, past[2] if past else 0),
        *(bits, window, node.integer("sliding_window_cache", 0) != 0),
    )
    _check(node, form, shapes)
    return form


def _check(node: Node, form: GroupedForm, shapes: Sequence[tuple[int, ...] | None]) -> None:
    rows = (form.batch, form.positions, form.kv_heads * form.width)
    cache = (form.batch, form.kv_heads, form.past, form.stored_width)
    for name, shape, expected in (
        ("key", shapes[1], rows),
        ("value", shapes[2], rows),
        ("past_key", shapes[3], cache),
        ("past_value", shapes[4], cache),
    ):
        if shape is not None and shape != expected:
            raise wrong(node, f"{name} is {shape} and must be {expected}")
    if form.sliding and (form.window <= 0 or form.past < form.window):
        raise BindingError(
            f"the sliding cache of {node.qualified}",
            f"it has {form.past} rows and the window is {form.window}",
            "Bind past and present with at least local_window_size rows from the first step on",
            node.name,
        )


def _cache_bits(node: Node) -> int:
    quantised = node.text("k_quant_type", "NONE") != "NONE" or node.text("v_quant_type", "NONE") != "NONE"
    bits = node.integer("kv_cache_bit_width", 0)
    if quantised and bits not in (4, 8):
        raise wrong(node, f"kv_cache_bit_width {bits} of a quantised cache must be 8 or 4")
    return bits if quantised else 0


def _window(node: Node) -> int:
    window = node.integer("local_window_size", -1)
    if window == 0 or (window > 0 and node.integer("causal", 1) == 0):
        raise wrong(node, f"local_window_size {window} is not allowed (0, or a window without causal)")
    return max(window, 0)


def wrong(node: Node, why: str) -> ModelGraphError:
    """A node that the operator's definition does not allow."""
    return ModelGraphError(node.qualified, why, "Export the model again with a supported form", node.name)


def attention_scale(node: Node, width: int) -> float:
    """The ``scale`` attribute; 0 or absent means 1/√D."""
    return node.number("scale", 0.0) or 1.0 / sqrt(max(width, 1))


def kept_rows(total: int, capacity: int, window: int) -> int:
    """Rows of a sliding cache in use after ``total`` positions (operators 2.1, windowed cache)."""
    if total <= capacity:
        return total
    granule = capacity - window + 1
    return total - granule * -(-(total - capacity) // granule)
