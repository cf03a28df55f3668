"""Control-flow bodies.

Run node by node on the host, their values in the region the plan reserved for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import VramscopeError
from vramscope.graph.model import ABSENT, Array, Program, Step
from vramscope.ops.call import Call, Packed, Tensor, compute
from vramscope.ops.kernels.planned import query_of
from vramscope.plan.bodies import BODY_ALIGNMENT, body_key
from vramscope.plan.types import ComponentName
from vramscope.plan.workspace import merge
from vramscope.run.children import ChildExecutors
from vramscope.run.memory import SessionMemory, stored_tensor
from vramscope.run.workspace import require_slot
from vramscope.units import align

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.ops.spec import OpSpec
    from vramscope.plan.arena import ArenaPlan
    from vramscope.run.children import ChildStep


class BodyRunner:
    """Runs the bodies of one step; values fill the step's region first, then counted allocations."""

    def __init__(self, step: Step, outer: dict[int, Tensor], memory: SessionMemory, arena: ArenaPlan) -> None:
        """``outer``: the enclosing run's values, read when a body runs."""
        self._step = step
        self._outer = outer
        self._memory = memory
        placement = arena.placements.get(body_key(step.index))
        self._region = (
            memory.arena_view(placement.offset, placement.size) if placement else np.empty(0, np.uint8)
        )
        self._used = 0
        self._spilled: list[Buffer] = []

    def run(self, name: str, inputs: list[Tensor]) -> list[Tensor]:
        """Runs body ``name`` on ``inputs``; its results stay valid until the step's next run.

        Raises:
            VramscopeError: the node has no such body, or the inputs do not match its formal ones.
        """
        self._rewind(0, 0)
        body = _body_of(self._step, name)
        return self._run(body, inputs, self._outer, self._step.node.name)

    def _run(self, body: Program, inputs: list[Tensor], outer: dict[int, Tensor], path: str) -> list[Tensor]:
        if len(inputs) != len(body.inputs):
            raise VramscopeError(
                f"body {body.name}",
                f"it takes {len(body.inputs)} inputs and is given {len(inputs)}",
                node=path,
            )
        values: dict[int, Tensor] = {inner: outer[value] for inner, value in body.captures.items()}
        values.update(zip(body.inputs, inputs, strict=True))
        values.update({value: stored_tensor(self._memory, source) for value, source in body.weights.items()})
        children = self._memory.children.setdefault(path, ChildExecutors())
        for child in children.get(self._memory.device, body, inputs):
            self._run_step(child, values, path)
        return [values[value] for value in body.outputs]

    def _run_step(self, child: ChildStep, values: dict[int, Tensor], path: str) -> None:
        step = child.step
        start = self._used, len(self._spilled)

        def nested(name: str, inputs: list[Tensor]) -> list[Tensor]:
            self._rewind(*start)
            return self._run(_body_of(step, name), inputs, values, f"{path}/{step.node.name}")

        call = Call(
            node=step.node,
            inputs=tuple(None if value == ABSENT else values[value] for value in step.inputs),
            placed=[None] * len(step.outputs),
            wanted=child.wanted,
            output_types=child.output_types,
            run_body=nested if step.bodies else None,
        )
        call.scratch_bytes = self._scratch(child.spec, call)
        compute(child.kernel, call)
        for value, result in zip(step.outputs, call.placed, strict=True):
            if value != ABSENT and result is not None:
                values[value] = self._settle(result, step.node.name)

    def _rewind(self, used: int, spilled: int) -> None:
        """Frees what a body kept beyond these marks: the next run of it starts over."""
        self._used = used
        for buffer in self._spilled[spilled:]:
            self._memory.give(buffer)
        del self._spilled[spilled:]

    def _scratch(self, spec: OpSpec, call: Call) -> Array | None:
        """The session's slot of the lifetime that the node asks for (semantics 1.9).

        Raises:
            WorkspaceNotPreparedError: it is more weakly aligned than the node needs.
        """
        memory, slots = self._memory, self._memory.workspace
        if spec.workspace is None:
            return max(slots.values(), key=lambda item: item.size).bytes if slots else None
        need = spec.workspace(query_of(call))
        slot = slots.get(need.lifetime)
        if slot is not None and need.bytes and memory.alignments[need.lifetime] < need.alignment:
            require_slot(memory, need.lifetime, merge([(call.node.name, need)]))
        return None if slot is None else slot.bytes

    def _settle(self, result: Tensor, name: str) -> Tensor:
        if (
            isinstance(result, Packed | list)
            or not self._memory.device.owns(result)
            or result.dtype.hasobject
        ):
            return result
        start = align(self._used, BODY_ALIGNMENT)
        if start + result.nbytes <= self._region.size:
            self._used = start + result.nbytes
            view = self._region[start : self._used]
        else:
            where = f"body of {self._step.node.name}: {name}"
            self._spilled.append(self._memory.take(ComponentName.ACTIVATIONS, where, result.nbytes))
            view = self._spilled[-1].bytes
        kept = view.view(result.dtype).reshape(result.shape)
        self._memory.device.copy(kept, result)
        return kept


def _body_of(step: Step, name: str) -> Program:
    body = step.bodies.get(name)
    if body is None:
        what, can = f"{name} of {step.node.qualified}", ", ".join(step.bodies)
        why = f"it cannot run on the extents that the plan was made for; {can} can"
        raise VramscopeError(what, why, "Give other inputs, or plan for other extents", step.node.name)
    return body
