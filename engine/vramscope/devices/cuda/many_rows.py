"""Groups around products of many rows: a bias goes into its product, a gated activation is one launch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, cast

from vramscope.devices.cuda.fuse import activation_behind, overlap, same_bytes
from vramscope.devices.cuda.launch import Launch, blocks, i64, pointer, source
from vramscope.devices.cuda.strided import TYPES
from vramscope.graph.dtypes import from_numpy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.fuse import Program
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call, Tensor

_KINDS = ("float", "f16", "bf16")
_ACTIVATIONS = ("Sigmoid", "Gelu", "FastGelu", "Swish")
BIAS = 5
"""Input of MatMulNBits that is added to its product."""


@dataclass(frozen=True, slots=True)
class Gate:
    """``act(gate) · up``: members by position, the last of them, and the launch in its place."""

    members: frozenset[int]
    at: int
    launch: Launch


@dataclass(frozen=True, slots=True)
class Biased:
    """A product and the bias behind it as one call: at the bias' place."""

    product: int
    at: int
    call: Call


def find_gates(program: Program, taken: Collection[int]) -> Iterator[Gate]:
    """Gated activations among the launches that are in no group."""
    for position, launch in enumerate(program.launches):
        if position in taken or program.operator(position) not in _ACTIVATIONS:
            continue
        found = activation_behind(program, launch.step.inputs[0])
        product = None if found is None else program.only_reader(found[2])
        if found is None or product is None or program.operator(product) != "Mul":
            continue
        members = {*found[1], product}
        if position not in members or not members.isdisjoint(taken):
            continue
        made = _gate(program, members, product, (found[0], program.root(found[2]), position))
        if made is not None:
            yield made


def _gate(program: Program, members: set[int], product: int, about: tuple[int, int, int]) -> Gate | None:
    activation, value, first = about
    inputs = [program.root(item) for item in program.launches[product].step.inputs]
    index = next((n for n, item in enumerate(inputs) if item != value), None)
    if index is None:
        return None
    gate, up, y = program.given(first, 0), program.given(product, index), program.placed(product)
    if gate is None or up is None or y is None or not _alike(gate, up, y):
        return None
    moved = any(overlap(y, item) and not same_bytes(y, item) for item in (gate, up))
    if moved or _written(program, members, (gate, up)):
        return None
    defines = (("T", TYPES[from_numpy(y.dtype)]), ("ACTIVATION", str(activation)))
    grid = (blocks(y.nbytes, 16 * 256), 1, 1)
    arguments = (i64(y.size), pointer(gate), pointer(up), pointer(y))
    return Gate(
        frozenset(members), product, Launch(source("gate", defines), "gate", grid, (256, 1, 1), arguments)
    )


def _alike(*tensors: DeviceArray) -> bool:
    """One float type, one size, elements side by side from a multiple of 16 bytes on."""
    first = tensors[0]
    kind = TYPES.get(from_numpy(first.dtype), "")
    even = all(item.contiguous and item.address % 16 == 0 for item in tensors)
    return kind in _KINDS and even and all((i.dtype, i.size) == (first.dtype, first.size) for i in tensors)


def _written(program: Program, members: Collection[int], read: Collection[DeviceArray]) -> bool:
    """Whether a launch between the members, which is none of them, writes over what they read."""
    for position in range(min(members), max(members)):
        if position in members:
            continue
        for index in range(len(program.launches[position].call.placed)):
            written = program.placed(position, index)
            if written is not None and any(overlap(written, item) for item in read):
                return True
    return False


def find_biased(program: Program, taken: Collection[int]) -> Iterator[Biased]:
    """Products with a constant weight behind which a constant row is added."""
    for position in range(len(program.launches)):
        if position in taken or program.operator(position) not in ("MatMul", "MatMulNBits"):
            continue
        reader = program.only_reader(program.launches[position].step.outputs[0])
        if reader is None or reader in taken or program.operator(reader) != "Add":
            continue
        call = _with_bias(program, position, reader)
        if call is not None:
            yield Biased(position, reader, call)


def _with_bias(program: Program, position: int, reader: int) -> Call | None:
    call = program.launches[position].call
    x, product, y = program.given(position, 0), program.placed(position), program.placed(reader)
    index = next((n for n in (0, 1) if program.is_constant(reader, n)), None)
    bias = None if index is None else program.given(reader, index)
    if x is None or product is None or y is None or bias is None or call.has(BIAS):
        return None
    columns = y.shape[-1]
    fits = y.shape == product.shape and bias.size == columns and program.is_constant(position, 1)
    alike = _alike(y) and _alike(bias) and bias.dtype == y.dtype and x.contiguous
    if not (fits and alike) or overlap(y, x) or _written(program, {position, reader}, (x,)):
        return None
    weight, row = program.given(position, 1), bias.reshape(columns)
    if call.node.operator == "MatMulNBits":
        inputs = (*call.inputs, *(None,) * (BIAS - len(call.inputs)), row)
        return _placed(call, call.node, inputs, y)
    if weight is None or weight.ndim != 2:
        return None
    flat = (x.reshape(prod(x.shape[:-1]), x.shape[-1]), weight, row)
    rows = y.reshape(prod(y.shape[:-1]), columns)
    return _placed(call, replace(call.node, operator="Gemm", attributes={}), flat, rows)


def _placed(call: Call, node: Node, inputs: tuple[object, ...], y: DeviceArray) -> Call:
    given = cast("tuple[Tensor | None, ...]", inputs)
    return replace(call, node=node, inputs=given, placed=[cast("Array", y)], memo=None)
