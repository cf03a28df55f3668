"""From options to an engine: opening a model or sample, the scenario, reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.model import OpenParams
from vramscope.messages.planning import ExportParams, PlanParams
from vramscope.report.write import format_of
from vramscope.server.devices import runtime_of
from vramscope.server.listener import Listener
from vramscope.server.reporting import export
from vramscope.server.samples import is_sample

if TYPE_CHECKING:
    import argparse

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import PlanInfo, ScenarioInfo
    from vramscope.server.engine import Engine


def open_model(engine: Engine, name: str, listener: Listener, *, without_weights: bool = False) -> ModelInfo:
    """Opens a path, or a sample when nothing of that name is on the disk."""
    if not Path(name).expanduser().exists() and is_sample(name):
        return engine.open(OpenParams(sample=name), listener)
    return engine.open(OpenParams(path=name, without_weights=without_weights), listener)


def scenario(arguments: argparse.Namespace, info: ModelInfo) -> ScenarioInfo:
    """The model's first scenario with everything replaced that the options give."""
    given = {
        "batch": arguments.batch,
        "prompt": arguments.prompt_tokens,
        "context": arguments.context,
        "card": arguments.card or None,
        "budget": arguments.budget,
        "maxima": dict(arguments.max) or None,
        "extents": dict(arguments.extent) or None,
        "runtime": arguments.runtime if "runtime" in arguments else runtime_of(arguments.device),
        "bucket_minimum": arguments.bucket_minimum,
        "bucket_growing": arguments.growing or None,
        "weight_budget": arguments.weight_budget,
        "prefill_chunk": arguments.prefill_chunk,
        "block_size": arguments.block_size,
        "kv_blocks": arguments.kv_blocks,
        "as_if": arguments.as_if or None,
    }
    return msgspec.structs.replace(
        info.scenario, **{name: value for name, value in given.items() if value is not None}
    )


def make_plan(engine: Engine, wanted: ScenarioInfo) -> PlanInfo:
    """Plans the open model."""
    return engine.plan(PlanParams(scenario=wanted), Listener())


def write_reports(engine: Engine, arguments: argparse.Namespace) -> list[Path]:
    """Writes the reports that the options name; the ending of each file says its format."""
    for path in arguments.export:
        export(engine, ExportParams(path=str(path)), Listener())
    return list(arguments.export)


def check_reports(arguments: argparse.Namespace) -> None:
    """Refuses a report of no known format before any work is done.

    Raises:
        InputError: the ending of a file names no format.
    """
    for path in arguments.export:
        format_of(path)
