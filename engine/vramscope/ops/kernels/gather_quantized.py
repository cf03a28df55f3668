"""Host kernel of GatherBlockQuantized: rows of a quantised table, dequantised as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError, VramscopeError
from vramscope.graph.dtypes import ElementType, bit_width
from vramscope.ops.call import Packed
from vramscope.ops.kernels.codes import UNSIGNED, byte_table, expand, expand_from, expand_rows
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import TensorMeta, WorkspaceQuery, WorkspaceRequirement

_TILE_ELEMENTS = 1 << 18


@dataclass(frozen=True, slots=True)
class _Form:
    """A call seen as rows: ``outer`` × gathered indices, each ``inner`` numbers of one table row.

    ``shape`` is the table's in numbers (uint8 data unpacked along the last axis); ``scales`` the scales'.
    """

    shape: tuple[int, ...]
    scales: tuple[int, ...]
    indices: tuple[int, ...]
    gather_axis: int
    quantize_axis: int
    block: int
    bits: int

    @property
    def outer(self) -> int:
        return prod(self.shape[: self.gather_axis])

    @property
    def inner(self) -> int:
        return prod(self.shape[self.gather_axis + 1 :])

    @property
    def scale_inner(self) -> int:
        return prod(self.scales[self.gather_axis + 1 :])

    @property
    def rows(self) -> int:
        return self.outer * prod(self.indices)

    @property
    def tile(self) -> int:
        """Rows in work at once."""
        return max(1, min(self.rows, _TILE_ELEMENTS // max(self.inner, 1)))

    @property
    def output(self) -> tuple[int, ...]:
        return (*self.shape[: self.gather_axis], *self.indices, *self.shape[self.gather_axis + 1 :])

    def row_numbers(self, indices: Values) -> tuple[Values, Values]:
        """The table row and the scale row of every output row."""
        axis, extent = self.gather_axis, self.shape[self.gather_axis]
        outer = np.arange(self.outer).reshape(-1, 1)
        flat = indices.reshape(1, -1)
        places, scaled = outer, flat
        if self.quantize_axis == axis:
            scaled = flat // self.block
        elif self.quantize_axis < axis:
            behind = prod(self.shape[self.quantize_axis + 1 : axis])
            within = self.shape[self.quantize_axis] * behind
            block = outer % within // behind // self.block
            places = (outer // within * self.scales[self.quantize_axis] + block) * behind + outer % behind
        return (outer * extent + flat).reshape(-1), (places * self.scales[axis] + scaled).reshape(-1)


def _form(node: Node, data: TensorMeta, indices: TensorMeta, scales: TensorMeta) -> _Form:
    bits = node.integer("bits", 4) if data.dtype is ElementType.UINT8 else bit_width(data.dtype)
    rank = len(data.shape)
    gather_axis, quantize_axis = node.integer("gather_axis", 0), node.integer("quantize_axis", 1)
    gather_axis += rank if gather_axis < 0 else 0
    quantize_axis += rank if quantize_axis < 0 else 0
    if bits not in (2, 4, 8) or not (0 <= gather_axis < rank and 0 <= quantize_axis < rank):
        raise ModelGraphError(
            f"attributes of {node.qualified}",
            f"bits {bits}, gather_axis {gather_axis} and quantize_axis {quantize_axis} for a rank {rank}",
            "",
            node.name,
        )
    shape = data.shape
    if data.dtype is ElementType.UINT8:
        shape = (*shape[:-1], shape[-1] * (8 // bits))
    block = node.integer("block_size", 128) or shape[quantize_axis]
    count = -(-shape[quantize_axis] // max(block, 1))
    if scales.shape != (*shape[:quantize_axis], count, *shape[quantize_axis + 1 :]):
        raise ModelGraphError(
            f"scales of {node.qualified}",
            f"shape {list(scales.shape)} for a table of {list(shape)} in blocks of {block}",
            "",
            node.name,
        )
    if data.dtype is ElementType.UINT8 and (gather_axis != 0 or quantize_axis != rank - 1) and bits < 8:
        raise ModelGraphError(
            f"attributes of {node.qualified}",
            "packed uint8 data is gathered on axis 0 and quantised along the last axis",
            "",
            node.name,
        )
    return _Form(shape, scales.shape, indices.shape, gather_axis, quantize_axis, block, bits)


def gather_quantized_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """One tile of rows: its bytes, its numbers in f32, its scales and zero points in f32, its row numbers."""
    form = _form(query.node, query.input(0), query.input(1), query.input(2))
    width = bit_width(query.input(0).dtype)
    row_bytes = -(-form.inner * form.bits // 8) if width == 8 else -(-form.inner * width // 8)
    zeros = query.input(3)
    sizes = {
        "bytes": form.tile * row_bytes,
        "work": 4 * form.tile * form.inner,
        "scales": 4 * form.tile * form.scale_inner,
        "zeros": 4 * form.tile * form.scale_inner if zeros.present else 0,
    }
    return lay_out("host-gather-quantized", sizes)


def gather_block_quantized(call: Call) -> None:
    """``Y = (q − zero point) · scale`` of the gathered rows, in f32, rounded once to the scales' type.

    Negative indices count from the end.

    Raises:
        VramscopeError: an index is out of range.
        ModelGraphError: extents that do not fit the attributes.
    """
    query = query_of(call)
    form = _form(call.node, query.input(0), query.input(1), query.input(2))
    requirement = gather_quantized_workspace(query)
    out = call.output(0, form.output, call.array(2).dtype)
    if out.size == 0:
        return
    table_rows, scale_rows = form.row_numbers(_checked(call, form))
    target = out.reshape(form.rows, form.inner)
    for start in range(0, form.rows, form.tile):
        rows = slice(start, min(start + form.tile, form.rows))
        _gather_tile(call, form, requirement, (table_rows[rows], scale_rows[rows]), target[rows])


def _checked(call: Call, form: _Form) -> Values:
    indices, extent = call.array(1).astype(np.int64), form.shape[form.gather_axis]
    wrong = (indices < -extent) | (indices >= extent)
    if wrong.any():
        raise VramscopeError(
            f"index {int(indices[wrong][0])} of {call.node.qualified}",
            f"the table has {extent} rows",
            "Check the token ids against the vocabulary",
            call.node.name,
        )
    return np.where(indices < 0, indices + extent, indices)


def _gather_tile(
    call: Call, form: _Form, requirement: WorkspaceRequirement, rows: tuple[Values, Values], out: Values
) -> None:
    shape = out.shape
    work: Values = out if out.dtype == np.float32 else region_of(call, requirement, "work", shape)
    _read_rows(call, 0, form, requirement, rows[0], work)
    scale_shape = (shape[0], form.scale_inner)
    scales = region_of(call, requirement, "scales", scale_shape)
    _take_lines(call.array(2).reshape(-1, form.scale_inner), rows[1], scales)
    if call.has(3):
        zeros = region_of(call, requirement, "zeros", scale_shape)
        _read_zeros(call, form, rows[1], zeros)
        _by_block(form, np.subtract, work, zeros)
    elif isinstance(call.inputs[0], np.ndarray) and call.inputs[0].dtype == np.uint8:
        np.subtract(work, 1 << (form.bits - 1), out=work)
    _by_block(form, np.multiply, work, scales)
    if work is not out:
        np.copyto(out, work, casting="unsafe")


def _by_block(form: _Form, operation: np.ufunc, work: Values, parameter: Values) -> None:
    """Apply each block's parameter in place; a row has several only when quantised behind the gather axis."""
    if form.quantize_axis <= form.gather_axis:
        operation(work, parameter, out=work)
        return
    before = prod(form.shape[form.gather_axis + 1 : form.quantize_axis])
    extent, behind = form.shape[form.quantize_axis], prod(form.shape[form.quantize_axis + 1 :])
    numbers = work.reshape(-1, before, extent, behind)
    blocks = parameter.reshape(-1, before, form.scales[form.quantize_axis], behind)
    if extent % form.block == 0:
        grouped = numbers.reshape(-1, before, blocks.shape[2], form.block, behind)
        operation(grouped, blocks[:, :, :, np.newaxis], out=grouped)
        return
    for number in range(blocks.shape[2]):
        part = numbers[:, :, number * form.block : (number + 1) * form.block]
        operation(part, blocks[:, :, number : number + 1], out=part)


def _read_rows(
    call: Call, index: int, form: _Form, requirement: WorkspaceRequirement, rows: Values, target: Values
) -> None:
    """Table rows as f32: whole rows of bytes in one go, rows that begin inside a byte one by one."""
    value = call.inputs[index]
    if isinstance(value, np.ndarray) and value.dtype != np.uint8:
        _take_lines(value.reshape(-1, form.inner), rows, target)
        return
    kind = value.dtype if isinstance(value, Packed) else UNSIGNED[form.bits]
    data = (value.data if isinstance(value, Packed) else call.array(index)).reshape(-1).view(np.uint8)
    table = byte_table(kind, target.dtype)
    if form.inner % table.shape[1]:
        for place, number in enumerate(rows.tolist()):
            expand_from(data, table, number * form.inner, target[place])
        return
    width = form.inner // table.shape[1]
    taken = region_of(call, requirement, "bytes", (rows.size, width), np.uint8)
    np.take(data[: data.size // width * width].reshape(-1, width), rows, axis=0, out=taken, mode="clip")
    expand(taken.reshape(-1), table, target)


def _take_lines(lines: Values, rows: Values, target: Values) -> None:
    """Rows of a matrix of any type as f32."""
    if lines.dtype == target.dtype:
        np.take(lines, rows, axis=0, out=target, mode="clip")
        return
    for place, number in enumerate(rows.tolist()):
        np.copyto(target[place], lines[number], casting="unsafe")


def _read_zeros(call: Call, form: _Form, rows: Values, target: Values) -> None:
    """Zero-point rows as f32; packed uint8 ones are padded to a byte along their last axis."""
    value = call.inputs[3]
    if isinstance(value, Packed):
        table = byte_table(value.dtype, target.dtype)
        for place, number in enumerate(rows.tolist()):
            data = value.data.reshape(-1).view(np.uint8)
            expand_from(data, table, number * form.scale_inner, target[place])
        return
    zeros = call.array(3)
    if zeros.dtype != np.uint8 or form.bits == 8:
        _take_lines(zeros.reshape(-1, form.scale_inner), rows, target)
        return
    table = byte_table(UNSIGNED[form.bits], target.dtype)
    blocks = form.scales[-1]
    lines = zeros.reshape(form.scales[0], -1, zeros.shape[-1])
    for place, number in enumerate(rows.tolist()):
        expand_rows(lines[number], table, target[place].reshape(-1, blocks))


SPECS: tuple[OpSpec, ...] = (
    OpSpec(
        "com.microsoft",
        "GatherBlockQuantized",
        gather_block_quantized,
        workspace=gather_quantized_workspace,
    ),
)
