"""What the ledger counts over the steps of a decoder (case 32)."""

from __future__ import annotations

from pathlib import Path

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.ledger import Site
from vramscope.plan.types import Scenario


def test_case_32_allocations_stop_before_the_capture_and_replays_add_none() -> None:
    model = open_path(Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama")
    decoder = Decoder(model, make_plan(model, Scenario(prompt=8, context=64)))
    ledger = decoder.device.ledger
    decoder.load()
    decoder.prefill([[5, 9, 11]])
    assert ledger.total.total_count > 0
    assert decoder.step().allocations == 0
    before = ledger.allocation_counts
    _, captured = decoder.capture()
    replays = [decoder.replay() for _ in range(4)]
    assert [result.allocations for result in (captured, *replays)] == [0] * 5
    assert all(result.replayed for result in replays)
    assert ledger.allocation_counts == before
    ledger.take(Site("weights", "one more"), 1)
    assert ledger.allocation_counts != before
    decoder.close()
