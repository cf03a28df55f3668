"""The bundled samples are what the code makes, small, and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy_decoder import Runner
from tokenizers import Tokenizer

from vramscope import resources
from vramscope.build.sample_models import LONG_FROM, PLACEHOLDER
from vramscope.build.samples import SampleForm, generate_samples, list_samples, sample_folder
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

DECODERS = ("tiny-llama", "declines")


def files(folder: Path) -> dict[str, bytes]:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_the_bundled_files_are_what_the_code_makes(tmp_path: Path) -> None:
    generate_samples(tmp_path)
    bundled, made = files(resources.folder() / "samples"), files(tmp_path)
    assert bundled.keys() == made.keys()
    for name, content in made.items():
        assert bundled[name] == content, f"{name} differs: run generate_samples(resources/samples)"


def test_the_samples_are_small() -> None:
    sizes = [len(content) for content in files(resources.folder() / "samples").values()]
    assert sum(sizes) < 1.5 * 2**20


def test_every_sample_has_a_row_and_a_folder() -> None:
    names = [sample.name for sample in list_samples()]
    assert names[0] == "tiny-llama"
    assert sorted(names) == sorted(path.name for path in (resources.folder() / "samples").iterdir())
    assert all(sample.title and sample.shows for sample in list_samples())


def test_an_unknown_sample_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError, match="tiny-llama"):
        sample_folder("huge-llama")


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("text", ["Hello world, once upon a time", "f(x) = {3 * x + 1};\n\tdone?"])
def test_the_tokenizer_returns_what_it_was_given(name: str, text: str) -> None:
    tokenizer = Tokenizer.from_file(str(sample_folder(name) / "tokenizer.json"))
    assert tokenizer.get_vocab_size() == 512
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("prompt", ["Hello", "Once upon a time", "The capital of France is"])
def test_decoders_generate_printable_text_without_an_early_end(name: str, prompt: str) -> None:
    tokenizer = Tokenizer.from_file(str(sample_folder(name) / "tokenizer.json"))
    tokens, _ = Runner(sample_folder(name)).greedy(tokenizer.encode(prompt).ids, 64)
    assert 2 not in tokens
    text = tokenizer.decode(tokens)
    assert text.isascii()
    assert len(set(tokens)) > 10


def test_the_declining_sample_replaces_placeholders_and_stretches_positions() -> None:
    runner = Runner(sample_folder("declines"))
    plain = runner.feed([40, 41, 42])
    runner.reset()
    replaced = runner.feed([40, PLACEHOLDER, 42])
    np.testing.assert_array_equal(replaced[0], plain[0])
    assert np.abs(replaced[1:] - plain[1:]).max() > 0.1
    operators = {node.op_type for node in graph_of("declines").node}
    assert {"If", "NonZero"} <= operators
    runner.reset()
    long = runner.feed([40 + index % 100 for index in range(LONG_FROM)])
    runner.reset()
    short = runner.feed([40 + index % 100 for index in range(LONG_FROM - 1)])
    assert np.abs(long[1] - short[1]).max() > 1e-3


def graph_of(name: str) -> onnx.GraphProto:
    return onnx.load(str(sample_folder(name) / "model.onnx"), load_external_data=False).graph


def test_the_reranker_takes_any_number_of_passages() -> None:
    session = onnxruntime.InferenceSession(str(sample_folder("unbounded-axis") / "model.onnx"))
    random = np.random.default_rng(0)
    for count in (1, 7):
        passages = random.standard_normal((count, 64), np.float32)
        relevance, summary = session.run(None, {"query": np.ones((1, 64), np.float32), "passages": passages})
        assert relevance.shape == (1, count)
        assert relevance.sum() == pytest.approx(1, abs=1e-5)
        assert summary.shape == (1, 64)


def test_the_one_that_cannot_fit_is_built_once_and_takes_no_disk(tmp_path: Path) -> None:
    folder = sample_folder("cannot-fit", tmp_path)
    data = (folder / "model.onnx.data").stat()
    assert data.st_size > 131 * 2**30
    assert data.st_blocks * 512 < 2**20
    written = (folder / "model.onnx").stat().st_mtime_ns
    assert sample_folder("cannot-fit", tmp_path) == folder
    assert (folder / "model.onnx").stat().st_mtime_ns == written
    assert [path.name for path in (tmp_path / "samples").iterdir()] == [folder.name]


def test_only_configurations_need_the_cache() -> None:
    shipped = resources.folder() / "samples"
    for sample in list_samples():
        if sample.form is SampleForm.FOLDER:
            assert sample_folder(sample.name) == shipped / sample.name
            assert (shipped / sample.name / "model.onnx").is_file()
