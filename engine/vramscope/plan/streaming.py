"""Weights under a budget: which stay in device memory, and where the others lie while they are read.

Some weights are loaded for good. The rest are *streamed*: before a step runs, the weights that it reads are
copied from the model's file into one window, so every weight has a fixed address and nothing is allocated
while the model runs. Weights that one step reads together do not overlap in the window; others may.

Always resident: what only the session has (results of folded constants), what the host reads besides the
steps (constant steps, control-flow bodies, sequences, graph outputs), and weights not worth a copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError
from vramscope.graph.dtypes import ElementType
from vramscope.graph.model import ABSENT
from vramscope.plan.index import body_captures
from vramscope.plan.types import StreamingPlan, WeightPlan
from vramscope.plan.weights import body_weights
from vramscope.units import align

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from vramscope.graph.model import Step
    from vramscope.plan.index import PlanningIndex

SMALLEST_STREAMED = 4096
"""Bytes; a smaller weight stays: its copy would cost as much as its use."""

CUTS = 64
"""So many sizes are tried as the border above which every weight stays."""


@dataclass(frozen=True, slots=True)
class StepWeights:
    """One main step and the streamable weights that it reads, by identity."""

    node: str
    weights: frozenset[str]


class StreamedWeights:
    """A program's weights under any budget."""

    def __init__(self, index: PlanningIndex, weights: WeightPlan) -> None:
        """``weights``: all of them, as they are without a budget."""
        self._whole = weights
        self._steps = tuple(step_weights(index))
        names = {name for step in self._steps for name in step.weights}
        sources = {source.identity: source.size for source in index.program.weights.values()}
        self._sizes = {name: sources[name] for name in sorted(names)}
        self._fixed = weights.bytes - sum(self._sizes.values())
        self._uses = Counter(name for step in self._steps for name in step.weights)
        self._known: dict[int, WeightPlan] = {}

    def under(self, budget: int | None) -> WeightPlan:
        """The weights under ``budget`` bytes; the whole of them where it holds them all, or there is none.

        Raises:
            ScenarioError: not even with every weight streamed; names the least budget that works.
        """
        if budget is None or budget >= self._whole.bytes:
            return self._whole
        if budget not in self._known:
            streaming = self._streaming(budget)
            taken = self._fixed + self._size(streaming.resident) + streaming.window
            self._known[budget] = replace(self._whole, bytes=taken, streaming=streaming)
        return self._known[budget]

    def _size(self, names: Collection[str]) -> int:
        return sum(self._sizes[name] for name in names)

    @cached_property
    def least(self) -> int:
        """The least budget that works: everything that can be is streamed."""
        return self._fixed + self._window(self._sizes)[1]

    def _streaming(self, budget: int) -> StreamingPlan:
        if budget < self.least:
            raise self._refusal(budget)
        found = [self._cut(budget, border) for border in self._borders()]
        return min((item for item in found if item is not None), key=lambda item: item.step_bytes)

    def _borders(self) -> Sequence[int]:
        """Sizes, largest first: weights above one of them all stay."""
        sizes = sorted(set(self._sizes.values()), reverse=True)
        return sizes[:CUTS]

    def _cut(self, budget: int, border: int) -> StreamingPlan | None:
        """The plan in which no streamed weight is larger than ``border``; None where it does not fit.

        Of the smaller weights those that most steps read stay first, then the largest.
        """
        resident = {name for name, size in self._sizes.items() if size > border}
        streamed = [name for name in self._sizes if name not in resident]
        room = budget - self._fixed - self._size(resident) - self._window(streamed)[1]
        if room < 0:
            return None
        uses = self._uses
        for name in sorted(streamed, key=lambda name: (-uses[name], -self._sizes[name], name)):
            if self._sizes[name] <= room:
                resident.add(name)
                room -= self._sizes[name]
        rest = [name for name in streamed if name not in resident]
        offsets, window = self._window(rest)
        pages = [self._sizes[name] for name in rest for _ in range(uses[name])]
        return StreamingPlan(budget, self.least, frozenset(resident), offsets, window, len(pages), sum(pages))

    def _window(self, streamed: Iterable[str]) -> tuple[dict[str, int], int]:
        """Where each streamed weight lies, and the bytes that takes: first fit, the largest weights first."""
        beside: dict[str, set[str]] = {name: set() for name in streamed}
        for step in self._steps:
            together = step.weights & beside.keys()
            for name in together:
                beside[name] |= together
        offsets: dict[str, int] = {}
        for name in sorted(beside, key=lambda name: (-self._sizes[name], name)):
            taken = ((offsets[other], self._sizes[other]) for other in beside[name] if other in offsets)
            offsets[name] = _gap(sorted(taken), self._sizes[name])
        ends = (offset + self._sizes[name] for name, offset in offsets.items())
        return offsets, max(ends, default=0)

    def _refusal(self, budget: int) -> ScenarioError:
        node = max(
            self._steps, key=lambda step: self._size(step.weights), default=StepWeights("", frozenset())
        )
        together = (
            f" and the {self._size(node.weights):,} that {node.node} reads at once" if node.node else ""
        )
        return ScenarioError(
            f"a weight budget of {budget:,} bytes",
            f"the {self._fixed:,} bytes of weights that must stay{together} do not fit",
            f"Give at least {self.least:,} bytes",
            node.node,
        )


def _gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The lowest aligned offset of ``size`` free bytes between taken (offset, size) ranges, sorted."""
    start = 0
    for offset, length in taken:
        if start + size <= offset:
            break
        start = max(start, align(offset + length))
    return start


def step_weights(index: PlanningIndex) -> Iterator[StepWeights]:
    """Every main step that reads weights which can be streamed."""
    program = index.program
    kept = _kept(index)
    for step in program.steps[program.constant_steps :]:
        found = frozenset(_identities(index, step)) - kept
        if found:
            yield StepWeights(step.node.name or step.node.operator, found)


def _identities(index: PlanningIndex, step: Step) -> Iterator[str]:
    """The stored weights that a step reads, itself or through a view."""
    for value in (*step.inputs, *body_captures(step)):
        source = index.program.weights.get(index.root_of[value]) if value != ABSENT else None
        if source is not None:
            yield source.identity


def _kept(index: PlanningIndex) -> set[str]:
    """Weights that must stay, by identity."""
    program = index.program
    stay = {item.identity for item in program.weights.values() if not _can_stream(item.dtype, item.size)}
    stay |= body_weights(program).keys()
    for value in program.outputs:
        source = program.weights.get(index.root_of[value])
        stay |= {source.identity} if source is not None else set()
    for step in program.steps:
        spec = index.specs[step.index]
        if step.index < program.constant_steps or spec.control_flow or spec.sequence:
            stay.update(_identities(index, step))
    return stay


def _can_stream(dtype: ElementType, size: int) -> bool:
    return dtype is not ElementType.STRING and size > SMALLEST_STREAMED


def streamed_steps(index: PlanningIndex, streaming: StreamingPlan) -> Mapping[int, tuple[str, ...]]:
    """Step index → identities of the weights that are copied into the window before it runs."""
    program = index.program
    found = {
        step.index: tuple(
            dict.fromkeys(name for name in _identities(index, step) if name in streaming.offsets)
        )
        for step in program.steps[program.constant_steps :]
    }
    return {step: names for step, names in found.items() if names}


def working_set(index: PlanningIndex, streaming: StreamingPlan) -> int:
    """The most bytes of streamed weights that one step reads (semantics 1.20)."""
    sizes = {source.identity: source.size for source in index.program.weights.values()}
    return max(sum(sizes[name] for name in names) for names in streamed_steps(index, streaming).values())
