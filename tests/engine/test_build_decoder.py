"""Built decoders give the logits of an independent forward pass, and of the exporters' own weights."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from numpy_decoder import BASE, FAMILIES, Decoder, Runner, family, load_weights
from onnx import numpy_helper

from vramscope.build.config_reader import parse_config
from vramscope.build.decoder import build_decoder
from vramscope.build.decoder_graph import precision_named, write_decoder
from vramscope.build.folder import Filling, write_folder
from vramscope.build.random_weights import table_pieces
from vramscope.build.weights import ALIGNMENT, WeightKind, stored
from vramscope.errors import CancelledError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vramscope.build.weights import Fill, Piece, Weight

IDS = [3, 141, 59, 265, 358, 97, 93, 238, 46, 26, 433, 83, 279]


def distance(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", FAMILIES)
def test_prefill_and_decode_give_the_definition_s_logits(name: str, tmp_path: Path) -> None:
    build_decoder(parse_config(family(name)), tmp_path / "m", precision="fp32", weights=11)
    wanted = Decoder(family(name), load_weights(tmp_path / "m")).logits(IDS)
    runner = Runner(tmp_path / "m")
    found = np.concatenate([runner.feed(IDS[:9]), *(runner.feed([token]) for token in IDS[9:])])
    assert distance(found, wanted) < 1e-5


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(("precision", "limit"), [("fp16", 2e-2), ("q8", 0.1), ("q8f16", 0.1)])
def test_fewer_bits_stay_near_the_fp32_logits(
    name: str, precision: str, limit: float, tmp_path: Path
) -> None:
    config = parse_config(family(name))
    for each in ("fp32", precision):
        build_decoder(config, tmp_path / each, precision=each, weights=11)
    wanted, found = (Runner(tmp_path / each).feed(IDS) for each in ("fp32", precision))
    assert 0 < distance(found, wanted) < limit


@pytest.mark.parametrize("name", ["llama", "llama-tied", "gemma3"])
@pytest.mark.parametrize("precision", ["q4", "q8"])
def test_quantised_products_equal_the_dequantised_definition(
    name: str, precision: str, tmp_path: Path
) -> None:
    build_decoder(parse_config(family(name)), tmp_path / "m", precision=precision, weights=11)
    weights = dequantised(load_weights(tmp_path / "m"))
    wanted = Decoder(family(name), weights).logits(IDS)
    assert distance(Runner(tmp_path / "m").feed(IDS), wanted) < 1e-5


def dequantised(stored_weights: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """(code - zero point) * scale, written from the operator's sheet; tables stay [rows, columns]."""
    result = dict(stored_weights)
    for name, codes in stored_weights.items():
        base = name[:-3]
        if name.endswith("_Q4"):
            pairs = codes.astype(np.uint8)
            codes = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(*pairs.shape[:2], 32)
            zero = stored_weights[f"{base}_zero_points"][..., None]
        elif name.endswith("_Q8"):
            zero = np.array(128.0)
        else:
            continue
        rows = ((codes - zero) * stored_weights[f"{base}_scales"][..., None]).reshape(codes.shape[0], -1)
        result[base] = rows if base == "model.embed_tokens.weight" else rows.T
    return result


def exporter_fill(folder: Path) -> Fill:
    """Weights of another exporter's graph under the same names; a tied one has only its LM head."""
    theirs = {
        item.name: numpy_helper.to_array(item)
        for item in onnx.load(str(folder / "model.onnx")).graph.initializer
    }

    def fill(weight: Weight) -> Iterator[Piece]:
        if weight.kind in (WeightKind.COSINE, WeightKind.SINE):
            (spec,) = weight.tensors
            ours = np.concatenate([values for _, _, values in table_pieces(weight)])
            np.testing.assert_allclose(ours, theirs[spec.name], atol=2e-5)
            yield from table_pieces(weight)
            return
        (spec,) = weight.tensors
        values = theirs[spec.name] if spec.name in theirs else theirs["lm_head.MatMul.weight"].T
        assert values.shape == spec.shape
        yield spec, 0, stored(values, spec)

    return fill


@pytest.mark.parametrize(
    ("folder", "truth", "config"),
    [
        ("tiny-llama-fp32-cpu", "tiny-llama", {"model_type": "llama"}),
        ("tiny-llama-tied-fp32-cpu", "tiny-llama-tied", {"model_type": "llama", "tie_word_embeddings": True}),
        ("tiny-qwen3-fp32-cpu", "tiny-qwen3", {"model_type": "qwen3"}),
        (
            "tiny-gemma3-fp32-cpu",
            "tiny-gemma3",
            {
                "model_type": "gemma3_text",
                "num_hidden_layers": 6,
                "sliding_window": 32,
                "query_pre_attn_scalar": 16,
            },
        ),
    ],
)
def test_an_exporter_s_weights_in_our_graph_give_the_recorded_tokens(
    folder: str, truth: str, config: dict[str, object], shared_models: Path, tmp_path: Path
) -> None:
    parsed = parse_config({**BASE, **config})
    graph = write_decoder(parsed, precision_named("fp32", parsed))
    filling = Filling("theirs", exporter_fill(shared_models / "tiny" / folder))
    write_folder(tmp_path / "m", graph, "m", "fp32", filling)
    runner = Runner(tmp_path / "m")
    records = json.loads((shared_models / f"groundtruth_{truth}.json").read_text(encoding="utf-8"))
    assert records
    for record in records:
        tokens, first = runner.greedy(record["prompt_ids"], len(record["new_ids"]))
        assert tokens == record["new_ids"]
        for token, logit in record["last_logits_top10"]:
            assert first[token] == pytest.approx(logit, abs=1e-3)


def test_one_seed_is_one_model_and_another_is_another(tmp_path: Path) -> None:
    config = parse_config(family("llama"))
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        build_decoder(config, tmp_path / name, precision="fp32", weights=seed)
    data = [(tmp_path / name / "model.onnx.data").read_bytes() for name in "abc"]
    graphs = [(tmp_path / name / "model.onnx").read_bytes() for name in "ab"]
    assert data[0] == data[1] != data[2]
    assert graphs[0] == graphs[1]


def test_fp16_weights_are_the_fp32_ones_rounded(tmp_path: Path) -> None:
    config = parse_config({**family("llama"), "hidden_size": 544, "head_dim": 16})
    for precision in ("fp32", "fp16", "bf16"):
        build_decoder(config, tmp_path / precision, precision=precision, weights=3)
    full = load_weights(tmp_path / "fp32")
    for precision, step in (("fp16", 2.0**-11), ("bf16", 2.0**-8)):
        short = load_weights(tmp_path / precision)
        assert full.keys() == short.keys()
        for name, values in full.items():
            if not name.startswith("/"):
                np.testing.assert_allclose(short[name], values, rtol=step, atol=1e-7)


def test_bf16_logits_leave_as_float32(tmp_path: Path) -> None:
    build_decoder(parse_config(family("llama")), tmp_path / "m", precision="bf16", weights=3)
    graph = onnx.load(str(tmp_path / "m" / "model.onnx"), load_external_data=False).graph
    types = {item.name: item.type.tensor_type.elem_type for item in graph.output}
    assert types["logits"] == onnx.TensorProto.FLOAT
    assert types["present.0.key"] == onnx.TensorProto.BFLOAT16


def test_tied_weights_are_stored_once_and_start_at_page_boundaries(tmp_path: Path) -> None:
    for precision in ("fp32", "q4"):
        build_decoder(parse_config(family("llama-tied")), tmp_path / precision, precision=precision)
        graph = onnx.load(str(tmp_path / precision / "model.onnx"), load_external_data=False).graph
        offsets = [
            int(entry.value)
            for item in graph.initializer
            for entry in item.external_data
            if entry.key == "offset"
        ]
        assert len(set(offsets)) == len(offsets) > 10
        assert all(offset % ALIGNMENT == 0 for offset in offsets)
        assert not any("lm_head" in item.name for item in graph.initializer)


def test_the_graph_passes_onnx_s_checker(tmp_path: Path) -> None:
    build_decoder(parse_config(family("gemma3")), tmp_path / "m", precision="fp32")
    model = onnx.load(str(tmp_path / "m" / "model.onnx"), load_external_data=False)
    produced = {name for node in model.graph.node for name in node.output}
    assert {item.name for item in model.graph.output} <= produced
    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    cache = {item.name: item for item in model.graph.input}["past_key_values.5.value"]
    dims = [dim.dim_param or dim.dim_value for dim in cache.type.tensor_type.shape.dim]
    assert dims == ["batch_size", 2, "past_sequence_length", 16]


def test_a_70b_without_weights_takes_no_disk(tmp_path: Path) -> None:
    config = parse_config(
        {
            **BASE,
            "model_type": "llama",
            "hidden_size": 8192,
            "num_hidden_layers": 80,
            "num_attention_heads": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 28672,
            "vocab_size": 128256,
        }
    )
    report = build_decoder(config, tmp_path / "m", precision="fp16", weights=None)
    data = (tmp_path / "m" / "model.onnx.data").stat()
    assert report.parameters == 70_553_706_496
    assert data.st_size >= report.weight_bytes > 131 * 2**30
    assert data.st_blocks * 512 < 2**20
    assert report.weights == "none"


def test_a_cancelled_build_leaves_nothing(tmp_path: Path) -> None:
    calls = 0

    def cancel() -> None:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise CancelledError(what="the build", why="the user asked to stop")

    with pytest.raises(CancelledError):
        build_decoder(parse_config(family("llama")), tmp_path / "m", cancel=cancel)
    assert list((tmp_path / "m").iterdir()) == []


def test_progress_ends_at_the_total(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    report = build_decoder(
        parse_config(family("llama")), tmp_path / "m", progress=lambda *told: seen.append(told)
    )
    assert seen[-1] == ("weights", report.weight_bytes, report.weight_bytes)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_pieces_of_a_large_table_are_small() -> None:
    config = parse_config({**family("llama"), "vocab_size": 40_000})
    graph = write_decoder(config, precision_named("fp32", config))
    from vramscope.build.random_weights import random_fill

    fill = random_fill(0, 0.02)
    for weight in graph.weights:
        if weight.rows * weight.columns == 40_000 * 64:
            sizes = [values.nbytes for _, _, values in fill(weight)]
            assert sum(sizes) == weight.tensors[0].size
            assert max(sizes) <= 512 * 40_000 * 4


def test_a_folder_that_holds_a_model_is_left_alone(tmp_path: Path) -> None:
    build_decoder(parse_config(family("llama")), tmp_path / "m")
    before = (tmp_path / "m" / "model.onnx").read_bytes()
    with pytest.raises(InputError, match=r"already holds model\.onnx"):
        build_decoder(parse_config(family("qwen3")), tmp_path / "m")
    assert (tmp_path / "m" / "model.onnx").read_bytes() == before


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        ({}, {"precision": "int3"}, "precision 'int3': it is not known"),
        (
            {"hidden_size": 72},
            {"precision": "q4"},
            "blocks of 32 weights do not divide .* hidden_size",
        ),
        ({}, {"weights": -1}, "the seed: -1 is negative"),
    ],
)
def test_what_cannot_be_built_is_refused(
    config: dict[str, object], arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        build_decoder(parse_config({**family("llama"), **config}), tmp_path / "m", **arguments)


def test_a_disk_that_is_too_small_is_named_before_anything_is_written(tmp_path: Path) -> None:
    config = parse_config({**family("llama"), "vocab_size": 2**50 // 64})
    with pytest.raises(InputError, match=r"the disk has [0-9,]+ left"):
        build_decoder(config, tmp_path / "m", precision="fp32")
    assert list((tmp_path / "m").iterdir()) == []
