"""``run`` of a model that is no decoder: inputs from array files, outputs to a file, refusals by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from vramscope.cli.main import main
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.ops.kernels.packing import pack
from vramscope.server.arrays import save_outputs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT = """<ir_version: 9, opset_import: ["" : 19]>
g (float[batch, width] x, float[width] shift, int64[1] k)
=> (float[batch, width] y, float[batch, taken] top) {
    y = Add (x, shift)
    top, places = TopK (y, k)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two symbols that inputs bind, and an output whose extent is data."""
    path = tmp_path / "m.onnx"
    onnx.save(parser.parse_model(TEXT), path)
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Any]:
    """Inputs of the model, each in a file of its own and all in one."""
    made: dict[str, Any] = {
        "x": np.random.default_rng(3).standard_normal((3, 5)).astype(np.float32),
        "shift": np.arange(5, dtype=np.float32),
        "k": np.array([2], np.int64),
    }
    for name, array in made.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savez(tmp_path / "all.npz", **made)
    return made


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.mark.parametrize("together", [False, True])
def test_inputs_from_files_give_what_onnxruntime_gives(
    tell: Callable[..., tuple[int, str, str]],
    model: Path,
    arrays: dict[str, Any],
    tmp_path: Path,
    together: bool,
) -> None:
    files = [tmp_path / "all.npz"] if together else [f"{name}={tmp_path / name}.npy" for name in arrays]
    words = [word for file in files for word in ("--input", file)]
    saved = tmp_path / "out.npz"
    code, out, err = tell("run", model, *words, "--save", saved)
    assert code == 0, err
    assert "wrote" in out
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    truth = session.run(["y", "top"], arrays)
    with np.load(saved, allow_pickle=False) as found:
        assert list(found) == ["y", "top"]
        np.testing.assert_array_equal(found["y"], truth[0])
        np.testing.assert_array_equal(found["top"], truth[1])
    code, out, err = tell("run", model, *words, "--json")
    assert code == 0, err
    (y, top) = json.loads(out)["outputs"]
    assert (y["shape"], top["shape"]) == ([3, 5], [3, 2])
    assert y["maximum"] == pytest.approx(float(truth[0].max()))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--input", "x=x.npy", "--input", "k=k.npy"), ("input shift", "it is missing")),
        (("--input", "all.npz", "--input", "x=x.npy"), ("input x", "given twice")),
        (
            (
                "--input",
                "nowhere.npz",
            ),
            ("nowhere.npz", "cannot be read"),
        ),
        (("--input", "all.npz", "--extent", "width=7"), ("symbol width", "7", "5", "Leave the extent")),
        (("--input", "all.npz", "--save", "out.txt"), ("out.txt", "out.npz")),
        (("--input", "all.npz", "--save", "gone/out.npz"), ("out.npz", "no folder")),
    ],
)
@pytest.mark.usefixtures("arrays")
def test_inputs_that_cannot_be_used_are_refused_by_name(
    tell: Callable[..., tuple[int, str, str]],
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    named: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = tell("run", model, *words)
    assert code == 2
    for word in named:
        assert word in err, err
    assert not (tmp_path / "out.npz").exists()


def test_the_inputs_decide_the_extents_of_the_plan(
    tell: Callable[..., tuple[int, str, str]], model: Path, arrays: dict[str, Any], tmp_path: Path
) -> None:
    needed = sum(array.nbytes for array in (*arrays.values(), arrays["x"]))
    words = ("run", model, "--input", tmp_path / "all.npz", "--budget")
    code, _, err = tell(*words, needed - 1)
    assert code == 1  # it does not fit
    assert "budget" in err
    assert tell(*words, "64KiB")[0] == 0


@pytest.mark.parametrize("words", [("--input", "x.npy"), ("--save", "out.npz")])
def test_a_decoder_takes_a_prompt_instead(
    tell: Callable[..., tuple[int, str, str]], words: tuple[str, ...]
) -> None:
    code, _, err = tell("run", "tiny-llama", *words)
    assert code == 2
    assert words[0] in err
    assert "--prompt" in err


def test_types_that_numpy_does_not_have_are_saved_without_loss(tmp_path: Path) -> None:
    numbers = np.array([-8, 7, 0, 3, -1])
    brain = np.array([1.5, -(2.0**100), 3e-5]).astype(numpy_dtype(ElementType.BFLOAT16))
    nibbles = pack(numbers.astype(numpy_dtype(ElementType.INT4)))
    text = np.array(["a", "bc"], dtype=object)
    target = tmp_path / "o.npz"
    save_outputs(target, [("file", brain), ("q", nibbles), ("t", text), ("s", [brain[:1], brain[1:]])])
    with np.load(target, allow_pickle=False) as found:
        assert list(found) == ["file", "q", "t", "s.0", "s.1"]
        assert found["file"].dtype == np.float32
        np.testing.assert_array_equal(found["file"], brain.astype(np.float32))
        assert found["q"].dtype == np.int8
        np.testing.assert_array_equal(found["q"], numbers)
        assert found["t"].tolist() == ["a", "bc"]
        np.testing.assert_array_equal(found["s.1"], brain[1:].astype(np.float32))
    assert [item.name for item in tmp_path.iterdir()] == ["o.npz"]
