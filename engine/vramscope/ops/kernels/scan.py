"""Host kernel: Scan, of opset 9 and later and with the batch axis of opset 8."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.kernels.bodies import as_array, carry, empty_scan, homes_of, runner_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from vramscope.graph.model import Array
    from vramscope.ops.call import Call, Tensor

    Sink: TypeAlias = Callable[[int, int, Array], None]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Along which axis a scan input is read or an output written, and whether from the end."""

    axis: int
    reverse: bool


def scan(call: Call) -> None:
    """Scan: slice inputs along an axis, run the body on each slice, stack what it yields; operators 3.9.

    Opset 8 has a leading batch axis everywhere and an optional first input of sequence lengths.

    Raises:
        ModelGraphError: scan inputs of different lengths, or a sequence as a scan output.
    """
    if call.node.opset < 9:
        _scan_batched(call)
    else:
        _scan(call)


def _scan(call: Call) -> None:
    scanned = call.node.integer("num_scan_inputs", 0)
    count = len(call.inputs) - scanned
    reads = _axes(call, "scan_input", scanned)
    writes = _axes(call, "scan_output", len(call.placed) - count)
    sequences = [_time_first(call.array(count + index), axis) for index, axis in enumerate(reads)]
    length = _length(call, sequences)
    states = [call.array(index) for index in range(count)]

    def sink(index: int, position: int, row: Array) -> None:
        if call.wants(count + index):
            _write(call, count + index, (position, length), row, writes[index])

    for index, state in enumerate(_iterate(call, states, sequences, (0, length), sink)):
        call.put(index, state)
    if length == 0:
        for index, axis in enumerate(writes):
            empty_scan(call, count + index, axis.axis)


def _axes(call: Call, prefix: str, count: int) -> list[_Axis]:
    axes = call.node.integers(f"{prefix}_axes") or (0,) * count
    directions = call.node.integers(f"{prefix}_directions") or (0,) * count
    return [_Axis(axis, direction == 1) for axis, direction in zip(axes, directions, strict=True)]


def _time_first(array: Array, axis: _Axis) -> Array:
    moved = np.moveaxis(array, axis.axis, 0)
    return moved[::-1] if axis.reverse else moved


def _length(call: Call, sequences: list[Array]) -> int:
    lengths = {item.shape[0] for item in sequences}
    if len(lengths) != 1:
        raise ModelGraphError(
            f"scan inputs of {call.node.qualified}",
            f"their lengths differ: {sorted(lengths)}",
            "Give every scan input the same length along its scan axis",
            call.node.name,
        )
    return lengths.pop()


def _iterate(
    call: Call, states: list[Array], sequences: list[Array], span: tuple[int, int], sink: Sink
) -> list[Tensor]:
    """Run the body for positions [span); returns the final states."""
    run = runner_of(call)
    current: list[Tensor] = [*states]
    batched = call.node.opset < 9
    homes: list[Array | None] = [None] * len(states) if batched else homes_of(call, len(states))
    for position in range(*span):
        slices: list[Tensor] = [
            np.ascontiguousarray(item[position : position + 1]).reshape(item.shape[1:]) for item in sequences
        ]
        results = run("body", [*current, *slices])
        for index, row in enumerate(results[len(states) :]):
            sink(index, position, as_array(call, row))
        current = carry(results[: len(states)], homes)
    return current


def _write(call: Call, index: int, place: tuple[int, int], row: Array, axis: _Axis) -> None:
    """Write ``row`` at position ``place[0]`` of ``place[1]`` of a scan output."""
    position, length = place
    where = axis.axis % (row.ndim + 1)
    target = call.output(index, (*row.shape[:where], length, *row.shape[where:]), row.dtype)
    np.moveaxis(target, where, 0)[length - 1 - position if axis.reverse else position] = row


def _scan_batched(call: Call) -> None:
    """Opset 8: sequence_lens?, states [B, …], scan inputs [B, S, …]; rows past a length are zeros."""
    scanned = call.node.integer("num_scan_inputs", 0)
    count = len(call.inputs) - scanned - 1
    directions = call.node.integers("directions") or (0,) * scanned
    inputs = [call.array(1 + count + index) for index in range(scanned)]
    batch, most = inputs[0].shape[:2]
    lengths = [int(item) for item in call.array(0)] if call.has(0) else [most] * batch
    for entry in range(batch):
        length = lengths[entry]
        cut = [item[entry, :length] for item in inputs]
        sequences = [item[::-1] if turn else item for item, turn in zip(cut, directions, strict=True)]
        states = [call.array(1 + index)[entry] for index in range(count)]
        sink = _BatchSink(call, (batch, most), entry, count)
        for index, state in enumerate(_iterate(call, states, sequences, (0, length), sink)):
            value = as_array(call, state)
            if call.wants(index):
                call.output(index, (batch, *value.shape), value.dtype)[entry] = value


@dataclass(frozen=True, slots=True)
class _BatchSink:
    """Writes rows of one batch entry into outputs [B, S, …]."""

    call: Call
    extents: tuple[int, int]
    entry: int
    first: int

    def __call__(self, index: int, position: int, row: Array) -> None:
        if not self.call.wants(self.first + index):
            return
        fresh = self.call.placed[self.first + index] is None
        target = self.call.output(self.first + index, (*self.extents, *row.shape), row.dtype)
        if fresh or (position == 0 and self.entry == 0):
            target[...] = 0
        target[self.entry, position] = row
