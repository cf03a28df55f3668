"""Host kernel: com.microsoft's Attention, which projects its input to queries, keys and values itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.multihead_core import HeadForm, HeadStep, held_rows, run_heads, wrong
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.kernels.soft_masks import additive_bias, soft_mask
from vramscope.ops.kernels.tiles import take_scratch
from vramscope.ops.kernels.widening import widen
from vramscope.ops.spec import Lifetime

if TYPE_CHECKING:
    from typing import TypeAlias

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.tiles import Scratch
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

    Shape: TypeAlias = tuple[int, ...]

_COLUMNS = 256
"""Columns of the weight that are widened at once."""


@dataclass(frozen=True, slots=True)
class ProjectedForm:
    """Extents: the heads, rows and depth of the input, columns of queries, keys and values."""

    heads: HeadForm
    rows: int
    depth: int
    columns: tuple[int, int, int]

    @property
    def width(self) -> int:
        """Columns of the weight."""
        return sum(self.columns)

    def sizes(self, dtype: ElementType) -> tuple[tuple[str, int], ...]:
        """Scratch regions: those of the heads, the projection, and the widened input and weight."""
        widen = dtype is not ElementType.FLOAT
        return (
            *self.heads.sizes(widen=widen, fresh=False, itemsize=4),
            ("projection", self.rows * self.width * 4),
            ("input", self.rows * self.depth * 4 if widen else 0),
            ("weight", self.depth * min(self.width, _COLUMNS) * 4 if widen else 0),
        )


def projected_form(
    node: Node, source: tuple[int, ...], weight: tuple[int, ...], past: tuple[int, ...] | None
) -> ProjectedForm:
    """Extents from the shapes of the input, the weight and the past.

    Raises:
        ModelGraphError: they do not fit.
    """
    count = node.integer("num_heads", 0)
    given = node.integers("qkv_hidden_sizes")
    if len(source) != 3 or len(weight) != 2 or count <= 0:
        raise wrong(node, f"input {source} and weights {weight} with {count} heads")
    query, key, value = given if len(given) == 3 else (weight[1] // 3,) * 3
    if query + key + value != weight[1] or query != key or query % count or value % count:
        raise wrong(node, f"{weight[1]} columns do not split into {query}, {key}, {value} of {count} heads")
    held = past[3] if past is not None else 0
    heads = HeadForm(source[0], count, source[1], source[1], held, query // count, value // count)
    return ProjectedForm(heads, source[0] * source[1], source[2], (query, key, value))


def contrib_attention_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """The projection [B·S, Q+K+V] in float32, widened input and weight columns, and the attention tiles."""
    past = query.input(4)
    shape = past.shape if past.present else None
    form = projected_form(query.node, query.input(0).shape, query.input(1).shape, shape)
    sizes = form.sizes(query.input(0).dtype)
    return lay_out("projected attention tiles", dict(sizes), Lifetime.STEP_SCOPED)


def contrib_attention(call: Call) -> None:
    """com.microsoft Attention; see operators 2.7. Masks are additive and finite.

    Raises:
        BindingError: a shared buffer that is too short.
        ModelGraphError: shapes that do not fit.
        UnsupportedOperatorError: ``do_rotary``, which has no cos/sin input to rotate by.
    """
    node = call.node
    if node.integer("do_rotary", 0):
        raise UnsupportedOperatorError(
            f"do_rotary of {node.qualified}",
            "this operator has no cos/sin cache to rotate by",
            "Export with GroupQueryAttention or a RotaryEmbedding node",
            node.name,
        )
    past = call.optional(4)
    form = projected_form(
        node, call.array(0).shape, call.array(1).shape, past.shape if past is not None else None
    )
    dtype = ElementType.FLOAT if call.array(0).dtype == np.float32 else call.output_types[0]
    scratch = take_scratch(call, form.sizes(dtype), np.dtype(np.float32))
    with np.errstate(all="ignore"):
        queries, keys, values = _project(call, form, scratch)
    shared = node.integer("past_present_share_buffer", 0) != 0
    heads = form.heads
    held = held_rows(call, 6, heads.past, heads.keys) if shared else heads.past
    output = call.output(0, (heads.batch, heads.queries, form.columns[2]))
    step = HeadStep(
        form=heads,
        queries=queries,
        keys=keys,
        values=values,
        bias=None,
        past=(past[0], past[1]) if past is not None else None,
        present=_present(call, heads, heads.past if shared else held + heads.keys),
        held=held,
        masks=(*soft_mask(call, 3, heads, held), *additive_bias(call, 5, heads, held)),
        output=output.reshape(heads.batch, heads.queries, heads.heads, -1).transpose(0, 2, 1, 3),
    )
    with np.errstate(all="ignore"):
        run_heads(call, step, scratch)


def _present(call: Call, form: HeadForm, rows: int) -> tuple[Array, Array] | None:
    if not call.wants(1):
        return None
    if form.width != form.value_width:
        raise wrong(call.node, f"present holds keys of {form.width} and values of {form.value_width}")
    whole = call.output(1, (2, form.batch, form.heads, rows, form.width))
    return whole[0], whole[1]


def _project(call: Call, form: ProjectedForm, scratch: Scratch) -> tuple[Array, Array, Array]:
    """Queries, keys and values [B, N, S, width] in float32, in the projection's scratch."""
    source, weight = call.array(0).reshape(form.rows, form.depth), call.array(1)
    target = _floats(scratch, "projection").reshape(form.rows, form.width)
    if source.dtype == np.float32:
        np.matmul(source, weight, out=target)
    else:
        _project_widened(source, weight, target, scratch)
    bias = call.optional(2)
    if bias is not None:
        np.add(target, bias, out=target, casting="unsafe")
    parts = np.split(target, (form.columns[0], 2 * form.columns[0]), axis=1)
    lead = (form.heads.batch, form.heads.queries, form.heads.heads, -1)
    query, key, value = (part.reshape(lead).transpose(0, 2, 1, 3) for part in parts)
    return query, key, value


def _project_widened(source: Array, weight: Array, target: Array, scratch: Scratch) -> None:
    wide = _floats(scratch, "input").reshape(source.shape)
    widen(source, wide)
    for start in range(0, weight.shape[1], _COLUMNS):
        part = weight[:, start : start + _COLUMNS]
        room = _floats(scratch, "weight")[: part.size].reshape(part.shape)
        widen(part, room)
        np.matmul(wide, room, out=target[:, start : start + _COLUMNS])


def _floats(scratch: Scratch, name: str) -> Array:
    return scratch.bytes.get(name, np.empty(0, np.uint8)).view(np.float32)
