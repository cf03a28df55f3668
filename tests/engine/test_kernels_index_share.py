"""IndexShare on the host: recorded examples, both present forms, index rules, planned bytes (P-11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import pytest
from one_node import Array, row
from onnx import TensorProto, helper
from small_models import opened_proto, session_of

from vramscope.api import make_plan
from vramscope.devices.host import HostDevice
from vramscope.devices.ledger import Counters, Site
from vramscope.errors import BindingError, ModelGraphError
from vramscope.graph.dtypes import from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call
from vramscope.ops.kernels import shared_index
from vramscope.ops.kernels.planned import query_of
from vramscope.ops.spec import Lifetime
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.graph.model import Model

INDEX_SHARE = row(shared_index.SPECS, "IndexShare")
QUERY = [[[[1, 0], [0, 1]], [[1, 1], [2, 0]]]]
PAST_K, PAST_V = [[[[1, 0], [0, 1], [1, 1]]]], [[[[1, 2], [3, 4], [5, 6]]]]
KEY, VALUE = [[[[1, 2], [3, 4]]]], [[[[10, 20], [30, 40]]]]
SHARED = [[[[0, 3, -1], [1, 2, 4]]]]


def array(values: Any, kind: Any = np.float32) -> Array:  # noqa: ANN401 - whatever makes an array
    return np.asarray(values).astype(kind)


def given(
    kind: type = np.float32, chosen: Sequence[object] = SHARED, bias: Sequence[float] | None = None
) -> list[Array | None]:
    floats = [array(item, kind) for item in (QUERY, KEY, VALUE, PAST_K, PAST_V)]
    return [*floats, array(chosen, np.int64), None if bias is None else array(bias, kind)]


def run(
    inputs: Sequence[Array | None],
    outputs: int = 1,
    placed: Sequence[Array | None] = (),
    **attributes: Any,  # noqa: ANN401 - whatever the operator takes
) -> list[Array]:
    node = Node("the node", "IndexShare", "pkg.nxrt", 22, {"num_heads": 2, "kv_num_heads": 1} | attributes)
    first = inputs[0]
    assert first is not None
    held = [*placed, *([None] * outputs)][:outputs]
    call = Call(node, tuple(inputs), list(held), (True,) * outputs, (from_numpy(first.dtype),) * outputs)
    assert INDEX_SHARE.workspace is not None
    assert INDEX_SHARE.kernel is not None
    call.scratch_bytes = np.full(INDEX_SHARE.workspace(query_of(call)).bytes, 0xFF, np.uint8)
    INDEX_SHARE.kernel(call)
    return [item for item in call.placed if isinstance(item, np.ndarray)]


# ------------------------------------------------------------------------------------ recorded examples


def test_the_first_example_selects_from_past_and_current_rows() -> None:
    wanted = [[[5.5, 11], [21.9773979, 29.2003460]], [[7.5795269, 15.1590538], [26.0108471, 34.6049995]]]
    (alone,) = run(given(), scale=0.5)
    np.testing.assert_allclose(alone[0], wanted, rtol=1e-6)
    output, keys, values = run(given(), 3, scale=0.5)
    assert np.array_equal(output, alone)
    assert np.array_equal(keys, np.concatenate([array(PAST_K), array(KEY)], axis=2))
    assert np.array_equal(values, np.concatenate([array(PAST_V), array(VALUE)], axis=2))


def test_the_first_example_in_half_precision_rounds_once() -> None:
    (half,) = run(given(np.float16), scale=0.5)
    assert half.dtype == np.float16
    assert half[0, 0, 1].tolist() == [21.984375, 29.203125]
    (brain,) = run(given(ml_dtypes.bfloat16), scale=0.5)
    assert brain[0, 0, 0].astype(np.float32).tolist() == [5.5, 11]


def test_the_second_example_has_indices_per_head_and_a_masked_key() -> None:
    chosen = [[[[0, -1], [1, 4]], [[2, 3], [4, -1]]]]
    (output,) = run(given(chosen=chosen, bias=[0, 0, 0, 0, -np.inf]))
    np.testing.assert_allclose(output[0, 0], array([[1, 2], [3, 4]]), rtol=1e-6)
    np.testing.assert_allclose(output[0, 1], array([[8.3488083, 15.3766613], [0, 0]]), rtol=1e-6)


def test_a_past_of_no_rows_and_no_past_at_all_are_the_same() -> None:
    chosen = [[[[0, -1], [0, 1]]]]
    inputs = given(chosen=chosen)
    empty = [*inputs[:3], array(np.zeros((1, 1, 0, 2))), array(np.zeros((1, 1, 0, 2))), *inputs[5:]]
    without = [*inputs[:3], None, None, *inputs[5:]]
    (one,), (two,) = run(empty), run(without)
    assert np.array_equal(one, two)


# ------------------------------------------------------------------------------------ the capacity form


def capacity_inputs(valid: Sequence[int], capacity: int = 6) -> list[Array | None]:
    """A batch of two caches of ``capacity`` rows, two new rows each, ``valid`` open columns."""
    generator = np.random.default_rng(3)
    query = generator.standard_normal((2, 2, 2, 4)).astype(np.float32)
    rows = [generator.standard_normal((2, 1, count, 4)).astype(np.float32) for count in (2, 2, 6, 6)]
    bias = np.where(np.arange(capacity) < np.array(valid)[:, None, None, None], 0, -np.inf)
    chosen = np.array([[[[0, valid[0] - 1], [1, -1]]], [[[0, 1], [valid[1] - 2, valid[1] - 1]]]])
    return [query, *rows, chosen, bias.astype(np.float32)]


def test_a_present_as_long_as_past_takes_the_new_rows_behind_the_valid_ones() -> None:
    inputs = capacity_inputs((4, 6))
    _, key, value, past_key, past_value, *_ = inputs
    assert key is not None
    assert value is not None
    assert past_key is not None
    assert past_value is not None
    before = past_key.copy(), past_value.copy()
    output, keys, values = run(inputs, 3, (None, past_key, past_value))
    assert keys is past_key
    for entry, valid in enumerate((4, 6)):
        assert np.array_equal(keys[entry, :, valid - 2 : valid], key[entry])
        assert np.array_equal(values[entry, :, valid - 2 : valid], value[entry])
        assert np.array_equal(keys[entry, :, : valid - 2], before[0][entry, :, : valid - 2])
        assert np.array_equal(values[entry, :, valid:], before[1][entry, :, valid:])
    apart = capacity_inputs((4, 6))
    room = [np.empty((2, 1, 6, 4), np.float32) for _ in range(2)]
    copied, *presents = run(apart, 3, (None, *room))
    assert np.array_equal(copied, output)
    assert all(np.array_equal(one, two) for one, two in zip(presents, (keys, values), strict=True))


def test_the_capacity_form_equals_the_growing_one_over_the_valid_rows() -> None:
    inputs = capacity_inputs((4, 6))
    growing: list[Array] = []
    for entry, valid in enumerate((4, 6)):
        parts = [item[entry : entry + 1] for item in inputs if item is not None]
        past = [item[:, :, : valid - 2] for item in parts[3:5]]
        growing += run([*parts[:3], *past, parts[5], parts[6][..., :valid]])
    held = capacity_inputs((4, 6))
    output = run(held, 3, (None, held[3], held[4]))[0]
    np.testing.assert_allclose(output, np.concatenate(growing), rtol=1e-6)


def test_the_capacity_form_needs_a_bias_and_room_for_the_new_rows() -> None:
    inputs = capacity_inputs((4, 6))
    with pytest.raises(ModelGraphError, match="attention_bias"):
        run([*inputs[:6], None], 3, (None, inputs[3], inputs[4]))
    tight = capacity_inputs((4, 6))
    assert tight[6] is not None
    tight[6][1, ..., 1:] = -np.inf
    with pytest.raises(BindingError, match="batch 1: the bias leaves 1 columns open and 2 rows are new"):
        run(tight, 3, (None, tight[3], tight[4]))


# ------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([[[[0, 5, -1], [1, 2, 4]]]], "index 5 at batch 0, head 0, query 0, column 1 is no position; 5 rows"),
        ([[[[0, 1, -1], [-2, 2, 4]]]], "index -2 at batch 0, head 0, query 1, column 0 is no position"),
        ([[[[0, -1, 3], [1, 2, 4]]]], "column 2 stands behind padding"),
        ([[[[0, 0, -1], [1, 2, 4]]]], "column 1 does not increase"),
        ([[[[0, 1, 2], [4, 3, -1]]]], "query 1, column 1 does not increase"),
        ([[[[0, 1, 2], [-1, -1, -1]]]], "query 1, column 0 selects nothing"),
    ],
)
def test_every_index_rule_names_batch_head_query_and_column(chosen: list[object], said: str) -> None:
    with pytest.raises(BindingError, match=said):
        run(given(chosen=chosen))


@pytest.mark.parametrize(
    ("outputs", "attributes", "said"),
    [
        (2, {}, "one output or three"),
        (1, {"kv_num_heads": 3}, "does not divide"),
        (1, {"num_heads": 0}, "does not divide"),
        (1, {"scale": 0.0}, "not finite and above 0"),
        (1, {"scale": float("inf")}, "not finite and above 0"),
        (1, {"is_causal": 1}, "is_causal"),
    ],
)
def test_what_the_operator_does_not_allow_is_refused(
    outputs: int, attributes: dict[str, Any], said: str
) -> None:
    with pytest.raises(ModelGraphError, match=said):
        run(given(), outputs, **attributes)


def test_one_half_of_a_past_and_a_bias_that_does_not_broadcast_are_refused() -> None:
    inputs = given()
    with pytest.raises(ModelGraphError, match="together or not at all"):
        run([*inputs[:4], None, *inputs[5:]])
    with pytest.raises(ModelGraphError, match="does not broadcast"):
        run(given(bias=[0, 0, 0]))
    with pytest.raises(ModelGraphError, match="selected_indices"):
        run(given(chosen=[[[[0, 1, 2]]]]))


# ------------------------------------------------------------------------------------ planned and run


def static_model() -> Model:
    """IndexShare without a past: inputs 3 and 4 are left out, which ONNX text cannot say."""
    kinds = {"q": (1, 2, 3, 4), "k": (1, 1, 3, 4), "v": (1, 1, 3, 4)}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in kinds.items()]
    inputs.append(helper.make_tensor_value_info("i", TensorProto.INT64, (1, 1, 3, 2)))
    node = helper.make_node(
        "IndexShare", ["q", "k", "v", "", "", "i"], ["y"], domain="pkg.nxrt", num_heads=2, kv_num_heads=1
    )
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 3, 4))
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid("pkg.nxrt", 1)]
    graph = helper.make_graph([node], "g", inputs, [output])
    return opened_proto(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def test_p11_a_static_index_share_reserves_768_bytes_once_and_for_the_session() -> None:
    model = static_model()
    plan = make_plan(model, Scenario())
    assert plan.phases[0].workspace.bytes == {
        Lifetime.SESSION_PERSISTENT: 768,
        Lifetime.STEP_SCOPED: 0,
    }
    device = HostDevice()
    session = session_of(model, device=device)
    slot = Site("workspace", "session-persistent")
    assert [site for site in device.ledger.sites if site.component == "workspace"] == [slot]
    assert device.ledger.sites[slot] == Counters(768, 768, 768, 1, 1, 1)
    generator = np.random.default_rng(0)
    feeds: dict[str, Array] = {
        name: generator.standard_normal(shape).astype(np.float32)
        for name, shape in (("q", (1, 2, 3, 4)), ("k", (1, 1, 3, 4)), ("v", (1, 1, 3, 4)))
    }
    feeds["i"] = np.array([[[[0, -1], [0, 1], [1, 2]]]])
    found = session.run(feeds)["y"]
    assert isinstance(found, np.ndarray)
    (wanted,) = run([feeds["q"], feeds["k"], feeds["v"], None, None, feeds["i"]])
    assert np.array_equal(found, wanted)
    session.prepare(feeds)
    assert device.ledger.sites[slot].total_count == 1
    assert session.runner.memory.workspace.keys() == {Lifetime.SESSION_PERSISTENT}
