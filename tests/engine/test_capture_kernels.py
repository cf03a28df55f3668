"""Captured kernels against eager ones, byte for byte, and caches that grow between captures (C-26, C-28)."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import opened, session_of

from vramscope.errors import RecordingError
from vramscope.graph.dtypes import numpy_dtype
from vramscope.graph.expr import evaluate
from vramscope.run.eager import placed_for

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Model
    from vramscope.run.device_binding import DeviceIoBinding
    from vramscope.run.launch import Launch
    from vramscope.run.session import ProgramSession

CONTRIB = '["" : 23, "com.microsoft" : 1, "pkg.nxrt" : 1]'

KERNELS = {
    "ReduceSum": """g (float[3,8] x) => (float[3] y)
        { a = Constant<value_ints=[1]>() y = ReduceSum<keepdims=0>(x, a) }""",
    "ReduceMean": """g (float[3,8] x) => (float[3,1] y)
        { a = Constant<value_ints=[1]>() y = ReduceMean(x, a) }""",
    "RotaryEmbedding": """g (float[1,2,3,8] x, float[3,4] c, float[3,4] s, int64[1,3] p) => (float[1,2,3,8] y)
        { y = RotaryEmbedding(x, c, s, p) }""",
    "GroupQueryAttention": """g (float[1,1,16] x, float[1,1,8] k, float[1,1,8] v, float[1,1,4,8] pk,
            float[1,1,4,8] pv, int32[1] n, int32[1] total)
        => (float[1,1,16] y, float[1,1,T,8] kk, float[1,1,T,8] vv)
        { y, kk, vv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>
            (x, k, v, pk, pv, n, total) }""",
    "IndexShare": """g (float[1,2,1,4] x, float[1,1,1,4] k, float[1,1,1,4] v, float[1,1,4,4] pk,
            float[1,1,4,4] pv, int64[1,1,1,2] i, float[1,1,1,4] b)
        => (float[1,2,1,4] y, float[1,1,T,4] kk, float[1,1,T,4] vv)
        { y, kk, vv = pkg.nxrt.IndexShare<num_heads=2, kv_num_heads=1>(x, k, v, pk, pv, i, b) }""",
    "Conv": """g (float[1,2,6,6] x, float[3,2,3,3] w) => (float[1,3,6,6] y)
        { y = Conv<pads=[1,1,1,1]>(x, w) }""",
    "MatMulNBits": """g (float[2,32] x, uint8[4,1,16] q, float[4] c) => (float[2,4] y)
        { y = com.microsoft.MatMulNBits<K=32, N=4, bits=4, block_size=32>(x, q, c) }""",
    "Attention": """g (float[1,2,1,8] x, float[1,2,5,8] k, float[1,2,5,8] v) => (float[1,2,1,8] y)
        { y = Attention(x, k, v) }""",
    "Softmax": "g (float[3,8] x) => (float[3,8] y) { y = Softmax(x) }",
}


def shape_of(model: Model, value: int) -> tuple[int, ...]:
    extents = [evaluate(dim, {}) for dim in model.program.values[value].shape or ()]
    assert None not in extents
    return tuple(extent for extent in extents if extent is not None)


def values_for(shape: tuple[int, ...], dtype: np.dtype[np.generic], seed: int) -> Array:
    """Seeded normals for floats; small valid lengths, positions and codes for integers."""
    generator = np.random.default_rng(seed)
    if dtype.kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    if dtype == np.uint8:
        return generator.integers(0, 256, shape).astype(dtype)
    return (np.arange(prod(shape)) % 3).reshape(shape).astype(dtype)


def bind_all(session: ProgramSession) -> dict[str, DeviceIoBinding]:
    model = session.runner.planner.model
    program = model.program
    found = {
        program.values[item].name: session.allocate_binding(
            shape_of(model, item), input_name=program.values[item].name
        )
        for item in program.inputs
    }
    for item in program.outputs:
        name = program.values[item].name
        cache = {"kk": "pk", "vv": "pv"}.get(name)
        if cache:
            physical = found[cache].physical
            found.pop(cache).close()
            found[cache] = session.allocate_binding(physical, input_name=cache, output_name=name)
        else:
            found[name] = session.allocate_binding(shape_of(model, item), output_name=name)
    return found


def fill(buffers: dict[str, DeviceIoBinding], seed: int) -> None:
    for name, item in buffers.items():
        if item.spec.input and not item.spec.output:
            item.write(values_for(item.physical, numpy_dtype(item.spec.dtype), seed + len(name)))
    if "total" in buffers:
        buffers["n"].write(np.array([seed - 1], np.int32))
        buffers["total"].write(np.array([4], np.int32))


@pytest.mark.parametrize("name", KERNELS)
def test_c28_captured_kernels_equal_eager_ones_byte_for_byte(name: str) -> None:
    text = KERNELS[name]
    captured, eager = (session_of(opened(text, opsets=CONTRIB)) for _ in range(2))
    captured.pin_step_workspace = True
    captured.pin_fixed_capacity_symbols()
    ours, theirs = bind_all(captured), bind_all(eager)
    fill(ours, 1)
    captured.warm_up(list(ours.values()))
    report = captured.try_capture(list(ours.values()))
    assert report.is_single_graph, str(report)
    fill(theirs, 1)
    eager.run_with_device_bindings({}, list(theirs.values()))
    for seed in (1, 2, 3):
        if seed > 1:
            fill(ours, seed)
            fill(theirs, seed)
            assert captured.replay(list(ours.values()))
            eager.run_with_device_bindings({}, list(theirs.values()))
        for output in ours:
            assert ours[output].read().tobytes() == theirs[output].read().tobytes(), (seed, output)


def test_c28_a_shape_that_changes_under_a_capture_is_rejected() -> None:
    session = session_of(opened("g (float[N] x) => (float[N] y) { y = Exp(x) }"), {"N": 8})
    x, y = session.allocate_binding((4,), input_name="x"), session.allocate_binding((4,), output_name="y")
    launch = placed_for(session, {}, session.map([x, y]), {}).program.launches[0]
    launch.call.inputs = (np.zeros(3, np.float32),)
    with pytest.raises(RecordingError, match=r"\(4,\)") as caught:
        session.runner.device.record([_action(launch)])
    assert caught.value.node == "Exp_y"


def _action(launch: Launch) -> tuple[str, partial[None]]:
    return launch.step.node.name, partial(launch.kernel, launch.call)


GROWN = """g (float[1,2,1,8] q, float[1,2,1,8] k, float[1,2,1,8] v, float[1,2,P,8] pk, float[1,2,P,8] pv)
    => (float[1,2,1,8] y, float[1,2,T,8] kk, float[1,2,T,8] vv)
    { y, kk, vv = Attention(q, k, v, "", pk, pv) }"""


def test_c26_attention_over_an_aliased_cache_that_grows_equals_eager_when_each_step_is_captured() -> None:
    sessions = [session_of(opened(GROWN, opsets=CONTRIB), {"P": 4}) for _ in range(2)]
    buffers: list[dict[str, DeviceIoBinding]] = []
    for session in sessions:
        made = {name: session.allocate_binding((1, 2, 1, 8), input_name=name) for name in "qkv"}
        made["y"] = session.allocate_binding((1, 2, 1, 8), output_name="y")
        for past, present in (("pk", "kk"), ("pv", "vv")):
            made[past] = session.allocate_binding((1, 2, 4, 8), input_name=past, output_name=present)
            first = np.zeros((1, 2, 4, 8), np.float32)
            first[:, :, 0] = values_for((1, 2, 8), np.dtype(np.float32), len(past) + ord(past[1]))
            made[past].write(first)
        buffers.append(made)
    for length in (1, 2, 3):
        for made in buffers:
            for name in "qkv":
                made[name].write(values_for((1, 2, 1, 8), np.dtype(np.float32), 10 * length + ord(name)))
            for past in ("pk", "pv"):
                made[past].set_logical((1, 2, length, 8))
        eager, captured = sessions
        eager.run_with_device_bindings({}, list(buffers[0].values()))
        placed = placed_for(captured, {}, captured.map(list(buffers[1].values())), {})
        replay = captured.runner.device.record([_action(item) for item in placed.program.launches])
        buffers[1]["y"].write(np.zeros((1, 2, 1, 8), np.float32))
        replay()
        for name in ("y", "pk", "pv"):
            assert buffers[0][name].read().tobytes() == buffers[1][name].read().tobytes(), (length, name)
