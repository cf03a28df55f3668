"""The library's front door: open a model, plan it, decode with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vramscope.graph.load import open_model
from vramscope.ops.table import TABLE
from vramscope.plan.planner import Planner, make_plan
from vramscope.plan.suggest import suggestions
from vramscope.plan.types import Plan, Scenario
from vramscope.run.events import CancelCheck, Progress, ignore_progress, never_cancelled

if TYPE_CHECKING:
    from vramscope.graph.model import Model

__all__ = ["Plan", "Planner", "Scenario", "make_plan", "open_path", "suggestions"]


def open_path(
    path: Path | str,
    *,
    progress: Progress = ignore_progress,
    cancel: CancelCheck = never_cancelled,
    without_weights: bool = False,
) -> Model:
    """Opens a ``.onnx`` file or a folder. No weight byte is read.

    Args:
        path: the file or the folder.
        progress: called with a stage, how much is done and out of how much.
        cancel: called often; raises to stop.
        without_weights: let external data files be missing or incomplete, to plan the model alone.

    Raises:
        MissingWeightsError: an external data file is missing or too short.
        ModelFileError: the file or one of its companions is missing, damaged or outside its folder.
        ModelGraphError: the graph is not a valid one.
        CancelledError: the user asked to stop.
    """
    return open_model(
        Path(path), progress=progress, cancel=cancel, native=TABLE.keys(), without_weights=without_weights
    )
