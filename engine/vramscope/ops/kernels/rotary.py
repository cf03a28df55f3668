"""Host kernels: RotaryEmbedding, of the default domain and of com.microsoft."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.planned import lay_out, regions_of
from vramscope.ops.kernels.rotation import Rotation, check_positions, rotate
from vramscope.ops.kernels.widening import widen
from vramscope.ops.spec import NO_WORKSPACE, Lifetime, OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement

_ROWS = 1024
_CONTRIB = "com.microsoft"


@dataclass(frozen=True, slots=True)
class _Form:
    """Extents of input 0: [B, S, heads·D] (rank 3) or [B, heads, S, D] (rank 4)."""

    batch: int
    positions: int
    heads: int
    width: int
    rank: int

    def view(self, tensor: Array) -> Array:
        """``tensor`` as [B, heads, S, D], without a copy."""
        if self.rank == 4:
            return tensor
        split = tensor.reshape(self.batch, self.positions, self.heads, self.width)
        return split.transpose(0, 2, 1, 3)

    @property
    def rows(self) -> int:
        """Rows of the tile: every head of as many positions as fit, at least one."""
        if self.batch * self.heads * self.positions == 0:
            return 0
        return self.heads * min(self.positions, max(1, _ROWS // self.heads))


def _form(node: Node, shape: tuple[int, ...], half: int) -> _Form:
    heads = node.integer("num_heads", 0)
    if len(shape) == 4:
        return _Form(shape[0], shape[2], shape[1], shape[3], 4)
    if len(shape) != 3:
        raise _wrong(node, f"input 0 has rank {len(shape)}, it must be 3 or 4")
    if heads <= 0:
        if node.domain != _CONTRIB:
            raise _wrong(node, "input 0 has rank 3 and num_heads is missing")
        heads = shape[2] // max(2 * half, 1)
    if heads <= 0 or shape[2] % heads:
        raise _wrong(node, f"{heads} heads do not divide the width {shape[2]}")
    return _Form(shape[0], shape[1], heads, shape[2] // heads, 3)


def _wrong(node: Node, why: str) -> ModelGraphError:
    return ModelGraphError(f"{node.qualified}", why, "Export the model again", node.name)


def _sizes(form: _Form, dtype: ElementType) -> dict[str, int]:
    size = form.rows * form.width * (8 if dtype is ElementType.DOUBLE else 4)
    return {"rotated": size, "spare": size}


def rotary_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Two tiles of at most 1,024 rows (or one position of every head): rows in work, their products."""
    cosines = query.input(2 if query.node.domain == _CONTRIB else 1)
    if len(query.input(0).shape) not in (3, 4) or not cosines.shape:
        return NO_WORKSPACE
    form = _form(query.node, query.input(0).shape, cosines.shape[-1])
    return lay_out("rotary tiles", _sizes(form, query.input(0).dtype), Lifetime.STEP_SCOPED)


def rotary_embedding(call: Call) -> None:
    """RotaryEmbedding (default domain, 23): X, cos, sin, position_ids?; see operators 2.5.

    Raises:
        BindingError: a position has no row in the cos/sin cache.
    """
    positions = call.optional(3)
    cosines, sines = call.array(1), call.array(2)
    form = _form(call.node, call.array(0).shape, cosines.shape[-1])
    if positions is None:
        angles = [
            Rotation(cosines[b % len(cosines)], sines[b % len(sines)], 0, _interleaved(call.node))
            for b in range(form.batch)
        ]
    else:
        angles = _looked_up(
            call.node, cosines, sines, np.broadcast_to(positions, (form.batch, form.positions))
        )
    _run(call, form, angles)


def contrib_rotary_embedding(call: Call) -> None:
    """com.microsoft RotaryEmbedding: X, position_ids ([1]: offset; else [B, S]), cos, sin; see operators 2.5.

    Raises:
        BindingError: a position has no row in the cos/sin cache.
    """
    cosines, sines, positions = call.array(2), call.array(3), call.array(1)
    form = _form(call.node, call.array(0).shape, cosines.shape[-1])
    if positions.size == 1:
        positions = np.arange(form.positions, dtype=np.int64) + int(positions.reshape(-1)[0])
    grid = np.broadcast_to(positions, (form.batch, form.positions))
    _run(call, form, _looked_up(call.node, cosines, sines, grid))


def _interleaved(node: Node) -> bool:
    return node.integer("interleaved", 0) != 0


def _looked_up(node: Node, cosines: Array, sines: Array, positions: Array) -> list[Rotation]:
    if positions.size:
        check_positions(int(np.min(positions)), int(np.max(positions)), cosines.shape[0], node)
    return [Rotation(cosines, sines, row, _interleaved(node)) for row in positions]


def _run(call: Call, form: _Form, angles: list[Rotation]) -> None:
    half = (call.node.integer("rotary_embedding_dim", 0) or form.width) // 2
    if angles and angles[0].cos.shape[-1] != half:
        have = angles[0].cos.shape[-1]
        raise _wrong(call.node, f"the cos/sin cache is {have} wide; {2 * half} rotated channels need {half}")
    source = call.array(0)
    target = form.view(call.output(0, source.shape))
    raw = form.view(source)
    tiles = _tiles(call, form, source)
    if tiles is None:
        return
    step = max(1, form.rows // form.heads)
    with np.errstate(all="ignore"):
        for batch in range(form.batch):
            for start in range(0, form.positions, step):
                part = (batch, slice(None), slice(start, start + step))
                _rotate_part(raw[part], target[part], angles[batch], start, tiles)


def _tiles(call: Call, form: _Form, source: Array) -> tuple[Array, Array] | None:
    dtype = ElementType.DOUBLE if source.dtype == np.float64 else ElementType.FLOAT
    parts = regions_of(call, lay_out("rotary tiles", _sizes(form, dtype)))
    if not parts:
        return None
    compute = np.float64 if dtype is ElementType.DOUBLE else np.float32
    return parts["rotated"].view(compute), parts["spare"].view(compute)


def _rotate_part(raw: Array, target: Array, angles: Rotation, start: int, tiles: tuple[Array, Array]) -> None:
    tile = tiles[0][: raw.size].reshape(raw.shape)
    widen(raw, tile)
    rotate(tile, angles, start, tiles[1])
    np.copyto(target, tile, casting="unsafe")


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "RotaryEmbedding", rotary_embedding, rotary_workspace, in_place=((0, 0),)),
    OpSpec(_CONTRIB, "RotaryEmbedding", contrib_rotary_embedding, rotary_workspace, in_place=((0, 0),)),
)
