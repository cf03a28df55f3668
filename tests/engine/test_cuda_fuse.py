"""Which nodes of a decode step become one launch on the CUDA device, and what forbids it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import twin_device

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.base import FusionFacts
from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.fuse import Group, Program, _undisturbed
from vramscope.devices.cuda.fused_form import Fused, Norm, Weight
from vramscope.devices.ledger import Site
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.device import CudaDevice

FUNCTIONS = {
    "tiny-llama-fp16-cuda": ("columns", "attend_split", "columns", "columns", "columns"),
    "tiny-llama-int4-cuda": ("packed", "attend_split", "packed", "packed", "packed"),
}
"""One layer: normed QKV, attention, output and residual, normed gate and up, down and residual."""


def captured(models: Path, name: str, *, fusing: bool = True) -> CudaDevice:
    return session(models, name, fusing=fusing)[0]


def session(models: Path, name: str, *, fusing: bool = True) -> tuple[CudaDevice, Decoder]:
    device, _ = twin_device()
    device.fusing = fusing
    model = open_path(models / "tiny" / name)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=4, context=64)), device=device)
    decoder.load()
    decoder.prefill([[1, 2, 3, 4]])
    decoder.step()
    decoder.capture()
    return device, decoder


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_layer_is_five_launches(shared_models: Path, name: str) -> None:
    device = captured(shared_models, name)
    functions = tuple(issue.launch.function for issue in device.recorded)
    layer = FUNCTIONS[name]
    assert functions[5:-2] == layer * 2
    assert functions[0] == "advance"
    assert functions[-1].startswith("choose_")


def test_every_node_is_in_at_most_one_group_but_for_shared_norms(shared_models: Path) -> None:
    _, decoder = session(shared_models, "tiny-llama-fp16-cuda")
    groups = decoder.inspect().groups
    steps = {step.index: step.node.name for step in decoder.model.program.steps}
    names = [steps[step] for group in groups for step in group if "layernorm" not in steps[step].lower()]
    assert len(names) == len(set(names))
    assert max(len(group) for group in groups) >= 5
    assert min(len(group) for group in groups) >= 2


def test_without_fusing_every_node_launches_for_itself(shared_models: Path) -> None:
    few, many = (session(shared_models, "tiny-llama-fp16-cuda", fusing=fusing) for fusing in (True, False))
    assert len(few[0].recorded) < len(many[0].recorded)
    assert many[1].inspect().groups == ()


def rows(device: CudaDevice, start: int, count: int = 1, width: int = 64) -> DeviceArray:
    return at_address(device, start, count * width * 2).view(np.float16).reshape(count, width)


def product(device: CudaDevice) -> tuple[Fused, int]:
    """A plain product whose tensors lie behind each other from the returned address on, 128 bytes each."""
    buffer = device.allocate(Site("weights", "w"), 64 * 64 * 2)
    weight = Weight(at_address(device, buffer.address, 8192).view(np.float16).reshape(64, 64), columns=True)
    start = device.allocate(Site("activations", "x"), 1024).address
    fused = Fused("f16", 1, 64, 64, rows(device, start), rows(device, start + 128), (weight,), (None,))
    return fused, start


def group_of(fused: Fused) -> Group:
    return Group(fused, {0}, 0, 1)


def test_a_result_must_not_lie_over_what_is_read() -> None:
    device, _ = twin_device()
    fused, start = product(device)
    empty = Program((), {}, FusionFacts(frozenset(), frozenset()))
    assert _undisturbed(empty, group_of(fused))
    assert not _undisturbed(empty, group_of(replace(fused, y=rows(device, start + 64))))
    residual = replace(fused, residual=fused.y)
    assert _undisturbed(empty, group_of(residual))
    shifted = replace(fused, residual=rows(device, start + 192))
    assert not _undisturbed(empty, group_of(shifted))


def test_forms_that_the_kernels_lack_are_refused() -> None:
    device, _ = twin_device()
    fused, start = product(device)
    assert fused.suits()
    assert not replace(fused, rows=5).suits()
    assert not replace(fused, n=63).suits()
    gamma = at_address(device, start, 256).view(np.float32)
    assert not replace(fused, norm=Norm(gamma, 1e-5)).suits()
    turned = Weight(fused.weights[0].value, columns=False)
    assert replace(fused, weights=(turned,)).suits()
    assert not replace(fused, weights=(turned, turned), biases=(None, None), joined=1).suits()
    assert not replace(fused, weights=(fused.weights[0], turned), biases=(None, None), joined=1).suits()
