"""The device context once a device is open: a ceiling from its page and its nodes, outside the total."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.card import Outside
from vramscope.devices.host import HostDevice
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import DEVICE_CONTEXT, BytesFigure, PlanParams
from vramscope.messages.running import PrefillParams
from vramscope.plan.outside import CODE_BYTES, NODE_BYTES, outside_bytes
from vramscope.plan.types import Certainty, Component, ComponentName, Plan, Scenario
from vramscope.report.compare import prediction
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.live import snapshot_info

if TYPE_CHECKING:
    from pathlib import Path

PAGE, TAKEN, CARD = 2 * 2**20, 500 * 2**20, 2**30


class CardDevice(HostDevice):
    """A host device that says what a card would."""

    page = PAGE

    @property
    def outside(self) -> Outside:
        return Outside(TAKEN, self.page)

    def card_memory(self) -> tuple[int, int]:
        return CARD - TAKEN - self.ledger.total.current_bytes - PAGE, CARD


class UnpagedDevice(CardDevice):
    page = 0


@pytest.mark.parametrize(
    ("total", "nodes", "expected"),
    [
        (PAGE, 0, CODE_BYTES),
        (PAGE + 1, 0, PAGE - 1 + CODE_BYTES),
        (3 * PAGE - 1, 1, 1 + CODE_BYTES + PAGE),
        (0, PAGE // NODE_BYTES, CODE_BYTES + PAGE),
        (0, PAGE // NODE_BYTES + 1, CODE_BYTES + 2 * PAGE),
    ],
)
def test_the_rest_of_a_page_and_pages_for_code_and_graphs(total: int, nodes: int, expected: int) -> None:
    assert outside_bytes(total, nodes, PAGE) == expected


def test_plans_and_messages_call_it_the_same() -> None:
    assert ComponentName.CONTEXT.value == DEVICE_CONTEXT


def context_of(plan: Plan) -> Component:
    return next(row for row in plan.components if row.name is ComponentName.CONTEXT)


def test_an_open_card_bounds_the_context_and_changes_nothing_else(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    plan = make_plan(model, Scenario(context=64))
    assert context_of(plan).figure.bytes is None
    device = CardDevice()
    decoder = Decoder(model, plan, device=device)
    seen = context_of(decoder.plan)
    nodes = max(len(phase.nodes) for phase in plan.phases)
    assert seen.figure.certainty is Certainty.BOUND
    assert seen.figure.bytes == TAKEN + outside_bytes(plan.total.known, nodes, PAGE)
    assert "500 MiB in use before the first buffer" in seen.detail
    assert decoder.plan.total == plan.total
    decoder.load()
    info = snapshot_info(decoder.snapshot(), {}, finished="", sequence=0, seconds=0.0)
    (measured,) = [row for row in info.measured if row.name == ComponentName.CONTEXT.value]
    assert measured.figure.bytes == TAKEN + PAGE
    assert measured.figure.bytes <= seen.figure.bytes
    decoder.close()


def test_without_pages_nothing_is_known(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    decoder = Decoder(model, make_plan(model, Scenario(context=64)), device=UnpagedDevice())
    assert context_of(decoder.plan).figure.bytes is None
    decoder.close()


def test_the_engine_bounds_it_in_records_and_plans_once_a_device_was_open(
    shared_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vramscope.server.devices.make_device", lambda *_: CardDevice())
    engine, listener = Engine(), Listener()
    info = engine.open(OpenParams(path=str(shared_models / "tiny" / "tiny-llama-fp32-cpu")), listener)
    scenario = msgspec.structs.replace(info.scenario, context=64, prompt=8)

    def planned() -> BytesFigure:
        made = engine.plan(PlanParams(scenario=scenario), listener)
        return next(row.figure for row in made.components if row.name == DEVICE_CONTEXT)

    assert planned().bytes is None
    engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2, 3]), listener)
    record = engine.run_record()
    assert record is not None
    (row,) = [row for row in prediction(record) if row.name == DEVICE_CONTEXT]
    assert row.left == planned()
    assert row.left is not None
    assert row.left.certainty == Certainty.BOUND.value
    assert row.difference is not None
    assert row.difference <= 0
    engine.close()
