"""The engine behind both doors: what the server answers and the command line prints.

One object owns the open model, its plan and its generation; every method takes a message's parameters and a
listener and returns a message. All methods are called from one thread.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from vramscope.errors import InputError, ModelFileError, VramscopeError
from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope.messages.slots import SlotsInfo
from vramscope.report.read import ENDING
from vramscope.server.shelf import Shelf
from vramscope.server.tracing import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.decode.tokenizer import Tokenizer
    from vramscope.devices.base import Device
    from vramscope.devices.card import Outside
    from vramscope.devices.governor_process import ProcessMemoryManager
    from vramscope.devices.governor_types import MemoryGovernor
    from vramscope.devices.sampling import Sampling
    from vramscope.graph.model import Model
    from vramscope.messages.columns import TableChunk
    from vramscope.messages.live import Empty, SnapshotInfo
    from vramscope.messages.model import ModelInfo, OpenParams
    from vramscope.messages.planning import HeadroomInfo, PlanInfo, PlanParams, ScenarioInfo
    from vramscope.messages.reporting import RunRecord
    from vramscope.messages.running import (
        CaptureInfo,
        CountParams,
        PrefillParams,
        RunInfo,
        VerifyInfo,
    )
    from vramscope.plan.planner import Planner
    from vramscope.plan.types import Plan, Scenario
    from vramscope.report.document import PlanDocument
    from vramscope.run.trace import Tracer
    from vramscope.server.generation import Generation
    from vramscope.server.listener import Listener


class Engine:
    """The open model, its plan and its generation. A request that fails leaves all three as they were."""

    def __init__(self) -> None:
        """Starts with nothing open."""
        self._planner: Planner | None = None
        self._info: ModelInfo | None = None
        self._plan: Plan | None = None
        self._plan_info: PlanInfo | None = None
        self._generation: Generation | None = None
        self._generation_of: tuple[Scenario, Sampling, str, bool] | None = None
        self._tokenizer: Tokenizer | None = None
        self._memory: ProcessMemoryManager | None = None
        self._outside: dict[str, Outside] = {}
        """Per runtime what its device's card held beside buffers when it was last opened."""
        self._tickets = 0
        self.plain: RunRecord | None = None
        """What the newest run of a model that is no decoder took."""
        self.shelf = Shelf()
        """Reports and comparisons."""
        self.recording = Recording()
        """Of what runs, where a trace is asked for."""

    @property
    def model(self) -> Model:
        """The open model; raises as :attr:`planner` does."""
        return self.planner.model

    @property
    def planner(self) -> Planner:
        """The open model's.

        Raises:
            InputError: none is open.
        """
        if self._planner is None:
            raise InputError("this request", "no model is open", "Open a model first")
        return self._planner

    @property
    def plan_made(self) -> Plan:
        """The newest plan.

        Raises:
            InputError: nothing was planned yet.
        """
        if self._plan is None:
            raise InputError("this request", "nothing is planned yet", "Plan the open model first")
        return self._plan

    @property
    def ticket(self) -> int:
        """Of what is shown; 0 before anything was planned."""
        planned = self._plan_info.ticket if self._plan_info else 0
        return self._tickets if self.shelf.report is not None else planned

    @property
    def planned_scenario(self) -> ScenarioInfo | None:
        """The scenario of what is shown; None before anything was planned."""
        if self.shelf.report is not None:
            return self.shelf.report.plan.scenario
        return None if self._plan_info is None else self._plan_info.scenario

    def open(self, params: OpenParams, listener: Listener) -> ModelInfo:
        """Opens a file, a folder or a bundled sample in the place of the open model."""
        from vramscope.api import open_path
        from vramscope.plan.planner import Planner
        from vramscope.server.convert import model_info

        path = self._path(params, listener)
        model = open_path(
            path, progress=listener.progress, cancel=listener.cancel, without_weights=params.without_weights
        )
        info = model_info(model, params.sample)
        self.close()
        self._planner, self._info = Planner(model), info
        self._plan = self._plan_info = self._tokenizer = self.shelf.report = None
        return info

    def _path(self, params: OpenParams, listener: Listener) -> Path:
        if bool(params.path) == bool(params.sample):
            raise ModelFileError("what to open", "give either a path or a sample's name")
        if params.path:
            path = Path(params.path).expanduser()
            if path.name.lower().endswith(ENDING):
                raise ModelFileError(
                    str(path), "it is a saved report, not a model",
                    "Give it to vramscope compare, or to vramscope gui, which shows it",
                )  # fmt: skip
            return path
        from vramscope.server.samples import find_sample

        return find_sample(params.sample, listener.progress, listener.cancel)

    def plan(self, params: PlanParams, _listener: Listener) -> PlanInfo:
        """Plans the open model; the node rows are in :meth:`node_tables`."""
        from vramscope.server.convert import scenario_of

        return self._make_plan(scenario_of(params.scenario), brief=params.brief)

    def _make_plan(self, scenario: Scenario, *, brief: bool) -> PlanInfo:
        from vramscope.plan.suggest import suggestions
        from vramscope.server.convert import check_maxima, plan_info

        planner = self.planner
        started = perf_counter()
        plan = self.seen(planner.plan(scenario))
        milliseconds = (perf_counter() - started) * 1000
        check_maxima(plan)
        ticket = self._tickets + 1
        found = None if brief else suggestions(planner, plan)
        info = plan_info(
            plan,
            planner.model.problems,
            found,
            ticket=ticket,
            milliseconds=milliseconds,
            growing=planner.under(scenario).growing,
        )
        self._plan, self._plan_info, self._tickets = plan, info, ticket
        return info

    def seen(self, plan: Plan) -> Plan:
        """The plan with the device context bounded, once a device of its runtime was open."""
        from vramscope.plan.outside import with_context

        outside = self._outside.get(plan.scenario.runtime)
        return plan if outside is None else with_context(plan, outside.taken, outside.page)

    def headroom(self) -> list[HeadroomInfo]:
        """Totals around the newest plan: every context of a grid at every batch."""
        from vramscope.server.headroom import headroom_grid

        return headroom_grid(self.planner, self.plan_made)

    def node_tables(self) -> Iterator[TableChunk]:
        """The node rows of what is shown, and the blocks of the newest plan's arenas."""
        from vramscope.report.arena import arena_blocks, arena_tables
        from vramscope.report.rows import node_tables
        from vramscope.report.tables import document_tables

        if self.shelf.report is not None:
            yield from document_tables(self.shelf.report, self.ticket)
            yield from arena_tables(self.shelf.report.arenas, self.ticket)
            return
        yield from node_tables(self.plan_made, self.ticket)
        yield from arena_tables(arena_blocks(self.plan_made, self.model), self.ticket)

    def plan_for(self, scenario: Scenario, device: str) -> Plan:
        """The newest plan, or one of its own where that is not for this scenario and the device's kernels."""
        from vramscope.server.devices import runtime_of

        wanted = self.planner.catalogued(replace(scenario, runtime=runtime_of(device)))
        newest = self._plan is not None and self._plan.scenario == wanted
        plan = self.plan_made if newest else self.planner.plan(wanted)
        return plan.require_runnable().require()

    def prefill(self, params: PrefillParams, listener: Listener) -> RunInfo:
        """Starts a generation; loads the weights unless the same plan is loaded already."""
        from vramscope.plan.prefill import room_for
        from vramscope.server.convert import scenario_of
        from vramscope.server.generation import prompt_tokens

        if self.model.contract is None:
            raise InputError(
                f"{self.model.path.name}", "it is no decoder: it has no tokens in and no logits out",
                "Run it on inputs instead (run_model)",
            )  # fmt: skip
        self.model.require_weights()
        tokens = prompt_tokens(params, self.model, self._load_tokenizer())
        listener.cancel()
        plan = self.plan_for(room_for(scenario_of(params.scenario), len(tokens)), params.device)
        listener.cancel()
        generation = self._generation_for(plan, params, listener)
        return generation.prefill(tokens, listener)

    def _load_tokenizer(self) -> Tokenizer | None:
        """The open model's tokenizer, read once."""
        from vramscope.decode.tokenizer import load_tokenizer

        if self._tokenizer is None:
            self._tokenizer = load_tokenizer(self.model.folder)
        return self._tokenizer

    def _generation_for(self, plan: Plan, params: PrefillParams, listener: Listener) -> Generation:
        from vramscope.server.generation import Generation, sampling_of

        sampling, device, watch = sampling_of(params.sampling), params.device, params.watch_experts
        held, wanted = self._generation, (plan.scenario, sampling, device, watch)
        if held is not None and self._generation_of == wanted:
            return held
        self.close()
        target, governor = self.device_for(device, plan.scenario)
        try:
            generation = Generation(
                self.planner,
                plan,
                sampling,
                self._load_tokenizer(),
                target,
                governor,
                watch_experts=watch,
            )
            generation.trace(self.recording.begin())
            generation.load(listener)
        except BaseException:
            target.close()
            raise
        self._generation, self._generation_of = generation, wanted
        return generation

    def device_for(self, name: str, scenario: Scenario) -> tuple[Device, MemoryGovernor]:
        """A device and its governor, whose limit is the scenario's budget, else the card's usual share."""
        from vramscope.devices.card import outside_of
        from vramscope.devices.governor_limits import Auto, Bytes, resolve_limit
        from vramscope.devices.governor_process import ProcessMemoryManager
        from vramscope.devices.governor_types import Tier
        from vramscope.plan.planner import available_bytes
        from vramscope.server.devices import capacity_of, make_device, runtime_of

        budget = available_bytes(scenario)
        target = make_device(name, budget)
        self._outside[runtime_of(name)] = outside_of(target)
        self._memory = self._memory or ProcessMemoryManager()
        governor = self._memory.governor(target.name, {})
        stated = Auto() if budget is None else Bytes(budget)
        governor.set_limit(Tier.DEVICE, resolve_limit(stated, Tier.DEVICE, capacity_of(name)))
        return target, governor

    def trace_generation(self, tracer: Tracer | None) -> None:
        """Lets ``tracer`` record the generation, where there is one; None: nothing any more."""
        if self._generation is not None:
            self._generation.trace(tracer)

    def running(self) -> Generation:
        """The generation; raises InputError before there is one."""
        if self._generation is None:
            raise InputError("this request", "no generation has begun", "Prefill a prompt first")
        return self._generation

    def step(self, params: CountParams, listener: Listener) -> RunInfo:
        """Eager steps."""
        return self.running().step(positive(params.count), listener)

    def capture(self, _params: Empty, listener: Listener) -> CaptureInfo:
        """Captures the decode step."""
        return self.running().capture(listener)

    def replay(self, params: CountParams, listener: Listener) -> RunInfo:
        """Replays the captured step."""
        return self.running().replay(positive(params.count), listener, positive(params.multi_step))

    def verify(self, params: CountParams, listener: Listener) -> VerifyInfo:
        """Compares replay with eager."""
        return self.running().verify(positive(params.count), listener)

    def reset(self, _params: Empty, listener: Listener) -> RunInfo:
        """Back to before the prompt."""
        return self.running().reset(listener)

    def slots(self, _params: Empty, _listener: Listener) -> SlotsInfo:
        """Graph slots and memory slots in full; empty before there is a generation."""
        return SlotsInfo() if self._generation is None else self._generation.slots()

    def snapshot(self) -> SnapshotInfo:
        """Everything live about the generation, or the last plain run; all zero before there is either."""
        if self._generation is not None:
            return self._generation.snapshot()
        return EMPTY_SNAPSHOT if self.plain is None else self.plain.snapshot

    def document(self, *, headroom: bool = False, whole: bool = False) -> PlanDocument:
        """What is shown: the report that was read, or the newest plan with its run.

        Args:
            headroom: with totals at other contexts and batches.
            whole: with all that a window shows of it.

        Raises:
            InputError: nothing was planned yet.
        """
        from vramscope.report.document import document
        from vramscope.server.looking import extras

        if self.shelf.report is not None:
            return self.shelf.report
        plan = self.plan_made
        if self._info is None or self._plan_info is None:
            raise VramscopeError("the plan", "nothing is planned yet")
        more = extras(self, headroom=headroom, whole=whole)
        return document(self._info, self._plan_info, plan, self.run_record(), more)

    def document_as_it_is(self) -> PlanDocument:
        """The newest plan's scenario for the file as it is: no other export is assumed.

        Raises:
            InputError: nothing was planned yet.
        """
        from vramscope.report.document import document
        from vramscope.server.convert import plan_info

        planner, shown = self.planner, self.plan_made
        plan = planner.plan(replace(shown.scenario, as_if=()))
        info = plan_info(plan, planner.model.problems, None, ticket=0, milliseconds=0)
        assert self._info is not None
        return document(self._info, info, plan)

    def run_record(self) -> RunRecord | None:
        """What was planned for the newest run and what it took; None before there is one."""
        from vramscope.server.reporting import run_record

        run, of = self._generation, self._generation_of
        return self.plain if run is None or of is None else run_record(run, of[2])

    def show_report(self, found: PlanDocument) -> int:
        """Puts a saved report in the place of the open model; returns the ticket of its rows."""
        self.close()
        self._planner = self._info = self._plan = self._plan_info = self._tokenizer = None
        self.shelf.report, self._tickets = found, self._tickets + 1
        return self._tickets

    def close(self) -> None:
        """Gives back what the generation holds."""
        self.plain = None
        if self._generation is not None:
            self._generation.close()
            self._generation = None


def positive(count: int) -> int:
    """The count; raises InputError below 1."""
    if count < 1:
        raise InputError("the count", f"{count} is not at least 1")
    return count
