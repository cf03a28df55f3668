"""Times the fused products of the bench's models by themselves, other sharings beside the chosen one.

    python -m tests.bench.gpu_products [--all] [MODEL …]

Each line: columns × depth, µs a launch in a chain of them, GB/s of weights, blocks, tuning. A star marks the
tuning that the device takes. Weights lie apart far enough that no cache holds them.
"""

from __future__ import annotations

import argparse
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.bench.gpu_models import SHAPES
from tests.bench.gpu_profile import seconds_of, weight_bytes

from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.cuda.fused_form import PLAIN, SILU, Fused, Norm, Packed, Weight
from vramscope.devices.cuda.fused_launch import (
    ColumnsTuning,
    PackedTuning,
    columns_launch,
    columns_tuning,
    packed_launch,
    packed_tuning,
)
from vramscope.devices.cuda.launch import Launch, generated
from vramscope.devices.ledger import Site
from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.devices.cuda.array import DeviceArray

ROOM, CHAIN, BLOCK = 2**30, 24, 32
EMPTY = 'extern "C" __global__ void empty(i64 n) { BEGIN(); }'


class Maker:
    """Products whose weights are cut one after the other from a buffer of random bytes."""

    def __init__(self, device: CudaDevice) -> None:
        """Fills the buffer: codes of any bits are fine, float16 of these bits is finite and small."""
        self.device = device
        self.base = device.allocate(Site("weights", "bench"), ROOM)
        self.work = device.allocate(Site("activations", "bench"), 2**24)
        part = np.random.default_rng(0).integers(0, 0x2400, 2**23, np.uint16).view(np.uint8)
        for start in range(0, ROOM, part.nbytes):
            device.write(at_address(device, self.base.address + start, part.nbytes), part)
        device.write(at_address(device, self.work.address, 2**24), part)
        self.at = 0

    def cut(self, *shape: int, kind: type[Any] = np.float16) -> DeviceArray:
        """The next piece of the buffer."""
        size = int(np.prod(shape)) * np.dtype(kind).itemsize
        if self.at + size > ROOM:
            self.at = 0
        start = self.base.address + self.at
        self.at += -(-size // 256) * 256
        return at_address(self.device, start, size).view(kind).reshape(*shape)

    def vector(self, width: int, at: int) -> DeviceArray:
        """An activation row."""
        return (
            at_address(self.device, self.work.address + at * 2**20, width * 2)
            .view(np.float16)
            .reshape(1, width)
        )

    def weight(self, n: int, k: int, *, packed: bool) -> Weight:
        """One weight."""
        if not packed:
            return Weight(self.cut(k, n), columns=True)
        blocks = -(-k // BLOCK)
        form = Packed(self.cut(n, blocks), None, 0, 4, BLOCK, blocks, blocks * 16, -(-blocks // 2))
        return Weight(self.cut(n, blocks * 16, kind=np.uint8), columns=False, packed=form)

    def product(self, n: int, k: int, *, packed: bool, pair: bool, norm: bool) -> Fused:
        """One product as a decoder has it."""
        weights = tuple(self.weight(n, k, packed=packed) for _ in range(1 + pair))
        factors = Norm(self.vector(k, 1).reshape(k), 1e-6) if norm else None
        y = self.vector(n, 3)
        return Fused(
            *("f16", 1, n, k, self.vector(k, 0), y, weights, (None,) * len(weights), SILU if pair else PLAIN),
            norm=factors,
            residual=None if norm else self.vector(n, 2),
        )


def products(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The four products of a layer, and the head."""
    sizes = SHAPES[name]
    hidden, inner, vocabulary = sizes["hidden_size"], sizes["intermediate_size"], sizes["vocab_size"]
    heads, kv = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    packed = "qwen" in name
    whole = (heads + 2 * kv) * (hidden // heads)
    for part, n, k, pair, norm in (
        ("qkv", whole, hidden, False, True),
        ("out", hidden, hidden, False, False),
        ("gate-up", inner, hidden, True, True),
        ("down", hidden, inner, False, False),
        ("head", vocabulary, hidden, False, True),
    ):
        yield f"{name} {part}", {"n": n, "k": k, "pair": pair, "norm": norm, "packed": packed}


def variants(fused: Fused) -> list[ColumnsTuning | PackedTuning]:
    """Every sharing worth a look."""
    packed = fused.weights[0].packed
    if packed is None:
        across = {n: -(-fused.n // (n * fused.vector)) for n in (2, 4, 8, 16)}
        slots = {deep: [kib // (4 * deep * len(fused.weights)) for kib in (32, 64, 96)] for deep in (1, 2, 4)}
        return [
            ColumnsTuning(n, shares, deep, stages)
            for n in across
            for shares in (1, 2)
            if 30 <= across[n] * shares <= 270 or (fused.n > 20000 and n >= 8 and shares == 1)
            for deep in (1, 2, 4)
            for stages in slots[deep]
            if stages
        ]
    tiles = -(-fused.n // 16)
    found = []
    for share, quads, stages, most in product((4, 8), (1, 2), (1, 2, 4), (132, 264, 396)):
        units = -(-tiles // (8 // share))
        tuning = PackedTuning(share, quads, stages, -(-units // -(-units // most)))
        if packed_launch(fused, packed, tuning).shared < 200 * 1024:
            found.append(tuning)
    return list(dict.fromkeys(found))


def launch_of(fused: Fused, tuning: ColumnsTuning | PackedTuning) -> Launch:
    """The product under a tuning."""
    if isinstance(tuning, ColumnsTuning):
        return columns_launch(fused, tuning)
    packed = fused.weights[0].packed
    assert packed is not None
    return packed_launch(fused, packed, tuning)


def chosen(fused: Fused) -> ColumnsTuning | PackedTuning:
    """What the device takes."""
    packed = fused.weights[0].packed
    return columns_tuning(fused, clusters=True) if packed is None else packed_tuning(fused, packed)


def main() -> None:
    """Prints the table."""
    import cupy

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=list(SHAPES))
    parser.add_argument("--all", action="store_true", help="every sharing, not the chosen one alone")
    args = parser.parse_args()
    device = CudaDevice()
    maker = Maker(device)
    for grid in (1, 132, 264):
        empty = Launch(generated("empty", EMPTY), "empty", (grid, 1, 1), (256, 1, 1), (b"\0" * 8,))
        seconds = timed(device, [empty] * CHAIN, cupy)
        print(f"empty kernels, {grid} blocks: {seconds * 1e6:.2f} us", flush=True)
    for name in args.models:
        for title, form in products(name):
            fused = [maker.product(**form) for _ in range(CHAIN)]
            own = chosen(fused[0])
            tunings = dict.fromkeys([own, *(variants(fused[0]) if args.all else [])])
            rows = []
            for tuning in tunings:
                try:
                    launches = [launch_of(item, tuning) for item in fused]
                    rows.append((timed(device, launches, cupy), tuning, launches[0].grid[0]))
                except VramscopeError as error:
                    print(title, tuning, error, flush=True)
            size = weight_bytes(launch_of(fused[0], own))
            rows.sort(key=lambda row: row[0])
            for seconds, tuning, grid in [row for n, row in enumerate(rows) if n < 4 or row[1] == own]:
                mark = "*" if tuning == own else " "
                print(
                    f"{title} {form['n']}x{form['k']} {mark} {seconds * 1e6:6.2f} us"
                    f" {size / seconds / 1e9:5.0f} GB/s {grid} blocks {tuning}",
                    flush=True,
                )
    device.close()


def timed(device: CudaDevice, launches: list[Launch], cupy: Any) -> float:  # noqa: ANN401 - CuPy has no types
    """Seconds of one launch in a recorded chain."""
    issues = [device._bind(item) for item in launches]
    replay = device.record(tuple(("a launch", issue) for issue in issues))
    return seconds_of(device, cupy, replay, 10) / len(launches)


if __name__ == "__main__":
    main()
