"""Host kernels: sequences of tensors and optional values.

Tensors that enter a sequence are copied: the sequence outlives the planned memory they were computed in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.ops.call import Packed
from vramscope.ops.kernels.common import axis_of, copy_into, invalid
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.ops.call import Call, SequenceValue, Tensor


def sequence_input(call: Call, index: int) -> SequenceValue:
    """Input ``index`` as a sequence.

    Raises:
        VramscopeError: it is not one.
    """
    value = call.inputs[index] if index < len(call.inputs) else None
    if isinstance(value, list):
        return value
    raise invalid(call, f"input {index}", "a sequence is needed")


def owned(value: Tensor) -> Tensor:
    """A copy that shares no memory with planned buffers."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Packed):
        return Packed(value.data.copy(), value.dtype, value.shape)
    return list(value)


def _place(call: Call, position: int, length: int, *, past_end: int) -> int:
    if -length <= position < length + past_end:
        return position + length if position < 0 else position
    raise invalid(call, f"position {position}", f"the sequence has {length} tensors")


def _position(call: Call, index: int) -> int:
    return int(call.array(index).reshape(-1)[0])


def sequence_construct(call: Call) -> None:
    """SequenceConstruct: the inputs in order."""
    call.put(0, [owned(value) for value in call.inputs if value is not None])


def sequence_empty(call: Call) -> None:
    """SequenceEmpty."""
    call.put(0, [])


def sequence_insert(call: Call) -> None:
    """SequenceInsert: before a position, at the end by default."""
    sequence = list(sequence_input(call, 0))
    at = _place(call, _position(call, 2), len(sequence), past_end=1) if call.has(2) else len(sequence)
    sequence.insert(at, call.array(1).copy())
    call.put(0, sequence)


def sequence_erase(call: Call) -> None:
    """SequenceErase: at a position, the last one by default."""
    sequence = list(sequence_input(call, 0))
    at = _place(call, _position(call, 1) if call.has(1) else -1, len(sequence), past_end=0)
    del sequence[at]
    call.put(0, sequence)


def sequence_at(call: Call) -> None:
    """SequenceAt: the tensor at a position."""
    sequence = sequence_input(call, 0)
    _write(call, sequence[_place(call, _position(call, 1), len(sequence), past_end=0)])


def _write(call: Call, value: Tensor) -> None:
    if isinstance(value, np.ndarray):
        copy_into(call.output(0, value.shape, value.dtype), value)
    else:
        call.put(0, owned(value))


def sequence_length(call: Call) -> None:
    """SequenceLength, a scalar."""
    call.output(0, (), np.int64)[...] = len(sequence_input(call, 0))


def split_to_sequence(call: Call) -> None:
    """SplitToSequence: parts of the sizes in input 1 (a scalar: equal chunks), or single slices."""
    source = call.array(0)
    axis = axis_of(call, call.node.integer("axis", 0), source.ndim)
    extent = source.shape[axis]
    before = (slice(None),) * axis
    parts, start = [], 0
    for size in _part_sizes(call, extent):
        parts.append(source[(*before, slice(start, start + size))])
        start += size
    squeeze = not call.has(1) and not call.node.integer("keepdims", 1)
    call.put(0, [part.squeeze(axis).copy() if squeeze else part.copy() for part in parts])


def _part_sizes(call: Call, extent: int) -> list[int]:
    if not call.has(1):
        return [1] * extent
    sizes = call.array(1)
    if sizes.ndim == 0:
        size = int(sizes)
        if size <= 0:
            raise invalid(call, "the split size", f"it is {size}")
        return [min(size, extent - start) for start in range(0, extent, size)]
    if int(sizes.sum()) != extent:
        raise invalid(call, "the split sizes", f"{sizes.tolist()} do not sum to an extent of {extent}")
    return [int(size) for size in sizes]


def concat_from_sequence(call: Call) -> None:
    """ConcatFromSequence: along ``axis``, or stacked on a new one with ``new_axis`` = 1."""
    arrays = [item for item in sequence_input(call, 0) if isinstance(item, np.ndarray)]
    axis = call.node.integer("axis", 0)
    joined = np.stack(arrays, axis) if call.node.integer("new_axis", 0) else np.concatenate(arrays, axis)
    copy_into(call.output(0, joined.shape, joined.dtype), joined)


def optional(call: Call) -> None:
    """Optional: the input as it is; without an input the output stays empty."""
    value = call.inputs[0] if call.inputs else None
    if value is not None:
        _write(call, value)


def optional_has_element(call: Call) -> None:
    """OptionalHasElement: whether there is a value, a scalar."""
    call.output(0, (), np.bool_)[...] = call.has(0)


def optional_get_element(call: Call) -> None:
    """OptionalGetElement.

    Raises:
        VramscopeError: the optional is empty.
    """
    value = call.inputs[0] if call.inputs else None
    if value is None:
        raise invalid(call, "input 0", "the optional is empty", "Guard the node with OptionalHasElement")
    _write(call, value)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "SequenceConstruct", sequence_construct, sequence=True),
    OpSpec("", "SequenceEmpty", sequence_empty, sequence=True),
    OpSpec("", "SequenceInsert", sequence_insert, sequence=True, host_inputs=(2,)),
    OpSpec("", "SequenceErase", sequence_erase, sequence=True, host_inputs=(1,)),
    OpSpec("", "SequenceAt", sequence_at, sequence=True, host_inputs=(1,)),
    OpSpec("", "SequenceLength", sequence_length, sequence=True),
    OpSpec("", "SplitToSequence", split_to_sequence, sequence=True, host_inputs=(1,)),
    OpSpec("", "ConcatFromSequence", concat_from_sequence, sequence=True),
    OpSpec("", "Optional", optional, sequence=True),
    OpSpec("", "OptionalHasElement", optional_has_element, sequence=True),
    OpSpec("", "OptionalGetElement", optional_get_element, sequence=True),
)
