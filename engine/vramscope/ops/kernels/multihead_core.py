"""What MultiHeadAttention and com.microsoft's Attention share: equal head counts, soft masks, a cache."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import BindingError, ModelGraphError
from vramscope.ops.kernels.attend import Problem, RawScores, Segment, attend
from vramscope.ops.kernels.storage import Stored, same_buffer
from vramscope.ops.kernels.tiles import AttentionExtent

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.tiles import Scratch


@dataclass(frozen=True, slots=True)
class HeadForm:
    """Extents: batch, heads, query positions, new keys, rows of the past's buffer, head sizes."""

    batch: int
    heads: int
    queries: int
    keys: int
    past: int
    width: int
    value_width: int

    def sizes(self, *, widen: bool, fresh: bool, itemsize: int) -> tuple[tuple[str, int], ...]:
        """Scratch regions; ``fresh``: biased keys and values (elements of ``itemsize``) need a place."""
        extent = AttentionExtent(
            heads=self.heads,
            kv_heads=self.heads,
            queries=self.queries,
            keys=self.past + self.keys,
            width=max(self.width, self.value_width),
            widen=widen,
        )
        rows = self.heads * self.keys * itemsize if fresh else 0
        return (*extent.sizes(), ("new keys", rows * self.width), ("new values", rows * self.value_width))


@dataclass(frozen=True, slots=True)
class HeadStep:
    """One call in common terms.

    Attributes:
        form: extents.
        queries: [B, N, S, D].
        keys: new keys [B, N, L, D].
        values: new values [B, N, L, Dv].
        bias: added to queries, keys and values: [N, 1, width] each; None: nothing is added.
        past: key and value [B, N, P, ·].
        present: where to store, [B, N, rows, ·]; None: nowhere.
        held: valid rows of the past.
        masks: [B, N, S, total] each: integer (0 hides softly) or additive.
        output: [B, N, S, Dv].
        raw: [B, N, S, total] scores after masks, or None.
    """

    form: HeadForm
    queries: Array
    keys: Array
    values: Array
    bias: tuple[Array, Array, Array] | None
    past: tuple[Array, Array] | None
    present: tuple[Array, Array] | None
    held: int
    masks: tuple[Array, ...]
    output: Array
    raw: Array | None = None


def wrong(node: Node, why: str) -> ModelGraphError:
    """A node that the operator's definition does not allow."""
    return ModelGraphError(node.qualified, why, "Export the model again with a supported form", node.name)


def held_rows(call: Call, index: int, past: int, new: int) -> int:
    """Valid rows of the past: all of it, or ``past_sequence_length`` (input ``index``) of a shared buffer.

    Raises:
        BindingError: the buffer does not hold them and the new rows.
    """
    if not call.has(index):
        return past
    held = int(call.array(index).reshape(-1)[0])
    if held < 0 or held + new > past:
        raise BindingError(
            f"past_sequence_length of {call.node.qualified}",
            f"{held} rows and {new} new ones do not fit the {past} rows of the buffer",
            "Bind a longer past buffer",
            call.node.name,
        )
    return held


def run_heads(call: Call, step: HeadStep, scratch: Scratch) -> None:
    """Store the new rows and attend, batch entry by batch entry."""
    node = call.node
    _copy_past(node, step)
    total = step.held + step.form.keys
    for entry in range(step.form.batch):
        segments = _store(step, entry, scratch)
        problem = Problem(
            queries=step.queries[entry][:, None],
            segments=segments,
            keys=total,
            output=step.output[entry][:, None],
            scale=node.number("scale", 0.0) or 1.0 / sqrt(max(step.form.width, 1)),
            stop=total,
            offset=step.held,
            right=0 if node.integer("unidirectional", 0) else None,
            biases=tuple(mask[entry if mask.shape[0] > 1 else 0][:, None] for mask in step.masks),
            soft_mask=node.number("mask_filter_value", -10000.0),
            prepare=None if step.bias is None else _Added(step.bias[0][:, None]),
            raw=None if step.raw is None else RawScores(step.raw[entry][:, None], 2),
        )
        attend(problem, scratch)


@dataclass(frozen=True, slots=True)
class _Added:
    """Adds the input projection's bias to a tile of queries."""

    bias: Array

    def __call__(self, tile: Array, head: int, start: int, spare: Array) -> None:
        del start, spare
        np.add(tile, self.bias[head : head + tile.shape[0]], out=tile, casting="unsafe")


def _copy_past(node: Node, step: HeadStep) -> None:
    if step.past is None or step.present is None:
        return
    for past, present in zip(step.past, step.present, strict=True):
        if not same_buffer(past, present, node):
            np.copyto(present[:, :, : step.held], past[:, :, : step.held])


def _store(step: HeadStep, entry: int, scratch: Scratch) -> tuple[Segment, ...]:
    new = (step.keys[entry], step.values[entry])
    if step.present is not None:
        stored = [item[entry] for item in step.present]
        for index, target in enumerate(stored):
            _put(target[:, step.held : step.held + step.form.keys], new[index], step.bias, index)
        return (Segment(Stored(stored[0]), Stored(stored[1]), step.held + step.form.keys),)
    if step.bias is not None:
        new = _fresh(step, scratch, new)
    segments = [Segment(Stored(new[0]), Stored(new[1]), step.form.keys)]
    if step.past is not None:
        segments.insert(0, Segment(Stored(step.past[0][entry]), Stored(step.past[1][entry]), step.held))
    return tuple(segments)


def _put(target: Array, new: Array, bias: tuple[Array, Array, Array] | None, index: int) -> None:
    if bias is None:
        np.copyto(target, new, casting="unsafe")
    else:
        np.add(new, bias[1 + index], out=target, casting="unsafe")


def _fresh(step: HeadStep, scratch: Scratch, new: tuple[Array, Array]) -> tuple[Array, Array]:
    """The biased new rows of one batch entry in planned scratch."""
    made = []
    for index, name in enumerate(("new keys", "new values")):
        room = scratch.bytes.get(name, np.empty(0, np.uint8)).view(new[index].dtype).reshape(new[index].shape)
        _put(room, new[index], step.bias, index)
        made.append(room)
    return made[0], made[1]
