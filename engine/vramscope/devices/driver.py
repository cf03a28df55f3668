"""Asks the CUDA driver, through ctypes alone, which GPUs there are: no CuPy, no context, no device memory."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LIBRARY = "libcuda.so.1"

MAJOR_ATTRIBUTE, MINOR_ATTRIBUTE = 75, 76
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`` and ``…_MINOR`` of the driver's header."""

NAME_BYTES = 256


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as the driver knows it: ``memory_bytes`` is what a process can see of it in all."""

    index: int
    name: str
    memory_bytes: int
    compute_capability: str


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver's answer; ``problem`` says why there is none, and then the rest is empty."""

    version: str = ""
    gpus: tuple[Gpu, ...] = ()
    problem: str = ""
    remedy: str = ""


@dataclass(eq=False)
class _CallFailedError(Exception):
    function: str
    code: int


def query(load: Callable[[str], ctypes.CDLL] = ctypes.CDLL) -> Driver:
    """The newest CUDA version that the driver supports, and its GPUs.

    Args:
        load: opens a shared library by name; raises OSError when it is not there.
    """
    try:
        library = load(LIBRARY)
    except OSError:
        return Driver(
            problem=f"{LIBRARY} is not here", remedy="Install NVIDIA's driver; the host device needs none"
        )
    try:
        _call(library, "cuInit", 0)
        version = _number(library, "cuDriverGetVersion")
        count = _number(library, "cuDeviceGetCount")
        gpus = tuple(_gpu(library, index) for index in range(count))
    except _CallFailedError as failure:
        return Driver(problem=_explain(library, failure), remedy="Check that nvidia-smi runs and lists a GPU")
    return Driver(f"{version // 1000}.{version % 1000 // 10}", gpus)


def _gpu(library: ctypes.CDLL, index: int) -> Gpu:
    device = _number(library, "cuDeviceGet", index)
    name = ctypes.create_string_buffer(NAME_BYTES)
    _call(library, "cuDeviceGetName", name, NAME_BYTES, device)
    memory = ctypes.c_size_t()
    _call(library, "cuDeviceTotalMem_v2", ctypes.byref(memory), device)
    major = _number(library, "cuDeviceGetAttribute", MAJOR_ATTRIBUTE, device)
    minor = _number(library, "cuDeviceGetAttribute", MINOR_ATTRIBUTE, device)
    return Gpu(index, name.value.decode(errors="replace"), memory.value, f"{major}.{minor}")


def _number(library: ctypes.CDLL, function: str, *arguments: int) -> int:
    """A driver call that writes one int through its first parameter."""
    result = ctypes.c_int()
    _call(library, function, ctypes.byref(result), *arguments)
    return result.value


def _call(library: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(library, function)(*arguments)
    if code != 0:
        raise _CallFailedError(function, code)


def _explain(library: ctypes.CDLL, failure: _CallFailedError) -> str:
    text = ctypes.c_char_p()
    known = library.cuGetErrorString(failure.code, ctypes.byref(text)) == 0 and text.value
    reason = text.value.decode(errors="replace") if known and text.value else "unknown error"
    return f"{failure.function} failed with {failure.code}: {reason}"
