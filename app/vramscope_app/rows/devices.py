"""Whose kernels a plan counts and what could run it here: devices as choices, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.messages.model import DeviceInfo, Hello, ModelInfo

HOST = "host"
RUNTIMES = {HOST: "vramscope", "cuda": "cuda", "reference": "reference"}
"""Per device the runtime of a scenario whose scratch is that of the device's kernels."""
REFERENCE_DETAIL = marked(
    "the scratch that the reference runtime's CUDA kernels document; nothing here runs them"
)


@dataclass(frozen=True, slots=True)
class DeviceChoice:
    """One entry of the device list."""

    name: str
    runtime: str
    label: str
    tip: str


def device_choices(devices: Sequence[DeviceInfo]) -> tuple[DeviceChoice, ...]:
    """Every device whose kernels can be planned; one that is not here says so, and why."""
    found = [
        DeviceChoice(
            item.name,
            RUNTIMES[item.name],
            item.name if item.available else tr("{name} (plan only)", name=item.name),
            item.detail if item.available else tr("Cannot run here: {detail}", detail=item.detail),
        )
        for item in devices
        if item.name in RUNTIMES
    ]
    reference = DeviceChoice(
        "reference",
        "reference",
        tr("reference (plan only)"),
        tr("Plans {scratch}", scratch=tr(REFERENCE_DETAIL)),
    )
    return (*found, reference)


def device_of(runtime: str) -> str:
    """The device whose kernels a scenario's runtime means."""
    return next((name for name, known in RUNTIMES.items() if known == runtime), HOST)


def obstacle(model: ModelInfo | None, runtime: str, hello: Hello | None) -> str:
    """Why the open model cannot run here though it can be planned; empty when nothing stands in the way."""
    if model is not None and not model.has_weights:
        return tr("Its weights are not here: it can be planned, not run")
    name = device_of(runtime)
    if name == "reference":
        return tr(
            "Planned is {scratch}; choose another device to run it",
            scratch=tr(REFERENCE_DETAIL),
        )
    devices = hello.devices if hello is not None else []
    why = next((item.detail for item in devices if item.name == name and not item.available), "")
    return tr("{name} cannot run it here: {why}; choose another device", name=name, why=why) if why else ""
