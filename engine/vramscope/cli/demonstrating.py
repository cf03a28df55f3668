"""``vramscope demo``: the first look in a terminal, with a bundled sample and no GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.cli import screen
from vramscope.cli.planning import show_plan
from vramscope.cli.running import Steps, generate, show_outcome, show_outputs
from vramscope.cli.session import make_plan, open_model
from vramscope.messages.running import PrefillParams, RunModelParams
from vramscope.server.devices import runtime_of
from vramscope.server.engine import Engine
from vramscope.server.plain import run_model

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import ScenarioInfo

EAGER = 4
"""Eager steps before the capture."""

VERIFIED = 8
"""Replays that are compared with eager steps at the end."""

PROMPT_TOKENS = [1, 2, 3, 4]
"""The prompt of a decoder without a tokenizer."""


def demo(arguments: argparse.Namespace) -> int:
    """Plans a sample, runs it, captures and replays its decode step, and prints each part."""
    engine, meter = Engine(), screen.Meter()
    try:
        info = open_model(engine, arguments.model or _first_sample(), screen.listener(meter))
        meter.clear()
        wanted = msgspec.structs.replace(
            info.scenario, card=arguments.card, runtime=runtime_of(arguments.device)
        )
        made = make_plan(engine, wanted)
        out = screen.console()
        if not arguments.json:
            show_plan(out, info, made)
        if made.verdict.kind in ("fits", "no card or budget given"):
            _run(engine, info, wanted, arguments, out)
        elif arguments.json:
            screen.print_json(made)
    finally:
        engine.close()
    return 0


def _first_sample() -> str:
    from vramscope.build.samples import list_samples

    return list_samples()[0].name


def _run(
    engine: Engine, info: ModelInfo, wanted: ScenarioInfo, arguments: argparse.Namespace, out: Console
) -> None:
    if info.contract is None:
        run = RunModelParams(scenario=wanted, device=arguments.device)
        result = run_model(engine, run, screen.listener(screen.Meter()))
        if arguments.json:
            screen.print_json(result)
        else:
            show_outputs(out, result)
        return
    params = PrefillParams(
        scenario=wanted,
        prompt=info.default_prompt,
        tokens=[] if info.default_prompt else PROMPT_TOKENS,
        device=arguments.device,
    )
    outcome = generate(
        engine,
        info,
        params,
        screen.listener(screen.Meter()),
        Steps(min(EAGER, arguments.steps), arguments.steps, VERIFIED),
    )
    if arguments.json:
        screen.print_json(outcome)
        return
    out.print(f"prompt: {info.default_prompt or PROMPT_TOKENS}")
    out.print(f"answer: {outcome.text or outcome.tokens}")
    show_outcome(out, outcome)
