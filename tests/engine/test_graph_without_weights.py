"""A model whose data files are not here yet: planned to the same byte, never run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import vramscope
from vramscope.cli.main import main
from vramscope.errors import InputError, MissingWeightsError, ModelFileError
from vramscope.graph.model import Weights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCENARIO = vramscope.Scenario(batch=1, prompt=16, context=64)


def bare_copy(folder: Path, target: Path) -> Path:
    """The folder without the files that hold external data."""
    proto = onnx.load(str(model_file(folder)), load_external_data=False)
    data = {
        entry.value
        for item in proto.graph.initializer
        for entry in item.external_data
        if entry.key == "location"
    }
    assert data, f"{folder.name} keeps its weights in the model file"
    shutil.copytree(folder, target, ignore=lambda _, names: [name for name in names if name in data])
    return target


def model_file(folder: Path) -> Path:
    return next(path for path in sorted(folder.glob("*.onnx")))


def folders_with_data(shared_models: Path) -> Iterator[Path]:
    for folder in sorted((shared_models / "tiny").iterdir()):
        proto = onnx.load(str(model_file(folder)), load_external_data=False)
        if any(item.external_data for item in proto.graph.initializer):
            yield folder


def test_a_plan_without_the_data_files_is_the_plan_with_them(shared_models: Path, tmp_path: Path) -> None:
    folders = list(folders_with_data(shared_models))
    assert len(folders) >= 8
    for folder in folders:
        whole = vramscope.open_path(folder)
        bare = vramscope.open_path(bare_copy(folder, tmp_path / folder.name), without_weights=True)
        assert bare.weights is Weights.NOT_HERE
        assert any("missing or incomplete" in text for text in bare.problems)
        with_data, without = (vramscope.make_plan(model, SCENARIO) for model in (whole, bare))
        assert without.total.bytes == with_data.total.bytes, folder.name
        assert without.components == with_data.components, folder.name


@pytest.fixture
def bare(shared_models: Path, tmp_path: Path) -> Path:
    return bare_copy(shared_models / "tiny" / "tiny-llama-fp16-cuda", tmp_path / "bare")


def test_missing_data_is_refused_with_the_way_out(bare: Path) -> None:
    with pytest.raises(MissingWeightsError, match=r"no such file.*--without-weights"):
        vramscope.open_path(bare)


def test_a_download_that_stopped_is_planned_too(shared_models: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    shutil.copytree(shared_models / "tiny" / "tiny-llama-fp16-cuda", folder)
    data = next(folder.glob("*.data"))
    data.chmod(0o644)
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size // 2)
    with pytest.raises(MissingWeightsError, match=r"The file is incomplete.*--without-weights"):
        vramscope.open_path(folder)
    assert vramscope.open_path(folder, without_weights=True).weights is Weights.NOT_HERE


def test_a_whole_model_opened_so_still_runs(shared_models: Path) -> None:
    model = vramscope.open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda", without_weights=True)
    assert model.weights is Weights.STORED


def test_what_is_not_here_is_never_run(bare: Path) -> None:
    model = vramscope.open_path(bare, without_weights=True)
    decoder = vramscope.Decoder(model, vramscope.make_plan(model, SCENARIO))
    with pytest.raises(InputError, match="opened without its weights") as refused:
        decoder.load()
    assert "Put the missing files beside it" in refused.value.remedy


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "C:\\secret.bin", ""])
def test_a_path_out_of_the_folder_stays_refused(bare: Path, location: str) -> None:
    file = model_file(bare)
    proto = onnx.load(str(file), load_external_data=False)
    tensor = next(item for item in proto.graph.initializer if item.external_data)
    next(entry for entry in tensor.external_data if entry.key == "location").value = location
    file.chmod(0o644)
    file.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelFileError) as refused:
        vramscope.open_path(bare, without_weights=True)
    assert not isinstance(refused.value, MissingWeightsError)


def test_a_shape_that_lies_in_a_missing_file_is_not_guessed(tmp_path: Path) -> None:
    """The target of an Expand is external: its extents are unknown, and the plan refuses."""
    shape = onnx.numpy_helper.from_array(np.array([4, 6]), "shape")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Expand", ["x", "shape"], ["r"], name="expand"),
         onnx.helper.make_node("Relu", ["r"], ["y"], name="relu")],
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["a", "b"])],
        [shape],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    path = tmp_path / "expand.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert vramscope.make_plan(vramscope.open_path(path), vramscope.Scenario()).total.bytes
    (tmp_path / "w.bin").unlink()
    plan = vramscope.make_plan(vramscope.open_path(path, without_weights=True), vramscope.Scenario())
    assert plan.verdict.kind.value == "cannot be planned"
    assert {axis.symbol for axis in plan.axes} == {"r.axis0", "r.axis1"}


def test_the_command_line_asks_for_the_word(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(bare)]) == 2
    assert "--without-weights" in capsys.readouterr().err
    assert main(["plan", str(bare), "--without-weights", "--budget", "1GiB"]) == 0
    assert "opened without its weights" in capsys.readouterr().out
    assert main(["inspect", str(bare), "--without-weights"]) == 0
    assert main(["compare", str(bare), str(bare), "--without-weights"]) == 0
