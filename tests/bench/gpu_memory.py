"""Predicted against measured device memory: every component at the ledger, the total at the driver.

    python -m tests.bench.gpu_memory [--contexts 1024,8192] [--batches 1,4] [NAME:fp16 …]

A row a scenario: bytes that the worst component is off; the plan's total; what the driver lost since the
device was made; what lies outside the plan (modules, graphs, the last page), measured in the model's first
scenario and taken for the others; how far the sum is from the driver's.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from tests.bench.gpu_decode import MODELS
from tests.bench.gpu_models import folder_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.errors import VramscopeError
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from vramscope.graph.model import Model

PROMPT = 16
MIB = 2**20


def measured(model: Model, batch: int, context: int, runtime: Any) -> tuple[int, int, int]:  # noqa: ANN401 - CuPy has no types
    """Bytes: the worst component's error, the plan's total, what the driver lost."""
    start = runtime.memGetInfo()[0]
    device = CudaDevice()
    plan = make_plan(model, Scenario(batch=batch, prompt=PROMPT, context=context))
    decoder = Decoder(model, plan, device=device)
    try:
        decoder.load()
        decoder.prefill([list(range(3, 3 + PROMPT))] * batch)
        decoder.capture()
        for _ in range(4):
            decoder.replay()
        device.synchronize()
        lost = start - runtime.memGetInfo()[0]
        held = decoder.snapshot().components
        rows = [row for row in decoder.plan.components if row.name.value in held and row.figure.known]
        off = [abs(held[row.name.value].current_bytes - row.figure.known) for row in rows]
        return max(off), decoder.plan.total.known, lost
    finally:
        decoder.close()
        device.close()


def main() -> None:
    """Measures every scenario."""
    import cupy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS[:4])
    parser.add_argument("--contexts", default="1024,8192,32768")
    parser.add_argument("--batches", default="1,4")
    args = parser.parse_args()
    runtime = cupy.cuda.runtime
    for name in args.models:
        model, outside = open_path(folder_of(name)), -1
        for batch in map(int, args.batches.split(",")):
            for context in map(int, args.contexts.split(",")):
                title = f"{name} | {batch} | {context}"
                try:
                    off, total, lost = measured(model, batch, context, runtime)
                except VramscopeError as error:
                    print(f"{title} | {error}", flush=True)
                    continue
                outside = lost - total if outside < 0 else outside
                apart = (total + outside - lost) / lost
                print(
                    f"{title} | {off} B off | plan {total / MIB:.1f} MiB | driver {lost / MIB:.1f} MiB |"
                    f" outside {outside / MIB:.1f} MiB | {apart:+.2%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
