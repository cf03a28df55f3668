"""Greedy decode on the GPU, ours and onnxruntime-genai's, in one run on the same folders.

    python -m tests.bench.gpu_decode [--peer SITE] [--profile] [NAME:fp16 | NAME:int4 | FOLDER …]

NAME is one of the shapes in ``gpu_models``, built with random weights; FOLDER is a decoder. SITE is a folder
that holds onnxruntime-gpu and onnxruntime-genai-cuda; without it only ours runs. Each has a process of its
own: its device memory is what nvidia-smi shows more than before, CUDA's context included, and its first token
is timed from before that context. A cache of 1,024 tokens, a prompt of 16, eight tokens skipped, the median
of three windows of 128; replays that are read one by one, and several at once. Prefill is of 2,048 tokens, in
a session of its own: of a length run before, and of one that was not; medians of five. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench import gpu_models, gpu_peer
from tests.bench.gpu_peer import LONG, REPEATS
from tests.bench.gpu_profile import profile, seconds_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Model

CONTEXT, PROMPT, SKIPPED, WINDOW, WINDOWS = 1024, 16, 8, 128, 3
BURSTS = (8, 32)
"""Replays that are read at once."""
PRECISIONS = ("fp16", "int4", "int4", "fp16", "int4")
MODELS = tuple(f"{name}:{kind}" for name, kind in zip(gpu_models.SHAPES, PRECISIONS, strict=True))
"""The models of the table."""


@dataclass(frozen=True)
class Ours:
    """What one model gave: tokens a second eager and replayed, device seconds of a step, MiB, and more.

    ``bursts``: tokens a second where so many replays are read at once, as :data:`BURSTS` has them.
    """

    eager: float
    replay: float
    bursts: tuple[float, ...]
    graph: float
    launches: int
    mib: float
    weights: int
    prefill: float
    fresh: float
    first: float
    tokens: tuple[int, ...]


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


def window(decoder: Decoder, advance: Callable[[], object], steps: int = 1) -> float:
    """Seconds a token over one window; a call takes so many ``steps``."""
    for _ in range(SKIPPED):
        advance()
    started = time.perf_counter()
    for _ in range(WINDOW // steps):
        advance()
    decoder.device.synchronize()
    return (time.perf_counter() - started) / WINDOW


def measure(folder: Path, batch: int, shown: Callable[[CudaDevice, float], None], cupy: Any) -> Ours:  # noqa: ANN401 - CuPy has no types
    """Ours on one folder. ``shown`` gets the device and a step's seconds while the graph stands.

    Nothing has touched the device in this process.
    """
    before, started = gpu_peer.used(), time.perf_counter()
    model = open_path(folder)
    device = CudaDevice()
    plan = make_plan(model, Scenario(batch=batch, prompt=PROMPT, context=CONTEXT))
    decoder = Decoder(model, plan, device=device)
    decoder.load()
    prompts = [list(range(3, 3 + PROMPT))] * batch
    decoder.prefill(prompts)
    first = time.perf_counter() - started
    eager: list[float] = []
    replay: list[float] = []
    for _ in range(WINDOWS):
        decoder.prefill(prompts)
        decoder.step()
        eager.append(window(decoder, decoder.step))
    tokens: list[int] = []
    for _ in range(WINDOWS):
        tokens = [decoder.prefill(prompts).tokens[0]]
        tokens += [decoder.step().tokens[0], decoder.capture()[1].tokens[0]]

        def step(kept: list[int] = tokens) -> None:
            kept.append(decoder.replay().tokens[0])

        replay.append(window(decoder, step))
    bursts = tuple(1 / burst_seconds(decoder, prompts, width) for width in BURSTS)
    graph = graph_seconds(decoder, cupy)
    mib = gpu_peer.used() - before
    launches = len(device.recorded)
    shown(device, graph)
    weights = decoder.plan.weights.bytes
    decoder.close()
    device.close()
    found = (1 / statistics.median(eager), 1 / statistics.median(replay), bursts, graph, launches, mib)
    return Ours(*found, weights, *prefill_seconds(model, batch), first, tuple(tokens))


def burst_seconds(decoder: Decoder, prompts: list[list[int]], width: int) -> float:
    """Seconds a token where ``width`` replays are read at once."""
    found = []
    for _ in range(WINDOWS):
        decoder.prefill(prompts)
        decoder.step()
        decoder.capture()
        found.append(window(decoder, lambda: decoder.replays(width), width))
    return statistics.median(found)


def prefill_seconds(model: Model, batch: int) -> tuple[float, float]:
    """One long prompt, the choice of the first token included: of a length run before, and of a new one."""
    device = CudaDevice()
    plan = make_plan(model, Scenario(batch=batch, prompt=LONG, context=LONG + 16))
    decoder = Decoder(model, plan, device=device)
    decoder.load()

    def seconds(count: int) -> float:
        prompts = [[token % 1000 + 3 for token in range(count)]] * batch
        started = time.perf_counter()
        decoder.prefill(prompts)
        return time.perf_counter() - started

    seconds(LONG)
    fresh = statistics.median(seconds(LONG - more) for more in range(1, 1 + REPEATS))
    again = sorted(seconds(LONG) for _ in range(1 + REPEATS))[REPEATS // 2]
    decoder.close()
    device.close()
    return again, fresh


def graph_seconds(decoder: Decoder, cupy: Any) -> float:  # noqa: ANN401 - CuPy has no types
    """Device time of one replay, launched back to back without any host work between."""
    graph = decoder._slot.graph
    if graph is None or len(graph.segments) != 1:
        return float("nan")
    device = decoder.device
    assert isinstance(device, CudaDevice)
    room = decoder.plan.context - decoder.snapshot().position - 2
    return seconds_of(device, cupy, graph.segments[0], min(room, 200))


def measured(folder: Path, args: argparse.Namespace, bandwidth: float) -> Ours:
    """Ours, in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    command = [sys.executable, "-m", "tests.bench.gpu_decode", "--measure", str(bandwidth), str(folder)]
    options = ["--batch", str(args.batch), *(["--profile"] if args.profile else [])]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=False)
    *shown, last = done.stdout.splitlines() or [""]
    if done.returncode:
        raise RuntimeError(f"{folder} cannot be measured, see above: {last}")
    print("".join(f"{line}\n" for line in shown), end="", flush=True)
    found = json.loads(last)
    return Ours(**{**found, "tokens": tuple(found["tokens"]), "bursts": tuple(found["bursts"])})


def measure_here(folder: Path, args: argparse.Namespace) -> None:
    """The other end of :func:`measured`: prints one line of JSON behind the profile."""
    import cupy

    def shown(device: CudaDevice, seconds: float) -> None:
        if args.profile:
            profile(device, seconds, args.measure, cupy)

    print(json.dumps(asdict(measure(folder, args.batch, shown, cupy))), flush=True)


def compare(name: str, args: argparse.Namespace, bandwidth: float) -> None:
    """One model, printed."""
    folder = gpu_models.folder_of(name)
    peers = [
        gpu_peer.run(args.peer, folder, CONTEXT, args.batch, graph=graph)
        for graph in ((True,) if args.graph else (True, False))
        if args.peer
    ]
    ours = measured(folder, args, bandwidth)
    floor = ours.weights / bandwidth
    each = ours.graph / max(ours.launches, 1) * 1e6
    print(
        f"{name} batch {args.batch}: weights {ours.weights / 1e9:.3f} GB, floor {floor * 1e3:.3f} ms;"
        f" ours eager {ours.eager:.0f}, replay {ours.replay:.0f} tok/s = {1e3 / ours.replay:.3f} ms,"
        f" {BURSTS} read at once {' and '.join(f'{item:.0f}' for item in ours.bursts)},"
        " graph"
        f" alone {ours.graph * 1e3:.3f} ms = {floor / ours.graph:.0%} of bandwidth, {ours.launches} launches"
        f" of {each:.2f} us, {ours.mib:.0f} MiB, prefill of {LONG} tokens {ours.prefill * 1e3:.1f} ms,"
        f" of a new length {ours.fresh * 1e3:.1f}, first token {ours.first:.2f} s",
        flush=True,
    )
    for graph, peer in zip(("graph", "eager"), peers, strict=False):
        if isinstance(peer, str):
            print(f"    peer {graph}: {peer}", flush=True)
            continue
        pairs = enumerate(zip(ours.tokens, peer.tokens, strict=False))
        apart = next((f"differ first at token {n}" for n, (a, b) in pairs if a != b), "are equal")
        print(
            f"    peer {graph} {peer.speed:.0f} tok/s, ours replay {ours.replay / peer.speed:.2f} x;"
            f" {peer.mib:.0f} MiB, ours {ours.mib / peer.mib:.2f} of it; prefill {peer.prefill * 1e3:.1f} ms,"
            f" ours {peer.prefill / ours.prefill:.2f} x as fast, of a new length {peer.fresh * 1e3:.1f} ms,"
            f" ours {peer.fresh / ours.fresh:.2f} x; first token {peer.first:.2f} s;"
            f" tokens {apart}",
            flush=True,
        )


def main() -> None:
    """Measures every model named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--peer", default="", help="folder that holds onnxruntime-genai-cuda")
    parser.add_argument("--graph", action="store_true", help="the peer with its graph alone")
    parser.add_argument("--profile", action="store_true", help="each kind of launch by itself")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--measure", type=float, default=0.0, help="bytes a second: ours, here, as JSON")
    args = parser.parse_args()
    if args.measure:
        measure_here(Path(args.models[0]), args)
        return
    import cupy

    CudaDevice().close()
    bandwidth = copy_bandwidth(cupy.cuda.runtime, cupy.cuda)
    print(f"copy bandwidth {bandwidth / 1e9:.0f} GB/s read and written", flush=True)
    for name in args.models:
        compare(name, args, bandwidth)


if __name__ == "__main__":
    main()
