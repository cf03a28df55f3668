"""A decoder's graph as any graph: the program session captures its step over plain bindings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import opened, session_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError, ExternalMemoryError, InputNotFoundError, OutputNotFoundError
from vramscope.plan.types import Scenario
from vramscope.run.external import Adopted
from vramscope.run.session import ProgramSession

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model
    from vramscope.run.device_binding import DeviceIoBinding

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
CAPACITY = 64
PROMPT = [5, 9, 11, 200, 7]


class Stepping:
    """The decode step of the sample over bindings of its own."""

    def __init__(self, model: Model) -> None:
        assert model.contract is not None
        self.session = ProgramSession(
            model, make_plan(model, Scenario(prompt=8, context=CAPACITY)), HostDevice()
        )
        self.session.prepare()
        make = self.session.allocate_binding
        self.token = make((1, 1), input_name="input_ids")
        self.mask = make((1, CAPACITY), input_name="attention_mask")
        self.logits = make((1, 1, model.contract.vocabulary), output_name=model.contract.logits)
        self.cache = [
            make((1, pair.heads, CAPACITY, pair.head_size), input_name=pair.input, output_name=pair.output)
            for pair in model.contract.kv
        ]

    @property
    def every(self) -> list[DeviceIoBinding]:
        return [self.token, self.mask, *self.cache, self.logits]

    def feed(self, token: int, position: int) -> None:
        self.token.write(np.array([[token]]))
        self.mask.write(np.less(np.arange(CAPACITY), position + 1).astype(np.int64)[None])

    def chosen(self) -> int:
        return int(np.argmax(self.logits.read()[0, 0].astype(np.float32)))


def test_a_decode_step_is_captured_as_one_graph_and_gives_the_decoder_s_tokens() -> None:
    model = open_path(SAMPLES / "tiny-llama")
    decoder = Decoder(model, make_plan(model, Scenario(prompt=8, context=CAPACITY)))
    decoder.load()
    expected = [decoder.prefill([PROMPT]).tokens[0], *(decoder.step().tokens[0] for _ in range(12))]
    step = Stepping(model)
    assert not step.mask.spec.exposes
    assert not step.cache[0].spec.exposes
    for position, token in enumerate(PROMPT):
        step.feed(token, position)
        step.session.run_with_device_bindings({}, step.every)
    tokens = [step.chosen()]
    assert step.session.pin_fixed_capacity_symbols() >= 1
    step.feed(tokens[-1], len(PROMPT))
    report = step.session.try_capture(step.every)
    assert report.is_single_graph, str(report)
    tokens.append(step.chosen())
    before = step.session.device_allocation_counts()
    while len(tokens) < len(expected):
        step.feed(tokens[-1], len(PROMPT) + len(tokens) - 1)
        assert step.session.replay(step.every)
        tokens.append(step.chosen())
    assert tokens == expected
    assert step.session.device_allocation_counts() == before
    step.session.close()


def test_without_the_pins_the_growing_cache_vetoes_its_nodes_and_the_step_still_runs() -> None:
    model = open_path(SAMPLES / "tiny-llama")
    step = Stepping(model)
    step.feed(5, 0)
    step.session.run_with_device_bindings({}, step.every)
    eager = step.chosen()
    report = step.session.try_capture(step.every)
    declined = {item.operator for item in report.declines}
    assert "GroupQueryAttention" in declined
    assert step.chosen() == eager
    if report.captured:
        assert step.session.replay(step.every)
    assert step.chosen() == eager


# ------------------------------------------------------------------------------------ making bindings


class SharingDevice(HostDevice):
    """A device that says itself what it can use in place."""

    def adopt(self, memory: object, name: str) -> Adopted:
        if not isinstance(memory, np.ndarray):
            raise ExternalMemoryError(f"memory of {name}", "it is not mine")
        flat: Array = memory.reshape(-1).view(np.uint8)
        return Adopted(flat, memory.ctypes.data, memory, writable=True)


class FarDevice(HostDevice):
    """A device that is not the host."""

    @property
    def name(self) -> str:
        return "far:0"


RELU = "g (float[2] x) => (float[2] y) { y = Relu(x) }"


def test_a_device_decides_what_memory_it_uses_in_place() -> None:
    given = np.array([-1, 2], np.float32)
    sharing = session_of(opened(RELU), device=SharingDevice())
    assert sharing.bind_external(given, (2,), input_name="x").address == given.ctypes.data
    with pytest.raises(ExternalMemoryError, match="not mine"):
        sharing.bind_external([1.0], (2,), input_name="x")
    far = session_of(opened(RELU), device=FarDevice())
    with pytest.raises(ExternalMemoryError, match="far:0 cannot use the host's in place"):
        far.bind_external(given, (2,), input_name="x")


def test_bindings_are_made_only_for_names_of_the_graph_and_of_one_type() -> None:
    session = session_of(opened("g (float[2] x) => (int64[2] y) { y = Cast<to=7>(x) }"))
    with pytest.raises(InputNotFoundError, match="It has x") as caught:
        session.allocate_binding((2,), input_name="z")
    assert caught.value.known == ("x",)
    with pytest.raises(OutputNotFoundError, match="It has y"):
        session.allocate_binding((2,), output_name="x")
    with pytest.raises(BindingError, match="FLOAT and INT64"):
        session.allocate_binding((2,), input_name="x", output_name="y")


def test_there_are_two_slots_and_no_third() -> None:
    session = session_of(opened(RELU))
    with pytest.raises(BindingError, match="Use Primary or Verify"):
        session.set_graph_slot("Third")  # type: ignore[arg-type] # that is the point
    session.set_graph_slot("Verify")
    assert session.slot.name == "Verify"
