"""A CUDA stand-in that computes: launches are checked and recorded, and the host kernel does their work.

Its device memory is host memory, so what a launch should have written can be computed in place; a recorded
graph keeps that work and does it again at every replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda_twin import Twin, TwinError

from vramscope.devices.cuda.array import DeviceArray, need_device
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.platform import Platform
from vramscope.devices.cuda.prepared import Finalising
from vramscope.ops.call import Packed
from vramscope.ops.kernels.planned import query_of
from vramscope.ops.reference import run_reference

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call, Tensor
    from vramscope.ops.spec import Kernel, OpSpec


@dataclass
class ComputingTwin(Twin):
    """Keeps the work of a capture for its replays."""

    pending: list[Callable[[], None]] = field(default_factory=list)

    def begin_capture(self, mode: int) -> None:
        """Nothing is recorded yet."""
        super().begin_capture(mode)
        self.pending = []

    def end_capture(self) -> Any:  # noqa: ANN401 - a graph
        """A graph that counts its launches and does their work."""
        super().end_capture()
        work = tuple(self.pending)

        def launch(_stream: object) -> None:
            self.replays += 1
            for item in work:
                item()

        return SimpleNamespace(launch=launch, upload=lambda _stream: None)


class ComputingDevice(CudaDevice):
    """``breaks``: operators whose launch fails while a graph is recorded."""

    def __init__(self, budget: int | None = None, breaks: Collection[str] = ()) -> None:
        self.twin = ComputingTwin()
        self.breaks = set(breaks)
        super().__init__(budget, platform=Platform(self.twin, self.twin, self.twin, hopper=True))
        self.fusing = False

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        return ComputingKernel(self, node, spec, super().kernel(node, spec))

    def copy(self, target: Array, source: Array) -> None:
        super().copy(target, source)
        into, out = need_device(target).shadow, need_device(source).shadow
        self.do(lambda: np.copyto(into, out, casting="unsafe"))

    def do(self, work: Callable[[], None]) -> None:
        """Now, or at every replay of the graph that is being recorded."""
        if self.twin.capturing:
            self.twin.pending.append(work)
        else:
            work()


@dataclass(frozen=True)
class ComputingKernel:
    """A node's kernel on the stand-in, which does the work of its launches."""

    device: ComputingDevice
    node: Node
    spec: OpSpec
    launching: Kernel

    def __call__(self, call: Call) -> None:
        """Launches, and computes where something was launched."""
        twin = self.device.twin
        if twin.capturing and self.node.operator in self.device.breaks:
            raise TwinError("cudaErrorStreamCaptureUnsupported")
        issued = twin.issued
        self.launching(call)
        if twin.issued > issued:
            self.device.do(lambda: compute(self.spec, call))

    def finalise(self, call: Call) -> str:
        """As the card's own kernel does."""
        inner: object = self.launching
        return inner.finalise(call) if isinstance(inner, Finalising) else ""


def compute(spec: OpSpec, call: Call) -> None:
    """The host kernel over the very memory that the launches name."""
    inputs = tuple(_visible(value) for value in call.inputs)
    placed = [_visible(value) for value in call.placed]
    on_host = replace(call, inputs=inputs, placed=placed, memo=None, scratch_bytes=None)
    if spec.workspace is not None:
        on_host.scratch_bytes = np.empty(spec.workspace(query_of(on_host)).bytes + 64, np.uint8)
    (spec.kernel or run_reference)(on_host)
    for place, result in zip(placed, on_host.placed, strict=True):
        if isinstance(place, np.ndarray) and isinstance(result, np.ndarray) and place is not result:
            np.copyto(place, result, casting="unsafe")


def _visible(value: Tensor | None) -> Tensor | None:
    if isinstance(value, Packed):
        data = _visible(value.data)
        assert isinstance(data, np.ndarray)
        return Packed(data, value.dtype, value.shape)
    held: object = value
    return held.shadow if isinstance(held, DeviceArray) else value
