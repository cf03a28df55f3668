"""A decoder's program bound to its buffers at given extents: the prefill pass, or the decode step reused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from vramscope.decode.feeds import Feeds
from vramscope.errors import ScenarioError
from vramscope.plan.symbols import Extents, PhaseBindings, decoder_bindings
from vramscope.plan.types import Exact, Phase
from vramscope.run.bindings import Binding
from vramscope.run.last_rows import ALL_ROWS, WantedRows
from vramscope.run.launch import BoundProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Array
    from vramscope.ops.spec import Lifetime
    from vramscope.plan.types import Plan
    from vramscope.run.memory import SessionMemory
    from vramscope.run.runner import Runner

Bound = tuple[tuple[Binding, ...], BoundProgram]


@dataclass(frozen=True, slots=True)
class _KeptPrompt:
    """A bound prefill, and what it was bound for: lengths, plan, and where the workspace slots lie."""

    key: tuple[int, tuple[int, ...]]
    plan: Plan
    slots: tuple[tuple[Lifetime, int], ...]
    bound: Bound


def _slots(memory: SessionMemory) -> tuple[tuple[Lifetime, int], ...]:
    return tuple((lifetime, buffer.address) for lifetime, buffer in memory.workspace.items())


class Stepper:
    """Binds steps of one decoder; keeps the decode step while neither shapes nor addresses move."""

    def __init__(self, runner: Runner) -> None:
        """``runner`` holds a planned decoder."""
        self._runner = runner
        self._model = runner.planner.model
        assert self._model.contract is not None
        self._contract = self._model.contract
        self.feeds = Feeds(self._model, runner.plan, runner.memory)
        self.moving = not self._contract.pads_mask or any(pair.form.moving for pair in self._contract.kv)
        self._kept: tuple[tuple[int, int], Bound] | None = None
        self._prefills: dict[tuple[int, int], Bound] = {}
        self._prompt: _KeptPrompt | None = None
        self._head: tuple[BoundProgram, tuple[int, ...], BoundProgram] | None = None

    @property
    def kept(self) -> Bound | None:
        """The decode step that is bound now; None before the first one and after a buffer moved."""
        return None if self._kept is None else self._kept[1]

    def forget(self) -> None:
        """A buffer moved: the next steps are bound anew."""
        self._kept = self._prompt = self._head = None
        self._prefills.clear()

    def prefill(self, width: int, capacity: int) -> Bound:
        """A pass over ``width`` tokens of a prompt that is taken in several, in a cache of ``capacity``.

        How many lie before it is data: :func:`~vramscope.plan.prefill.check_chunk` refuses other graphs.
        Where the head can be launched by itself the pass is without it: :meth:`head`.
        """
        key = (width, capacity)
        if key not in self._prefills:
            extents = self._extents(width, 0, capacity)
            wanted = WantedRows(self._contract.logits, self._rows_of((width,) * extents.batch))
            self._prefills[key] = self.bind(Phase.PREFILL, extents, wanted)
        return self._prefills[key]

    def head(self, program: BoundProgram, rows: tuple[int, ...]) -> BoundProgram | None:
        """What makes the logits of one row of each sequence of a pass; None where the pass itself does."""
        if not program.head:
            return None
        if self._head is None or self._head[0] is not program or self._head[1] != rows:
            self._head = (program, rows, self._runner.bind_head(program, rows))
        return self._head[2]

    def _rows_of(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """What rows of tokens a pass has: shorter sequences are padded, or they follow each other."""
        return (sum(lengths),) if self._contract.paged else (len(lengths), max(lengths))

    def last_rows(self, lengths: Sequence[int]) -> tuple[int, ...]:
        """The row of each sequence's last token, among all rows of a pass over such prompts."""
        if self._contract.paged:
            return tuple(end - 1 for end in accumulate(lengths))
        return tuple(entry * max(lengths) + length - 1 for entry, length in enumerate(lengths))

    def decode(self, position: int, capacity: int) -> Bound:
        """The decode step with ``position`` valid tokens in a cache of ``capacity``."""
        key = (capacity, position if self.moving else -1)
        if self._kept is None or self._kept[0] != key:
            self._kept = (key, self.bind(Phase.DECODE, self._extents(1, position, capacity)))
        return self._kept[1]

    def whole_prompts(self, lengths: Sequence[int], capacity: int) -> Bound:
        """The one pass over prompts of these lengths; the last one is kept for prompts of the same lengths.

        Of the logits only each sequence's last row is computed, where the graph allows it.
        """
        memory, plan = self._runner.memory, self._runner.plan
        kept, key = self._prompt, (capacity, tuple(lengths))
        if kept is None or kept.plan is not plan or (kept.key, kept.slots) != (key, _slots(memory)):
            extents = replace(self._extents(max(lengths), 0, capacity), rows=sum(lengths))
            wanted = WantedRows(self._contract.logits, self._rows_of(lengths), self.last_rows(lengths))
            bound = self.bind(Phase.PREFILL, extents, wanted)
            kept = self._prompt = _KeptPrompt(key, plan, _slots(memory), bound)
        return kept.bound

    def _extents(self, tokens: int, past: int, capacity: int) -> Extents:
        plan = self._runner.plan
        return Extents(plan.scenario.batch, tokens, past, capacity, plan.kv.pool)

    def bind(self, phase: Phase, extents: Extents, wanted: WantedRows = ALL_ROWS) -> Bound:
        """A phase bound at these extents; ``wanted``: which rows of which output are read.

        Raises:
            ScenarioError: an output's shape is not exact there.
        """
        self._runner.gate.missed()
        shapes = decoder_bindings(self._model, self._runner.plan.scenario, phase, extents)
        bindings = self.buffers(shapes, extents)
        return bindings, self._runner.bind(phase, shapes, bindings, wanted)

    def buffers(self, shapes: PhaseBindings, extents: Extents) -> tuple[Binding, ...]:
        """The session's buffers as bindings at these extents.

        Raises:
            ScenarioError: an output's shape is not exact there.
        """
        return self.feeds.bindings(extents, self._output_shapes(shapes))

    def _output_shapes(self, shapes: PhaseBindings) -> dict[str, tuple[int, ...]]:
        program = self._model.program
        resolver = self._runner.resolver(shapes)
        found = {}
        for identity in program.outputs:
            shape, name = resolver.shape(identity), program.values[identity].name
            if not isinstance(shape, Exact):
                raise ScenarioError(f"output {name}", "its shape is not exact in this step", "Declare maxima")
            found[name] = shape.shape
        return found

    def logits(self, bindings: Sequence[Binding]) -> Array:
        """The logits buffer, [batch, positions, vocabulary], of as many positions for every sequence."""
        rows = self.rows(bindings)
        return rows.reshape(batch := self._runner.plan.scenario.batch, rows.shape[0] // batch, rows.shape[1])

    def rows(self, bindings: Sequence[Binding]) -> Array:
        """The logits buffer, [positions of all sequences, vocabulary]."""
        binding = next(item for item in bindings if item.output == self._contract.logits)
        view = binding.output_view()
        return view if view.ndim == 2 else view.reshape(-1, view.shape[-1])

    def moving_symbols(self, position: int, capacity: int) -> frozenset[str]:
        """Symbols whose extent moves from one step to the next, and what the classifier adds to them.

        A cache at its capacity moves nothing: its symbols are pinned (semantics 2.3).
        """
        now = self._extents(1, position, capacity)
        later = replace(now, past=now.past + 1)
        scenario = self._runner.plan.scenario
        first = decoder_bindings(self._model, scenario, Phase.DECODE, now).symbols
        second = decoder_bindings(self._model, scenario, Phase.DECODE, later).symbols
        moving = frozenset(name for name, extent in first.items() if second.get(name) != extent)
        return moving | (self._runner.planner.growing - first.keys()) if moving else moving
