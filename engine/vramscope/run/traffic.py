"""What mixtures of experts ask of memory while watched: arm, reset, snapshot, disarm (semantics 1.20).

A watched kernel is wrapped when its program is bound, so a session that is not armed pays nothing, and arming
or disarming retires the graphs that hold the other form.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from vramscope.errors import InvalidRequestError, ShapeOverflowError
from vramscope.graph.dtypes import BYTES_LIMIT
from vramscope.graph.model import ABSENT
from vramscope.ops.kernels.mixture import MIXTURES, chosen_experts, expert_inputs
from vramscope.plan.types import OWN_RUNTIME
from vramscope.run.paging import PagedKernel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vramscope.graph.model import Step
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel
    from vramscope.run.launch import Launch
    from vramscope.run.runner import Runner

TrafficPhase = Literal["Load", "Warmup", "Prefill", "Decode"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes and page-ins of expert weights, of one kernel or summed over all.

    Attributes:
        uploaded: copied to the device as whole banks (all experts of a projection).
        committed: newly backed on the device for whole banks.
        logical: of the experts of every route: rows × k.
        unique: of the experts that a run selected, each once a run.
        page_ins: banks that a weight budget made come in again.
        physical: read from device memory; None where a kernel cannot tell.
    """

    uploaded: int = 0
    committed: int = 0
    logical: int = 0
    unique: int = 0
    page_ins: int = 0
    physical: int | None = None

    @property
    def byte_hit_rate(self) -> float | None:
        """1 − min(physical / logical, 1); None where physical is unknown or nothing was asked for."""
        if self.physical is None or self.logical == 0:
            return None
        return 1.0 - min(self.physical / self.logical, 1.0)


def summed(parts: Iterable[Traffic]) -> Traffic:
    """The sum; ``physical`` is known only where every part knows it.

    Raises:
        ShapeOverflowError: a sum is more than 2**63 - 1.
    """
    found = tuple(parts)
    known = [part.physical for part in found if part.physical is not None]
    names = [field.name for field in fields(Traffic) if field.name != "physical"]
    sums = {name: sum(getattr(part, name) for part in found) for name in names}
    physical = sum(known) if found and len(known) == len(found) else None
    for name, value in {**sums, "physical": physical or 0}.items():
        if value > BYTES_LIMIT:
            raise ShapeOverflowError(f"the {name} traffic of experts", f"{value:,} is more than 2**63 - 1")
    return Traffic(**sums, physical=physical)


@dataclass(slots=True, eq=False)
class _Watched:
    """One node's counts while it is armed."""

    uploaded: int = 0
    committed: int = 0
    logical: int = 0
    unique: int = 0
    page_ins: int = 0

    @property
    def traffic(self) -> Traffic:
        return Traffic(self.uploaded, self.committed, self.logical, self.unique, self.page_ins)


@dataclass(frozen=True, slots=True, eq=False)
class WatchedKernel:
    """A mixture's kernel that counts which experts it was asked for."""

    kernel: Kernel
    counts: _Watched

    def __call__(self, call: Call) -> None:
        """Runs, then counts."""
        paged = self.kernel if isinstance(self.kernel, PagedKernel) else None
        before = (0, 0) if paged is None else (paged.pager.page_ins, paged.pager.page_in_bytes)
        self.kernel(call)
        if paged is not None:
            self.counts.page_ins += paged.pager.page_ins - before[0]
            self.counts.uploaded += paged.pager.page_in_bytes - before[1]
        chosen = chosen_experts(call)
        size = expert_bytes(call)
        self.counts.logical += chosen.size * size
        self.counts.unique += np.unique(chosen).size * size

    @property
    def capture_refusal(self) -> str:
        """Why no graph can hold it: what its own kernel says."""
        return str(getattr(self.kernel, "capture_refusal", ""))


def expert_bytes(call: Call) -> int:
    """Bytes of one expert: its share of every bank."""
    experts = call.array(2).shape[0]
    held = (call.array(index) for index in expert_inputs(call.node.operator) if call.has(index))
    return sum(array.nbytes // max(experts, 1) for array in held)


class MixtureTraffic:
    """The watch over one session's mixtures of experts."""

    def __init__(self, runner: Runner, retire: Callable[[str], None]) -> None:
        """Watches nothing yet. ``retire``: drops every graph of the session, for the cause given."""
        self._runner = runner
        self._retire = retire
        self._watched: dict[int, _Watched] = {}
        self.request = ""

    @property
    def armed(self) -> bool:
        """Whether kernels are watched."""
        return bool(self._watched)

    def arm(self, request: str) -> int:
        """Watches every mixture for ``request``; graphs are retired first. Returns how many kernels that is.

        Raises:
            InvalidRequestError: it is armed already, there is no mixture, or the device is not the host.
        """
        if self.armed:
            raise InvalidRequestError("expert traffic", f"it is armed for {self.request}", "Disarm it first")
        if self._runner.device.runtime != OWN_RUNTIME:
            name = self._runner.device.name
            raise InvalidRequestError(f"expert traffic on {name}", "routes are read on the host alone")
        steps = tuple(self._mixtures())
        if not steps:
            raise InvalidRequestError("expert traffic", "the model has no mixture of experts")
        self._retire(f"expert traffic was armed for {request}")
        self._watched = {step.index: _Watched() for step in steps}
        self.request = request
        self._runner.traffic = self
        return len(steps)

    def reset(self) -> None:
        """Starts the counts over; graphs stay."""
        for counts in self._watched.values():
            counts.uploaded = counts.committed = counts.logical = counts.unique = counts.page_ins = 0

    def snapshot(self) -> Traffic:
        """The sum over all kernels now; graphs stay.

        Raises:
            ShapeOverflowError: a sum is more than 2**63 - 1.
        """
        return summed(counts.traffic for counts in self._watched.values())

    def disarm(self) -> None:
        """Retires graphs, then stops watching; harmless when nothing is watched."""
        if not self.armed:
            return
        self._retire(f"expert traffic was disarmed for {self.request}")
        self._watched, self.request = {}, ""
        self._runner.traffic = None

    def attach(self, launches: Iterable[Launch]) -> None:
        """Wraps the mixtures of a program that was just bound."""
        for launch in launches:
            counts = self._watched.get(launch.step.index)
            if counts is not None:
                launch.kernel = WatchedKernel(launch.kernel, counts)

    def loaded(self) -> None:
        """Counts the banks that are resident now: the session's weights were loaded under watch."""
        program, memory = self._runner.planner.index.program, self._runner.memory
        for step in self._mixtures():
            counts = self._watched[step.index]
            for position in expert_inputs(step.node.operator):
                value = step.inputs[position] if position < len(step.inputs) else ABSENT
                source = program.weights.get(value) if value != ABSENT else None
                if source is not None and source.identity in memory.weight_buffers:
                    counts.uploaded += source.size
                    counts.committed += source.size

    def observe(self, request: str) -> TrafficObserver:
        """Arms, and gives the one observer, which disarms when it is finished or left.

        Raises:
            InvalidRequestError: as for :meth:`arm`; a second observer is refused.
        """
        self.arm(request)
        return TrafficObserver(self)

    def _mixtures(self) -> Iterator[Step]:
        for step in self._runner.planner.index.main_steps:
            if (step.node.domain, step.node.operator) in MIXTURES:
                yield step


class TrafficObserver:
    """Traffic by phase. Use it in a ``with``: leaving it disarms."""

    def __init__(self, traffic: MixtureTraffic) -> None:
        """Made by :meth:`MixtureTraffic.observe`."""
        self._traffic = traffic
        self._phase: TrafficPhase | None = None
        self._found: dict[TrafficPhase, Traffic] = {}

    def enter(self, phase: TrafficPhase) -> None:
        """What follows counts for ``phase``; a phase may be entered again.

        Raises:
            InvalidRequestError: there is no such phase, or the observer is finished.
        """
        if phase not in get_args(TrafficPhase) or not self._traffic.armed:
            why = f"{phase} is none" if self._traffic.armed else "the observer is finished"
            raise InvalidRequestError("a phase of expert traffic", why, ", ".join(get_args(TrafficPhase)))
        self._take()
        self._phase = phase

    def so_far(self) -> dict[TrafficPhase, Traffic]:
        """What each phase counted up to now; the watch goes on."""
        self._take()
        return dict(self._found)

    def finish(self) -> dict[TrafficPhase, Traffic]:
        """Disarms, and gives what each phase counted; again: the same."""
        self._take()
        self._phase = None
        self._traffic.disarm()
        return dict(self._found)

    def _take(self) -> None:
        if not self._traffic.armed:
            return
        if self._phase is not None:
            before, now = self._found.get(self._phase), self._traffic.snapshot()
            self._found[self._phase] = now if before is None else summed((before, now))
        self._traffic.reset()

    def __enter__(self) -> TrafficObserver:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()
