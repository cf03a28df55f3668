"""Devices by name: what hello lists, what a run makes, and whose scratch its plan counts."""

from __future__ import annotations

import json
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from cuda_twin import twin_device

from vramscope.cli.main import main
from vramscope.devices import driver
from vramscope.devices.driver import Driver, Gpu
from vramscope.devices.host import HostDevice
from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams, ScenarioInfo
from vramscope.messages.running import CountParams, PrefillParams
from vramscope.server.devices import list_devices, make_device, runtime_of
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from cuda_twin import Twin

    from vramscope.devices.cuda.device import CudaDevice

GPU = Gpu(0, "NVIDIA L4", 24 * 2**30, "8.9")


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> list[Twin]:
    """Every CUDA device that is made stands on a stand-in, which joins this list."""
    made: list[Twin] = []

    def open_device(budget: int | None, _index: int) -> CudaDevice:
        device, twin = twin_device(budget)
        made.append(twin)
        return device

    monkeypatch.setattr("vramscope.devices.cuda.device.CudaDevice", open_device)
    return made


@pytest.mark.parametrize(
    ("found", "cupy", "available", "detail"),
    [
        (Driver("13.0", (GPU,)), True, True, "NVIDIA L4"),
        (Driver("13.0", (GPU,)), False, False, "NVIDIA L4: CuPy is not installed"),
        (Driver("13.0"), True, False, "the driver finds no GPU"),
        (Driver(problem="libcuda.so.1 is not here"), True, False, "libcuda.so.1 is not here"),
    ],
)
def test_cuda_is_listed_as_available_only_with_a_gpu_and_cupy(
    monkeypatch: pytest.MonkeyPatch, found: Driver, *, cupy: bool, available: bool, detail: str
) -> None:
    monkeypatch.setattr(driver, "query", lambda: found)
    spec = ModuleType("cupy") if cupy else None
    monkeypatch.setattr("vramscope.server.devices.find_spec", lambda _name: spec)
    host, cuda = list_devices()
    assert (host.name, host.available) == ("host", True)
    assert (cuda.name, cuda.available) == ("cuda", available)
    assert cuda.detail.startswith(detail)


def test_names_of_devices() -> None:
    assert isinstance(make_device("host", 100), HostDevice)
    assert [runtime_of(name) for name in ("host", "cuda", "cuda:1")] == ["vramscope", "cuda", "cuda"]
    for name in ("gpu", "cuda:", "cuda:x", "cuda0", ""):
        with pytest.raises(InputError, match="host, cuda or cuda:1"):
            make_device(name, None)


def test_a_run_on_cuda_uses_its_device_and_counts_its_kernels_scratch(
    twins: list[Twin], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["run", "tiny-llama", "--tokens", "1,2", "--steps", "3", "--device", "cuda", "--json"]
    assert main(words) == 0
    outcome = json.loads(capsys.readouterr().out)
    assert outcome["device"] == "cuda"
    assert outcome["scenario"]["runtime"] == "cuda"
    (twin,) = twins
    assert twin.mallocs > 0
    assert not twin.blocks, "everything is given back"


def test_a_plain_run_on_cuda_uses_its_device(twins: list[Twin], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "unbounded-axis", "--max", "passage_count=3", "--device", "cuda:1", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["outputs"][0]["shape"] == [1, 3]
    assert not twins[0].blocks
    assert twins[0].mallocs > 0


def test_another_device_starts_another_generation(twins: list[Twin]) -> None:
    engine, listener = Engine(), Listener()
    engine.open(OpenParams(sample="tiny-llama"), listener)
    scenario = ScenarioInfo(prompt=8, context=64)
    engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2]), listener)
    assert not twins
    engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2], device="cuda"), listener)
    engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2], device="cuda"), listener)
    assert len(twins) == 1
    assert twins[0].blocks
    engine.close()
    assert not twins[0].blocks


def test_a_run_plans_for_its_own_kernels_and_leaves_the_plan_that_was_asked_for() -> None:
    engine, listener = Engine(), Listener()
    engine.open(OpenParams(sample="tiny-llama"), listener)
    scenario = ScenarioInfo(prompt=8, context=64, runtime="reference")
    engine.plan(PlanParams(scenario=scenario), listener)
    shown = engine.plan_made
    engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2]), listener)
    assert engine.step(CountParams(count=2), listener).steps_eager == 2
    assert engine.plan_made is shown
    engine.close()


@pytest.mark.parametrize("budget", [None, 2**30])
def test_a_card_without_a_budget_is_used_up_to_its_usual_share(
    monkeypatch: pytest.MonkeyPatch, twins: list[Twin], budget: int | None
) -> None:
    monkeypatch.setattr(driver, "query", lambda: Driver("13.0", (GPU,)))
    engine = Engine()
    engine.open(OpenParams(sample="tiny-llama"), Listener())
    scenario = ScenarioInfo(prompt=8, context=64, budget=budget)
    engine.prefill(PrefillParams(scenario=scenario, tokens=[5, 9], device="cuda"), Listener())
    snapshot = engine.snapshot()
    limit = GPU.memory_bytes * 9 // 10 if budget is None else budget
    assert snapshot.left == limit - sum(item.bytes for item in snapshot.leases)
    assert len(twins) == 1
    engine.close()
