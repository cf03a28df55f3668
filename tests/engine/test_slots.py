"""Slots as the window asks for them: signatures, lost graphs, preconditions, memory slots."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from engine_process import EngineProcess, engine_process, greet

from vramscope.devices.card import CardMemory, card_memory
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import Ledger, Site
from vramscope.devices.site_history import KEPT, SiteFate
from vramscope.errors import OutOfBudgetError
from vramscope.messages.live import Empty
from vramscope.messages.running import CaptureInfo, VerifyInfo
from vramscope.messages.slots import SlotsInfo
from vramscope.run.audit import graph_decline
from vramscope.run.capture import CaptureReport, Decline, SeamReason, Segment
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.live import segment_infos

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.devices.base import Device

SLOT, OTHER = Site("workspace", "step-scoped"), Site("weights", "w")


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with engine_process() as made:
        greet(made)
        made.call("open", sample="tiny-llama")
        yield made


def fates(ledger: Ledger, component: str = "workspace") -> list[tuple[SiteFate, int, int]]:
    return [(item.fate, item.bytes, item.before) for item in ledger.history.changes(component)]


def test_a_slot_is_reserved_reused_replaced_refused_and_released() -> None:
    ledger = Ledger(1000)
    first = ledger.take(SLOT, 400)
    ledger.give_back(first)
    for _ in range(3):
        ledger.give_back(ledger.take(SLOT, 400))
    larger = ledger.take(SLOT, 600)
    with pytest.raises(OutOfBudgetError):
        ledger.take(SLOT, 2000)
    ledger.give_back(larger)
    assert fates(ledger) == [
        (SiteFate.RESERVE, 400, 0),
        (SiteFate.RELEASE, 400, 400),
        (SiteFate.REPLACE, 600, 400),
        (SiteFate.REFUSE, 2000, 600),
        (SiteFate.RELEASE, 600, 600),
    ]
    assert ledger.history.reuses("workspace") == {SLOT: 3}
    assert ledger.history.reuses("weights") == {}


def test_a_slot_that_grows_before_the_old_one_goes_is_no_reuse() -> None:
    ledger = Ledger()
    old = ledger.take(SLOT, 100)
    ledger.take(SLOT, 200)
    ledger.give_back(old)
    ledger.take(SLOT, 200)
    assert ledger.history.reuses("workspace") == {}


def test_many_weights_push_no_slot_out() -> None:
    ledger = Ledger()
    ledger.take(SLOT, 1)
    for number in range(2 * KEPT):
        ledger.take(Site("weights", f"w{number}"), 1)
    assert fates(ledger) == [(SiteFate.RESERVE, 1, 0)]
    assert len(ledger.history.changes("weights")) == KEPT
    assert OTHER not in ledger.history.reuses("weights")


class Carded:
    def card_memory(self) -> tuple[int, int]:
        return 300, 1000


def test_a_card_tells_how_full_it_is_and_a_host_does_not() -> None:
    assert card_memory(cast("Device", Carded())) == CardMemory(700, 1000)
    assert card_memory(HostDevice()) is None


def decline(step: int, seam: SeamReason) -> Decline:
    return Decline(step, f"n{step}", "Op", "ai.onnx", "why", seam)


def test_a_seam_tells_each_stretch_of_equal_reasons() -> None:
    warm, shape = SeamReason.KERNEL_NOT_WARMED, SeamReason.UNRESOLVED_OUTPUT_SHAPE
    segments = (Segment(0, 2, True, 0), Segment(2, 5, False), Segment(5, 6, True, 1))
    report = CaptureReport(
        segments, (decline(7, warm), decline(8, warm), decline(11, shape)), steps=(5, 6, 7, 8, 11, 12)
    )
    assert [item.steps for item in segment_infos(report)] == [[5, 6], [7, 8, 11], [12]]
    told = [(span.start, span.end, span.reason) for span in segment_infos(report)[1].seams]
    assert told == [(2, 4, warm.value), (4, 5, shape.value)]


def test_a_graph_declined_as_a_whole_has_no_reasons_by_step() -> None:
    report = CaptureReport((Segment(0, 6, False),), (graph_decline("moved", "again"),))
    assert [item.seams for item in segment_infos(report)] == [[]]


def slots(engine: EngineProcess) -> SlotsInfo:
    return msgspec.convert(engine.call("slots"), SlotsInfo)


def test_slots_are_empty_before_a_generation() -> None:
    assert Engine().slots(Empty(), Listener()) == SlotsInfo()


def test_what_a_capture_needs_what_it_baked_in_and_what_ended_it(engine: EngineProcess) -> None:
    scenario = {"prompt": 8, "context": 128, "bucket_minimum": 16, "bucket_growing": True}
    engine.call("prefill", scenario=scenario, tokens=[1, 2, 3, 4])
    cold = {item.title: item.met for item in slots(engine).preconditions}
    assert cold["A prompt is prefilled"] is True
    assert None in cold.values()
    engine.call("step", count=2)
    assert {item.met for item in slots(engine).preconditions} == {True}
    capture = msgspec.convert(engine.call("capture"), CaptureInfo)
    ready = slots(engine)
    primary, verify = ready.graphs
    assert (primary.name, primary.installed, primary.nodes) == ("Primary", True, capture.nodes_captured)
    assert (verify.name, verify.installed, verify.signature) == ("Verify", False, [])
    assert all(len(row.values) == len(ready.fields) for row in primary.signature)
    assert "past_key_values.0.key" in [row.binding for row in primary.signature]
    kinds = {(item.component, item.kind) for item in ready.memory}
    assert ("activations", "reserve") in kinds
    assert ("workspace", "reuse") in kinds
    engine.call("replay", count=30)
    after = slots(engine)
    (lost, *_) = after.graphs[0].lost
    assert lost.step == 16
    named = {(change.binding, change.field) for change in lost.changes}
    assert ("past_key_values.0.key", "physical_shape") in named
    assert {field for _, field in named} <= set(after.fields)
    assert lost.changes[0].binding in lost.cause
    grown = [item for item in after.memory if item.component == "KV cache" and item.kind == "replace"]
    assert grown
    assert all(item.bytes == 2 * item.before for item in grown[: len(grown) // 2])


def test_verification_is_told_step_by_step(engine: EngineProcess) -> None:
    engine.call("prefill", scenario={"prompt": 8, "context": 64}, tokens=[1, 2, 3, 4])
    engine.call("step", count=1)
    engine.call("capture")
    verify = msgspec.convert(engine.call("verify", count=5), VerifyInfo)
    assert len(verify.compared) == verify.steps == 5
    assert all(row.equal and row.replayed == row.eager for row in verify.compared)
    assert max(row.logit_difference for row in verify.compared) == verify.largest_logit_difference
    assert any(row.replayed_text for row in verify.compared)
