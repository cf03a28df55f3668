"""Scans of a single trip, dissolved so that a captured step holds their nodes (conformance C-04)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from small_models import array_of, opened, session_of

from vramscope.graph.inline import inline_single_scans, is_single_trip
from vramscope.run.capture import SeamReason

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model

RECURRENT = """g (float[4] state, float[%s,4] x, float[4] decay) => (float[4] next, float[%s,4] y, float[4] z)
    { next, y = Scan<num_scan_inputs=1, body = b (float[4] s, float[4] row) => (float[4] t, float[4] o)
          { kept = Mul(s, decay) t = Add(kept, row) o = Tanh(t) }>(state, x)
      z = Relu(next) }"""


def model_of(length: int = 1) -> Model:
    return opened(RECURRENT % (length, length))


def test_only_a_scan_of_one_trip_is_dissolved() -> None:
    single, double = model_of(), model_of(2)
    assert [is_single_trip(single.program, step) for step in single.program.steps] == [True, False]
    assert [is_single_trip(double.program, step) for step in double.program.steps] == [False, False]
    assert inline_single_scans(double) is double
    assert "Scan" not in {step.node.operator for step in inline_single_scans(single).program.steps}
    symbolic = opened(RECURRENT % ("L", "L"))
    assert inline_single_scans(symbolic) is symbolic


def test_c04_a_dissolved_body_is_captured_and_equals_the_scan_byte_for_byte() -> None:
    original, sibling = session_of(model_of()), session_of(inline_single_scans(model_of()))
    generator = np.random.default_rng(4)
    feeds: dict[str, Array] = {
        "state": generator.standard_normal(4).astype(np.float32),
        "x": generator.standard_normal((1, 4)).astype(np.float32),
        "decay": generator.standard_normal(4).astype(np.float32),
    }
    expected = original.run(feeds)
    found = sibling.run(feeds)
    for name in ("next", "y", "z"):
        assert array_of(found, name).tobytes() == array_of(expected, name).tobytes()
    state = sibling.allocate_binding((4,), input_name="state", output_name="next")
    rest = [
        sibling.allocate_binding((1, 4), input_name="x"),
        sibling.allocate_binding((4,), input_name="decay"),
        sibling.allocate_binding((1, 4), output_name="y"),
        sibling.allocate_binding((4,), output_name="z"),
    ]
    bindings = [state, *rest]
    state.write(feeds["state"])
    rest[0].write(feeds["x"])
    rest[1].write(feeds["decay"])
    sibling.warm_up(bindings)
    report = sibling.try_capture(bindings)
    assert report.captured_segments >= 1
    assert report.declines == ()
    assert state.read().tobytes() == array_of(expected, "next").tobytes()
    assert rest[2].read().tobytes() == array_of(expected, "y").tobytes()
    feeds["state"] = state.read()
    assert sibling.replay(bindings)
    again = original.run(feeds)
    assert state.read().tobytes() == array_of(again, "next").tobytes()
    assert rest[3].read().tobytes() == array_of(again, "z").tobytes()
    assert sibling.reset()
    assert sibling.captured_segment_count() == 0


def test_the_scan_itself_is_a_host_seam() -> None:
    session = session_of(model_of())
    bindings = [
        session.allocate_binding((4,), input_name="state"),
        session.allocate_binding((1, 4), input_name="x"),
        session.allocate_binding((4,), input_name="decay"),
        session.allocate_binding((4,), output_name="next"),
        session.allocate_binding((1, 4), output_name="y"),
        session.allocate_binding((4,), output_name="z"),
    ]
    session.run_with_device_bindings({}, bindings)
    report = session.try_capture(bindings)
    assert [(item.operator, item.seam) for item in report.declines] == [
        ("Scan", SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE)
    ]


def test_states_that_are_passed_on_swapped_and_scanned_along_another_axis_keep_their_values() -> None:
    model = opened(
        """g (float[3] a, float[3] b, float[3,1] x) => (float[3] na, float[3] nb, float[3,1] y, float[3,1] k)
        { na, nb, y, k = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[1,-1],
              scan_input_directions=[1],
              body = f (float[3] p, float[3] q, float[3] row)
                  => (float[3] q, float[3] r, float[3] r, float[3] one)
              { one = Constant<value_floats=[1.0,2.0,3.0]>() s = Add(p, row) r = Mul(s, one) }>(a, b, x) }"""
    )
    generator = np.random.default_rng(5)
    feeds = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in {"a": (3,), "b": (3,), "x": (3, 1)}.items()
    }
    expected = session_of(model).run(feeds)
    found = session_of(inline_single_scans(model)).run(feeds)
    for name in ("na", "nb", "y", "k"):
        assert array_of(found, name).tobytes() == array_of(expected, name).tobytes()


def test_a_branch_inside_a_dissolved_body_reads_the_same_values() -> None:
    model = opened(
        """g (bool c, float[3] s, float[1,3] x) => (float[3] t)
        { t = Scan<num_scan_inputs=1, body = f (float[3] p, float[3] row) => (float[3] r)
              { r = If(c) <then_branch = u () => (float[3] m) { m = Add(p, row) },
                           else_branch = v () => (float[3] n) { n = Sub(p, row) }> }>(s, x) }"""
    )
    sibling = session_of(inline_single_scans(model))
    for flag in (True, False):
        feeds = {
            "c": np.array(flag),
            "s": np.ones(3, np.float32),
            "x": np.array([[1, 2, 3]], np.float32),
        }
        assert array_of(sibling.run(feeds), "t").tolist() == ([2, 3, 4] if flag else [0, -1, -2])
