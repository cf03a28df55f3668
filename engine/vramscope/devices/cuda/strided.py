"""Elementwise kernels written on demand: one expression over operands of any strides, merged to few axes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.launch import Launch, blocks, generated, numbers, pointer
from vramscope.devices.cuda.work import NoKernelError
from vramscope.graph.dtypes import ElementType, from_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.cuda.array import DeviceArray

THREADS = 256
MOST_BLOCKS = 65536
"""Blocks of one launch at most; each thread strides over the rest."""

TYPES: dict[ElementType, str] = {
    ElementType.FLOAT: "float",
    ElementType.FLOAT16: "f16",
    ElementType.BFLOAT16: "bf16",
    ElementType.DOUBLE: "double",
    ElementType.BOOL: "boolean",
    ElementType.INT8: "i8",
    ElementType.INT16: "i16",
    ElementType.INT32: "i32",
    ElementType.INT64: "i64",
    ElementType.UINT8: "u8",
    ElementType.UINT16: "u16",
    ElementType.UINT32: "u32",
    ElementType.UINT64: "u64",
}
"""What CUDA C++ calls an element type."""

FLOATS = frozenset({ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16, ElementType.DOUBLE})


def type_name(dtype: np.dtype[np.generic]) -> str:
    """The C++ name of a NumPy type.

    Raises:
        NoKernelError: kernels do not know it.
    """
    found = TYPES.get(from_numpy(dtype))
    if found is None:
        raise NoKernelError(f"no kernel knows {dtype}")
    return found


@dataclass(frozen=True, slots=True)
class Axes:
    """A common shape and each operand's strides in elements, adjacent axes merged where all allow it."""

    shape: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]


def merged(shape: tuple[int, ...], steps: Sequence[tuple[int, ...]]) -> Axes:
    """Axes of extent 1 dropped, neighbours that every operand walks through in one step joined."""
    kept: list[tuple[int, tuple[int, ...]]] = []
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        strides = tuple(item[axis] for item in steps)
        if kept and all(a == b * extent for a, b in zip(kept[-1][1], strides, strict=True)):
            kept[-1] = (kept[-1][0] * extent, strides)
        else:
            kept.append((extent, strides))
    return Axes(
        tuple(extent for extent, _ in kept),
        tuple(tuple(strides[number] for _, strides in kept) for number in range(len(steps))),
    )


def elementwise(
    name: str, expression: str, inputs: Sequence[DeviceArray], output: DeviceArray
) -> list[Launch]:
    """One kernel that writes ``expression`` of ``x0``, ``x1``… (wide values) to every element of ``output``.

    Args:
        name: for messages and the cache's file name.
        expression: C++ over ``x0``…; its result is narrowed to the output's type.
        inputs: broadcastable to the output's shape.
        output: where it goes; it may be an input of the same shape and type.
    """
    if output.size == 0:
        return []
    try:
        operands = [item.broadcast(output.shape) for item in inputs]
    except ValueError as error:
        raise NoKernelError(f"its inputs do not broadcast as they stand: {error}") from error
    axes = merged(output.shape, [*(item.steps for item in operands), output.steps])
    names = [type_name(item.dtype) for item in (*operands, output)]
    text = _text(expression, names, len(axes.shape))
    geometry = (prod(axes.shape), *axes.shape, *(step for strides in axes.steps for step in strides))
    return [
        Launch(
            generated(f"each-{name.lower()}", text),
            "each",
            (blocks(output.size, THREADS, MOST_BLOCKS), 1, 1),
            (THREADS, 1, 1),
            (numbers(geometry), *(pointer(item) for item in (*operands, output))),
        )
    ]


def _text(expression: str, names: Sequence[str], rank: int) -> str:
    count = len(names)
    strides = f" i64 step[{count}][{rank}];" if rank else ""
    extents = f" i64 extent[{rank}];" if rank else ""
    parameters = ", ".join(f"const {kind}* p{i}" for i, kind in enumerate(names[:-1]))
    lines = [f"struct Axes {{ i64 count;{extents}{strides} }};"]
    comma = ", " if parameters else ""
    lines.append(
        f'extern "C" __global__ void each(Axes axes, {parameters}{comma}{names[-1]}* out) {{ BEGIN();'
    )
    lines.append("  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < axes.count;")
    lines.append("       i += gridDim.x * (i64)blockDim.x) {")
    lines.append(f"    i64 at[{count}] = {{}}; i64 rest = i;")
    for axis in reversed(range(rank)):
        last = axis == 0
        lines.append(
            f"    {{ i64 k = {'rest' if last else f'rest % axes.extent[{axis}]'};"
            + ("" if last else f" rest /= axes.extent[{axis}];")
            + "".join(f" at[{n}] += k * axes.step[{n}][{axis}];" for n in range(count))
            + " }"
        )
    lines.extend(f"    auto x{n} = wide(p{n}[at[{n}]]);" for n in range(count - 1))
    lines.append(f"    out[at[{count - 1}]] = To<{names[-1]}>::from({expression});")
    lines.append("  }\n}\n")
    return "\n".join(lines)


def copy_launches(source: DeviceArray, target: DeviceArray) -> list[Launch]:
    """A copy between any strides and types of one shape."""
    if source.address == target.address and source.steps == target.steps and source.dtype == target.dtype:
        return []
    return elementwise("copy", "x0", [_plain(source, target)[0]], _plain(source, target)[1])


def _plain(source: DeviceArray, target: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
    """Equal types of any kind are copied as integers of their size."""
    if source.dtype != target.dtype:
        return source, target
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}.get(source.dtype.itemsize)
    if kind is None:
        raise NoKernelError(f"no kernel copies {source.dtype}")
    return source.view(kind), target.view(kind)
