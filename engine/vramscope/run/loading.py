"""Loading a session's weights: constant steps run once, and what only they read is given back at once.

They come first, while the rest of the memory is still free, so that loading needs no more than the session.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import numpy as np

from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import ABSENT, Array, Step, Value
from vramscope.graph.weights import read_weight
from vramscope.ops.call import Call, Packed, Tensor, compute
from vramscope.ops.spec import NO_WORKSPACE, WorkspaceQuery, meta_of
from vramscope.plan.index import body_captures
from vramscope.plan.types import ComponentName
from vramscope.plan.weights import body_weights, read_by_main_steps, resident_roots
from vramscope.plan.workspace import ask, estimator_of
from vramscope.run.memory import SessionMemory, stored_tensor
from vramscope.run.paging import open_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vramscope.devices.base import Device
    from vramscope.graph.model import Program, WeightSource
    from vramscope.ops.spec import OpSpec
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.types import StreamingPlan
    from vramscope.run.events import CancelCheck, Progress

_COPY_CHUNK = 128 * 2**20
"""Bytes copied between two cancel checks."""


def load_weights(
    memory: SessionMemory,
    index: PlanningIndex,
    progress: Progress,
    cancel: CancelCheck,
    streaming: StreamingPlan | None = None,
) -> None:
    """Copies every weight into device memory, runs the constant steps, drops what only they needed.

    Streamed weights get their place in the window instead; their bytes are read when a step needs them.

    Raises:
        InputError: weights are to be streamed on a device that cannot.
        OutOfBudgetError: the budget does not hold the weights.
        ModelFileError: a weight's file changed since the model was opened.
        CancelledError: the user asked to stop.
    """
    loader = _Loader(memory, index, progress, cancel, frozenset(streaming.offsets if streaming else ()))
    for step in index.program.steps[: index.program.constant_steps]:
        loader.constant(step)
    open_window(memory, index, streaming)
    loader.rest()


class _Loader:
    """The state of one loading: what is read again later, and how much is done."""

    def __init__(
        self,
        memory: SessionMemory,
        index: PlanningIndex,
        progress: Progress,
        cancel: CancelCheck,
        streamed: frozenset[str],
    ) -> None:
        self._streamed = streamed
        self._memory = memory
        self._index = index
        self._progress = progress
        self._cancel = cancel
        program = index.program
        self._resident = resident_roots(index)
        self._inner = body_weights(program)
        self._last = _last_constant_reads(program)
        self._main = read_by_main_steps(program)
        stays = {program.weights[value].identity for value in self._resident if value in program.weights}
        self._keep = stays | self._inner.keys()
        read = [value for value in (*self._last, *self._resident) if value in program.weights]
        sources = {program.weights[value].identity: program.weights[value] for value in read}
        sources.update({identity: source for identity, (_, source) in self._inner.items()})
        self._total = sum(source.size for source in sources.values() if source.identity not in streamed)
        self._last_bytes: dict[str, int] = {}
        for value, step in self._last.items():
            identity = self._identity(value)
            self._last_bytes[identity] = max(step, self._last_bytes.get(identity, -1))
        self._done = 0

    def constant(self, step: Step) -> None:
        """Runs one constant step and gives back what no later one reads."""
        self._cancel()
        for value in _reads(step):
            self._load(value)
        _run_constant(self._memory, self._index, step, self._resident)
        for value in dict.fromkeys(_reads(step)):
            self._drop(value, step.index)

    def rest(self) -> None:
        """Loads what the main steps and the bodies read."""
        for value in self._resident:
            self._load(value)
        for name, source in self._inner.values():
            self._source(name, source)

    def _load(self, value: int) -> None:
        source = self._index.program.weights.get(value)
        if source is not None and value not in self._memory.weights:
            self._source(self._index.program.values[value].name, source)
            self._memory.weights[value] = stored_tensor(self._memory, source)

    def _source(self, name: str, source: WeightSource) -> None:
        self._cancel()
        memory = self._memory
        held = source.identity in memory.weight_buffers or source.identity in self._streamed
        if held or source.dtype is ElementType.STRING:
            return
        buffer = memory.take(ComponentName.WEIGHTS, name, source.size)
        memory.weight_buffers[source.identity] = buffer
        _copy(memory.device, buffer.bytes, read_weight(source), self._cancel)
        self._done += source.size
        self._progress("loading weights", self._done, self._total)

    def _identity(self, value: int) -> str:
        """Whose bytes a value is: the stored weight that it is or views; empty for a result of its own."""
        source = self._index.program.weights.get(self._index.root_of[value])
        return "" if source is None else source.identity

    def _drop(self, value: int, step: int) -> None:
        """Forgets a value that no step after ``step`` reads, and the bytes that none reads any more."""
        memory, identity = self._memory, self._identity(value)
        if value not in self._main and self._last[value] == step:
            memory.weights.pop(value, None)
        if identity in self._keep or self._last_bytes[identity] != step:
            return
        buffer = memory.weight_buffers.pop(identity, None)
        if buffer is not None:
            memory.give(buffer)


def _reads(step: Step) -> Iterator[int]:
    return (value for value in (*step.inputs, *body_captures(step)) if value != ABSENT)


def _last_constant_reads(program: Program) -> dict[int, int]:
    """Value → the last constant step that reads it."""
    return {value: step.index for step in program.steps[: program.constant_steps] for value in _reads(step)}


def _copy(device: Device, target: Array, weight: Array, cancel: CancelCheck) -> None:
    raw = np.ascontiguousarray(weight).reshape(-1).view(np.uint8)
    for start in range(0, raw.size, _COPY_CHUNK):
        cancel()
        device.upload(target[start : start + _COPY_CHUNK], raw[start : start + _COPY_CHUNK])


def _run_constant(
    memory: SessionMemory, index: PlanningIndex, step: Step, resident: Mapping[int, int]
) -> None:
    spec = index.specs[step.index]
    if _view_of_weights(memory, index, step):
        return
    values = index.program.values
    outputs = tuple(ElementType.UNDEFINED if item == ABSENT else values[item].dtype for item in step.outputs)
    call = Call(
        node=step.node,
        inputs=tuple(None if value == ABSENT else memory.weights[value] for value in step.inputs),
        placed=[None] * len(step.outputs),
        wanted=tuple(value != ABSENT for value in step.outputs),
        output_types=outputs,
    )
    if spec.strided_view and memory.device.owns(call.inputs[0]):
        source = cast("Array", call.inputs[0])
        call.placed[0] = source.transpose(step.node.integers("perm") or None)
    else:
        with np.errstate(all="ignore"), _scratch(memory, spec, call) as call.scratch_bytes:
            compute(memory.device.kernel(step.node, spec), call)
    for value, result in zip(step.outputs, call.placed, strict=True):
        if value != ABSENT and result is not None:
            memory.weights[value] = _keep(memory, index.program.values[value], result, value in resident)


@contextmanager
def _scratch(memory: SessionMemory, spec: OpSpec, call: Call) -> Iterator[Array | None]:
    """What a constant step works in, for as long as it runs: the planned slot, which is not reserved yet."""
    estimator = estimator_of(spec, memory.device.runtime)
    metas = tuple(meta_of(item) for item in call.inputs)
    need = (
        NO_WORKSPACE
        if estimator is None
        else ask(estimator, WorkspaceQuery(call.node, metas, sum(call.wanted)))
    )
    if not need.bytes:
        yield None
        return
    buffer = memory.take(ComponentName.WORKSPACE, need.lifetime.value, need.bytes)
    try:
        yield buffer.bytes
    finally:
        memory.give(buffer)


def _view_of_weights(memory: SessionMemory, index: PlanningIndex, step: Step) -> bool:
    """Whether the step only gives weights that lie on a device another shape; then it is done."""
    if len(step.outputs) != 1 or not index.specs[step.index].view:
        return False
    output, root = step.outputs[0], index.root_of[step.outputs[0]]
    shape, source = index.program.values[output].shape, memory.weights.get(root)
    if (
        root == output
        or shape is None
        or source is None
        or isinstance(source, list)
        or memory.device.name == "host"
    ):
        return False
    extents = tuple(dim for dim in shape if isinstance(dim, int))
    if len(extents) != len(shape):
        return False
    if isinstance(source, Packed):
        memory.weights[output] = Packed(source.data, source.dtype, extents)
    else:
        memory.weights[output] = source.reshape(extents)
    return True


def _keep(memory: SessionMemory, value: Value, result: Tensor, resident: bool) -> Tensor:
    """A constant step's own result moves into a buffer of its exact size; a view stays a view."""
    if isinstance(result, Packed):
        if not resident or memory.device.owns(result.data):
            return result
        return Packed(_moved(memory, value.name, result.data.reshape(-1)), result.dtype, result.shape)
    if not resident or isinstance(result, list) or result.dtype.hasobject:
        return result
    return _moved(memory, value.name, result)


def _moved(memory: SessionMemory, name: str, result: Array) -> Array:
    """A copy in a weight buffer of its own."""
    buffer = memory.take(ComponentName.WEIGHTS, name, result.nbytes)
    memory.weight_buffers[f"folded:{name}"] = buffer
    kept = buffer.bytes.view(result.dtype).reshape(result.shape)
    move = memory.device.copy if memory.device.owns(result) else memory.device.upload
    move(kept, result)
    return kept
