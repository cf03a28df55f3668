"""A session over two providers: every node runs where it has a kernel, and tensors travel through the host.

It is opted into. What needs persistent state of one device, or a graph on it, is refused by name
(semantics 1.21); plain runs are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from vramscope.errors import HeterogeneousExecutionUnsupportedError
from vramscope.run.session import ProgramSession

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.base import Device
    from vramscope.graph.model import Array, Model
    from vramscope.plan.types import Plan
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session_types import Outputs, SessionOptions

_WHY = "the session runs on two providers, and this needs persistent state or a graph on one device"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """One node that the session's device has no kernel for."""

    node: str
    operator: str
    reason: str


class HeterogeneousSession:
    """A program whose nodes run on the device where it has kernels, and on the host where it has none."""

    def __init__(
        self, model: Model, plan: Plan, device: Device, options: SessionOptions | None = None
    ) -> None:
        """Nothing is allocated before the first run."""
        self._inner = ProgramSession(model, plan, device, options)

    @property
    def elsewhere(self) -> tuple[Elsewhere, ...]:
        """Nodes that the device has no kernel for, in order, with the reason."""
        runner = self._inner.runner
        index, found = runner.planner.index, []
        for step in index.main_steps:
            spec = replace(index.specs[step.index], capture_refusal="")
            reason = runner.device.capture_refusal(step.node, spec)
            if reason:
                found.append(Elsewhere(step.node.name, step.node.qualified, reason))
        return tuple(found)

    def run(self, inputs: Mapping[str, Array]) -> Outputs:
        """Runs the graph on host inputs; every output is a copy.

        Raises:
            SequenceOutputError: an output is a sequence: only tensors travel.
            BindingError: as for a session of one device.
        """
        self._inner.prepare()
        return self._inner.run(inputs)

    def run_outputs(self, inputs: Mapping[str, Array]) -> Outputs:
        """As :meth:`run`: tensors only."""
        return self.run(inputs)

    def prepare(
        self, inputs: Mapping[str, Array] | None = None, bindings: Sequence[DeviceIoBinding] = ()
    ) -> NoReturn:
        """Refused."""
        self._refuse("prepare")

    def run_with_device_bindings(
        self, inputs: Mapping[str, Array], bindings: Sequence[DeviceIoBinding]
    ) -> NoReturn:
        """Refused."""
        self._refuse("run_with_device_bindings")

    def try_capture(self, bindings: Sequence[DeviceIoBinding]) -> NoReturn:
        """Refused."""
        self._refuse("capture")

    def replay(self, bindings: Sequence[DeviceIoBinding]) -> NoReturn:
        """Refused."""
        self._refuse("replay")

    def reset(self) -> NoReturn:
        """Refused."""
        self._refuse("reset")

    def _refuse(self, facility: str) -> NoReturn:
        names = ", ".join(item.node or item.operator for item in self.elsewhere[:3])
        raise HeterogeneousExecutionUnsupportedError(
            facility,
            f"{_WHY} ({names} run elsewhere)" if names else _WHY,
            "Run the graph with run, or open a session of one device",
            facility=facility,
        )

    def close(self) -> None:
        """Gives back all memory."""
        self._inner.close()
