"""The CUDA device without a GPU: nodes it covers, its launches' geometry, capture, and planned bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import Twin, twin_device
from decoders import ONE_GRAPH

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.base import GraphFacts
from vramscope.devices.cuda import driver
from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.compiler import compiled
from vramscope.devices.cuda.driver import shortened
from vramscope.devices.cuda.launch import Launch, numbers, source
from vramscope.devices.cuda.strided import merged
from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.ledger import Site
from vramscope.devices.sampling import Sampling
from vramscope.errors import AllocationFailedError, OutOfBudgetError, RecordingError
from vramscope.ops.cuda_kernels import CUDA_KERNELS
from vramscope.ops.cuda_workspace import (
    CUDA_WORKSPACE,
    DENSE_BYTES,
    FEW_ROWS,
    LIBRARY_BYTES,
    LIBRARY_SPLITS,
    MATRIX_TILE,
    dense_columns,
    library_room,
    matmul_room,
    partial_bytes,
    splits_of,
)
from vramscope.ops.table import TABLE
from vramscope.plan.types import CUDA_RUNTIME, OWN_RUNTIME, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.cuda.device import CudaDevice

PROMPT = [54, 74, 71, 223, 69, 67, 82, 75]


def decoder_on(models: Path, name: str, device: CudaDevice) -> Decoder:
    model = open_path(models / "tiny" / name)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=len(PROMPT), context=64)), device=device)
    decoder.load()
    return decoder


@pytest.fixture(scope="module", params=ONE_GRAPH)
def run(request: pytest.FixtureRequest, shared_models: Path) -> tuple[Decoder, Twin, int]:
    """A decoder after prefill, two eager steps and a capture; and its allocations after loading."""
    device, twin = twin_device()
    decoder = decoder_on(shared_models, request.param, device)
    mallocs = twin.mallocs
    decoder.prefill([PROMPT])
    decoder.step()
    decoder.step()
    decoder.capture()
    return decoder, twin, mallocs


def test_the_whole_step_is_one_graph(run: tuple[Decoder, Twin, int]) -> None:
    decoder, twin, _ = run
    report = decoder.snapshot().report
    assert report is not None
    assert report.is_single_graph, str(report)
    assert twin.graphs == 1


def test_a_replay_uploads_nothing_and_downloads_the_token(run: tuple[Decoder, Twin, int]) -> None:
    decoder, twin, _ = run
    before = (twin.uploads, twin.downloads, twin.issued, twin.replays)
    result = decoder.replay()
    assert result.allocations == 0
    assert (twin.uploads, twin.downloads) == (before[0], before[1] + 1)
    assert (twin.issued, twin.replays) == (before[2], before[3] + 1)


def test_a_drawn_token_is_chosen_inside_the_graph(shared_models: Path) -> None:
    device, twin = twin_device()
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    plan = make_plan(model, Scenario(prompt=len(PROMPT), context=64))
    decoder = Decoder(model, plan, device=device, sampling=Sampling(0.8, top_k=40, top_p=0.9, seed=3))
    decoder.load()
    decoder.prefill([PROMPT])
    decoder.capture()
    kernels = [launch for launch in twin.launches if isinstance(launch, Launch)]
    draws = [launch for launch in kernels if launch.function == "draw_f16"]
    assert draws[0].arguments[-1] == struct.pack("<qQdd", 40, 3, 0.9, 0.8)
    before = (twin.uploads, twin.downloads, twin.issued)
    decoder.replay()
    assert (twin.uploads, twin.downloads, twin.issued) == (before[0], before[1] + 1, before[2])
    decoder.close()


def test_the_devices_own_graph_is_described(run: tuple[Decoder, Twin, int]) -> None:
    decoder, twin, _ = run
    assert decoder.graph_facts() == (GraphFacts(twin.graphs, f"digraph dot {{ graph_{twin.graphs} }}"),)


def test_a_long_drawing_is_cut_behind_a_statement_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'digraph dot {\nsubgraph cluster_1 {\n"a"[label="0\nname\n"];\n"a" -> "b";\n}\n}\n'
    assert shortened(text) == text.decode()
    monkeypatch.setattr(driver, "MOST_DOT", len(text) - 8)
    cut = shortened(text)
    assert cut.startswith('digraph dot {\nsubgraph cluster_1 {\n"a"[label="0\nname\n"];\n//')
    assert cut.count("{\n") == cut.count("}\n")


def test_a_prompt_in_passes_allocates_nothing_and_prepares_three_widths(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    device, twin = twin_device()
    decoder = Decoder(
        model, make_plan(model, Scenario(prompt=40, context=64, prefill_chunk=16)), device=device
    )
    decoder.load()
    mallocs = twin.mallocs
    for length in (40, 3, 33, 17):
        decoder.prefill([(5 * PROMPT)[:length]])
    assert twin.mallocs == mallocs
    assert {width for width, _ in decoder._stepper._prefills} == {16, 4, 1}
    decoder.step()
    decoder.capture()
    assert twin.graphs == 1
    decoder.close()


def test_nothing_is_allocated_after_loading(run: tuple[Decoder, Twin, int]) -> None:
    _, twin, mallocs = run
    assert twin.mallocs == mallocs


def test_the_ledger_equals_the_plan(run: tuple[Decoder, Twin, int]) -> None:
    decoder, twin, _ = run
    assert decoder.plan.scenario.runtime == CUDA_RUNTIME
    held = decoder.snapshot().components
    for component in decoder.plan.components:
        if component.name.value in held and component.figure.known:
            assert held[component.name.value].current_bytes == component.figure.known, component.name
    assert sum(size for _, size in twin.blocks.values()) == decoder.snapshot().total.current_bytes


def test_growing_dialects_run_every_node_they_can_on_the_card(shared_models: Path) -> None:
    device, twin = twin_device()
    decoder = decoder_on(shared_models, "torchexp-tiny-llama", device)
    decoder.prefill([PROMPT])
    decoder.step()
    uploads = twin.uploads
    decoder.step()
    assert twin.uploads == uploads
    decoder.close()
    assert not twin.blocks


def test_plans_know_which_operators_have_kernels_on_the_card() -> None:
    assert set(BUILDERS) == CUDA_KERNELS


def test_a_plan_for_the_card_says_who_runs_each_node(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-int4-cuda")
    words = {
        runtime: {
            row.operator: row.kernel for row in make_plan(model, Scenario(runtime=runtime)).phases[-1].nodes
        }
        for runtime in (CUDA_RUNTIME, OWN_RUNTIME)
    }
    assert set(words[CUDA_RUNTIME].values()) == {"cuda"}
    assert set(words[OWN_RUNTIME].values()) == {"host"}


def test_builders_are_of_known_operators() -> None:
    assert {(domain, name) for domain, name in BUILDERS if (domain, name) not in TABLE} == set()
    assert CUDA_WORKSPACE.keys() <= BUILDERS.keys()


def test_a_recording_that_reads_or_fails_names_its_node() -> None:
    device, _ = twin_device()
    buffer = device.allocate(Site("activations", "x"), 16)

    def reads() -> None:
        device.fetch(at_address(device, buffer.address, 16))

    with pytest.raises(RecordingError) as caught:
        device.record((("first", lambda: None), ("second", reads)))
    assert (caught.value.node, caught.value.action) == ("second", 1)

    def allocates() -> None:
        device.allocate(Site("activations", "y"), 8)

    with pytest.raises(RecordingError, match="sealed") as caught:
        device.record((("third", allocates),))
    assert caught.value.node == "third"
    device.record((("fourth", lambda: None),))()


def test_a_refused_allocation_stays_uncounted(monkeypatch: pytest.MonkeyPatch) -> None:
    device, twin = twin_device(budget=100)
    with pytest.raises(OutOfBudgetError):
        device.allocate(Site("weights", "w"), 101)

    def refuse(_size: int) -> int:
        raise twin.CUDARuntimeError("cudaErrorMemoryAllocation")

    monkeypatch.setattr(twin, "malloc", refuse)
    with pytest.raises(AllocationFailedError, match="cuda:0"):
        device.allocate(Site("weights", "w"), 50)
    assert device.ledger.total.current_bytes == 0


def test_constants_keep_a_host_copy_until_they_are_released() -> None:
    device, _ = twin_device()
    buffer = device.allocate(Site("weights", "axes"), 16)
    device.upload(buffer.bytes, np.array([3, 4], np.int64).view(np.uint8))
    view = at_address(device, buffer.address, 16).view(np.int64)
    kept = device.constant(view)
    assert kept is not None
    assert kept.tolist() == [3, 4]
    device.release(buffer)
    assert device.constant(view) is None


def test_device_arrays_copy_through_their_port() -> None:
    device, _ = twin_device()
    buffer = device.allocate(Site("bindings", "x"), 4 * 6 * 4)
    array = at_address(device, buffer.address, 96).view(np.float32).reshape(4, 6)
    array[...] = 0
    array[1:3, 2:5] = 7
    array[0][:2] = [1, 2]
    expected = np.zeros((4, 6), np.float32)
    expected[1:3, 2:5] = 7
    expected[0, :2] = [1, 2]
    assert np.array_equal(np.asarray(array), expected)
    assert np.array_equal(np.asarray(array.transpose()[2]), expected[:, 2])
    with pytest.raises(ValueError, match="copy"):
        array.transpose().reshape(24)
    with pytest.raises(TypeError, match="integers and slices"):
        array[np.array([1])]


def test_axes_are_merged_where_every_operand_allows_it() -> None:
    whole = merged((2, 3, 4), [(12, 4, 1), (12, 4, 1)])
    assert (whole.shape, whole.steps) == ((24,), ((1,), (1,)))
    row = merged((2, 3, 4), [(12, 4, 1), (0, 0, 1)])
    assert (row.shape, row.steps) == ((6, 4), ((4, 1), (0, 1)))
    assert merged((1, 1), [(0, 0)]).shape == ()


def test_workspace_arithmetic() -> None:
    assert [splits_of(keys) for keys in (1, 64, 65, 1024, 10**6)] == [1, 1, 2, 16, 32]
    assert partial_bytes(9, 1, 64) == 0
    assert partial_bytes(9, 16, 64) == 4 * 9 * 16 * 66
    assert dense_columns(100, 64, 2) == 100
    assert dense_columns(10**6, 4096, 2) * 4096 * 2 <= DENSE_BYTES + MATRIX_TILE * 8192
    assert dense_columns(18944, 3584, 2) == 18944 // 2
    assert dense_columns(152064, 3584, 2) % MATRIX_TILE == 0
    assert dense_columns(100, 10**7, 2) == 100
    assert library_room(FEW_ROWS, 4096) == 0
    assert library_room(16, 64) == 4 * LIBRARY_SPLITS * 16 * 64
    assert library_room(2048, 128256) == LIBRARY_BYTES
    assert matmul_room((2, 9, 64), (64, 32)) == library_room(18, 32)
    assert matmul_room((2, 3, 9, 64), (2, 3, 64, 32)) == library_room(9, 32, 6)
    assert matmul_room((64,), (64, 32)) == matmul_room((2, 8, 64), (2, 64, 9)) == 0
    assert numbers((1, -1, 2**63)) == b"\1" + b"\0" * 7 + b"\xff" * 8 + b"\0" * 7 + b"\x80"


def test_sources_compile_for_hopper(tmp_path: Path) -> None:
    pytest.importorskip("cupy_backends", reason="CuPy is not installed, and with it NVRTC")
    text = source("stepping")
    assert compiled(text, "sm_90", tmp_path)[:4] == b"\x7fELF"
    assert [path.suffix for path in tmp_path.iterdir()] == [".cubin"]
