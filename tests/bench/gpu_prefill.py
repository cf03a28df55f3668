"""Where a long prefill's time goes: binding, issuing, the device, and each kind of launch.

    python -m tests.bench.gpu_prefill [--length N] [NAME:fp16 | NAME:int4 | FOLDER …]

The first prefill of a length binds its program and loads kernels, a second one of another length binds alone,
later ones only issue. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

from tests.bench import gpu_models
from tests.bench.gpu_decode import MODELS, copy_bandwidth
from tests.bench.gpu_profile import profile

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

LENGTH, REPEATS = 2048, 5


def prompt(length: int) -> list[list[int]]:
    """One sequence of ``length`` tokens."""
    return [[token % 1000 + 3 for token in range(length)]]


def seconds(decoder: Decoder, length: int) -> float:
    """One prefill, the choice of the first token included."""
    started = time.perf_counter()
    decoder.prefill(prompt(length))
    return time.perf_counter() - started


def opened(folder: Path, length: int, device: CudaDevice) -> tuple[Decoder, str]:
    """A loaded decoder that has chosen a first token, and how long each part of that took."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    model = open_path(folder)
    mark()
    plan = make_plan(model, Scenario(prompt=16, context=length + 16))
    mark()
    decoder = Decoder(model, plan, device=device)
    decoder.load()
    mark()
    decoder.prefill(prompt(16))
    mark()
    parts = zip(("open", "plan", "load", "prefill of 16"), marks, marks[1:], strict=False)
    text = ", ".join(f"{name} {(end - start) * 1e3:.0f}" for name, start, end in parts)
    return decoder, f"first token {(marks[-1] - marks[0]) * 1e3:.0f} ms: {text}"


def measure(name: str, length: int, bandwidth: float, cupy: Any) -> None:  # noqa: ANN401 - CuPy has no types
    """One model, printed."""
    device = CudaDevice()
    decoder, text = opened(gpu_models.folder_of(name), length, device)
    first = seconds(decoder, length)
    other = statistics.median(seconds(decoder, length - more) for more in range(1, REPEATS))
    decoder.prefill(prompt(length))
    again = statistics.median(seconds(decoder, length) for _ in range(REPEATS))
    device.recorded.clear()
    device._recorder.node = "the bench"
    decoder.prefill(prompt(length))
    device._recorder.node = ""
    issues = tuple(device.recorded)
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    for _ in range(2):
        device.synchronize()
        begun = time.perf_counter()
        start.record(device.stream)
        for issue in issues:
            issue()
        end.record(device.stream)
        issued = time.perf_counter() - begun
        end.synchronize()
    whole = cupy.cuda.get_elapsed_time(start, end) * 1e-3
    print(
        f"{name}: {text}; prefill of {length} tokens: first {first * 1e3:.1f} ms, another length"
        f" {other * 1e3:.1f}, again {again * 1e3:.1f}; {len(issues)} launches, issued in {issued * 1e3:.1f},"
        f" on the device {whole * 1e3:.1f}",
        flush=True,
    )
    profile(device, whole, bandwidth, cupy, most=14)
    decoder.close()
    device.close()


def main() -> None:
    """Measures every model named on the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--length", type=int, default=LENGTH)
    args = parser.parse_args()
    import cupy

    CudaDevice().close()
    bandwidth = copy_bandwidth(cupy.cuda.runtime, cupy.cuda)
    for name in args.models:
        measure(name, args.length, bandwidth, cupy)


if __name__ == "__main__":
    main()
