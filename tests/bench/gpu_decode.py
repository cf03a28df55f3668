"""Greedy decode on the GPU: eager and replayed steps, the floor from bytes over bandwidth, device memory.

    python tests/bench/gpu_decode.py [NAME:PRECISION | FOLDER …]

NAME is one of the public shapes below, built with random weights; FOLDER is a decoder. Batch 1, a cache of
1,024 tokens, a prompt of 16, eight tokens skipped, the median of three windows of 128. Nothing is asserted.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vramscope.api import make_plan, open_path
from vramscope.build.config_reader import read_config
from vramscope.build.decoder import build_decoder
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path("/tmp/vramscope-bench")
LONG = 1000
CONTEXT, PROMPT, SKIPPED, WINDOW, WINDOWS = 1024, 16, 8, 128, 3

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "rope_theta": 10000.0}
QWEN = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1000000.0}
COMMON = {
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float16",
}


def _shape(
    kind: dict[str, Any], sizes: tuple[int, ...], *, tied: bool = True, context: int = 8192
) -> dict[str, Any]:
    heads = ("num_attention_heads", "num_key_value_heads")
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", *heads, "vocab_size")
    whole = {"max_position_embeddings": context, "tie_word_embeddings": tied}
    return {**kind, **COMMON, **dict(zip(names, sizes, strict=True)), **whole}


SHAPES = {
    "smollm2-135m": _shape(LLAMA, (576, 1536, 30, 9, 3, 49152)),
    "qwen2.5-0.5b": _shape(QWEN, (896, 4864, 24, 14, 2, 151936), context=32768),
    "qwen2.5-1.5b": _shape(QWEN, (1536, 8960, 28, 12, 2, 151936), context=32768),
    "llama-3.2-1b": _shape(LLAMA, (2048, 8192, 16, 32, 8, 128256)),
    "qwen2.5-7b": _shape(QWEN, (3584, 18944, 28, 28, 4, 152064), tied=False, context=32768),
}
"""Public shapes, by name."""


def folder_of(name: str) -> Path:
    """The model's folder, built when it is not there."""
    if ":" not in name:
        return Path(name)
    shape, precision = name.split(":")
    folder = FOLDER / f"{shape}-{precision}"
    if not folder.exists():
        import json

        FOLDER.mkdir(parents=True, exist_ok=True)
        config = FOLDER / f"{shape}.json"
        config.write_text(json.dumps(SHAPES[shape]), encoding="utf-8")
        started = time.perf_counter()
        build_decoder(read_config(config), folder, precision={"int4": "q4f16"}.get(precision, precision))
        print(f"{name}: built in {time.perf_counter() - started:.0f} s", flush=True)
    return folder


def copy_bandwidth(runtime: Any, cuda: Any) -> float:  # noqa: ANN401 - CuPy has no types
    """Bytes read and written a second by a large copy on the device."""
    size = 2**31
    one, two = runtime.malloc(size), runtime.malloc(size)
    start, end = cuda.Event(), cuda.Event()
    stream = cuda.Stream.null
    runtime.memcpyAsync(two, one, size, runtime.memcpyDeviceToDevice, stream.ptr)
    start.record()
    for _ in range(10):
        runtime.memcpyAsync(two, one, size, runtime.memcpyDeviceToDevice, stream.ptr)
    end.record()
    end.synchronize()
    seconds = float(cuda.get_elapsed_time(start, end)) / 10 * 1e-3
    runtime.free(one)
    runtime.free(two)
    return 2 * size / seconds


def window(decoder: Decoder, advance: Callable[[], object]) -> float:
    """Seconds a token over one window."""
    for _ in range(SKIPPED):
        advance()
    started = time.perf_counter()
    for _ in range(WINDOW):
        advance()
    decoder.device.synchronize()
    return (time.perf_counter() - started) / WINDOW


def measure(name: str, bandwidth: float, cupy: Any) -> None:  # noqa: ANN401 - CuPy has no types
    """One model, printed."""
    folder = folder_of(name)
    model = open_path(folder)
    runtime = cupy.cuda.runtime
    before = runtime.memGetInfo()[0]
    device = CudaDevice()
    decoder = Decoder(model, make_plan(model, Scenario(prompt=PROMPT, context=CONTEXT)), device=device)
    started = time.perf_counter()
    decoder.load()
    loaded = time.perf_counter() - started
    prompt = list(range(3, 3 + PROMPT))
    eager: list[float] = []
    replay: list[float] = []
    tokens: tuple[int, ...] = ()
    for _ in range(WINDOWS):
        decoder.prefill([prompt])
        decoder.step()
        eager.append(window(decoder, decoder.step))
    for _ in range(WINDOWS):
        first = decoder.prefill([prompt])
        report, _ = decoder.capture()
        replay.append(window(decoder, decoder.replay))
        tokens = first.tokens
    graph = graph_seconds(decoder, cupy)
    weights = decoder.plan.weights.bytes
    floor = weights / bandwidth
    ms = statistics.median(replay) * 1e3
    used = (before - runtime.memGetInfo()[0]) / 2**20
    kernels = len(device.recorded)
    speed = f"eager {1 / statistics.median(eager):.0f} tok/s, replay {ms:.3f} ms = {1e3 / ms:.0f} tok/s"
    share = f"floor {floor * 1e3:.3f} ms = {floor * 1e3 / ms:.0%} of it"
    launches = f"{kernels} launches a token, {graph / max(kernels, 1) * 1e6:.2f} µs each"
    print(f"{name}: weights {weights / 1e9:.3f} GB, load {loaded:.1f} s, {speed}", flush=True)
    print(f"    graph alone {graph * 1e3:.3f} ms, {share}, {launches}, {used:.0f} MiB", flush=True)
    print(f"    one graph: {report.is_single_graph}, first token {tokens}", flush=True)
    profile(device, graph, cupy)
    print(f"    prefill of {LONG} tokens: {prefill_seconds(decoder) * 1e3:.1f} ms", flush=True)
    decoder.close()


def prefill_seconds(decoder: Decoder) -> float:
    """One long prompt, the second time, the choice of the first token included."""
    prompt = [token % 1000 + 3 for token in range(LONG)]
    decoder.prefill([prompt])
    started = time.perf_counter()
    decoder.prefill([prompt])
    return time.perf_counter() - started


def profile(device: CudaDevice, whole: float, cupy: Any) -> None:  # noqa: ANN401 - CuPy has no types
    """Each kind of launch of the step by itself: all of its launches one after the other, as a graph."""
    groups: dict[tuple[str, ...], list[Any]] = {}
    for issue in device.recorded:
        launch = issue.launch
        lines = [line.split() for line in launch.source.text.splitlines() if line.startswith("#define ")]
        shown = ("NORM", "SKIP", "PAIR", "LANES", "BITS", "HEAD")
        form = " ".join(f"{line[1]}={line[2]}" for line in lines if len(line) == 3 and line[1] in shown)
        name = (launch.source.name, launch.function, str(launch.grid[0]), form)
        groups.setdefault(name, []).append(issue)
    rows = []
    for key, issues in groups.items():
        if key[0] == "stepping":
            continue
        replay = device.record(tuple(("a launch", issue) for issue in issues))
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record(device.stream)
        for _ in range(20):
            replay()
        end.record(device.stream)
        end.synchronize()
        rows.append((float(cupy.cuda.get_elapsed_time(start, end)) / 20 * 1e3, len(issues), key))
    for micros, count, key in sorted(rows, reverse=True)[:9]:
        share = micros * 1e-6 / whole
        print(
            f"      {micros:7.1f} us = {share:4.0%}: {count:3d} x {micros / count:6.2f} us {' '.join(key)}",
            flush=True,
        )


def graph_seconds(decoder: Decoder, cupy: Any) -> float:  # noqa: ANN401 - CuPy has no types
    """Device time of one replay, launched back to back without any host work between."""
    graph = decoder._slot.graph
    if graph is None or len(graph.segments) != 1:
        return float("nan")
    device = decoder.device
    assert isinstance(device, CudaDevice)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    room = decoder.plan.context - decoder.snapshot().position - 1
    count = min(room, 200)
    start.record(device.stream)
    for _ in range(count):
        graph.segments[0]()
    end.record(device.stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / count * 1e-3


def main() -> None:
    """Measures every model named on the command line."""
    import cupy

    CudaDevice().close()
    bandwidth = copy_bandwidth(cupy.cuda.runtime, cupy.cuda)
    print(f"copy bandwidth {bandwidth / 1e9:.0f} GB/s read and written", flush=True)
    for name in sys.argv[1:] or ["smollm2-135m:fp16"]:
        measure(name, bandwidth, cupy)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
