"""Program sessions over the CUDA device, launches recorded and computed by a stand-in (C-01 to C-19, B-01).

What these bodies assert of capture, replay and memory is what a card must show too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from computing_twin import ComputingDevice
from small_models import array_of, bound, opened

from vramscope.api import make_plan
from vramscope.devices.governor import Governor
from vramscope.devices.governor_types import Tier
from vramscope.errors import BindingsChangedError, OutOfBudgetError
from vramscope.plan.types import Scenario
from vramscope.run.capture import SeamReason
from vramscope.run.session import ProgramSession
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Array

CAST = "g (float[1] x) => (int64[1] y) { y = Cast<to=7>(x) }"
SEAM = "g (float[4] x) => (float[4] y) { a = Relu(x) b = LpNormalization(a) y = Neg(b) }"
CHAIN = "g (float[N,3] x, float[3,2] w) => (float[N,2] y) { h = MatMul(x, w) y = Relu(h) }"


def unit(*values: float) -> Array:
    """What ``SEAM`` gives."""
    whole = np.maximum(f32(*values), 0)
    return np.asarray(-whole / np.linalg.norm(whole))


def session_on(
    text: str,
    device: ComputingDevice | None = None,
    options: SessionOptions | None = None,
    maxima: Mapping[str, int] | None = None,
) -> ProgramSession:
    model = opened(text)
    plan = make_plan(model, Scenario(maxima=maxima or {}, runtime="cuda"))
    session = ProgramSession(model, plan, device or ComputingDevice(), options)
    session.prepare()
    return session


def device_of(session: ProgramSession) -> ComputingDevice:
    device = session.runner.device
    assert isinstance(device, ComputingDevice)
    return device


def close(found: Array, wanted: object) -> None:
    """Equal but for rounding."""
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(wanted, np.float64), rtol=1e-6)


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


# ------------------------------------------------------------------------------------ capture and replay


@pytest.mark.parametrize("slot", ["Primary", "Verify"])
def test_c01_c02_capture_computes_and_replays_read_live_data_and_allocate_nothing(slot: str) -> None:
    session = session_on(CAST)
    session.set_graph_slot("Verify" if slot == "Verify" else "Primary")
    buffers = bound(session, x=(1,), y=(1,))
    both, twin = list(buffers.values()), device_of(session).twin
    buffers["x"].write(f32(7))
    session.run_with_device_bindings({}, both)
    assert buffers["y"].read().tolist() == [7]
    for captured, replayed in ((11, 23), (31, 47)):
        buffers["x"].write(f32(captured))
        assert session.try_capture(both).is_single_graph
        assert buffers["y"].read().tolist() == [captured]
        before = (session.device_allocation_counts(), twin.mallocs)
        buffers["x"].write(f32(replayed))
        assert session.replay(both)
        assert buffers["y"].read().tolist() == [replayed]
        assert (session.device_allocation_counts(), twin.mallocs) == before
        assert session.reset()
    assert not session.reset()


def test_c03_c07_a_node_without_a_cuda_kernel_is_a_seam_between_two_graphs() -> None:
    session = session_on(SEAM)
    buffers = bound(session, x=(4,), y=(4,))
    both, twin = list(buffers.values()), device_of(session).twin
    buffers["x"].write(f32(-1, 0, 1, 2))
    session.run_with_device_bindings({}, both)
    eager = buffers["y"].read()
    close(eager, unit(-1, 0, 1, 2))
    report = session.try_capture(both)
    assert (report.captured_segments, len(report.segments), twin.graphs) == (2, 3, 2)
    (seam,) = session.capture_segmentation()
    assert (seam.operator, seam.seam) == ("LpNormalization", SeamReason.KERNEL_CAPTURE_UNSUPPORTED)
    assert seam.reason == "it has no CUDA kernel and runs on the host"
    assert np.array_equal(buffers["y"].read(), eager)
    before = twin.replays
    for value in (0.5, 1.5):
        buffers["x"].write(f32(value, 0, 1, 2))
        assert session.replay(both)
        close(buffers["y"].read(), unit(value, 0, 1, 2))
    assert twin.replays == before + 4, "two graphs a step"


def test_c08_c18_a_failed_recording_bars_its_operator_and_the_rest_is_captured() -> None:
    session = session_on(SEAM.replace("LpNormalization", "Exp"), ComputingDevice(breaks=("Exp",)))
    buffers = bound(session, x=(4,), y=(4,))
    both = list(buffers.values())
    buffers["x"].write(f32(0, 1, 2, 3))
    session.run_with_device_bindings({}, both)
    eager = buffers["y"].read()
    report = session.try_capture(both)
    assert [item.seam for item in report.declines] == [SeamReason.CAPTURE_RECORDING_FAILED]
    assert report.captured_segments == 2
    assert np.array_equal(buffers["y"].read(), eager)
    assert not device_of(session).twin.capturing
    assert session.replay(both)


def test_c19_slots_are_independent() -> None:
    session = session_on(CAST)
    buffers = bound(session, x=(1,), y=(1,))
    both = list(buffers.values())
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    session.set_graph_slot("Verify")
    assert session.captured_segment_count() == 0
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    session.set_graph_slot("Primary")
    session.reset()
    session.set_graph_slot("Verify")
    buffers["x"].write(f32(5))
    assert session.replay(both)
    assert buffers["y"].read().tolist() == [5]


# ------------------------------------------------------------------------------------ what ends a graph


def test_another_buffer_ends_the_graph_and_names_the_field() -> None:
    session = session_on(CAST)
    buffers = bound(session, x=(1,), y=(1,))
    session.run_with_device_bindings({}, list(buffers.values()))
    session.try_capture(list(buffers.values()))
    other = session.allocate_binding((1,), input_name="x")
    with pytest.raises(BindingsChangedError) as changed:
        session.replay([other, buffers["y"]])
    assert (changed.value.binding, changed.value.field) == ("x", "device_pointer")
    assert session.captured_segment_count() == 0


def test_a_closed_binding_retires_its_graph_before_the_memory_goes() -> None:
    session = session_on(CAST)
    buffers = bound(session, x=(1,), y=(1,))
    both, twin = list(buffers.values()), device_of(session).twin
    session.run_with_device_bindings({}, both)
    session.try_capture(both)
    address = buffers["x"].address
    buffers["x"].close()
    assert address not in twin.blocks
    assert not session.slot.held


def test_a_larger_eager_step_may_move_scratch_and_the_graph_is_found_dead_with_a_right_result() -> None:
    session = session_on(CHAIN, maxima={"N": 64})
    session.pin_step_workspace = True
    buffers = bound(session, x=(2, 3), w=(3, 2), y=(2, 2))
    both = list(buffers.values())
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    buffers["w"].write(weight)
    buffers["x"].write(np.ones((2, 3), np.float32))
    session.run_with_device_bindings({}, both)
    assert session.try_capture(both).is_single_graph
    large = np.ones((64, 3), np.float32)
    found = array_of(session.run({"x": large, "w": weight}), "y")
    assert np.array_equal(found, np.maximum(large @ weight, 0))
    held = session.replay(both)
    assert held is (session.slot.invalidations == 0)
    assert np.array_equal(buffers["y"].read(), np.maximum(np.ones((2, 3), np.float32) @ weight, 0))


# ------------------------------------------------------------------------------------ bindings and memory


def test_b01_an_aliased_binding_exposes_its_prefix() -> None:
    session = session_on("g (float[N] x) => (float[N] y) { y = Relu(x) }", maxima={"N": 4})
    both = session.allocate_binding((4,), input_name="x", output_name="y")
    both.write(f32(-2, 3, -4, 5))
    both.set_logical((2,))
    address = both.address
    assert session.run_with_device_bindings({}, [both]) == {"y": None}
    assert both.read().tolist() == [0, 3, -4, 5]
    assert both.address == address
    assert (both.transfers.upload_bytes, both.transfers.download_bytes) == (16, 16)


def test_a_session_is_admitted_to_the_byte_and_leaves_nothing_on_the_card() -> None:
    model = opened(CHAIN)
    plan = make_plan(model, Scenario(batch=4, runtime="cuda"))
    need = plan.total.known
    for limit, fits in ((need, True), (need - 1, False)):
        device, governor = ComputingDevice(), Governor({Tier.DEVICE: limit})
        session = ProgramSession(model, plan, device, SessionOptions(governor=governor))
        if not fits:
            with pytest.raises(OutOfBudgetError, match="to blame"):
                session.prepare()
            assert device.twin.mallocs == 0
        else:
            session.prepare()
            assert governor.available(Tier.DEVICE) == 0
            x, w = np.ones((4, 3), np.float32), np.full((3, 2), 2, np.float32)
            assert array_of(session.run({"x": x, "w": w}), "y").tolist() == [[6, 6]] * 4
        session.close()
        assert (device.twin.blocks, governor.charges()) == ({}, ())


def test_host_inputs_run_eagerly_on_the_card() -> None:
    session = session_on(SEAM)
    x = f32(-1, 0.5, 1, 2)
    close(array_of(session.run({"x": x}), "y"), unit(*x))
