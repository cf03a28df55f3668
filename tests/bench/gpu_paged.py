"""Times PagedAttention beside GroupQueryAttention by themselves: one node, recorded many times in a graph.

    python -m tests.bench.gpu_paged

Each line: sequences, new tokens and past of each, µs a call of GroupQueryAttention, then of PagedAttention
with blocks of 16, 64 and 256 tokens in any order. 32 query heads and 8 key heads of 128, float16, rotary
inside. Needs ``tests/support`` on the path.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from cuda_calls import Bench, node

from vramscope.devices.cuda.device import CudaDevice
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.ops.call import Call

HEADS, KV_HEADS, WIDTH = 32, 8, 128
CALLS, ROUNDS = 20, 3
SHAPES = (
    *((1, 1, 1000), (1, 1, 4000), (1, 1, 16000), (4, 1, 4000), (16, 1, 4000)),
    *((1, 512, 0), (1, 2048, 0), (4, 512, 0)),
)
"""Sequences, new tokens of each, positions before them."""
BLOCK_SIZES = (16, 64, 256)


def timed(device: CudaDevice, call: Call) -> float:
    """Seconds of one of many calls in one graph: the best of some rounds."""
    kernel = device.kernel(call.node, spec_for(call.node))
    kernel(call)  # compiles
    device.synchronize()

    def many() -> None:
        for _ in range(CALLS):
            kernel(call)

    found = []
    with device.running():
        replay = device.record([("attention", many)])
        for _ in range(ROUNDS):
            device.synchronize()
            started = time.perf_counter()
            replay()
            device.synchronize()
            found.append(time.perf_counter() - started)
    return min(found) / CALLS


class Case:
    """One shape's inputs."""

    def __init__(self, bench: Bench, shape: tuple[int, int, int]) -> None:
        """``shape``: as in :data:`SHAPES`."""
        self._bench = bench
        self.batch, self.tokens, self.past = shape
        self.capacity = self.past + self.tokens + 8
        self._random = np.random.default_rng(0)
        rows = (self.batch, self.tokens, (HEADS + 2 * KV_HEADS) * WIDTH)
        self._query = self._random.standard_normal(rows).astype(np.float16)
        self._cosines = np.ones((self.capacity, WIDTH // 2), np.float16)

    def grouped(self) -> Call:
        """GroupQueryAttention over caches of this capacity."""
        cache = np.zeros((self.batch, KV_HEADS, self.capacity, WIDTH), np.float16)
        lengths = np.full(self.batch, self.past + self.tokens - 1, np.int32)
        total = np.array(self.capacity, np.int32)
        inputs = [self._query, None, None, cache, cache, lengths, total, self._cosines, self._cosines]
        output = ((self.batch, self.tokens, HEADS * WIDTH), np.float16)
        return self._call("GroupQueryAttention", inputs, output)

    def paged(self, block_size: int) -> Call:
        """PagedAttention over as much in blocks."""
        width = -(-self.capacity // block_size)
        blocks = self.batch * width
        pool = np.zeros((blocks, block_size, KV_HEADS, WIDTH), np.float16)
        table = self._random.permutation(blocks).reshape(self.batch, width).astype(np.int32)
        starts = (np.arange(self.batch + 1) * self.tokens).astype(np.int32)
        past = np.full(self.batch, self.past, np.int32)
        query = self._query.reshape(self.batch * self.tokens, -1)
        inputs = [query, None, None, pool, pool, starts, past, table, self._cosines, self._cosines]
        return self._call("PagedAttention", inputs, ((query.shape[0], HEADS * WIDTH), np.float16))

    def _call(
        self,
        name: str,
        inputs: Sequence[np.ndarray[Any, Any] | None],
        output: tuple[tuple[int, ...], Any],
    ) -> Call:
        operator = node(name, "com.microsoft", 1, num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1)
        return self._bench.call(operator, inputs, [output, 3, 4])


def main() -> None:
    """Prints the table."""
    device = CudaDevice()
    for shape in SHAPES:
        bench = Bench(device)
        case = Case(bench, shape)
        plain = timed(device, case.grouped()) * 1e6
        found = [f"blocks of {size} {timed(device, case.paged(size)) * 1e6:.1f}" for size in BLOCK_SIZES]
        words = f"batch {case.batch} tokens {case.tokens} past {case.past}"
        print(f"{words}: grouped {plain:.1f}, {', '.join(found)} us", flush=True)
        bench.close()
    device.close()


if __name__ == "__main__":
    main()
