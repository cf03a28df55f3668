"""Predicted against measured: every tiny decoder at every batch, context and phase, to the byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from decoders import CPU_MODELS

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.errors import ScenarioError
from vramscope.messages.reporting import RunRecord
from vramscope.plan.types import BucketPolicy, Certainty, ComponentName, Phase, Scenario
from vramscope.report.compare import prediction
from vramscope.report.text import figure_text
from vramscope.server.convert import bytes_figure, component_info, scenario_info
from vramscope.server.live import snapshot_info
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from pathlib import Path

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]


def record_of(decoder: Decoder) -> RunRecord:
    """The session's plan and what it held."""
    return RunRecord(
        device="host",
        scenario=scenario_info(decoder.plan.scenario),
        components=[component_info(item) for item in decoder.plan.components],
        total=bytes_figure(decoder.plan.total),
        snapshot=snapshot_info(decoder.snapshot(), {}, finished="", sequence=0, seconds=0.0),
    )


def wrong(decoder: Decoder) -> list[str]:
    """Components that held other than was planned: more than a ceiling, or not exactly an exact figure."""
    found = []
    for row in prediction(record_of(decoder)):
        if row.name == ComponentName.CONTEXT.value:
            assert row.difference is None
            continue
        assert row.difference is not None, row
        if row.difference:
            found.append(f"{row.name}: {row.difference:+,} B")
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
    decoder = Decoder(model, make_plan(model, Scenario(context=64)))
    decoder.load()
    before = record_of(decoder)
    weights = before.snapshot.counters[0]
    assert weights.component == "weights"
    more = msgspec.structs.replace(weights, peak_bytes=weights.peak_bytes + 5)
    snapshot = msgspec.structs.replace(before.snapshot, counters=[more])
    rows = {row.name: row for row in prediction(msgspec.structs.replace(before, snapshot=snapshot))}
    decoder.close()
    assert rows["weights"].difference == 5
    assert rows["KV cache"].left is not None
    assert rows["KV cache"].right is not None
    assert (rows["KV cache"].right.bytes, rows["KV cache"].difference) == (None, None)
    assert rows["device context"].left is not None
    assert rows["device context"].left.bytes is None


def test_a_growing_cache_is_shown_as_what_it_grows_to(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    scenario = Scenario(prompt=8, context=64, bucket=BucketPolicy(minimum=16, growing=True))
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    decoder.prefill([PROMPT])
    rows = {row.name: row for row in prediction(record_of(decoder))}
    cache, kv = rows["KV cache"], decoder.plan.kv
    assert cache.left is not None
    assert cache.right is not None
    assert (cache.left.bytes, cache.left.certainty) == (kv.bytes + kv.transient, "growing")
    assert (cache.right.bytes, cache.right.certainty) == (kv.first, "measured")
    assert kv.first == 16 * kv.bytes_per_token
    assert figure_text(cache.left) == f"grows to {format_bytes(kv.bytes + kv.transient)}"
    assert decoder.plan.total.certainty is Certainty.GROWING
    detail = decoder.plan.component(ComponentName.KV_CACHE).detail
    assert detail.startswith(f"{kv.first:,} B at first, grows to 64 tokens, ")
    for _ in range(50):
        decoder.step()
    assert wrong(decoder) == []
    decoder.close()


@pytest.mark.parametrize(("bucket", "prompt"), [(BucketPolicy(), 8), (BucketPolicy(16, growing=True), 40)])
def test_a_cache_that_begins_as_large_as_it_gets_is_exact(
    shared_models: Path, bucket: BucketPolicy, prompt: int
) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    plan = make_plan(model, Scenario(prompt=prompt, context=64, bucket=bucket))
    assert plan.kv.first == plan.kv.bytes
    cache = plan.component(ComponentName.KV_CACHE)
    assert cache.figure.certainty is plan.total.certainty is Certainty.EXACT
    assert "grows to" not in cache.detail
    assert ("only while the bucket grows" in cache.detail) == (plan.kv.transient > 0)
