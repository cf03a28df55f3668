"""What the methods ``export``, ``report``, ``baseline`` and ``compare`` do with an engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vramscope.graph.model import KvForm
from vramscope.messages.live import Empty
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams
from vramscope.messages.reporting import ReportInfo, RunRecord
from vramscope.report.read import is_report, read_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vramscope.messages.columns import TableChunk
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import ExportParams, ScenarioInfo
    from vramscope.messages.reporting import (
        BaselineParams,
        CompareInfo,
        CompareParams,
        ReportParams,
        SideInfo,
    )
    from vramscope.report.document import PlanDocument
    from vramscope.server.engine import Engine
    from vramscope.server.generation import Generation
    from vramscope.server.listener import Listener

CARRIED = (
    "batch",
    "prompt",
    "context",
    "card",
    "budget",
    "bucket_minimum",
    "bucket_growing",
    "runtime",
    "weight_budget",
    "prefill_chunk",
    "block_size",
    "kv_blocks",
)
"""Fields of a scenario that mean the same for any model."""


def load_document(
    source: OpenParams, scenario: Callable[[ModelInfo], ScenarioInfo], listener: Listener
) -> PlanDocument:
    """A report as it was saved, or a model planned in the scenario that is asked of it."""
    from vramscope.server.engine import Engine

    if source.path and is_report(Path(source.path).expanduser()):
        return read_report(Path(source.path).expanduser())
    engine = Engine()
    info = engine.open(source, listener)
    wanted = scenario(info)
    bare = msgspec.structs.replace(wanted, maxima={}, extents={})
    made = engine.plan(PlanParams(scenario=bare), listener)
    known = {axis.symbol for axis in made.axes}
    fitting = msgspec.structs.replace(
        wanted,
        maxima={name: size for name, size in wanted.maxima.items() if name in known},
        extents={name: size for name, size in wanted.extents.items() if name in known},
    )
    if fitting != bare:
        engine.plan(PlanParams(scenario=fitting), listener)
    return engine.document()


def carried(asked: ScenarioInfo | None) -> Callable[[ModelInfo], ScenarioInfo]:
    """For another model the scenario of this one, as far as it means the same there and its limit allows."""

    def scenario(info: ModelInfo) -> ScenarioInfo:
        if asked is None:
            return info.scenario
        fields = {name: getattr(asked, name) for name in CARRIED}
        limit = info.contract.context_limit if info.contract is not None else None
        if limit is not None and asked.context > limit:
            fields |= {"context": limit, "prompt": min(asked.prompt, max(limit // 2, 1))}
        if info.contract is not None and any(pair.form == KvForm.PAGED.value for pair in info.contract.kv):
            fields["bucket_growing"] = False  # a pool is reserved at once
        return msgspec.structs.replace(info.scenario, **fields, maxima=asked.maxima, extents=asked.extents)

    return scenario


def run_record(generation: Generation, device: str) -> RunRecord:
    """What a generation has taken so far, beside its own plan."""
    from vramscope.server.convert import bytes_figure, component_info, scenario_info

    plan = generation.plan
    return RunRecord(
        device=device,
        scenario=scenario_info(plan.scenario),
        components=[component_info(item) for item in plan.components],
        total=bytes_figure(plan.total),
        snapshot=generation.snapshot(),
        profile=generation.profiled,
        groups=generation.slots().groups,
    )


def export(engine: Engine, params: ExportParams, _listener: Listener) -> Empty:
    """Writes what is shown as a report."""
    from vramscope.report.write import write_report

    write_report(Path(params.path).expanduser(), params.format, engine.document(whole=True))
    return Empty()


def report(engine: Engine, params: ReportParams, _listener: Listener) -> ReportInfo:
    """Shows a saved report in the place of the open model, which is closed."""
    path = Path(params.path).expanduser()
    found = read_report(path)
    plan = msgspec.structs.replace(found.plan, ticket=engine.show_report(found))
    return ReportInfo(
        path=str(path),
        model=found.model,
        plan=plan,
        run=found.run,
        headroom=found.curves,
        detailed=bool(found.details),
    )


def baseline(engine: Engine, params: BaselineParams, listener: Listener) -> SideInfo:
    """Keeps what later plans are compared with; what is open stays as it is."""
    from vramscope.report.compare import plan_side

    if params.path or params.sample:
        source = OpenParams(path=params.path, sample=params.sample)
        kept = load_document(source, carried(params.scenario or engine.planned_scenario), listener)
    else:
        kept = engine.document_as_it_is() if params.as_it_is else engine.document()
    engine.shelf.baseline = kept
    return plan_side(kept)


def compare(engine: Engine, params: CompareParams, _listener: Listener) -> CompareInfo:
    """Compares the baseline with what is shown, or a plan with its run."""
    return engine.shelf.compare(params, engine.document()).info


def compare_tables(engine: Engine) -> Iterator[TableChunk]:
    """The nodes of the newest comparison."""
    from vramscope.report.compare import node_tables

    if engine.shelf.compared is not None:
        yield from node_tables(engine.shelf.compared)
