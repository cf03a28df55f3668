"""A host device that refuses to record some operators, or whose kernels fail while they are recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.devices.host import HostDevice

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec


class PickyDevice(HostDevice):
    """``refuses``: operator to the kernel's own words; ``breaks``: operators that fail while recorded."""

    def __init__(
        self,
        refuses: Mapping[str, str] | None = None,
        breaks: Collection[str] = (),
        budget: int | None = None,
    ) -> None:
        super().__init__(budget)
        self.refuses = dict(refuses or {})
        self.breaks = set(breaks)
        self.recorded: list[str] = []

    def capture_refusal(self, node: Node, spec: OpSpec) -> str:
        return self.refuses.get(node.operator) or super().capture_refusal(node, spec)

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        kernel = super().kernel(node, spec)

        def watched(call: Call) -> None:
            if self._recording:
                self.recorded.append(node.name)
                if node.operator in self.breaks:
                    raise RuntimeError(f"{node.operator} cannot run on a recording stream")
            kernel(call)

        return watched
