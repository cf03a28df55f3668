"""Predicted against measured: every tiny decoder at every batch, context and phase, to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from decoders import CPU_MODELS

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.errors import ScenarioError
from vramscope.plan.prediction import prediction
from vramscope.plan.types import ComponentName, Phase, Scenario

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]


def peaks_of(decoder: Decoder) -> dict[str, int]:
    """What the ledger saw, less what it does not see."""
    counted = decoder.snapshot().components.items()
    return {name: item.peak_bytes for name, item in counted if name != ComponentName.CONTEXT.value}


def wrong(decoder: Decoder) -> list[str]:
    """Components that held other than was planned: more than a ceiling, or not exactly an exact figure."""
    found = []
    for row in prediction(decoder.plan, peaks_of(decoder)):
        if row.component is ComponentName.CONTEXT:
            assert row.error is None
            continue
        assert row.error is not None, row
        if row.error:
            found.append(f"{row.component.value}: {row.error:+,} B")
    return found


def touched(decoder: Decoder, phase: Phase) -> tuple[int, int]:
    """The last byte of the arena that another step of ``phase`` writes, and the last one it may write."""
    arena = decoder._runner.memory.arena
    room = decoder.plan.phase(phase).arena.bytes
    if arena is None:
        return 0, room
    high = 0
    for pattern in (0x5A, 0xA5):  # a byte that a step happens to write as it was shows under the other one
        arena.bytes.fill(pattern)
        decoder.step() if phase is Phase.DECODE else decoder.prefill([PROMPT] * decoder.plan.scenario.batch)
        changed = (arena.bytes != pattern).nonzero()[0]
        high = max(high, int(changed[-1]) + 1 if changed.size else 0)
    return high, room


@pytest.mark.parametrize("context", [64, 200, 256])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CPU_MODELS)
def test_every_component_holds_what_was_predicted(
    shared_models: Path, name: str, batch: int, context: int
) -> None:
    model = open_path(shared_models / "tiny" / name)
    scenario = Scenario(batch=batch, prompt=len(PROMPT), context=context)
    assert model.contract is not None
    limit = model.contract.context_limit
    if limit is not None and limit.value < context:  # a static cache of 64 tokens
        with pytest.raises(ScenarioError, match=f"limit is {limit.value}"):
            make_plan(model, scenario)
        return
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    decoder.prefill([PROMPT] * batch)
    assert wrong(decoder) == []
    for _ in range(3):
        decoder.step()
    decoder.capture()
    decoder.advance()
    assert wrong(decoder) == []
    ledger = decoder.device.ledger
    assert ledger.total.peak_bytes == decoder.plan.total.bytes
    assert max(ledger.phase_peaks.values()) <= decoder.plan.total.known
    for phase in (Phase.DECODE, Phase.PREFILL):
        high, room = touched(decoder, phase)
        assert high <= room, phase
    decoder.close()
    assert ledger.total.current_bytes == 0


def test_a_figure_nobody_knows_has_no_error(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    plan = make_plan(model, Scenario(context=64))
    rows = {row.component: row for row in prediction(plan, {"weights": plan.components[0].figure.known + 5})}
    assert rows[ComponentName.WEIGHTS].error == 5
    assert rows[ComponentName.KV_CACHE].measured is None
    assert rows[ComponentName.KV_CACHE].error is None
    assert rows[ComponentName.CONTEXT].predicted.bytes is None
