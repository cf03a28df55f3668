"""MultiHeadAttention and Attention on the CUDA device without a GPU: launches, scratch, refused forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda_calls import Bench, meta_of, node

from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE, library_room, partial_bytes, splits_of
from vramscope.ops.spec import ABSENT_META, WorkspaceQuery
from vramscope.units import align

if TYPE_CHECKING:
    from cuda_twin import Twin

KEY = ("com.microsoft", "MultiHeadAttention")
HEADS, WIDTH, QUERIES, PAST = 2, 16, 5, 7
TOTAL = QUERIES + PAST
OPERATOR = node(KEY[1], KEY[0], num_heads=HEADS)
Given = list[np.ndarray[Any, Any] | None]


def inputs(*, bias: bool = False, mask: bool = False, past: bool = False, queries: int = QUERIES) -> Given:
    flat = np.ones((1, queries, HEADS * WIDTH), np.float16)
    rows = np.ones((1, HEADS, PAST, WIDTH), np.float16)
    total = queries + (PAST if past else 0)
    return [
        *(flat, flat, flat, np.ones(3 * HEADS * WIDTH, np.float16) if bias else None),
        *(np.ones((1, total), np.int32) if mask else None, None),
        *([rows, rows] if past else []),
    ]


def launches(made: tuple[Bench, Twin], given: Given, *, present: bool) -> list[str]:
    bench, twin = made
    twin.launches.clear()
    first = given[0]
    assert first is not None
    total = first.shape[1] + (PAST if len(given) > 6 else 0)
    room = ((1, HEADS, total, WIDTH), np.float16)
    outputs = [(first.shape, np.float16), *([room, room] if present else [None, None])]
    bench.run(OPERATOR, given, outputs)
    return [
        "attend" if name.startswith("attend_") else name for name in (item.function for item in twin.launches)
    ]


def test_nothing_is_copied_where_nothing_is_kept(made: tuple[Bench, Twin]) -> None:
    assert launches(made, inputs(), present=False) == ["attend"]
    assert launches(made, inputs(queries=1), present=False) == ["attend"]


def test_a_present_takes_past_and_new_rows_and_a_bias_its_place(made: tuple[Bench, Twin]) -> None:
    assert launches(made, inputs(past=True), present=True) == ["each"] * 4 + ["attend"]
    assert launches(made, inputs(past=True, bias=True), present=False) == ["each"] * 5 + ["attend"]
    assert launches(made, inputs(mask=True), present=False) == ["soft_mask", "attend"]


def question(given: Given, outputs: int) -> WorkspaceQuery:
    return WorkspaceQuery(
        OPERATOR, tuple(ABSENT_META if item is None else meta_of(item) for item in given), outputs
    )


def test_scratch_by_form() -> None:
    estimate, row = CUDA_WORKSPACE[KEY], HEADS * WIDTH * 2

    def sizes(given: Given, outputs: int) -> dict[str, int]:
        return {region.name: region.size for region in estimate(question(given, outputs)).regions}

    assert sizes(inputs(), 1) == {}
    assert sizes(inputs(past=True), 3) == {}
    assert sizes(inputs(past=True), 1) == {"keys": TOTAL * row, "values": TOTAL * row}
    biased = {"queries": QUERIES * row, "keys": QUERIES * row, "values": QUERIES * row}
    assert sizes(inputs(bias=True), 1) == biased
    assert sizes(inputs(mask=True, past=True), 3) == {"mask": TOTAL * 2}
    long = inputs(queries=1)
    long[1] = long[2] = np.ones((1, 500, HEADS * WIDTH), np.float16)
    need = estimate(question(long, 1))
    assert need.bytes == partial_bytes(HEADS, splits_of(500), WIDTH) == align(need.bytes, 4)


@pytest.mark.parametrize(
    ("index", "value", "why"),
    [
        (9, np.zeros((1, 1, 1), np.int32), "beam search"),
        (4, np.ones((1, QUERIES), np.int64), "key mask is int64"),
        (4, np.ones((2, 3, 4), np.int32), "key mask is"),
        (5, np.ones((1, HEADS, QUERIES, QUERIES), np.float32), "differ in type"),
    ],
)
def test_forms_that_the_host_runs(
    made: tuple[Bench, Twin], index: int, value: np.ndarray[Any, Any], why: str
) -> None:
    bench, _ = made
    given = inputs() + [None] * 6
    given[index] = value
    call = bench.call(OPERATOR, given, [((1, QUERIES, HEADS * WIDTH), np.float16)])
    with pytest.raises(NoKernelError, match=why):
        BUILDERS[KEY](Work(call, bench.device))


def test_selected_positions_by_form(made: tuple[Bench, Twin]) -> None:
    bench, twin = made
    rows, new = np.ones((2, 1, 8, 16), np.float16), np.ones((2, 1, 1, 16), np.float16)
    bias, index = np.zeros((8,), np.float16), np.zeros((2, 1, 1, 3), np.int32)
    operator = node("IndexShare", "pkg.nxrt", num_heads=1)

    def functions(given: Given, outputs: list[Any]) -> list[str]:
        twin.launches.clear()
        bench.run(operator, given, outputs)
        return [launch.function for launch in twin.launches]

    plain: Given = [new, new, new, None, None, index]
    assert functions(plain, [(new.shape, np.float16)]) == ["selected"]
    in_place: Given = [new, new, new, rows, rows, index, bias]
    filled = ["open_rows", "place_rows", "place_rows", "selected"]
    assert functions(in_place, [(new.shape, np.float16), 3, 4]) == filled
    with pytest.raises(AssertionError, match="nothing says what is valid"):
        functions(in_place[:6], [(new.shape, np.float16), 3, 4])


PROJECTED = ("com.microsoft", "Attention")
DEPTH = 24


def projected(
    made: tuple[Bench, Twin],
    *,
    past: bool = False,
    present: bool = False,
    mask: bool = False,
    queries: int = 12,
) -> list[str]:
    """What one call launches."""
    bench, twin = made
    twin.launches.clear()
    hidden, total = HEADS * WIDTH, queries + (PAST if past else 0)
    given = [
        *(np.ones((1, queries, DEPTH), np.float16), np.ones((DEPTH, 3 * hidden), np.float16)),
        *(np.ones(3 * hidden, np.float16), np.ones((1, total), np.int32) if mask else None),
        np.ones((2, 1, HEADS, PAST, WIDTH), np.float16) if past else None,
    ]
    room = ((2, 1, HEADS, total, WIDTH), np.float16)
    operator = node(PROJECTED[1], PROJECTED[0], num_heads=HEADS)
    bench.run(operator, given, [((1, queries, hidden), np.float16), *([room] if present else [None])])
    names = [item.source.name if item.source.name == "cublasLt" else item.function for item in twin.launches]
    return ["attend" if name.startswith("attend_") else name for name in names]


def test_a_projected_input_takes_one_product_and_attends_where_it_lies(made: tuple[Bench, Twin]) -> None:
    (product, *rest) = projected(made)
    assert product == "cublasLt"
    assert rest == ["attend"]
    assert projected(made, past=True, present=True)[1:] == ["each"] * 4 + ["attend"]
    assert projected(made, past=True)[1:] == ["each"] * 4 + ["attend"]
    assert projected(made, present=True)[1:] == ["each"] * 2 + ["attend"]
    assert projected(made, mask=True)[1:] == ["soft_mask", "attend"]
    assert projected(made, queries=1)[1:] == ["attend"]
    assert projected(made, queries=1)[0] != "cublasLt", "a few rows have kernels of their own"


@pytest.mark.parametrize(("outputs", "past"), [(1, False), (1, True), (2, True)])
def test_planned_scratch_of_a_projected_input(outputs: int, past: bool) -> None:
    hidden, queries = HEADS * WIDTH, 12
    shapes = [(1, queries, DEPTH), (DEPTH, 3 * hidden), (3 * hidden,), (1, queries + (PAST if past else 0))]
    metas = [meta_of(np.ones(shape, np.float16)) for shape in shapes[:3]]
    metas.append(meta_of(np.ones(shapes[3], np.int32)))
    metas.append(meta_of(np.ones((2, 1, HEADS, PAST, WIDTH), np.float16)) if past else ABSENT_META)
    metas.append(ABSENT_META)
    operator = node(PROJECTED[1], PROJECTED[0], num_heads=HEADS)
    need = CUDA_WORKSPACE[PROJECTED](WorkspaceQuery(operator, tuple(metas), outputs))
    total = queries + (PAST if past else 0)
    joined = align(2 * HEADS * total * WIDTH) if past and outputs == 1 else 0
    expected = (
        align(2 * queries * 3 * hidden) + 2 * joined + align(2 * total) + library_room(queries, 3 * hidden)
    )
    assert need.bytes == expected


@pytest.mark.parametrize(
    ("attributes", "why"), [({"do_rotary": 1}, "rotates"), ({"qkv_hidden_sizes": (32, 32, 16)}, "head size")]
)
def test_forms_of_a_projected_input_that_run_on_the_host(
    made: tuple[Bench, Twin], attributes: dict[str, Any], why: str
) -> None:
    bench, _ = made
    columns = sum(attributes.get("qkv_hidden_sizes", (32, 32, 32)))
    call = bench.call(
        node(PROJECTED[1], PROJECTED[0], num_heads=HEADS, **attributes),
        [np.ones((1, 2, DEPTH), np.float16), np.ones((DEPTH, columns), np.float16)],
        [((1, 2, columns - 64), np.float16)],
    )
    with pytest.raises(NoKernelError, match=why):
        BUILDERS[PROJECTED](Work(call, bench.device))
