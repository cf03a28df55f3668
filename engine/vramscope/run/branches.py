"""Results of If branches that read nothing from outside, kept so that they run once (semantics 2.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.ops.call import Packed
from vramscope.plan.types import ComponentName

if TYPE_CHECKING:
    from vramscope.devices.base import Buffer
    from vramscope.graph.model import Step
    from vramscope.ops.call import RunBody, Tensor
    from vramscope.run.launch import BoundProgram
    from vramscope.run.memory import SessionMemory


class BranchMemo:
    """Keyed by node and predicate. A branch with outer captures is never kept: its results may change."""

    def __init__(self, memory: SessionMemory) -> None:
        """Nothing is kept yet. ``memory``: of the session."""
        self._memory = memory
        self._kept: dict[tuple[int, str], list[Tensor]] = {}
        self._buffers: list[Buffer] = []
        self.hits = 0

    def attach(self, program: BoundProgram) -> None:
        """Lets every If of a bound program look here first."""
        for launch in program.launches:
            if launch.step.node.operator == "If" and launch.call.run_body is not None:
                launch.call.run_body = self._memoised(launch.step, launch.call.run_body)

    def _memoised(self, step: Step, run: RunBody) -> RunBody:
        def run_once(name: str, inputs: list[Tensor]) -> list[Tensor]:
            key = (step.index, name)
            if key in self._kept:
                self.hits += 1
                return list(self._kept[key])
            results = run(name, inputs)
            if not step.bodies[name].captures and not any(isinstance(item, list) for item in results):
                self._kept[key] = [self._keep(step, item) for item in results]
            return results

        return run_once

    def _keep(self, step: Step, value: Tensor) -> Tensor:
        """A copy in memory of its own, counted beside the plan."""
        if isinstance(value, list):
            return value
        raw = value.data if isinstance(value, Packed) else value
        name = f"branch memo of {step.node.name}"
        buffer = self._memory.take(ComponentName.ACTIVATIONS, name, raw.nbytes)
        self._buffers.append(buffer)
        kept = buffer.bytes.view(raw.dtype).reshape(raw.shape)
        self._memory.device.copy(kept, raw)
        return Packed(kept, value.dtype, value.shape) if isinstance(value, Packed) else kept

    def close(self) -> None:
        """Gives the copies back."""
        self._kept.clear()
        while self._buffers:
            self._memory.give(self._buffers.pop())
