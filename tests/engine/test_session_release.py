"""What a session gives back while a graph is recorded or cannot be retired, and when it is freed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import opened

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import Tier
from vramscope.devices.host import HostDevice
from vramscope.errors import VramscopeError
from vramscope.plan.types import ComponentName, Scenario
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from vramscope.graph.model import Model

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
DEVICE = Tier.DEVICE
FIXED = Scenario(prompt=8, context=64)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(SAMPLES / "tiny-llama")


def governed(limit: int | None) -> Governor:
    return Governor({DEVICE: limit})


def nothing_held(governor: Governor, device: HostDevice) -> bool:
    """No charge, no holder but the three of every governor, no byte and no buffer out."""
    total = device.ledger.total
    held = (governor.used(DEVICE), len(governor.charges()), total.current_bytes, total.current_count)
    return held == (0, 0, 0, 0) and len(governor._seats) == 3


def test_what_is_given_back_while_recording_is_freed_and_refunded_behind_it(tiny: Model) -> None:
    governor = governed(None)
    decoder = Decoder(tiny, make_plan(tiny, FIXED), governor=governor)
    decoder.load()
    memory, ledger = decoder._runner.memory, decoder.device.ledger
    before = (governor.used(DEVICE), ledger.total.current_bytes, ledger.allocation_counts.frees)
    buffer = memory.take(ComponentName.ACTIVATIONS, "one more", 4096)
    with memory.recording():
        memory.give(buffer)
        assert memory.releases.pending_bytes == 4096
        assert governor.used(DEVICE) == before[0] + 4096
        assert ledger.allocation_counts.frees == before[2], "a free counts when it is done"
        with pytest.raises(VramscopeError, match="given back already"):
            memory.give(buffer)
    assert (governor.used(DEVICE), ledger.total.current_bytes) == before[:2]
    assert ledger.allocation_counts.frees == before[2] + 1
    assert memory.releases.pending == ()


def test_bodies_that_spill_beside_their_plan_are_freed_behind_the_capture() -> None:
    """The If between two graphs gives spilled values back before the second graph is recorded."""
    model = opened(
        """g (bool c, float[4] x) => (float[4] y)
        { a = Relu(x)
          b = If(c) <then_branch = t () => (float[4] p) { h = Exp(a) p = Neg(h) },
                     else_branch = e () => (float[4] q) { q = Relu(a) }>
          y = Neg(b) }"""
    )
    governor, device = governed(None), HostDevice()
    plan = make_plan(model, Scenario())
    session = ProgramSession(model, plan, device, SessionOptions(governor=governor))
    session.prepare()
    buffers = [
        session.allocate_binding((), input_name="c"),
        session.allocate_binding((4,), input_name="x"),
        session.allocate_binding((4,), output_name="y"),
    ]
    buffers[0].write(np.array(True))
    buffers[1].write(np.array([0, 1, 2, 3], np.float32))
    session.run_with_device_bindings({}, buffers)
    held = governor.used(DEVICE)
    assert session.try_capture(buffers).captured_segments == 2
    assert session.runner.memory.releases.pending == ()
    assert governor.used(DEVICE) == device.ledger.total.current_bytes == held
    np.testing.assert_allclose(buffers[2].read().astype(float), np.exp([0.0, 1, 2, 3]), rtol=1e-6)
    session.close()
    for item in buffers:
        item.close()
    assert nothing_held(governor, device)


def test_a_quarantined_binding_stays_charged_until_the_session_is_closed() -> None:
    governor, device = governed(None), HostDevice()
    model = opened("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    session = ProgramSession(model, make_plan(model, Scenario()), device, SessionOptions(governor=governor))
    session.prepare()
    x, y = session.allocate_binding((2,), input_name="x"), session.allocate_binding((2,), output_name="y")
    session.run_with_device_bindings({}, [x, y])
    session.try_capture([x, y])
    with session.slot.store.capturing("Verify"), pytest.raises(VramscopeError, match="cannot be dropped"):
        y.close()
    x.close()
    assert session.governance.state.quarantined == 8
    assert any(charge.holder.name == "binding y" for charge in governor.charges())
    session.close()
    assert session.governance.state.quarantined == 0
    assert nothing_held(governor, device)
