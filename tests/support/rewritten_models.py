"""Decoders of one layer as ONNX text, in the forms that rewrites turn into each other, and their plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import pytest
from written_program import HEADER, opened_bare

from vramscope.api import Planner, Scenario
from vramscope.errors import ScenarioError
from vramscope.plan.types import CUDA_RUNTIME, OWN_RUNTIME, REFERENCE_RUNTIME

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.plan.types import Plan

Weights: TypeAlias = "dict[str, tuple[int, ...]]"

RUNTIMES = (OWN_RUNTIME, CUDA_RUNTIME, REFERENCE_RUNTIME)
SMALL = Scenario(batch=2, prompt=24, context=64)

WEIGHTS = {"embed": (16, 8), "q": (8, 8), "k": (8, 8), "v": (8, 8), "head": (8, 16)}
MULTIHEAD = """
g (int64[B,S] input_ids, int64[B,T] attention_mask, float[B,2,P,4] past_key_0, float[B,2,P,4] past_value_0)
=> (float[B,S,16] logits, float[B,2,Q,4] present_key_0, float[B,2,Q,4] present_value_0)
{
  x = Gather(embed, input_ids)
  query = MatMul(x, q)
  key = MatMul(x, k)
  value = MatMul(x, v)
  y, present_key_0, present_value_0 = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>
    (query, key, value, , , , past_key_0, past_value_0)
  logits = MatMul(y, head)
}
"""
GROUPED = MULTIHEAD.replace(
    "com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>\n"
    "    (query, key, value, , , , past_key_0, past_value_0)",
    "com.microsoft.GroupQueryAttention<num_heads=2, kv_num_heads=2>\n"
    "    (query, key, value, past_key_0, past_value_0, valid, total)",
).replace(
    "  y, present",
    """  one = Constant<value_ints=[1]>()
  place = Constant<value_int=1>()
  sum = ReduceSum<keepdims=0>(attention_mask, one)
  less = Sub(sum, one)
  valid = Cast<to=6>(less)
  extents = Shape(attention_mask)
  width = Gather(extents, place)
  total = Cast<to=6>(width)
  y, present""",
)
NOT_CAUSAL = MULTIHEAD.replace(", unidirectional=1", "")
BIASED = NOT_CAUSAL.replace("key, value, , , , past", "key, value, , , bias, past").replace(
    "  query =",
    """  axes = Constant<value_ints=[1, 2]>()
  wide = Unsqueeze(attention_mask, axes)
  float_mask = Cast<to=1>(wide)
  low = Constant<value_float=-10000.0>()
  bias = Mul(float_mask, low)
  query =""",
)
SLOPED = BIASED.replace("(float_mask, low)", "(float_mask, slopes)")

SCATTERED_HEADER = '<ir_version: 10, opset_import: ["" : 24]>'
UNMASKED = """
g (int64[B,S] input_ids, float[B,2,P,4] past_key_0, float[B,2,P,4] past_value_0)
=> (float[B,S,16] logits, float[B,2,Q,4] present_key_0, float[B,2,Q,4] present_value_0)
{
  x = Gather(embed, input_ids)
  query = MatMul(x, q)
  key = MatMul(x, k)
  value = MatMul(x, v)
  y, present_key_0, present_value_0 = Attention<q_num_heads=2, kv_num_heads=2, is_causal=1>
    (query, key, value, , past_key_0, past_value_0)
  logits = MatMul(y, head)
}
"""
SCATTERED = (
    UNMASKED.replace("float[B,2,P,4]", "float[B,P,8]")
    .replace("float[B,2,Q,4]", "float[B,P,8]")
    .replace("past_value_0)\n=>", "past_value_0, int64[B] write_indices, int64[B] nonpad_kv_seqlen)\n=>")
    .replace("y, present_key_0, present_value_0 =", "y =")
    .replace("(query, key, value, , past_key_0, past_value_0)",
             "(query, present_key_0, present_value_0, , , , nonpad_kv_seqlen)")
    .replace("  y =", """  present_key_0 = TensorScatter<axis=1>(past_key_0, key, write_indices)
  present_value_0 = TensorScatter<axis=1>(past_value_0, value, write_indices)
  y =""")
)  # fmt: skip
MASKED = UNMASKED.replace("input_ids, float", "input_ids, float[B,1,S,Q] bias, float", 1).replace(
    "value, , past", "value, bias, past"
)


def hand_made(folder: Path, graph: str, weights: Weights | None = None, header: str = HEADER) -> Planner:
    """A planner of a decoder of :data:`WEIGHTS` and more."""
    name = f"model{len([*folder.iterdir()])}"
    return Planner(opened_bare(folder / name, graph, {**WEIGHTS, **(weights or {})}, header))


def parts(plan: Plan) -> dict[str, int | None]:
    """Bytes by component."""
    return {item.name.value: item.figure.bytes for item in plan.components}


def arenas(plan: Plan) -> list[tuple[int, int]]:
    """Size and peak of each phase's arena."""
    return [(phase.arena.bytes, phase.arena.peak) for phase in plan.phases]


def as_if(planner: Planner, *ids: str, scenario: Scenario = SMALL) -> Plan:
    """The plan of the model so exported."""
    return planner.plan(replace(scenario, as_if=ids))


def refusal(planner: Planner, *ids: str, scenario: Scenario = SMALL) -> ScenarioError:
    """Why it cannot be planned so."""
    with pytest.raises(ScenarioError) as caught:
        as_if(planner, *ids, scenario=scenario)
    return caught.value
