"""Questions to the reference workspace formulas: one function an operator, by its extents."""

from __future__ import annotations

from typing import Any

from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import Node
from vramscope.ops.formulas import REFERENCE_WORKSPACE, ReferenceDevice, reference_table
from vramscope.ops.spec import ABSENT_META, Lifetime, TensorMeta, WorkspaceQuery, WorkspaceRequirement

F32, F16, I64, U8 = ElementType.FLOAT, ElementType.FLOAT16, ElementType.INT64, ElementType.UINT8
SP, SS = Lifetime.SESSION_PERSISTENT, Lifetime.STEP_SCOPED
CONTRIB, RUNTIME = "com.microsoft", "pkg.nxrt"
Shape = tuple[int, ...] | None


def metas(dtype: ElementType, *shapes: Shape) -> tuple[TensorMeta, ...]:
    return tuple(ABSENT_META if shape is None else TensorMeta(dtype, shape) for shape in shapes)


def ask(
    key: tuple[str, str],
    inputs: tuple[TensorMeta, ...],
    outputs: int = 1,
    device: ReferenceDevice | None = None,
    **attributes: Any,  # noqa: ANN401 - whatever the operator takes
) -> WorkspaceRequirement:
    table = REFERENCE_WORKSPACE if device is None else reference_table(device)
    node = Node("n", key[1], key[0], 1, attributes)
    return table[key](WorkspaceQuery(node, inputs, outputs))


def contrib(dtype: ElementType, batch: int, heads: int, queries: int, keys: int) -> WorkspaceRequirement:
    shapes = [(batch, heads, length, 160) for length in (queries, keys, keys)]
    return ask((CONTRIB, "Attention"), metas(dtype, *shapes), num_heads=heads)


def standard(
    dtype: ElementType,
    extents: tuple[int, int, int, int, int],
    past: int | None = None,
    outputs: int = 3,
    mask: int | None = None,
) -> WorkspaceRequirement:
    """Extents: B, Hq, Hkv, q, D."""
    batch, heads, kv_heads, queries, width = extents
    cache = None if past is None else (batch, kv_heads, past, width)
    new = (batch, kv_heads, queries, width)
    shapes = [(batch, heads, queries, width), new, new, (queries, mask) if mask else None, cache, cache]
    return ask(("", "Attention"), metas(dtype, *shapes), outputs)


def group(
    dtype: ElementType,
    extents: tuple[int, int, int, int],
    capacity: int,
    **flags: Any,  # noqa: ANN401 - handed on
) -> WorkspaceRequirement:
    """Extents: H, Hkv, D, S; ``packed`` and ``do_rotary`` as flags."""
    heads, kv_heads, width, positions = extents
    packed = flags.pop("packed", 0)
    whole = (1, positions, (heads + 2 * kv_heads if packed else heads) * width)
    new = None if packed else (1, positions, kv_heads * width)
    cache = (1, kv_heads, capacity, width)
    shapes = metas(dtype, whole, new, new, cache, cache)
    return ask((CONTRIB, "GroupQueryAttention"), shapes, 3, num_heads=heads, kv_num_heads=kv_heads, **flags)


def experts(rows: int, count: int, hidden: int, width: int) -> WorkspaceRequirement:
    shapes = [(rows, hidden), (rows, 64), (64, width, 1, 17), None, (64, hidden, 1, 17)]
    inputs = metas(F32, *shapes)
    return ask((RUNTIME, "BlockQuantizedMoE"), inputs, k=count, activation_type="swiglu", swiglu_fusion=1)


def shared(outputs: int, *, bias: bool) -> WorkspaceRequirement:
    shapes: list[Shape] = [(1, 2, 3, 4), (1, 1, 3, 4), (1, 1, 3, 4), None, None, (1, 1, 3, 2)]
    return ask((RUNTIME, "IndexShare"), metas(F32, *shapes, (1, 1, 3, 3) if bias else None), outputs)
