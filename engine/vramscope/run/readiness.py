"""A gate before graphs: what their kernels need must be final, and stay what it was (semantics 1.22).

Kernels make much of what they need when they first run at new shapes: compiled code, prepared launches, a
library's answers. Eagerly they may; inside a recording nothing may be compiled or read on the host. So a
capture asks the device to make everything final first, at most once an epoch; an epoch begins whenever a
kernel is missing from a cache. What a graph was recorded with is a requirement that each replay has to meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from vramscope.devices.base import Pending
from vramscope.errors import ResourcesChangedError, VramscopeError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.devices.base import BoundLaunch, Device
    from vramscope.run.launch import Launch


@dataclass(frozen=True, slots=True)
class Readiness:
    """The device's answer: what is pending and why; complete where nothing is."""

    pending: tuple[Pending, ...] = ()

    @property
    def refusals(self) -> Mapping[int, str]:
        """By step of the program, why its node cannot be in a graph now."""
        return {item.step: f"what it needs is not final: {item.why}" for item in self.pending}


@dataclass(frozen=True, slots=True)
class Requirement:
    """What a graph was recorded with: whose resources, on which device, of which generation."""

    owner: ResourceGate = field(repr=False)
    authority: str
    generation: int


class ResourceGate:
    """One session's gate to its device's resources."""

    def __init__(self, device: Device) -> None:
        """Nothing was asked yet."""
        self._device = device
        self._answer = Readiness()
        self._answered = -1
        self._dropped = 0
        self.epoch = 0
        """Begins anew with every kernel that was missing from a cache."""

    def missed(self) -> None:
        """A kernel was missing and had to be made: what it needs may not be final yet."""
        self.epoch += 1

    def dropped(self) -> None:
        """The session gave its resources back: graphs recorded with them must not run again."""
        self._dropped += 1

    def finalise(self, launches: Sequence[Launch]) -> Readiness:
        """Makes final what these launches need; an answer, a failure too, holds until the next miss."""
        if self._answered != self.epoch:
            self._answered = self.epoch
            try:
                found = self._device.finalise(cast("Sequence[BoundLaunch]", launches))
                self._answer = Readiness(found)
            except VramscopeError as failure:
                self._answer = Readiness(tuple(Pending(item.step.index, str(failure)) for item in launches))
        return self._answer

    @property
    def requirement(self) -> Requirement:
        """What a graph recorded now is recorded with."""
        return Requirement(self, self._device.name, self._device.generation + self._dropped)

    def acquire(self, captured: Requirement) -> None:
        """Passes where the resources are the very ones that a graph was recorded with.

        Raises:
            ResourcesChangedError: they are another session's, another device's, or were given back since.
        """
        now = self.requirement
        if captured == now:
            return
        if captured.owner is not self:
            why = "another session recorded it"
        elif captured.authority != now.authority:
            why = f"it was recorded on {captured.authority}, and this is {now.authority}"
        else:
            why = f"what it was recorded with on {now.authority} was given back since"
        raise ResourcesChangedError("the captured graph's resources", why, "Prepare and capture again")
