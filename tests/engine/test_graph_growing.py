"""Growing symbols and frozen masks on real dialects, and what keeps a mask or a past from being frozen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx.parser
import pytest

from vramscope.graph.growing import growing_symbols, is_sequence_independent, pinnable_symbols
from vramscope.graph.load import open_model
from vramscope.graph.model import KvForm, Model

if TYPE_CHECKING:
    from pathlib import Path

NATIVE = frozenset({("com.microsoft", "SkipSimplifiedLayerNormalization")})
GROWING = {
    "tiny-llama-fp32-cpu": {"past_sequence_length", "total_sequence_length"},
    "tiny-gemma3-fp32-cpu": {"past_sequence_length", "total_sequence_length", "past_sliding_length"},
    "mobius-tiny-llama-fp32-default": {"past_sequence_len", "past_seq_len + seq_len"},
    "mobius-tiny-llama-fp32-static": set[str](),
    "optimum-tiny-gpt2": {"past_sequence_length"},
    "torchexp-tiny-llama": {"past", "total"},
}


def opened(shared_models: Path, name: str) -> Model:
    return open_model(shared_models / "tiny" / name, native=NATIVE)


@pytest.mark.parametrize("name", sorted(GROWING))
def test_the_past_and_the_mask_grow_and_the_tokens_do_not(shared_models: Path, name: str) -> None:
    model = opened(shared_models, name)
    assert growing_symbols(model.program, model.contract) == GROWING[name]


@pytest.mark.parametrize(
    "name", ["tiny-llama-fp32-cpu", "tiny-gemma3-fp32-cpu", "mobius-tiny-llama-fp32-default"]
)
def test_held_at_capacity_every_node_is_independent_of_the_length(shared_models: Path, name: str) -> None:
    model = opened(shared_models, name)
    pinned = pinnable_symbols(model.program, model.contract)
    assert pinned == GROWING[name]
    growing = growing_symbols(model.program, model.contract, pinned)
    assert growing == frozenset()
    assert all(is_sequence_independent(model.program, step, growing) for step in model.program.steps)


@pytest.mark.parametrize("name", ["optimum-tiny-gpt2", "torchexp-tiny-llama"])
def test_a_concat_is_never_pinned(shared_models: Path, name: str) -> None:
    model = opened(shared_models, name)
    assert pinnable_symbols(model.program, model.contract) == frozenset()
    growing = growing_symbols(model.program, model.contract)
    concat = next(step for step in model.program.steps if "present.0.key" in names(model, step.outputs))
    assert not is_sequence_independent(model.program, concat, growing)


def names(model: Model, values: tuple[int, ...]) -> list[str]:
    return [model.program.values[value].name for value in values if value >= 0]


ATTENTION = """<ir_version: 11, opset_import: ["" : 24]>
g (int64[b, s] input_ids, int64[b, t] attention_mask, float[b, 2, p, 4] past_0_key,
   float[b, 2, p, 4] past_0_value)
  => (float[b, s, 8] logits, float[b, 2, q, 4] present_0_key, float[b, 2, q, 4] present_0_value)
<float[16, 8] w, int64[2] where = {1, 2}>
{
  x = Gather (w, input_ids)
  m = Cast <to = 9> (attention_mask)
  BODY
  logits, present_0_key, present_0_value = Attention <q_num_heads = 2, kv_num_heads = 2, is_causal = 1>
    (x, x, x, MASK, past_0_key, past_0_value)
}
"""


def attention(tmp_path: Path, body: str, mask: str) -> Model:
    text = ATTENTION.replace("BODY", body).replace("MASK", mask)
    text = text.replace("w, int64[2]", "w = {" + ", ".join(["0.5"] * 128) + "}, int64[2]")
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return open_model(file)


def form(model: Model) -> tuple[KvForm, str]:
    assert model.contract is not None
    return model.contract.kv[0].form, model.contract.kv[0].reason


def test_a_mask_that_only_the_attention_sees_is_frozen(tmp_path: Path) -> None:
    model = attention(tmp_path, "k = Unsqueeze (m, where)", "k")
    assert form(model) == (KvForm.MASKED, "")
    assert pinnable_symbols(model.program, model.contract) >= {"p", "t"}


def test_a_mask_that_arithmetic_reads_is_not(tmp_path: Path) -> None:
    body = "k0 = Unsqueeze (m, where) f = Cast <to = 1> (k0) k = Add (f, f)"
    kind, reason = form(attention(tmp_path, body, "k"))
    assert kind is KvForm.GROW
    assert "Add" in reason


def test_an_attention_without_a_mask_grows(tmp_path: Path) -> None:
    kind, reason = form(attention(tmp_path, "", '""'))
    assert kind is KvForm.GROW
    assert "no mask input" in reason


CONCAT = """<ir_version: 11, opset_import: ["" : 20]>
g (int64[b, s] input_ids, float[b, 2, p, 4] past_0_key, float[b, 2, p, 4] past_0_value)
  => (float[b, s, 8] logits, float[b, 2, q, 4] present_0_key, float[b, 2, q, 4] present_0_value)
<float[16, 8] w = {WEIGHT}, int64[4] heads = {0, 0, 2, 4}>
{
  logits = Gather (w, input_ids)
  h = Reshape (logits, heads)
  new = Transpose <perm = [0, 2, 1, 3]> (h)
  present_0_key = Concat <axis = -2> (KEYS)
  present_0_value = Concat <axis = 2> (past_0_value, new)
  EXTRA
}
"""


def concat(tmp_path: Path, keys: str = "past_0_key, new", extra: str = "") -> Model:
    text = CONCAT.replace("WEIGHT", ", ".join(["0.5"] * 128)).replace("KEYS", keys)
    text = text.replace("EXTRA", extra)
    if extra:
        text = text.replace("float[b, s, 8] logits,", "float[b, s, 8] logits, float[b, 2, p, 4] more,")
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return open_model(file)


def test_a_past_that_only_its_concat_reads_is_appended_to(tmp_path: Path) -> None:
    assert form(concat(tmp_path)) == (KvForm.APPEND, "")


def test_a_past_that_somebody_else_reads_has_to_stay(tmp_path: Path) -> None:
    kind, reason = form(concat(tmp_path, extra="more = Neg (past_0_key)"))
    assert kind is KvForm.GROW
    assert "Neg" in reason


def test_new_rows_in_front_cannot_be_appended(tmp_path: Path) -> None:
    kind, reason = form(concat(tmp_path, keys="new, past_0_key"))
    assert kind is KvForm.GROW
    assert "behind" in reason


def test_a_graph_without_a_cache_is_no_decoder(tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 20]>
    g (int64[b, s] input_ids) => (float[b, s, 2] logits) <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> {
      logits = Gather (w, input_ids)
    }"""
    file = tmp_path / "model.onnx"
    file.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert open_model(file).contract is None
