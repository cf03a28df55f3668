"""How fused products and the decode attention are shared among blocks: limits that every launch must keep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import check, twin_device

from vramscope.devices.cuda.array import at_address
from vramscope.devices.cuda.attend_decode import Fresh, cluster_splits, decode_launch
from vramscope.devices.cuda.attend_form import SEQLENS, Attention, Lengths, Mask, Rows
from vramscope.devices.cuda.fused_form import PLAIN, SILU, Fused, Norm, Packed, Weight
from vramscope.devices.cuda.fused_launch import TILE, fused_launch, packed_tuning

if TYPE_CHECKING:
    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.device import CudaDevice

BASE = 1 << 40
SHAPES = [(1152, 896), (896, 4864), (4864, 896), (151936, 896), (18944, 3584), (3584, 18944), (64, 32)]
"""Columns and depth of products in public decoders, and a tiny one."""
MOST_STATIC = {"columns": 34 * 1024, "packed": 10 * 1024, "codes": 1024}
"""Shared memory that the kernels declare themselves, at most."""


def array(device: CudaDevice, *shape: int, kind: type = np.float16, at: int = BASE) -> DeviceArray:
    """A view that nothing follows."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    return at_address(device, at, size).view(kind).reshape(*shape)


def product(
    n: int,
    k: int,
    *,
    rows: int = 1,
    pair: bool = False,
    bits: int = 0,
    block: int = 32,
    kind: type = np.float16,
) -> Fused:
    """A normed product; ``bits`` 0: dense columns."""
    device, _ = twin_device()
    blocks = -(-k // block)

    def weight() -> Weight:
        if not bits:
            return Weight(array(device, k, n, kind=kind), columns=True)
        row = blocks * block * bits // 8
        form = Packed(array(device, n, blocks, kind=kind), None, 0, bits, block, blocks, row, 0)
        return Weight(array(device, n, row, kind=np.uint8), columns=False, packed=form)

    weights = tuple(weight() for _ in range(1 + pair))
    name = "float" if kind is np.float32 else "f16"
    tensors = (array(device, rows, k, kind=kind), array(device, rows, n, kind=kind))
    norm = Norm(array(device, k, kind=kind), 1e-6)
    joined = SILU if pair else PLAIN
    return Fused(name, rows, n, k, *tensors, weights, (None,) * len(weights), joined, norm)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_launches_keep_the_cards_limits(shape: tuple[int, int], rows: int, pair: bool, bits: int) -> None:
    fused = product(*shape, rows=rows, pair=pair, bits=bits)
    if not fused.suits():
        assert rows * shape[1] > 8192
        return
    launch = fused_launch(fused, clusters=True)
    check(launch)
    assert launch.shared + MOST_STATIC[launch.function] <= 227 * 1024
    assert launch.grid[0] % launch.cluster == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_every_tile_of_a_packed_weight_has_a_warp(shape: tuple[int, int]) -> None:
    fused = product(*shape, bits=4)
    packed = fused.weights[0].packed
    assert packed is not None
    tuning = packed_tuning(fused, packed)
    teams = tuning.grid * (8 // tuning.share)
    tiles = -(-shape[0] // TILE)
    rounds = -(-tiles // teams)
    assert teams * rounds >= tiles
    assert teams * (rounds - 1) < tiles


def test_the_matrix_units_multiply_where_a_chunk_of_codes_has_one_scale() -> None:
    def function(given: Fused) -> str:
        assert given.suits()
        launch = fused_launch(given, clusters=True)
        check(launch)
        return launch.function

    assert function(product(64, 256, bits=4, block=32)) == "packed"
    assert function(product(64, 256, bits=4, block=16)) == "codes"
    assert function(product(64, 256, bits=8, block=16)) == "packed"
    assert function(product(64, 256, bits=4, kind=np.float32)) == "codes"
    assert function(product(64, 256, bits=8, pair=True, kind=np.float32)) == "codes"
    assert not product(64, 40000, rows=4, bits=4, kind=np.float32).suits()


def attention(width: int, heads: int, kv: int, kind: type = np.float16, at: int = BASE) -> Attention:
    device, _ = twin_device()
    cache = Rows.of(array(device, 1, kv, 1024, width, kind=kind, at=at))
    row = Rows(BASE, heads * width, width, heads * width)
    lengths = Lengths(SEQLENS, BASE, None, 1, 1025, fresh=1)
    x = array(device, 1, 1, heads * width, kind=kind)
    return Attention(x, 1, 1, heads, kv, width, row, cache, cache, row, lengths, splits=4)


def test_the_matrix_units_attend_where_they_have_the_form() -> None:
    fresh = Fresh(Rows(BASE, 64, 64, 64), Rows(BASE, 64, 64, 64), None, 0.0)

    def function(given: Attention) -> str:
        launch = decode_launch(given, fresh)
        check(launch)
        assert launch.cluster == launch.grid[0] == 4
        return launch.function

    assert function(attention(64, 14, 2)) == "attend_decode"
    assert function(attention(128, 28, 4)) == "attend_decode"
    for other in (attention(64, 14, 2, np.float32), attention(80, 8, 2), attention(64, 4, 2, at=BASE + 2)):
        assert function(other) == "attend_split"
    masked = attention(64, 14, 2)
    device, _ = twin_device()
    hidden = Mask(array(device, 1, 1, 1, 1025), 2)
    assert function(replace(masked, mask=hidden)) == "attend_split"


def test_a_cluster_grows_with_the_cache_until_it_is_too_small() -> None:
    splits = [cluster_splits(capacity) for capacity in (1, 256, 257, 1024, 2048, 4096, 4097)]
    assert splits == [*sorted(splits[:-1]), 0]
    assert splits[0] == 1
    assert max(splits) == 8
