"""Bindings over memory of others: in place, never freed, refused where it cannot be (B-02 to B-07)."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import f32, opened, session_of

from vramscope.devices.host import HostDevice
from vramscope.errors import BindingError, ExternalMemoryError
from vramscope.graph.dtypes import ElementType
from vramscope.run.device_binding import BindingSpec, BindingTransfers, DeviceIoBinding
from vramscope.run.external import RawMemory

if TYPE_CHECKING:
    from vramscope.graph.model import Array
    from vramscope.run.session import ProgramSession


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


def test_an_output_that_only_shows_other_bytes_is_written_into_the_callers_memory() -> None:
    """A view cannot take external storage: it is made real there, eagerly and in a replay (semantics 2.5)."""
    text = "g (float[4] x) => (float[2,2] y) <int64[2] s = {2,2}> { a = Neg(x) y = Reshape(a, s) }"
    session = session_of(opened(text))
    given, taken = f32(1, 2, 3, 4), np.zeros((2, 2), np.float32)
    x = session.bind_external(given, (4,), input_name="x")
    y = session.bind_external(taken, (2, 2), output_name="y")
    session.run_with_device_bindings({}, [x, y])
    assert taken.tolist() == [[-1, -2], [-3, -4]]
    assert session.try_capture([x, y]).captured
    given[:] = 5
    assert session.replay([x, y])
    assert taken.tolist() == [[-5, -5], [-5, -5]]


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
