"""What a session's owner may ask about and do with its memory: governor, weight budget (semantics 1.20)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vramscope.devices.governor_growth import ZoneMetrics
from vramscope.devices.governor_mapping import GRANULE
from vramscope.errors import InvalidRequestError
from vramscope.plan.streaming import working_set
from vramscope.plan.types import ComponentName
from vramscope.run.binding_factory import binding_spec, virtual_binding
from vramscope.run.memory_state import MemoryState, memory_state

if TYPE_CHECKING:
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.runner import Runner


@dataclass(frozen=True, slots=True)
class Governance:
    """The memory of one session, for its owner."""

    runner: Runner

    @property
    def state(self) -> MemoryState:
        """Claims, what they leave, peaks by phase, streamed weights."""
        return memory_state(self.runner.memory)

    def adopt_memory_governor(self, governor: MemoryGovernor) -> int:
        """Puts the session's memory under ``governor``; how many bytes are newly placed there.

        Adopted before, nothing is charged twice: the answer is 0.

        Raises:
            TierExhaustedError: it does not hold what the session has; every lease is as it was.
            InvalidRequestError: another authority governs the session already.
        """
        zone = self.runner.memory.zone
        if zone is not None and zone.metrics().live_holders:
            raise InvalidRequestError(
                "adopting another governor", "virtual bindings are mapped under this one", "Close them first"
            )
        self.runner.memory.zone = None
        return self.runner.memory.leases.adopt(governor)

    def virtual_binding(
        self,
        physical: tuple[int, ...],
        *,
        input_name: str = "",
        output_name: str = "",
        granule: int = GRANULE,
    ) -> DeviceIoBinding:
        """A binding with the physical strides of ``physical`` whose bytes are committed range by range.

        Its address never changes, so a graph that was captured over it stays while it grows.

        Raises:
            BindingError: as for an ordinary binding.
            InvalidRequestError: not on the host device, or a third party governs the session.
        """
        program = self.runner.planner.model.program
        spec = binding_spec(program, (input_name, output_name), physical, fixed_strides=True)
        return virtual_binding(self.runner.memory, spec, granule)

    @property
    def commits_on_demand(self) -> bool:
        """Whether the device backs memory only as it is touched: then a plan's bytes are taken bit by bit."""
        return self.runner.device.commits_on_demand

    @property
    def mapped(self) -> ZoneMetrics:
        """What virtual memory has mapped, and how its growth went."""
        zone = self.runner.memory.zone
        return ZoneMetrics() if zone is None else zone.metrics()

    def set_weight_residency_budget(self, size: int) -> int:
        """Lets weights take ``size`` bytes, before the session is prepared; returns the effective figure.

        Once the weights are claimed nothing changes, and the answer is the size of their lease.

        Raises:
            ScenarioError: 0 or less, or less than the least budget that works, which is named.
            InvalidRequestError: the plan is of a model specialised to its extents.
        """
        claimed = self.runner.memory.leases.sizes.get(ComponentName.WEIGHTS.value, 0)
        if claimed:
            return claimed
        plan = self.runner.plan
        if plan.specialised is not None:
            raise InvalidRequestError(
                "a weight budget", "the plan is of a model at given extents", "Give it in the scenario"
            )
        self.runner.plan = self.runner.planner.plan(replace(plan.scenario, weight_budget=size))
        return size

    @property
    def max_lazy_weight_working_set_bytes(self) -> int:
        """The most bytes of streamed weights that one node reads; 0 where none are streamed."""
        streaming = self.runner.plan.weights.streaming
        return 0 if streaming is None else working_set(self.runner.planner.index, streaming)
