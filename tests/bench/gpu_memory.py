"""Predicted against measured device memory: every component at the ledger, the total at the driver.

    python -m tests.bench.gpu_memory [--contexts 1024,8192] [--batches 1,4] [NAME:fp16 …]

A row a scenario, each in a process of its own: bytes that the worst component is off; the plan's total; the
ceiling of the device context that the plan gives once the device is open; both together; what the card says
is in use at the end, and how far the sum is above it. A shape whose own limit is below a context is built
with that context as its limit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from itertools import product

from tests.bench.gpu_decode import MODELS
from tests.bench.gpu_models import SHAPES, folder_of

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.errors import VramscopeError
from vramscope.plan.types import ComponentName, Scenario

PROMPT = 16
MIB = 2**20


def measured(name: str, batch: int, context: int) -> str:
    """The rest of a scenario's row."""
    model = open_path(folder_of(_long_enough(name, context)))
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
        free, all_of_it = device.card_memory()
        held = decoder.snapshot().components
        known = {row.name: row.figure.known for row in decoder.plan.components}
        outside = known.pop(ComponentName.CONTEXT)
        off = max(abs(held[part.value].current_bytes - size) for part, size in known.items())
        total, used = decoder.plan.total.known, all_of_it - free
    finally:
        decoder.close()
        device.close()
    apart = (total + outside - used) / used
    return (
        f"{off} B off | plan {total / MIB:.1f} | context {outside / MIB:.1f} |"
        f" together {(total + outside) / MIB:.1f} | card {used / MIB:.1f} MiB | {apart:+.2%}"
    )


def _long_enough(name: str, context: int) -> str:
    shape = SHAPES.get(name.partition(":")[0])
    return f"{name}:{context}" if shape and shape["max_position_embeddings"] < context else name


def main() -> None:
    """Measures every scenario."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS[:4])
    parser.add_argument("--contexts", default="1024,8192,32768")
    parser.add_argument("--batches", default="1,4")
    args = parser.parse_args()
    scenarios = list(product(args.models, args.batches.split(","), args.contexts.split(",")))
    for name, batch, context in scenarios:
        if len(scenarios) > 1:
            one = [name, "--batches", batch, "--contexts", context]
            subprocess.run([sys.executable, "-m", "tests.bench.gpu_memory", *one], check=False)
            continue
        try:
            row = measured(name, int(batch), int(context))
        except VramscopeError as error:
            row = str(error)
        print(f"{name} | {batch} | {context} | {row}", flush=True)


if __name__ == "__main__":
    main()
