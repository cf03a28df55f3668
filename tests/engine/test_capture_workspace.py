"""The step workspace between runs and in captures, and outputs that no node computes (semantics 1.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from small_models import array_of, bound, opened, session_of

from vramscope.run.capture import SeamReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.session import ProgramSession

ATTENTION = """g (float[1,2,3,8] q, float[1,2,5,8] k, float[1,2,5,8] v) => (float[1,2,3,8] y)
    { a = Relu(q) y = Attention(a, k, v) }"""


def attending() -> tuple[ProgramSession, Mapping[str, DeviceIoBinding]]:
    session = session_of(opened(ATTENTION, opsets='["" : 23]'))
    buffers = bound(session, q=(1, 2, 3, 8), k=(1, 2, 5, 8), v=(1, 2, 5, 8), y=(1, 2, 3, 8))
    generator = np.random.default_rng(0)
    for name in "qkv":
        buffers[name].write(generator.standard_normal(buffers[name].physical).astype(np.float32))
    return session, buffers


def test_step_scratch_is_given_back_after_every_run_unless_it_is_pinned() -> None:
    session, buffers = attending()
    memory = session.runner.memory
    for _ in range(2):
        session.run_with_device_bindings({}, list(buffers.values()))
        assert [item.value for item in memory.workspace] == []
    session.pin_step_workspace = True
    session.run_with_device_bindings({}, list(buffers.values()))
    assert [item.value for item in memory.workspace] == ["step-scoped"]
    session.pin_step_workspace = False
    assert [item.value for item in memory.workspace] == ["step-scoped"], "the next release frees it"
    session.run({name: buffers[name].read() for name in "qkv"})
    assert not memory.workspace


def test_a_node_with_step_scratch_is_declined_by_name_unless_it_is_pinned() -> None:
    session, buffers = attending()
    every = list(buffers.values())
    session.run_with_device_bindings({}, every)
    eager = buffers["y"].read()
    report = session.try_capture(every)
    (decline,) = report.declines
    assert (decline.node, decline.seam) == ("Attention_y", SeamReason.KERNEL_CAPTURE_UNSUPPORTED)
    assert "step-scoped" in decline.reason
    assert decline.remedy == "Pin the step workspace before capturing"
    buffers["y"].write(np.zeros((1, 2, 3, 8), np.float32))
    assert session.replay(every)
    assert np.array_equal(buffers["y"].read(), eager), "the seam got a slot of its own again"
    session.pin_step_workspace = True
    session.run_with_device_bindings({}, every)
    assert session.try_capture(every).is_single_graph
    buffers["y"].write(np.zeros((1, 2, 3, 8), np.float32))
    assert session.replay(every)
    assert np.array_equal(buffers["y"].read(), eager)
    session.pin_step_workspace = False
    session.run({name: buffers[name].read() for name in "qkv"})
    assert session.replay(every) is False, "the scratch that the graph baked in is gone"
    assert "workspace" in session.slot.last_cause
    assert np.array_equal(buffers["y"].read(), eager)


def test_an_output_that_no_node_computes_is_delivered_in_every_mode() -> None:
    session = session_of(opened("g (float[2] x) => (float[2] x, float[2] y) { y = Relu(x) }"))
    x = session.allocate_binding((2,), input_name="x")
    y = session.allocate_binding((2,), output_name="y")
    passed = session.allocate_binding((2,), output_name="x")
    x.write(np.array([-1, 2], np.float32))
    assert array_of(session.run({"x": np.array([3, 4], np.float32)}), "x").tolist() == [3, 4]
    session.run_with_device_bindings({}, [x, y, passed])
    assert passed.read().tolist() == [-1, 2]
    assert session.try_capture([x, y, passed]).captured
    x.write(np.array([5, 6], np.float32))
    assert session.replay([x, y, passed])
    assert passed.read().tolist() == [5, 6]
