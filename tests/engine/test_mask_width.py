"""A graph that computes with the mask's width keeps its own width, and still equals onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from vramscope.api import make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.plan.types import Scenario

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"
PROMPT = [5, 9, 11, 200, 7]


def model_that_reads_the_width(folder: Path) -> Path:
    """The tiny Llama with width × vector added to its logits."""
    proto = onnx.load(SAMPLE / "model.onnx")
    graph = proto.graph
    last = next(node for node in graph.node if "logits" in node.output)
    last.output[0] = "plain_logits"
    weights = np.random.default_rng(3).standard_normal(512).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(weights, "width_weights"))
    graph.initializer.append(numpy_helper.from_array(np.array(1, np.int64), "one"))
    graph.node.extend(
        [
            helper.make_node("Shape", ["attention_mask"], ["mask_shape"], name="width/Shape"),
            helper.make_node("Gather", ["mask_shape", "one"], ["width"], name="width/Gather"),
            helper.make_node("Cast", ["width"], ["width_float"], name="width/Cast", to=1),
            helper.make_node("Mul", ["width_float", "width_weights"], ["width_term"], name="width/Mul"),
            helper.make_node("Add", ["plain_logits", "width_term"], ["logits"], name="width/Add"),
        ]
    )
    onnx.save(proto, folder / "model.onnx", save_as_external_data=True, location="model.onnx.data")
    (folder / "genai_config.json").write_text((SAMPLE / "genai_config.json").read_text())
    return folder


def test_the_width_is_not_padded_and_the_tokens_equal_onnxruntime(tmp_path: Path) -> None:
    folder = model_that_reads_the_width(tmp_path)
    model = open_path(folder)
    contract = model.contract
    assert contract is not None
    assert not contract.pads_mask
    assert any("width/Cast" in note or "width/Mul" in note for note in contract.notes)
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [item.name for item in session.get_outputs()]
    state: dict[str, Any] = {
        pair.input: np.zeros((1, pair.heads, 0, pair.head_size), np.float32) for pair in contract.kv
    }
    expected, fed, past = [], list(PROMPT), 0
    for _ in range(10):
        feed = state | {
            "input_ids": np.array([fed], np.int64),
            "attention_mask": np.ones((1, past + len(fed)), np.int64),
        }
        results = dict(zip(names, session.run(None, feed), strict=True))
        state = {pair.input: results[pair.output] for pair in contract.kv}
        past += len(fed)
        expected.append(int(results["logits"][0, -1].argmax()))
        fed = [expected[-1]]
    decoder = Decoder(model, make_plan(model, Scenario(prompt=8, context=64)))
    decoder.load()
    tokens = [decoder.prefill([PROMPT]).tokens[0]]
    while len(tokens) < len(expected):
        tokens.append(decoder.advance().tokens[0])
    assert tokens == expected
    report = decoder.snapshot().report
    assert report is not None
    assert not report.is_single_graph
    assert decoder.verify(3).equal
