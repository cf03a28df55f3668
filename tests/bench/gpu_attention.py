"""Times the decode step's attention of the bench's models by itself, over clusters and lengths.

    python -m tests.bench.gpu_attention [MODEL …]

Each line: model, rows in the cache of 1,024, blocks of a cluster, µs a launch in a chain of them.
"""

from __future__ import annotations

import argparse

import numpy as np
from tests.bench.gpu_models import SHAPES
from tests.bench.gpu_products import CHAIN, Maker, timed

from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.attend_decode import Fresh, cluster_splits, decode_launch
from vramscope.devices.cuda.attend_form import SEQLENS, Attention, Lengths, Rotary, Rows
from vramscope.devices.cuda.device import CudaDevice

CAPACITY = 1024


def attention(maker: Maker, name: str, splits: int) -> tuple[Attention, Fresh]:
    """One layer's attention on a cache of its own."""
    sizes = SHAPES[name]
    heads, kv = sizes["num_attention_heads"], sizes["num_key_value_heads"]
    width = sizes["hidden_size"] // heads
    x = maker.vector((heads + 2 * kv) * width, 0)
    every = Rows(x.address, (heads + 2 * kv) * width, width, 0)
    caches = [maker.cut(1, kv, CAPACITY, width) for _ in range(2)]
    tables = [maker.cut(CAPACITY, width // 2) for _ in range(2)]
    length = at_address(maker.device, maker.work.address + 5 * 2**20, 4).view(np.int32)
    keys, values = (Rows(x.address + 2 * n * width, every.batch, width, 0) for n in (heads, heads + kv))
    out = Rows(maker.vector(heads * width, 3).address, heads * width, width, 0)
    lengths = Lengths(SEQLENS, length, None, 1, CAPACITY + 1, fresh=1)
    rotary = Rotary(tables[0], tables[1])
    whole = Attention(
        *(x, 1, 1, heads, kv, width, every, Rows.of(caches[0]), Rows.of(caches[1]), out, lengths, rotary),
        right=0,
        scale=width**-0.5,
        splits=splits,
    )
    return whole, Fresh(keys, values, None, 1e-6)


def main() -> None:
    """Prints the table."""
    import cupy

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(SHAPES))
    device = CudaDevice()
    maker = Maker(device)
    length = at_address(device, maker.work.address + 5 * 2**20, 4).view(np.int32)
    for name in parser.parse_args().models:
        for splits in (1, 2, 4, 8):
            launches = [decode_launch(*attention(maker, name, splits)) for _ in range(CHAIN)]
            found = []
            for rows in (20, 150, 360, 1000):
                device.write(length, np.array([rows], np.int32))
                found.append(f"{rows} rows {timed(device, launches, cupy) * 1e6:5.2f} us")
            mark = "*" if splits == cluster_splits(CAPACITY) else " "
            print(f"{name} {launches[0].function} {mark} cluster {splits}: {', '.join(found)}", flush=True)
    device.close()


if __name__ == "__main__":
    main()
