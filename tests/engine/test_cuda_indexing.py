"""Operators that move by an index, and Conv, on the CUDA device without a GPU: kernels and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from cuda_calls import Bench, node

from vramscope.devices.cuda.table import BUILDERS
from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE

if TYPE_CHECKING:
    from cuda_twin import Twin

    from vramscope.graph.model import Node

F32 = np.ones((4, 6), np.float32)
INDEX = np.zeros((2, 1), np.int64)
Given = list[np.ndarray[Any, Any] | None]


def functions(made: tuple[Bench, Twin], operator: Node, given: Given, output: Any) -> list[str]:  # noqa: ANN401 - as the bench takes it
    bench, twin = made
    twin.launches.clear()
    bench.run(operator, given, [output])
    return [launch.function for launch in twin.launches]


def test_a_scatter_in_place_copies_nothing(made: tuple[Bench, Twin]) -> None:
    given: Given = [F32, INDEX, np.ones((2, 6), np.float32)]
    assert functions(made, node("ScatterND"), given, (F32.shape, np.float32)) == ["each", "scatter_nd_u32"]
    assert functions(made, node("ScatterND"), given, 0) == ["scatter_nd_u32"]


def test_a_kernel_by_the_size_of_the_elements_and_the_type_of_the_index(made: tuple[Bench, Twin]) -> None:
    index = np.zeros((4, 2), np.int32)
    for kind, unit in ((np.float16, "u16"), (np.int64, "u64"), (np.bool_, "u8")):
        given: Given = [F32.astype(kind), index]
        assert functions(made, node("GatherElements", axis=1), given, ((4, 2), kind)) == [
            f"gather_elements_{unit}_i32"
        ]


def test_few_filters_a_group_are_convolved_one_by_one(made: tuple[Bench, Twin]) -> None:
    _, twin = made
    image = np.ones((2, 16, 30), np.float16)
    dense: Given = [image, np.ones((24, 16, 3), np.float16)]
    assert functions(made, node("Conv"), dense, ((2, 24, 28), np.float16)) == ["convolve"]
    assert twin.launches[0].grid == (1, 1, 2)
    single: Given = [image, np.ones((16, 1, 3), np.float16)]
    assert functions(made, node("Conv", group=16), single, ((2, 16, 28), np.float16)) == ["convolve_few"]
    assert ("", "Conv") not in CUDA_WORKSPACE


REFUSED: list[tuple[Node, Given, tuple[tuple[int, ...], Any], str]] = [
    (node("ScatterND", reduction="add"), [F32, INDEX, F32[:2]], ((4, 6), np.float32), "reduces"),
    (node("GatherElements"), [F32, INDEX.astype(np.int16)], ((2, 1), np.float32), "indices are int16"),
    (node("Pad", mode="reflect"), [F32, np.array([0, 1, 0, 1])], ((4, 8), np.float32), "not constant"),
    (node("Pad"), [F32, np.array([0, -1, 0, 0])], ((4, 5), np.float32), "crops"),
    (node("ArgMax"), [F32.astype(np.int64)], ((1, 6), np.int64), "compares float32"),
    (
        node("Conv"),
        [np.ones((1, 2, 3, 3, 3), np.float32), np.ones((2, 2, 1, 1, 1), np.float32)],
        ((1, 2, 3, 3, 3), np.float32),
        "one or two axes",
    ),
    (node("Dropout"), [F32, None, np.array(1, np.bool_)], ((4, 6), np.float32), "training"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[3])
def test_forms_that_the_host_runs(
    made: tuple[Bench, Twin], case: tuple[Node, Given, tuple[tuple[int, ...], Any], str]
) -> None:
    operator, given, output, why = case
    bench, _ = made
    call = bench.call(operator, given, [output])
    with pytest.raises(NoKernelError, match=why):
        BUILDERS[operator.domain, operator.operator](Work(call, bench.device))
