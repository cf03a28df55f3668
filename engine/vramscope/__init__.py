"""VRAMScope: does this ONNX model fit this card, what fills it, and what capture and replay do to it.

    import vramscope

    model = vramscope.open_path("model-folder")
    plan = vramscope.make_plan(model, vramscope.Scenario(card="RTX 4090", context=8192))
    print(plan.verdict.sentence)

Names are loaded on first use, so importing the package (or its protocol) pulls in nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.api import Planner as Planner
    from vramscope.api import make_plan as make_plan
    from vramscope.api import open_path as open_path
    from vramscope.api import suggestions as suggestions
    from vramscope.decode.decoder import Decoder as Decoder
    from vramscope.devices.sampling import Sampling as Sampling
    from vramscope.plan.types import Plan as Plan
    from vramscope.plan.types import Scenario as Scenario
    from vramscope.report.trace import write_trace as write_trace
    from vramscope.run.plain import run_plain as run_plain
    from vramscope.run.trace import Tracer as Tracer

__version__ = "0.1.0"

_HOMES = {
    "Decoder": "vramscope.decode.decoder",
    "Plan": "vramscope.plan.types",
    "Planner": "vramscope.plan.planner",
    "Sampling": "vramscope.devices.sampling",
    "Scenario": "vramscope.plan.types",
    "Tracer": "vramscope.run.trace",
    "make_plan": "vramscope.plan.planner",
    "open_path": "vramscope.api",
    "run_plain": "vramscope.run.plain",
    "suggestions": "vramscope.plan.suggest",
    "write_trace": "vramscope.report.trace",
}


def __getattr__(name: str) -> object:
    """Loads a public name from its home on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vramscope' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted((*_HOMES, "__version__"))
