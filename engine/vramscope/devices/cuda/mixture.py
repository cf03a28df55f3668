"""CUDA builders of mixtures of experts and of products with weights in GGUF blocks."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.launch import Launch, Source, blocks, i64, numbers, pointer, source
from vramscope.devices.cuda.layout import flat_grid
from vramscope.devices.cuda.strided import THREADS, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.ops.cuda_mixture import cuda_mixture_workspace
from vramscope.ops.kernels.block_formats import block_format
from vramscope.ops.kernels.experts import gate_of
from vramscope.ops.kernels.mixture import PLANAR, check_blocks, check_integers, roles_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work
    from vramscope.ops.kernels.experts import Gate
    from vramscope.ops.kernels.mixture import Roles

FORMATS = ("mxfp4", "q8_0", "iq4_nl", "iq4_xs", "q2_k", "q3_k", "q5_k", "q6_k")
"""Block formats that the kernels decode, by their number there; those with code books are the host's."""
TILE = 8
"""Tokens that share one reading of a weight where an expert has many."""
ACTIVATIONS = ("relu", "gelu", "silu", "swiglu", "identity")
MOST_EXPERTS = 12000
"""Their counters fit in one block's shared memory."""


@dataclass(frozen=True, slots=True)
class Weights:
    """One projection of every expert: how it is stored, what to compile for it, the ``Weight`` structure."""

    defines: tuple[tuple[str, str], ...]
    form: bytes
    outputs: int


def _kind(value: DeviceArray) -> str:
    name = type_name(value.dtype)
    if name not in ("float", "f16", "bf16"):
        raise NoKernelError(f"its kernel computes float32, float16 and bfloat16, not {value.dtype}")
    return name


def _text(weights: Weights, kinds: tuple[str, str], tile: int) -> Source:
    """``kinds``: of activations and of the router."""
    names = (("T", kinds[0]), ("R", kinds[1]), *weights.defines, ("TILE", str(tile)))
    return source("mixture", names)


def _packed(
    data: DeviceArray, rest: tuple[DeviceArray | None, DeviceArray | None], form: tuple[int, ...]
) -> bytes:
    """The ``Weight`` structure: data, scales and zero points, then rows, depth, row bytes, blocks."""
    return b"".join(pointer(item) for item in (data, *rest)) + numbers(form)


def _dense(work: Work, index: int, x: DeviceArray) -> Weights:
    data = work.input(index)
    if data.dtype != x.dtype:
        raise NoKernelError("its experts have another type than their input")
    rows, depth = data.shape[1], data.shape[2]
    vector = 16 // data.itemsize
    wide = vector if depth % vector == 0 and data.address % 16 == 0 else 1
    form = _packed(data, (None, None), (rows, depth, 0, depth, 1, 0, 0))
    return Weights((("KIND", "0"), ("S", "float"), ("VEC", str(wide))), form, rows)


def _integer(work: Work, place: int, roles: Roles) -> Weights:
    data, scales = work.input(roles.weights[place]), work.input(roles.scales[place])
    zeros, bits = work.optional(roles.zeros[place]), work.node.integer("expert_weight_bits", 4)
    rows, depth = data.shape[1], data.shape[2] * (8 // bits)
    count = scales.shape[2] if scales.ndim == 3 else 1
    block = depth // count
    many = 32 // bits
    whole = data.shape[2] % 4 == 0 and data.address % 4 == 0 and block % many == 0
    flat = zeros is not None and zeros.ndim == 2 and count == 1
    per_row = zeros.shape[-1] if zeros is not None else 0
    steps = (0, per_row) if flat else (per_row, 0)
    form = _packed(data, (scales, zeros), (rows, depth, data.shape[2], block, count, *steps))
    names = (("KIND", "1"), ("BITS", str(bits)), ("S", _kind(scales)), ("VEC", str(many if whole else 1)))
    return Weights(names, form, rows)


def _blocks(data: DeviceArray, name: str, node: str, depth: int | None = None) -> Weights:
    found = block_format(name, node)
    if name not in FORMATS:
        raise NoKernelError(f"its kernel does not decode {name}, which needs a code book")
    rows, count = data.shape[-3], data.shape[-2]
    length = count * found.elements if depth is None else depth
    vector = 8 if length % 8 == 0 else 1
    form = _packed(data, (None, None), (rows, length, count * found.size, found.elements, count, 0, 0))
    names = (("KIND", "2"), ("FORMAT", str(FORMATS.index(name))), ("S", "float"), ("VEC", str(vector)))
    return Weights(names, form, rows)


def _projection(work: Work, place: int, roles: Roles, x: DeviceArray) -> Weights:
    index, operator = roles.weights[place], work.node.operator
    if operator == "MoE":
        return _dense(work, index, x)
    if operator == "QMoE":
        return _integer(work, place, roles)
    name = work.node.text(f"fc{place + 1}_format", "") or work.node.text("format", "")
    return _blocks(work.input(index), name, work.node.name)


@dataclass(frozen=True, slots=True)
class _Form:
    """Extents and the packed ``Mixture``."""

    rows: int
    experts: int
    slots: int
    hidden: int
    inner: int
    grouped: bool
    packed: bytes


def _form(work: Work, gate: Gate, outputs: int, experts: int) -> _Form:
    shape, count = work.input(0).shape, work.node.integer("k", 1)
    rows, hidden, inner = prod(shape[:-1]), shape[-1], gate.inner(outputs)
    grouped = rows * count > experts
    integers = (
        *(rows, experts, count, hidden, inner, gate.fusion, int(gate.gated)),
        *(
            ACTIVATIONS.index(gate.activation),
            int(grouped),
            work.node.integer("normalize_routing_weights", 0),
        ),
    )
    limit = min(gate.limit, float(np.finfo(np.float32).max))
    packed = struct.pack("<10q3d", *integers, gate.alpha, gate.beta, limit)
    return _Form(rows, experts, rows * count, hidden, inner, grouped, packed)


def _mixture(work: Work) -> list[Launch]:
    """Route, group where experts share readings, both products, the sum of the shares."""
    _check(work)
    roles, x = roles_of(work.node.operator), work.input(0)
    separate = work.has(roles.weights[2])
    gate = gate_of(work.node, separate=separate)
    out = work.output(0, x.shape)
    first, second = (_projection(work, place, roles, x) for place in (0, 1))
    third = _projection(work, 2, roles, x) if separate else replace(first, form=bytes(len(first.form)))
    if third.defines != first.defines:
        raise NoKernelError("its first and third projections are stored in different ways")
    form = _form(work, gate, first.outputs, work.input(roles.weights[0]).shape[0])
    if form.experts > MOST_EXPERTS:
        raise NoKernelError(f"it has {form.experts:,} experts")
    return _launches(work, roles, form, (first, second, third)) if out.size else []


def _launches(
    work: Work, roles: Roles, form: _Form, projections: tuple[Weights, Weights, Weights]
) -> list[Launch]:
    x, router, out = work.input(0), work.input(1), work.output(0)
    first, second, third = projections
    given = work.optional(roles.router_weights) if roles.router_weights >= 0 else None
    biases = [work.optional(index) for index in roles.biases]
    kinds, tile = (_kind(x), _kind(router)), TILE if form.grouped else 1
    room, mixture = work.regions(cuda_mixture_workspace(work.query)), form.packed
    lists = (room["chosen"], room["start"], room["order"])
    text, text2 = _text(first, kinds, tile), _text(second, kinds, tile)
    across = form.experts if form.grouped else form.slots
    routed = (mixture, router, given, room["chosen"], room["share"])
    found = [_launch(text, "route", (form.rows, 1), 32, routed)]
    if form.grouped:
        grouping = _launch(text, "group", (1, 1), 1024, (mixture, *lists))
        found.append(replace(grouping, shared=4 * form.experts))
    arguments = (mixture, first.form, third.form, x, biases[0], biases[2], *lists, room["hidden"])
    found.append(_launch(text, "first", (blocks(form.inner, 8), across), 256, arguments))
    arguments2 = (mixture, second.form, room["hidden"], biases[1], *lists, room["share"], room["part"])
    found.append(_launch(text2, "second", (blocks(form.hidden, 8), across), 256, arguments2))
    found.append(_launch(text, "combine", flat_grid(out.size)[:2], THREADS, (mixture, room["part"], out)))
    return found


def _check(work: Work) -> None:
    if work.node.operator == "QMoE":
        check_integers(work.node)
    if work.node.operator == "BlockQuantizedMoE":
        check_blocks(work.node, planar=any(work.has(index) for index in PLANAR))
    roles, x, router = roles_of(work.node.operator), work.input(0), work.input(1)
    stored = [i for group in (roles.weights, roles.scales, roles.zeros) for i in group if i >= 0]
    others = [work.input(i) for i in (*stored, *roles.biases, roles.router_weights) if i >= 0 and work.has(i)]
    if not all(item.contiguous for item in (x, router, work.output(0), *others)):
        raise NoKernelError("a tensor is strided")
    if any(work.has(index) and work.input(index).dtype != x.dtype for index in roles.biases):
        raise NoKernelError("its biases have another type than its input")
    given = work.optional(roles.router_weights) if roles.router_weights >= 0 else None
    if given is not None and given.dtype != router.dtype:
        raise NoKernelError("its router weights have another type than its logits")


def _launch(
    text: Source,
    function: str,
    grid: tuple[int, int],
    threads: int,
    arguments: tuple[bytes | DeviceArray | int | None, ...],
) -> Launch:
    packed = tuple(item if isinstance(item, bytes) else pointer(item) for item in arguments)
    return Launch(text, function, (*grid, 1), (threads, 1, 1), packed)


def _block_matmul(work: Work) -> list[Launch]:
    """BlockQuantizedMatMul."""
    node, x, data, out = work.node, work.input(0), work.input(1), work.output(0)
    bias, depth = work.optional(2), node.integer("K", 0)
    every = [x, data, out, *([bias] if bias is not None else [])]
    if not all(item.contiguous for item in every) or (bias is not None and bias.dtype != x.dtype):
        raise NoKernelError("a tensor is strided, or its bias has another type than its input")
    if node.integer("block_layout_version", 1) != 1:
        raise NoKernelError("its blocks are laid out in another version")
    rows = prod(x.shape[:-1])
    if out.size == 0:
        return []
    weights = _blocks(data, node.text("format", ""), node.name, depth)
    tile = TILE if rows > 1 else 1
    text = _text(weights, (_kind(x), "float"), tile)
    grid = (blocks(weights.outputs, 8), blocks(rows, tile, 65535))
    return [_launch(text, "project", grid, 256, (weights.form, i64(rows), x, bias, out))]


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("com.microsoft", "MoE"): _mixture,
    ("com.microsoft", "QMoE"): _mixture,
    ("pkg.nxrt", "BlockQuantizedMoE"): _mixture,
    ("pkg.nxrt", "BlockQuantizedMatMul"): _block_matmul,
}
"""Builders of this family."""
