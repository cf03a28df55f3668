"""Devices by name: which there are, whose kernels a plan for one counts, and making one."""

from __future__ import annotations

import platform
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vramscope.errors import InputError
from vramscope.messages.model import DeviceInfo
from vramscope.plan.types import CUDA_RUNTIME, OWN_RUNTIME

if TYPE_CHECKING:
    from vramscope.devices.base import Device

HOST, CUDA = "host", "cuda"


def list_devices() -> list[DeviceInfo]:
    """The devices the engine can run on, and why it cannot run on the others; CuPy is not imported."""
    from vramscope.devices import driver

    found = driver.query()
    gpus = ", ".join(gpu.name for gpu in found.gpus)
    missing = "" if find_spec("cupy") else "CuPy is not installed (vramscope[cuda13] or [cuda12])"
    why = found.problem or ("" if gpus else "the driver finds no GPU") or missing
    return [
        DeviceInfo(name=HOST, available=True, detail=f"NumPy on {platform.machine()}"),
        DeviceInfo(
            name=CUDA,
            available=not why,
            detail=f"{gpus}: {why}" if gpus and why else why or gpus,
        ),
    ]


def runtime_of(name: str) -> str:
    """The ``runtime`` of a scenario that is planned for the device called ``name``.

    Raises:
        InputError: there is no such device.
    """
    return OWN_RUNTIME if _parsed(name) is None else CUDA_RUNTIME


def make_device(name: str, budget: int | None) -> Device:
    """The device called ``host``, ``cuda`` (the first GPU) or ``cuda:N``.

    Args:
        name: of the device.
        budget: bytes that may be out at once; None for what the machine or the card has.

    Raises:
        InputError: there is no such device, or CuPy or the driver is missing.
    """
    index = _parsed(name)
    if index is None:
        from vramscope.devices.host import HostDevice

        return HostDevice(budget)
    from vramscope.devices.cuda.device import CudaDevice

    return CudaDevice(budget, index)


def capacity_of(name: str) -> int | None:
    """Bytes of the memory of the device called ``name``; None for the host, which stands for any card.

    Raises:
        InputError: there is no such device.
    """
    from vramscope.devices import driver

    index = _parsed(name)
    gpus = () if index is None else driver.query().gpus
    return next((gpu.memory_bytes for gpu in gpus if gpu.index == index), None)


def _parsed(name: str) -> int | None:
    """The GPU's number, or None for the host."""
    if name == HOST:
        return None
    kind, _, index = name.partition(":")
    if kind != CUDA or (index and not index.isdecimal()) or name.endswith(":"):
        raise InputError(f"device {name!r}", "there is none of that name", "Use host, cuda or cuda:1")
    return int(index or 0)
