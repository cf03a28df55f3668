"""Bindings of the session's own memory: aliasing, prefixes, transfers, lifetime (conformance B-01, 2.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import array_of, f32

from vramscope.errors import BindingError, VramscopeError
from vramscope.plan.types import ComponentName
from vramscope.run.device_binding import BindingTransfers

if TYPE_CHECKING:
    from vramscope.run.session import ProgramSession


def test_b01_an_aliased_binding_processes_the_exposed_prefix_in_place(relu: ProgramSession) -> None:
    state = relu.allocate_binding((4,), input_name="x", output_name="y")
    state.write(f32(-2, 3, -4, 5))
    state.set_logical((2,))
    address = state.address
    outputs = relu.run_with_device_bindings({}, [state])
    assert outputs == {"y": None}
    assert state.address == address
    assert state.read().tolist() == [0, 3, -4, 5]
    assert state.transfers == BindingTransfers(1, 16, 1, 16)


def test_the_logical_prefix_lies_inside_the_physical_shape_and_moving_it_touches_nothing(
    relu: ProgramSession,
) -> None:
    state = relu.allocate_binding((4,), input_name="x", output_name="y")
    state.write(f32(1, 2, 3, 4))
    counts = relu.device_allocation_counts()
    state.set_logical((3,))
    assert state.read_logical().tolist() == [1, 2, 3]
    assert state.physical == (4,)
    assert relu.device_allocation_counts() == counts
    for wrong in ((5,), (1, 1), (-1,)):
        with pytest.raises(BindingError, match="physical shape"):
            state.set_logical(wrong)
    assert state.logical == (3,)


def test_writes_take_the_physical_or_the_logical_shape_and_count_their_own_bytes(
    relu: ProgramSession,
) -> None:
    x = relu.allocate_binding((4,), input_name="x")
    x.write(f32(1, 2, 3, 4))
    x.set_logical((2,))
    x.write(f32(8, 9))
    assert x.read().tolist() == [8, 9, 3, 4]
    assert x.transfers == BindingTransfers(2, 24, 1, 16)
    with pytest.raises(BindingError, match="values for x"):
        x.write(f32(1, 2, 3))
    with pytest.raises(BindingError, match="float64"):
        x.write(np.zeros(4, np.float64))


def test_an_output_goes_into_a_prefix_of_a_larger_binding_only_where_that_is_shown(
    relu: ProgramSession,
) -> None:
    x = relu.allocate_binding((2,), input_name="x")
    y = relu.allocate_binding((4,), output_name="y")
    x.write(f32(1, 2))
    with pytest.raises(BindingError, match=r"shape \[2\].*holds \[4\]") as caught:
        relu.run_with_device_bindings({}, [x, y])
    assert type(caught.value).__name__ == "ShapeMismatchError"
    y.set_logical((2,))
    relu.run_with_device_bindings({}, [x, y])
    assert y.read().tolist() == [1, 2, 0, 0]


def test_case_13_what_was_read_stays_when_the_next_run_overwrites_the_buffer(relu: ProgramSession) -> None:
    x, y = (
        relu.allocate_binding((1,), input_name="x"),
        relu.allocate_binding((1,), output_name="y"),
    )
    x.write(f32(2))
    relu.run_with_device_bindings({}, [x, y])
    relu.try_capture([x, y])
    first, copied = y.read(), array_of(relu.run({"x": f32(2)}), "y")
    x.write(f32(4))
    assert relu.replay([x, y])
    relu.run({"x": f32(6)})
    assert (first.tolist(), y.read().tolist()) == ([2], [4])
    assert copied.tolist() == [2]


def test_closing_a_binding_retires_its_graph_first_and_then_gives_its_memory_back(
    relu: ProgramSession,
) -> None:
    x = relu.allocate_binding((2,), input_name="x")
    y = relu.allocate_binding((2,), output_name="y")
    relu.run_with_device_bindings({}, [x, y])
    assert relu.try_capture([x, y]).captured
    before = relu.device_allocation_counts()
    y.close()
    assert relu.captured_segment_count() == 0
    assert relu.device_allocation_counts().frees == before.frees + 1
    with pytest.raises(BindingError, match="closed"):
        relu.replay([x, y])
    y.close()
    assert relu.device_allocation_counts().frees == before.frees + 1
    other = relu.allocate_binding((2,), output_name="y")
    x.write(f32(1, 2))
    with pytest.raises(VramscopeError, match="device_pointer"):
        relu.replay([x, other])


def test_a_binding_whose_graph_cannot_be_retired_is_quarantined(relu: ProgramSession) -> None:
    x = relu.allocate_binding((2,), input_name="x")
    y = relu.allocate_binding((2,), output_name="y")
    relu.run_with_device_bindings({}, [x, y])
    assert relu.try_capture([x, y]).captured
    before = relu.device_allocation_counts()
    store = relu.slot.store
    with store.capturing("Verify"), pytest.raises(VramscopeError, match="while slot Verify is capturing"):
        y.close()
    assert y.quarantined
    assert relu.device_allocation_counts() == before
    held = relu.runner.device.ledger.component(ComponentName.BINDINGS.value)
    assert held.current_bytes >= 8


def test_a_binding_is_a_context_and_its_bytes_are_in_the_ledger(relu: ProgramSession) -> None:
    ledger = relu.runner.device.ledger
    before = ledger.total.current_bytes
    with relu.allocate_binding((3,), input_name="x") as x:
        assert x.size == 12
        assert ledger.total.current_bytes == before + 12
    assert ledger.total.current_bytes == before
