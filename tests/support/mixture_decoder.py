"""The bundled tiny decoder with one of its MLPs turned into a quantised mixture of experts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from vramscope.resources import folder

if TYPE_CHECKING:
    from pathlib import Path

INNER, EXPERTS = 64, 4
MLP = "/model/layers.2/mlp/down_proj/MatMul"


def mixture_decoder(target: Path) -> Path:
    """A folder with the decoder in ``target``: QMoE of 4-bit experts, two a token, seeded."""
    shutil.copytree(folder() / "samples" / "tiny-llama", target, dirs_exist_ok=True)
    path = target / "model.onnx"
    model = onnx.load(path)
    down = next(node for node in model.graph.node if node.name == MLP)
    given = next(item for item in model.graph.initializer if item.name == down.input[1])
    hidden = given.dims[1]
    result, down.output[0] = down.output[0], "mixture/in"
    random = np.random.default_rng(11)
    arrays: dict[str, np.ndarray[tuple[int, ...], np.dtype[Any]]] = {
        "mixture/router": random.standard_normal((hidden, EXPERTS)).astype(np.float32),
        "mixture/rows": np.array([-1, EXPERTS], np.int64),
        "mixture/fc1": random.integers(0, 256, (EXPERTS, INNER, hidden // 2), np.uint8),
        "mixture/fc1_scales": (random.random((EXPERTS, INNER)) * 0.1).astype(np.float32),
        "mixture/fc2": random.integers(0, 256, (EXPERTS, hidden, INNER // 2), np.uint8),
        "mixture/fc2_scales": (random.random((EXPERTS, hidden)) * 0.1).astype(np.float32),
    }
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    nodes = [
        helper.make_node("MatMul", ["mixture/in", "mixture/router"], ["mixture/logits"], "mixture/route"),
        helper.make_node("Reshape", ["mixture/logits", "mixture/rows"], ["mixture/flat"], "mixture/flatten"),
        helper.make_node(
            "QMoE",
            ["mixture/in", "mixture/flat", "mixture/fc1", "mixture/fc1_scales", "", "mixture/fc2",
             "mixture/fc2_scales"],
            [result], "mixture/experts", domain="com.microsoft",
            k=2, activation_type="silu", normalize_routing_weights=1, expert_weight_bits=4,
        ),
    ]  # fmt: skip
    place = next(index for index, node in enumerate(model.graph.node) if node.name == MLP)
    for offset, node in enumerate(nodes):
        model.graph.node.insert(place + 1 + offset, node)
    onnx.save(model, path)
    return target
