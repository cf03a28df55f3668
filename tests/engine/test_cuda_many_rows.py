"""Which kernels many rows take on the CUDA device, and their layout: attention, norms, packed weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from cuda_calls import Bench, node
from cuda_twin import Twin, twin_device

from vramscope.devices.cuda.attend_cache import Append
from vramscope.devices.cuda.attend_form import Attention, Lengths, Mask, Rotary, Rows, attend_launches
from vramscope.devices.cuda.launch import Launch
from vramscope.devices.cuda.library_form import LibraryProduct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.devices.cuda.array import DeviceArray

CONTRIB = "com.microsoft"
ROWS, HEADS = 150, 2


@dataclass
class Made:
    """A bench on the stand-in, and attention over its memory."""

    bench: Bench
    twin: Twin

    def attention(self, width: int, kind: type[Any] = np.float16) -> Attention:
        """150 new rows of two heads, rotated over whole halves."""
        x = self.bench.room((1, HEADS, ROWS, width), kind)
        table = self.bench.room((ROWS, width // 2), kind)
        lengths = Lengths(0, None, None, ROWS, ROWS)
        rows = Rows.of(x)
        return Attention(
            *(x, 1, ROWS, HEADS, HEADS, width, rows, rows, rows, rows, lengths, Rotary(table, table))
        )

    def functions(self, *given: Any, outputs: Any, operator: Any) -> list[str]:  # noqa: ANN401 - handed on
        """What a node launches."""
        self.twin.launches.clear()
        self.bench.run(operator, given, outputs)
        return [launch.function for launch in self.twin.launches]


@pytest.fixture
def made() -> Iterator[Made]:
    device, twin = twin_device()
    bench = Bench(device)
    yield Made(bench, twin)
    bench.close()


def defines(launch: Launch) -> dict[str, str]:
    lines = [line.split() for line in launch.source.text.splitlines() if line.startswith("#define ")]
    return {line[1]: line[2] for line in lines if len(line) == 3}


@pytest.mark.parametrize("width", [16, 64, 80, 96, 128])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_narrow_heads_attend_on_the_matrix_units(made: Made, width: int, kind: type[Any]) -> None:
    (launch,) = attend_launches(made.attention(width, kind))
    assert (launch.function, launch.grid, launch.block) == ("attend_flash", (3, HEADS, 1), (128, 1, 1))
    assert launch.shared == (64 + 4 * 64) * (2 * width + 16)
    assert defines(launch)["EVEN"] == "1"


def test_other_attention_goes_without_them(made: Made) -> None:
    plain = made.attention(64)
    mask: DeviceArray = made.bench.room((1, 1, ROWS, ROWS), np.float16)
    output = replace(plain.output, address=plain.output.address + 2)
    for attention in (
        made.attention(64, np.float32),
        made.attention(256),
        made.attention(72),
        replace(plain, mask=Mask(mask, 2)),
        replace(plain, output=output),
        replace(plain, scale=-1.0),
    ):
        assert [item.function for item in attend_launches(attention)] == ["attend_tiled"]


def test_rows_that_do_not_turn_in_pieces_turn_one_by_one(made: Made) -> None:
    plain = made.attention(64)
    narrow = made.bench.room((ROWS, 16), np.float16)
    off = replace(plain.query, address=plain.query.address + 2)
    turned = replace(plain.rotary, interleaved=True)
    for attention in (
        replace(plain, rotary=turned),
        replace(plain, rotary=Rotary(narrow, narrow)),
        replace(plain, query=off),
    ):
        (launch,) = attend_launches(attention)
        assert (launch.function, defines(launch)["EVEN"]) == ("attend_flash", "0")


@pytest.mark.parametrize(("width", "share"), [(16, 1), (64, 4), (80, 8), (128, 8)])
def test_new_rows_are_appended_by_a_few_threads_each(made: Made, width: int, share: int) -> None:
    whole = made.attention(width)
    rows = (whole.keys, whole.values, whole.keys, whole.values)
    append = Append(whole.dtype, 1, ROWS, HEADS, width, *rows, ROWS, whole.lengths, whole.rotary)
    (launch,) = append.launches()
    assert (launch.function, launch.grid) == ("append_even", (-(-ROWS * HEADS * share // 256), 1, 1))
    slow = replace(append, rotary=replace(whole.rotary, interleaved=True))
    assert [item.function for item in slow.launches()] == ["append"]


@pytest.mark.parametrize(
    ("rows", "width", "function"),
    [(31, 2048, "normalise"), (32, 2048, "norm_pieces"), (64, 2052, "normalise"), (64, 16, "norm_pieces")],
)
def test_norms_of_many_rows_keep_them_in_registers(made: Made, rows: int, width: int, function: str) -> None:
    x, gamma = np.ones((rows, width), np.float16), np.ones(width, np.float16)
    operator = node("SimplifiedLayerNormalization")
    assert made.functions(x, gamma, outputs=[(x.shape, np.float16)], operator=operator) == [function]
    (launch,) = made.twin.launches
    assert isinstance(launch, Launch)
    if function == "norm_pieces":
        held = int(defines(launch)["PIECES"]) * launch.block[0] * 8
        assert launch.grid == (rows, 1, 1)
        assert width <= held < width + 8 * launch.block[0]


@pytest.mark.parametrize(
    ("block", "grouped", "function"), [(32, False, "dense_words"), (32, True, "dense_nbits")]
)
def test_packed_weights_become_dense_by_words(made: Made, block: int, grouped: bool, function: str) -> None:
    rows, depth, columns = 20, 64, 48
    operator = node("MatMulNBits", CONTRIB, K=depth, N=columns, bits=4, block_size=block)
    blocks = depth // block
    given: list[Any] = [
        np.ones((1, rows, depth), np.float16),
        np.zeros((columns, blocks, block // 2), np.uint8),
    ]
    given.append(np.ones((columns, blocks), np.float16))
    given += [None, np.zeros(depth, np.int32)] if grouped else []
    outputs = [((1, rows, columns), np.float16)]
    names = made.functions(*given, outputs=outputs, operator=operator)
    assert names == [function, f"f16 {rows}x{columns}x{depth}"]
    product = made.twin.launches[1]
    assert isinstance(product, LibraryProduct)
    assert product.b.turned
    assert product.workspace >= product.b.address + 2 * depth * columns
