"""Which shapes grow, which may be pinned, and what a capture admits for it (conformance C-20 to C-25)."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pytest
from onnx import TensorProto, helper
from small_models import opened, opened_proto, session_of

from vramscope.graph.capacity import fixed_capacity_symbols
from vramscope.graph.growing import growing_symbols, is_sequence_independent
from vramscope.graph.links import link
from vramscope.graph.masks import freeze_refusal
from vramscope.graph.model import Minted
from vramscope.run.capture import SeamReason
from vramscope.run.session_types import SessionOptions

if TYPE_CHECKING:
    from vramscope.graph.links import Links
    from vramscope.graph.model import Model, Program
    from vramscope.run.session import ProgramSession

OPSET23 = '["" : 23, "com.microsoft" : 1]'
ATTENTION = """g (float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v, float[B,2,P,8] pk, float[B,2,P,8] pv,
     float[B,S,16] hidden, float[B,2,P,1] scale)
    => (float[B,2,S,8] y, float[B,2,T,8] kk, float[B,2,T,8] vv, float[B,S,16] h, float[B,2,P,8] scaled)
    { y, kk, vv = Attention<is_causal=1>(q, k, v, "", pk, pv)
      h = Relu(hidden) scaled = Mul(pk, scale) }"""


def growing(model: Model) -> frozenset[str]:
    return growing_symbols(model.program, None)


def admitted(program: Program, symbols: frozenset[str]) -> set[str]:
    return {step.node.operator for step in program.steps if is_sequence_independent(program, step, symbols)}


def test_c20_the_past_grows_and_batch_and_tokens_do_not() -> None:
    model = opened(ATTENTION, opsets=OPSET23)
    found = growing(model)
    assert found == {"P"}
    assert admitted(model.program, found) == {"Relu"}


def test_c20_compressed_attention_grows_by_two_outputs_and_a_last_axis() -> None:
    text = """g (float[B,1,S,8] q) => (float[B,1,S,8] y, float[B,1,P,8] kk, float[B,1,W,8] c,
        float[B,1,R,8] vv, float[B,1,4,8] e, float[B,1,1,Z] m)
        { y, kk, c, vv, e, m = pkg.nxrt.CompressedSparseAttention(q) }"""
    found = growing(opened(text, opsets='["" : 23, "pkg.nxrt" : 1]'))
    assert found == {"kk.axis2", "vv.axis2", "m.axis3"}, "each extent by the value that brought it in"


ALIASES = {
    "Add": ("float[1,2,A,4]", "y = Add(past_key, other)", "Add"),
    "MatMul batch": ("float[1,A,4,4]", "y = MatMul(rows, square)", "MatMul"),
    "Reshape -1": ("float[A]", "r = Reshape(past_key, flat) y = Relu(r)", "Relu"),
    "Flatten": ("float[A,4]", "r = Flatten<axis=3>(past_key) y = Relu(r)", "Relu"),
}


@pytest.mark.parametrize("name", ALIASES)
def test_c21_what_broadcasting_and_reshaping_make_of_a_growing_axis_grows_too(name: str) -> None:
    """``Q`` is the past's extent under another name, known only through the node that joins the two."""
    shape, body, last = ALIASES[name]
    model = opened(
        f"""g (float[1,2,P,4] past_key, float[1,2,Q,4] other, float[1,Q,4,4] rows, float[1,P,4,4] square)
        => ({shape} y)
        {{ flat = Constant<value_ints=[-1]>() {body} }}"""
    )
    found = growing(model)
    assert ("Q" in found) is (last != "Relu")
    assert last not in admitted(model.program, found)


def test_c22_fail_safe_vetoes_what_nothing_records_and_a_denylist_admits_it() -> None:
    model = opened("g (float[4] x, float[Z] u) => (float[4] y, float[Z] w) { y = Relu(x) w = Neg(u) }")
    minted = {"Z": Minted("Z", "a node that is not here", "Unknown", None)}
    program = replace(model.program, minted=MappingProxyType(minted))
    safe = growing_symbols(program, None)
    assert safe == {"Z"}
    assert admitted(program, safe) == {"Relu"}
    listed = growing_symbols(program, None, fail_safe=False)
    assert listed == frozenset()
    assert admitted(program, listed) == {"Relu", "Neg"}


def test_c22_what_derives_from_pinned_sources_alone_stays_admitted() -> None:
    model = opened(
        """g (float[1,2,P,4] past_key) => (float y)
        { n = NonZero(past_key) c = Cast<to=1>(n) y = ReduceSum<keepdims=0>(c) }"""
    )
    assert growing(model) > {"P"}
    pinned = growing_symbols(model.program, None, frozenset({"P"}))
    assert pinned == frozenset()
    assert admitted(model.program, pinned) == {"NonZero", "Cast", "ReduceSum"}


def test_the_session_s_option_chooses_the_classifier() -> None:
    model = opened("g (float[4] x) => (float[4] y) { y = Relu(x) }")
    minted = {"Z": Minted("Z", "nowhere", "Unknown", None)}
    model = replace(model, program=replace(model.program, minted=MappingProxyType(minted)))
    assert session_of(model).growing == {"Z"}
    assert session_of(model, options=SessionOptions(fail_safe=False)).growing == frozenset()


def test_c23_a_generic_present_grows_and_a_static_state_does_not() -> None:
    model = opened(
        """g (float[1,2,3,4] past_state, float[1,2,N,4] x)
        => (float[1,2,N,4] present_0, float[1,2,3,4] present_state)
        { present_0 = Relu(x) present_state = Neg(past_state) }"""
    )
    found = growing(model)
    assert found == {"N"}
    assert admitted(model.program, found) == {"Neg"}
    dotted = opened_proto(
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Relu", ["x"], ["present.0.key"])],
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, "N", 4])],
                [helper.make_tensor_value_info("present.0.key", TensorProto.FLOAT, [1, 2, "N", 4])],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        )
    )
    assert growing(dotted) == {"N"}


GQA = """g (float[B,S,16] q, float[B,S,8] k, float[B,S,8] v, float[B,1,P,8] pk, float[B,1,P,8] pv,
       int32[B] lengths, int32[1] total, float[B,1,P,8] bias)
    => (float[B,S,16] y, float[B,1,T,8] kk, float[B,1,T,8] vv, float[B,1,P,8] z)
    { y, kk, vv = com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=1>
        (q, k, v, pk, pv, lengths, total)
      z = Relu(bias) }"""


def gqa_session() -> ProgramSession:
    return session_of(opened(GQA), {"B": 1, "S": 1, "P": 8})


def test_c24_a_capacity_form_cache_is_pinned_once_and_its_node_and_consumers_are_admitted() -> None:
    session = gqa_session()
    names = {"q": (1, 1, 16), "k": (1, 1, 8), "v": (1, 1, 8), "lengths": (1,), "total": (1,)}
    names["bias"] = (1, 1, 8, 8)
    bindings = [session.allocate_binding(shape, input_name=name) for name, shape in names.items()]
    cache = (1, 1, 8, 8)
    bindings += [
        session.allocate_binding(cache, input_name="pk", output_name="kk"),
        session.allocate_binding(cache, input_name="pv", output_name="vv"),
        session.allocate_binding((1, 1, 16), output_name="y"),
        session.allocate_binding(cache, output_name="z"),
    ]
    bindings[4].write(np.ones(1, np.int32))
    session.run_with_device_bindings({}, bindings)
    before = session.try_capture(bindings)
    assert {item.seam for item in before.declines[1:]} == {SeamReason.CLASSIFIER_DISQUALIFIED}
    assert len(before.declines) == 3
    assert session.pin_fixed_capacity_symbols() >= 1
    assert session.pin_fixed_capacity_symbols() == session.pin_fixed_capacity_symbols()
    assert session.growing == frozenset()
    assert session.try_capture(bindings).is_single_graph
    assert session.replay(bindings)


def test_c24_forms_that_grow_are_never_pinned() -> None:
    assert fixed_capacity_symbols(opened(ATTENTION, opsets=OPSET23).program) == frozenset()
    both = opened(
        GQA.replace("=> (", "=> (float[B,1,P,8] yy, ").replace(
            "z = Relu(bias)", 'z = Relu(bias) yy = Attention(z, pk, pv, "", pk, pv)'
        ),
        opsets=OPSET23,
    )
    assert "P" not in fixed_capacity_symbols(both.program), "another node takes the same extent as growing"
    assert fixed_capacity_symbols(opened(GQA).program) == {"P"}


MASKED = """g (float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v, int64[B,M] mask,
       float[B,2,P,8] pk, float[B,2,P,8] pv)
    => (float[B,2,S,8] y%s)
    { one = Constant<value_ints=[1,2]>() on = Cast<to=9>(mask) wide = Unsqueeze(on, one) %s
      y, kk, vv = Attention(q, k, v, %s, pk, pv) }"""


def cone(outputs: str = "", extra: str = "", mask: str = "wide") -> str:
    model = opened(MASKED % (outputs, extra, mask), opsets=OPSET23)
    value = next(item for item in model.program.inputs if model.program.values[item].name == "mask")
    return freeze_refusal(model.program, link(model.program), value)


def without_past() -> tuple[Program, Links, int]:
    text = """g (float[B,2,S,8] q, float[B,2,S,8] k, float[B,2,S,8] v, int64[B,M] mask) => (float[B,2,S,8] y)
        { one = Constant<value_ints=[1,2]>() on = Cast<to=9>(mask) wide = Unsqueeze(on, one)
          y = Attention(q, k, v, wide) }"""
    program = opened(text, opsets=OPSET23).program
    return program, link(program), program.inputs[3]


def test_c25_a_mask_is_frozen_only_where_its_whole_cone_hides_the_width() -> None:
    assert cone() == ""
    assert "(Or) reads the mask" in cone(", bool[B,1,1,M] both", "both = Or(wide, wide)")
    assert "(Add) reads the mask" in cone(", int64[B,M] more", "more = Add(mask, mask)")
    assert "graph output" in cone(", bool[B,1,1,M] wide")
    windowed = """first = Constant<value_ints=[0]>() most = Constant<value_ints=[9223372036854775807]>()
        axis = Constant<value_int=1>() places = CumSum(mask, axis) back = Sub(places, mask)
        axes = Constant<value_ints=[1]>() part = Slice(back, first, most, axes) keep = Cast<to=9>(part)
        far = Unsqueeze(keep, one) both = And(wide, far)"""
    assert cone(extra=windowed, mask="both") == "", "a window that no longer cuts anything"
    assert "(Attention) reads the mask" in freeze_refusal(*without_past())
    assert "no Attention" in cone(mask='""')
    allowed = """lo = Constant<value_ints=[1]>() hi = Constant<value_ints=[2]>() s = Shape(mask)
        last = Slice(s, lo, hi) ones = Constant<value_ints=[1,1,1]>() target = Concat<axis=0>(ones, last)
        big = Expand(wide, target)"""
    assert cone(extra=allowed, mask="big") == ""
