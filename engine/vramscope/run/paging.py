"""Streaming weights: copied from the mapped file into the window just before the launch that reads them.

Every streamed weight has a fixed place in the window, so launches are bound once and nothing is allocated. A
copy from the host's memory is no work that a graph can hold, so a launch with streamed weights is an eager
seam between two graphs (semantics 2.1, 2.8); the addresses in the graphs around it never move (2.9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import InputError
from vramscope.graph.weights import read_weight
from vramscope.plan.streaming import streamed_steps
from vramscope.plan.types import OWN_RUNTIME, ComponentName

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vramscope.devices.base import Buffer, Device
    from vramscope.graph.model import Array, WeightSource
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel
    from vramscope.plan.index import PlanningIndex
    from vramscope.plan.types import StreamingPlan
    from vramscope.run.launch import Launch
    from vramscope.run.memory import SessionMemory


@dataclass(frozen=True, slots=True)
class PagingCounts:
    """What streaming did so far: copies into the window, and uses that found their weight still there."""

    page_ins: int = 0
    page_in_bytes: int = 0
    hits: int = 0


@dataclass(slots=True, eq=False)
class Page:
    """One streamed weight: where it comes from, its place in the window, and which pages share its bytes."""

    name: str
    source: WeightSource
    place: Array
    mapped: Array
    valid: bool = False
    overlaps: list[Page] = field(default_factory=list)


class WeightPager:
    """The window of one session and what is in it."""

    def __init__(
        self, device: Device, index: PlanningIndex, streaming: StreamingPlan, window: Buffer
    ) -> None:
        """Maps the streamed weights' file regions; no byte of them is read yet.

        Raises:
            ModelFileError: a weight's file changed since the model was opened.
        """
        self._device = device
        self._pages = _pages(index, streaming, window)
        self._steps = streamed_steps(index, streaming)
        self.plan = streaming
        self.page_ins = self.page_in_bytes = self.hits = 0

    @property
    def counts(self) -> PagingCounts:
        """The counts as they are now."""
        return PagingCounts(self.page_ins, self.page_in_bytes, self.hits)

    def place(self, identity: str) -> Array | None:
        """A streamed weight's bytes in the window; None for one that is resident."""
        page = self._pages.get(identity)
        return None if page is None else page.place

    def attach(self, launches: Iterable[Launch]) -> None:
        """Lets every launch that reads streamed weights bring them in first; the others are left alone."""
        for launch in launches:
            names = self._steps.get(launch.step.index, ())
            if names:
                pages = tuple(self._pages[name] for name in names)
                launch.kernel = PagedKernel(self, pages, launch.kernel)

    def bring(self, pages: tuple[Page, ...]) -> None:
        """Copies into the window what is not there any more."""
        for page in pages:
            if page.valid:
                self.hits += 1
                continue
            for other in page.overlaps:
                other.valid = False
            self._device.upload(page.place, page.mapped)
            page.valid = True
            self.page_ins += 1
            self.page_in_bytes += page.source.size


@dataclass(frozen=True, slots=True, eq=False)
class PagedKernel:
    """A launch's kernel behind the copies that it needs."""

    pager: WeightPager
    pages: tuple[Page, ...]
    kernel: Kernel

    def __call__(self, call: Call) -> None:
        """Brings the weights in, then runs."""
        self.pager.bring(self.pages)
        self.kernel(call)

    @property
    def capture_refusal(self) -> str:
        """Why no graph can hold it."""
        names = ", ".join(page.name for page in self.pages)
        return f"the weight budget streams {names}: a copy from the host before every run"


def open_window(memory: SessionMemory, index: PlanningIndex, streaming: StreamingPlan | None) -> None:
    """Takes the window and maps the streamed weights, where there are any.

    Raises:
        InputError: the device cannot stream weights.
        OutOfBudgetError: the budget does not hold the window.
        ModelFileError: a weight's file changed since the model was opened.
    """
    if streaming is None:
        return
    if memory.device.runtime != OWN_RUNTIME:
        raise InputError(
            f"a weight budget of {streaming.budget:,} bytes on {memory.device.name}",
            "weights are streamed on the host device alone",
            "Leave the weight budget out, or run on the host",
        )
    window = memory.take(ComponentName.WEIGHTS, "window of streamed weights", streaming.window)
    memory.pager = WeightPager(memory.device, index, streaming, window)


def _pages(index: PlanningIndex, streaming: StreamingPlan, window: Buffer) -> Mapping[str, Page]:
    program = index.program
    sources = {source.identity: (value, source) for value, source in program.weights.items()}
    pages: dict[str, Page] = {}
    for identity, offset in streaming.offsets.items():
        value, source = sources[identity]
        mapped = np.ascontiguousarray(read_weight(source)).reshape(-1).view(np.uint8)
        place = window.bytes[offset : offset + source.size]
        pages[identity] = Page(program.values[value].name, source, place, mapped)
    for one in pages.values():
        others = (other for other in pages.values() if other is not one)
        one.overlaps.extend(other for other in others if _share(one, other, streaming))
    return pages


def _share(one: Page, other: Page, streaming: StreamingPlan) -> bool:
    """Whether two weights lie over each other in the window."""
    first, second = streaming.offsets[one.source.identity], streaming.offsets[other.source.identity]
    return first < second + other.source.size and second < first + one.source.size
