"""A node's neighbourhood: everything within the hops, up and down, and every value between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope.messages.neighbours import NeighboursInfo, NeighboursParams
from vramscope.messages.planning import PlanParams
from vramscope.server import looking
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine()
    info = made.open(OpenParams(sample="tiny-llama"), Listener())
    made.plan(PlanParams(scenario=info.scenario), Listener())
    yield made
    made.close()


def around(engine: Engine, name: str, hops: int) -> NeighboursInfo:
    rows = engine.plan_made.phases[-1].nodes
    step = next(row.step for row in rows if row.name == name)
    return looking.neighbours(engine, NeighboursParams(phase="decode", step=step, hops=hops), Listener())


def test_the_neighbourhood_of_an_attention_is_what_its_inputs_and_outputs_name(engine: Engine) -> None:
    found = around(engine, "/model/layers.1/attn/GroupQueryAttention", 1)
    program = engine.model.program
    here = program.steps[found.step]
    feeding = {item.index for item in program.steps if set(item.outputs) & set(here.inputs) - {-1}}
    reading = {item.index for item in program.steps if set(item.inputs) & set(here.outputs) - {-1}}
    assert feeding
    assert reading
    assert {node.step for node in found.nodes if node.hops < 0} == feeding
    assert {node.step for node in found.nodes if node.hops > 0} == reading
    assert found.left_out == 0
    assert all(link.shape for link in found.links)


def test_more_hops_reach_more_and_links_stay_inside(engine: Engine) -> None:
    name = "/model/layers.1/attn/GroupQueryAttention"
    near, far = around(engine, name, 1), around(engine, name, 4)
    steps = {node.step for node in far.nodes}
    assert {node.step for node in near.nodes} < steps
    assert {link.source for link in far.links} | {link.target for link in far.links} <= steps
    assert all(link.source < link.target for link in far.links)


@pytest.mark.parametrize("wrong", [{"hops": 0}, {"hops": 99}, {"step": 10_000}, {"phase": "nap"}])
def test_what_is_no_node_is_refused(engine: Engine, wrong: dict[str, int | str]) -> None:
    given = {"phase": "decode", "step": 0, "hops": 1, **wrong}
    with pytest.raises(InputError):
        looking.neighbours(engine, NeighboursParams(**given), Listener())  # type: ignore[arg-type]  # mixed on purpose
