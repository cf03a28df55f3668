"""Which extent of a binding kernels see: capacity or prefix, fixed strides, growing caches (B-10, B-12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import RELU, array_of, opened, session_of

from vramscope.errors import BindingError
from vramscope.graph.capacity import reads_capacity, tolerates_padding
from vramscope.graph.model import ABSENT, Node, Step

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model

ATTENTION = """g (float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v,
       bool[B,1,S,T] mask, float[B,2,P,8] pk, float[B,2,P,8] pv)
    => (float[B,2,S,8] y, float[B,2,T2,8] kk, float[B,2,T2,8] vv)
    { y, kk, vv = Attention(q, k, v, %s, pk, pv) }"""
GQA = """g (float[B,S,16] q, float[B,S,8] k, float[B,S,8] v, float[B,1,P,8] pk, float[B,1,P,8] pv,
       int32[B] lengths, int32[1] total)
    => (float[B,S,16] y, float[B,1,T,8] kk, float[B,1,T,8] vv)
    { y, kk, vv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>
        (q, k, v, pk, pv, lengths, total) }"""
OPSET23 = '["" : 23]'


def test_b12_which_inputs_are_read_at_their_physical_capacity() -> None:
    gqa = opened(GQA).program.steps[0]
    assert [position for position in range(7) if reads_capacity(gqa, position)] == [3, 4]
    masked = opened(ATTENTION % "mask", opsets=OPSET23).program.steps[0]
    assert [position for position in range(6) if reads_capacity(masked, position)] == [4, 5]
    unmasked = opened(ATTENTION % '""', opsets=OPSET23).program.steps[0]
    assert [position for position in range(6) if reads_capacity(unmasked, position)] == []
    reduced = opened("g (float[N] x) => (float y) { y = ReduceSum<keepdims=0>(x) }").program.steps[0]
    assert tolerates_padding(reduced, 0)
    assert not reads_capacity(reduced, 0)


@pytest.mark.parametrize(
    ("inputs", "outputs", "read"),
    [
        ((0, 1, 2, 3, 4, 5, 6), (7, 8, 9), [3, 4]),
        ((0, 1, 2, 3, 4, 5, 6), (7, 8), []),
        ((0, 1, 2, 3, 4, 5, 6), (7, 8, ABSENT), []),
        ((0, 1, 2, 3, 4, 5), (7, 8, 9), []),
        ((0, 1, 2, 3, 4, 5, ABSENT), (7, 8, 9), []),
    ],
)
def test_b12_index_share_reads_its_capacity_only_with_a_bias_and_a_third_output(
    inputs: tuple[int, ...], outputs: tuple[int, ...], read: list[int]
) -> None:
    step = Step(0, Node("n", "IndexShare", "pkg.nxrt", 1), inputs, outputs)
    assert [position for position in range(7) if reads_capacity(step, position)] == read


def exposes(model: Model, maxima: dict[str, int], physical: tuple[int, ...], names: tuple[str, str]) -> bool:
    session = session_of(model, maxima)
    binding = session.allocate_binding(physical, input_name=names[0], output_name=names[1])
    return binding.spec.exposes


def test_exposure_is_decided_when_a_binding_is_made() -> None:
    maxima = {"B": 1, "S": 1, "P": 8}
    cache = (1, 1, 8, 8)
    assert not exposes(opened(GQA), maxima, cache, ("pk", "kk"))
    assert exposes(opened(GQA), maxima, (1, 1, 16), ("q", ""))
    masked = opened(ATTENTION % "mask", opsets=OPSET23)
    assert not exposes(masked, {**maxima, "T": 8}, (1, 2, 8, 8), ("pk", "kk"))
    unmasked = opened(ATTENTION % '""', opsets=OPSET23)
    assert exposes(unmasked, {**maxima, "T": 8}, (1, 2, 8, 8), ("pk", "kk"))
    summed = opened("g (int64[N] mask) => (int64 y) { y = ReduceSum<keepdims=0>(mask) }")
    assert not exposes(summed, {"N": 8}, (8,), ("mask", ""))
    assert exposes(opened(RELU), {"N": 8}, (8,), ("x", ""))


def test_what_is_not_exposed_is_shown_whole_whatever_its_logical_length() -> None:
    session = session_of(
        opened("g (int64[N] mask) => (int64 y) { y = ReduceSum<keepdims=0>(mask) }"), {"N": 8}
    )
    mask = session.allocate_binding((8,), input_name="mask")
    mask.write(np.array([1, 1, 1, 0, 0, 0, 0, 0]))
    mask.set_logical((3,))
    assert mask.snapshot().kernel_input_shape == (8,)
    assert session.run_with_device_bindings({}, [mask])["y"] == 3


def test_fixed_strides_expose_the_prefix_and_keep_the_physical_strides() -> None:
    session = session_of(opened("g (float[M,N] x) => (float[M,N] y) { y = Relu(x) }"), {"M": 4, "N": 4})
    x = session.allocate_binding((4, 4), input_name="x", fixed_strides=True)
    x.write(np.arange(16, dtype=np.float32).reshape(4, 4))
    for logical in ((2, 2), (3, 1)):
        x.set_logical(logical)
        view = x.snapshot().input_view()
        assert view.shape == logical
        assert view.strides == (16, 4)
        shown = array_of(session.run_with_device_bindings({}, [x]), "y")
        assert np.array_equal(shown, x.read()[: logical[0], : logical[1]])


def gqa_feeds(generator: np.random.Generator) -> dict[str, Array]:
    shapes = {"q": (1, 1, 16), "k": (1, 1, 8), "v": (1, 1, 8)}
    return {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_b10_a_fixed_capacity_cache_keeps_its_extent_and_a_growing_one_takes_the_total() -> None:
    generator = np.random.default_rng(3)
    fixed = session_of(opened(GQA), {"B": 1, "S": 1, "P": 8})
    keys = fixed.allocate_binding((1, 1, 8, 8), input_name="pk", output_name="kk")
    values = fixed.allocate_binding((1, 1, 8, 8), input_name="pv", output_name="vv")
    grown = opened(
        """g (float[1,2,P,4] past, float[1,2,1,4] fresh) => (float[1,2,T,4] present)
        { present = Concat<axis=2>(past, fresh) }"""
    )
    growing = session_of(grown, {"P": 8})
    cache = growing.allocate_binding((1, 2, 8, 4), input_name="past", output_name="present")
    rows: list[Array] = []
    for length in range(4):
        feeds = gqa_feeds(generator)
        counters = {"lengths": np.array([length], np.int32), "total": np.array([length + 1], np.int32)}
        for item in (keys, values):
            item.set_logical((1, 1, length, 8))
        fixed.run_with_device_bindings({**feeds, **counters}, [keys, values])
        assert np.array_equal(keys.read()[0, 0, length], feeds["k"][0, 0])
        assert keys.snapshot().kernel_input_shape == (1, 1, 8, 8)
        fresh = generator.standard_normal((1, 2, 1, 4)).astype(np.float32)
        rows.append(fresh)
        cache.set_logical((1, 2, length, 4))
        growing.run_with_device_bindings({"fresh": fresh}, [cache])
        assert np.array_equal(cache.read()[:, :, : length + 1], np.concatenate(rows, axis=2))
    cache.set_logical((1, 2, 8, 4))
    with pytest.raises(BindingError, match=r"\[1, 2, 9, 4\]"):
        growing.run_with_device_bindings({"fresh": fresh}, [cache])


def test_plan_capacity_uses_the_physical_shape_and_a_run_the_prefix() -> None:
    grown = opened(
        """g (float[1,2,P,4] past, float[1,2,1,4] fresh) => (float[1,2,T,4] present, float[1,2,T,4] doubled)
        { present = Concat<axis=2>(past, fresh)  doubled = Add(present, present) }"""
    )
    session = session_of(grown, {"P": 8})
    cache = session.allocate_binding((1, 2, 8, 4), input_name="past", output_name="present")
    cache.set_logical((1, 2, 3, 4))
    fresh = np.ones((1, 2, 1, 4), np.float32)
    plan = session.prepare({"fresh": fresh}, [cache])
    assert plan is not None
    assert plan.symbols["P"] == 8
    doubled = array_of(session.run_with_device_bindings({"fresh": fresh}, [cache]), "doubled")
    assert doubled.shape == (1, 2, 4, 4)
