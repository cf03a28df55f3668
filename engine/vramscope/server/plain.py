"""The ``run_model`` request: one run of a model that is no decoder, and what it took."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.live import EMPTY_SNAPSHOT
from vramscope.messages.reporting import RunRecord
from vramscope.messages.running import RunModelInfo

if TYPE_CHECKING:
    from vramscope.messages.live import SnapshotInfo
    from vramscope.messages.running import RunModelParams
    from vramscope.plan.types import Plan
    from vramscope.run.plain import PlainRun
    from vramscope.server.engine import Engine
    from vramscope.server.listener import Listener


def run_model(engine: Engine, params: RunModelParams, listener: Listener) -> RunModelInfo:
    """Runs the open model on the arrays of files, or on seeded random ones; the engine keeps what it took."""
    from vramscope.run.inputs import load_inputs
    from vramscope.run.plain import plain_run
    from vramscope.server.arrays import check_target, save_outputs, scenario_for
    from vramscope.server.convert import scenario_of
    from vramscope.server.live import output_info, streaming_info

    engine.model.require_weights()
    scenario = scenario_of(params.scenario)
    files = [(item.name, Path(item.path).expanduser()) for item in params.inputs]
    given = load_inputs(files) if files else None
    if given is not None:
        scenario = scenario_for(engine.model, scenario, given)
    target = Path(params.save).expanduser() if params.save else None
    if target is not None:
        check_target(target)
    plan = engine.plan_for(scenario, params.device)
    device, governor = engine.device_for(params.device, scenario)
    started = perf_counter()
    try:
        ran = plain_run(
            engine.model,
            plan,
            given,
            planner=engine.planner,
            seed=params.seed,
            device=device,
            governor=governor,
            events=listener.event,
            progress=listener.progress,
            cancel=listener.cancel,
            tracer=engine.recording.begin(),
        )
    finally:
        device.close()
    milliseconds = (perf_counter() - started) * 1000
    engine.plain = plain_record(engine.seen(plan), ran, params.device)
    kept = engine.plain.snapshot
    listener.snapshot(lambda: kept, final=True)
    if target is not None:
        save_outputs(target, ran.outputs)
    found = [output_info(name, array) for name, array in ran.outputs]
    return RunModelInfo(
        outputs=found, milliseconds=milliseconds, streaming=streaming_info(ran.memory.streaming)
    )


def plain_record(plan: Plan, ran: PlainRun, device: str) -> RunRecord:
    """What a run took beside what was planned for it."""
    from vramscope.server.convert import bytes_figure, component_info, scenario_info

    return RunRecord(
        device=device,
        scenario=scenario_info(plan.scenario),
        components=[component_info(item) for item in plan.components],
        total=bytes_figure(plan.total),
        snapshot=plain_snapshot(ran),
    )


def plain_snapshot(ran: PlainRun) -> SnapshotInfo:
    """The memory at the end of a run, as a snapshot of a session is; its number and time are given later."""
    from vramscope.server.live import memory_fields

    return msgspec.structs.replace(
        EMPTY_SNAPSHOT,
        state="finished",
        allocations_last_step=ran.allocations,
        **memory_fields(ran.total, ran.budget, ran.components, ran.memory),
    )
