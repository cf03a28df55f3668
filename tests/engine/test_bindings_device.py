"""Bindings: aliasing, exposure, external memory, transfers, lifetime (conformance B-01 to B-12, 2.6)."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import array_of, opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError, ExternalMemoryError, VramscopeError
from vramscope.graph.capacity import reads_capacity, tolerates_padding
from vramscope.graph.dtypes import ElementType
from vramscope.plan.types import ComponentName
from vramscope.run.device_binding import BindingSpec, BindingTransfers, DeviceIoBinding
from vramscope.run.external import RawMemory

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model
    from vramscope.run.session import ProgramSession

RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"


@pytest.fixture
def relu() -> ProgramSession:
    return session_of(opened(RELU), {"N": 8})


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


# ------------------------------------------------------------------------------------ aliasing


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


# ------------------------------------------------------------------------------------ external memory


def test_b02_external_memory_is_used_in_place_and_never_freed(relu: ProgramSession) -> None:
    given, result = f32(-1, 2), np.full(2, 7, np.float32)
    counts = relu.device_allocation_counts()
    bindings = [
        relu.bind_external(given, (2,), input_name="x"),
        relu.bind_external(result, (2,), output_name="y"),
    ]
    relu.run_with_device_bindings({}, bindings)
    assert result.tolist() == [0, 2]
    assert [item.transfers for item in bindings] == [BindingTransfers()] * 2
    for item in bindings:
        item.close()
    relu.close()
    assert result.tolist() == [0, 2]
    assert relu.device_allocation_counts().allocations == counts.allocations


def test_external_memory_lives_as_long_as_its_binding(relu: ProgramSession) -> None:
    given = f32(1, 2)
    seen = weakref.ref(given)
    binding = relu.bind_external(given, (2,), input_name="x")
    del given
    gc.collect()
    assert seen() is not None
    assert binding.read().tolist() == [1, 2]


def test_b03_undersized_external_memory_is_refused_with_both_sizes(relu: ProgramSession) -> None:
    with pytest.raises(ExternalMemoryError, match=r"needs 16 bytes and the memory has 8"):
        relu.bind_external(np.zeros(2, np.float32), (4,), input_name="x")


class _Pointer:
    """An object that shows memory by ``__array_interface__``."""

    def __init__(self, address: int, shape: tuple[int, ...], *, writable: bool = True) -> None:
        self.__array_interface__ = {
            "shape": shape,
            "typestr": "|u1",
            "data": (address, not writable),
            "version": 3,
        }


def test_b04_a_null_pointer_is_refused(relu: ProgramSession) -> None:
    for memory in (RawMemory(0, 16), _Pointer(0, (16,))):
        with pytest.raises(ExternalMemoryError, match="null"):
            relu.bind_external(memory, (4,), input_name="x")


def test_b05_a_misaligned_pointer_is_refused_for_its_alignment(relu: ProgramSession) -> None:
    raw = np.zeros(32, np.uint8)
    start = -raw.ctypes.data % 4 + 1
    with pytest.raises(ExternalMemoryError, match="alignment"):
        relu.bind_external(raw[start : start + 16], (4,), input_name="x")


def test_b06_external_memory_may_be_an_output_only(relu: ProgramSession) -> None:
    result = np.zeros(2, np.float32)
    outputs = relu.run_with_device_bindings(
        {"x": f32(-3, 4)}, [relu.bind_external(result, (2,), output_name="y")]
    )
    assert outputs == {"y": None}
    assert result.tolist() == [0, 4]


def test_b07_a_binding_to_neither_an_input_nor_an_output_is_refused(relu: ProgramSession) -> None:
    with pytest.raises(BindingError, match="neither an input nor an output"):
        relu.bind_external(np.zeros(2, np.float32), (2,))
    with pytest.raises(BindingError, match="neither an input nor an output"):
        relu.allocate_binding((2,))
    nameless = BindingSpec("", "", ElementType.FLOAT, (2,))
    with pytest.raises(BindingError, match="neither"):
        DeviceIoBinding(HostDevice(), nameless, np.zeros(8, np.uint8), 8)


class _DlpackOnly:
    """An object whose memory only ``__dlpack__`` shows."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        capsule: object = getattr(self._array, "__dlpack__")(**options)  # noqa: B009 # its stub wants numbers
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_dlpack_interfaces_and_addresses_are_all_used_in_place(relu: ProgramSession) -> None:
    array = np.zeros(2, np.float32)
    address = array.ctypes.data
    for memory in (array, _DlpackOnly(array), _Pointer(address, (8,)), RawMemory(address, 8, array)):
        array[:] = 0
        output = relu.bind_external(memory, (2,), output_name="y")
        assert output.address == address
        relu.run_with_device_bindings({"x": f32(5, 6)}, [output])
        assert array.tolist() == [5, 6]


def test_memory_that_cannot_be_used_in_place_says_why(relu: ProgramSession) -> None:
    wide = np.zeros((2, 2), np.float32)
    with pytest.raises(ExternalMemoryError, match="not contiguous"):
        relu.bind_external(wide[:, 0], (2,), input_name="x")
    frozen = np.zeros(2, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ExternalMemoryError, match="read-only"):
        relu.bind_external(frozen, (2,), output_name="y")
    assert relu.bind_external(frozen, (2,), input_name="x").read().tolist() == [0, 0]
    with pytest.raises(ExternalMemoryError, match="neither __array_interface__ nor __dlpack__"):
        relu.bind_external([1.0, 2.0], (2,), input_name="x")


# ------------------------------------------------------------------------------------ exposure


ATTENTION = """g (float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v,
       bool[B,1,S,T] mask, float[B,2,P,8] pk, float[B,2,P,8] pv)
    => (float[B,2,S,8] y, float[B,2,T2,8] kk, float[B,2,T2,8] vv)
    { y, kk, vv = Attention(q, k, v, %s, pk, pv) }"""
GQA = """g (float[B,S,16] q, float[B,S,8] k, float[B,S,8] v, float[B,1,P,8] pk, float[B,1,P,8] pv,
       int32[B] lengths, int32[1] total)
    => (float[B,S,16] y, float[B,1,T,8] kk, float[B,1,T,8] vv)
    { y, kk, vv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>
        (q, k, v, pk, pv, lengths, total) }"""
OPSET23 = '["" : 23]'


def test_b12_which_inputs_are_read_at_their_physical_capacity() -> None:
    gqa = opened(GQA).program.steps[0]
    assert [position for position in range(7) if reads_capacity(gqa, position)] == [3, 4]
    masked = opened(ATTENTION % "mask", opsets=OPSET23).program.steps[0]
    assert [position for position in range(6) if reads_capacity(masked, position)] == [4, 5]
    unmasked = opened(ATTENTION % '""', opsets=OPSET23).program.steps[0]
    assert [position for position in range(6) if reads_capacity(unmasked, position)] == []
    reduced = opened("g (float[N] x) => (float y) { y = ReduceSum<keepdims=0>(x) }").program.steps[0]
    assert tolerates_padding(reduced, 0)
    assert not reads_capacity(reduced, 0)


def exposes(model: Model, maxima: dict[str, int], physical: tuple[int, ...], names: tuple[str, str]) -> bool:
    session = session_of(model, maxima)
    binding = session.allocate_binding(physical, input_name=names[0], output_name=names[1])
    return binding.spec.exposes


def test_exposure_is_decided_when_a_binding_is_made() -> None:
    maxima = {"B": 1, "S": 1, "P": 8}
    cache = (1, 1, 8, 8)
    assert not exposes(opened(GQA), maxima, cache, ("pk", "kk"))
    assert exposes(opened(GQA), maxima, (1, 1, 16), ("q", ""))
    masked = opened(ATTENTION % "mask", opsets=OPSET23)
    assert not exposes(masked, {**maxima, "T": 8}, (1, 2, 8, 8), ("pk", "kk"))
    unmasked = opened(ATTENTION % '""', opsets=OPSET23)
    assert exposes(unmasked, {**maxima, "T": 8}, (1, 2, 8, 8), ("pk", "kk"))
    summed = opened("g (int64[N] mask) => (int64 y) { y = ReduceSum<keepdims=0>(mask) }")
    assert not exposes(summed, {"N": 8}, (8,), ("mask", ""))
    assert exposes(opened(RELU), {"N": 8}, (8,), ("x", ""))


def test_what_is_not_exposed_is_shown_whole_whatever_its_logical_length() -> None:
    session = session_of(
        opened("g (int64[N] mask) => (int64 y) { y = ReduceSum<keepdims=0>(mask) }"), {"N": 8}
    )
    mask = session.allocate_binding((8,), input_name="mask")
    mask.write(np.array([1, 1, 1, 0, 0, 0, 0, 0]))
    mask.set_logical((3,))
    assert mask.snapshot().kernel_input_shape == (8,)
    assert session.run_with_device_bindings({}, [mask])["y"] == 3


def test_fixed_strides_expose_the_prefix_and_keep_the_physical_strides() -> None:
    session = session_of(opened("g (float[M,N] x) => (float[M,N] y) { y = Relu(x) }"), {"M": 4, "N": 4})
    x = session.allocate_binding((4, 4), input_name="x", fixed_strides=True)
    x.write(np.arange(16, dtype=np.float32).reshape(4, 4))
    for logical in ((2, 2), (3, 1)):
        x.set_logical(logical)
        view = x.snapshot().input_view()
        assert view.shape == logical
        assert view.strides == (16, 4)
        shown = array_of(session.run_with_device_bindings({}, [x]), "y")
        assert np.array_equal(shown, x.read()[: logical[0], : logical[1]])


# ------------------------------------------------------------------------------------ caches


def gqa_feeds(generator: np.random.Generator) -> dict[str, Array]:
    shapes = {"q": (1, 1, 16), "k": (1, 1, 8), "v": (1, 1, 8)}
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_b10_a_fixed_capacity_cache_keeps_its_extent_and_a_growing_one_takes_the_total() -> None:
    generator = np.random.default_rng(3)
    fixed = session_of(opened(GQA), {"B": 1, "S": 1, "P": 8})
    keys = fixed.allocate_binding((1, 1, 8, 8), input_name="pk", output_name="kk")
    values = fixed.allocate_binding((1, 1, 8, 8), input_name="pv", output_name="vv")
    grown = opened(
        """g (float[1,2,P,4] past, float[1,2,1,4] fresh) => (float[1,2,T,4] present)
        { present = Concat<axis=2>(past, fresh) }"""
    )
    growing = session_of(grown, {"P": 8})
    cache = growing.allocate_binding((1, 2, 8, 4), input_name="past", output_name="present")
    rows: list[Array] = []
    for length in range(4):
        feeds = gqa_feeds(generator)
        counters = {"lengths": np.array([length], np.int32), "total": np.array([length + 1], np.int32)}
        for item in (keys, values):
            item.set_logical((1, 1, length, 8))
        fixed.run_with_device_bindings({**feeds, **counters}, [keys, values])
        assert np.array_equal(keys.read()[0, 0, length], feeds["k"][0, 0])
        assert keys.snapshot().kernel_input_shape == (1, 1, 8, 8)
        fresh = generator.standard_normal((1, 2, 1, 4)).astype(np.float32)
        rows.append(fresh)
        cache.set_logical((1, 2, length, 4))
        growing.run_with_device_bindings({"fresh": fresh}, [cache])
        assert np.array_equal(cache.read()[:, :, : length + 1], np.concatenate(rows, axis=2))
    cache.set_logical((1, 2, 8, 4))
    with pytest.raises(BindingError, match=r"\[1, 2, 9, 4\]"):
        growing.run_with_device_bindings({"fresh": fresh}, [cache])


def test_plan_capacity_uses_the_physical_shape_and_a_run_the_prefix() -> None:
    grown = opened(
        """g (float[1,2,P,4] past, float[1,2,1,4] fresh) => (float[1,2,T,4] present, float[1,2,T,4] doubled)
        { present = Concat<axis=2>(past, fresh)  doubled = Add(present, present) }"""
    )
    session = session_of(grown, {"P": 8})
    cache = session.allocate_binding((1, 2, 8, 4), input_name="past", output_name="present")
    cache.set_logical((1, 2, 3, 4))
    fresh = np.ones((1, 2, 1, 4), np.float32)
    plan = session.prepare({"fresh": fresh}, [cache])
    assert plan is not None
    assert plan.symbols["P"] == 8
    doubled = array_of(session.run_with_device_bindings({"fresh": fresh}, [cache]), "doubled")
    assert doubled.shape == (1, 2, 4, 4)


# ------------------------------------------------------------------------------------ lifetime


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
