"""Named inputs of plain models: read from array files and checked against the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from plain_runs import Arrays, opened

from vramscope.errors import BindingError, InputError, SymbolConflictError
from vramscope.run.inputs import input_extents, load_inputs

if TYPE_CHECKING:
    from pathlib import Path


def test_inputs_come_from_array_files(tmp_path: Path) -> None:
    x, sr = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(5, np.int64)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", x=x, sr=sr)
    np.savez(tmp_path / "one.npz", other=sr)
    named = load_inputs(
        [("a", tmp_path / "x.npy"), ("b", tmp_path / "one.npz"), ("x", tmp_path / "both.npz")]
    )
    assert list(named) == ["a", "b", "x"]
    np.testing.assert_array_equal(named["a"], x)
    np.testing.assert_array_equal(named["b"], sr)
    assert set(load_inputs([("", tmp_path / "both.npz")])) == {"x", "sr"}
    assert set(load_inputs([("", tmp_path / "x.npy")])) == {"x"}


def test_array_files_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}], dtype=object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "both.npz", x=np.zeros(2), y=np.zeros(2))
    np.savez_compressed(tmp_path / "bomb.npz", x=np.zeros(100_000))
    np.save(tmp_path / "x.npy", np.zeros(4))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty.npy").write_bytes(b"")
    wrong = {
        ("x", "objects.npy"): "no array file",
        ("x", "text.npy"): "no array file",
        ("x", "empty.npy"): "no array file",
        ("x", "missing.npy"): "cannot be read",
        ("z", "both.npz"): "no member z",
    }
    for (name, file), why in wrong.items():
        with pytest.raises(InputError, match=why):
            load_inputs([(name, tmp_path / file)])
    with pytest.raises(InputError, match="the limit is"):
        load_inputs([("x", tmp_path / "bomb.npz")], limit=10_000)
    with pytest.raises(InputError, match="given twice"):
        load_inputs([("x", tmp_path / "x.npy"), ("x", tmp_path / "x.npy")])


def test_inputs_are_checked_in_the_order_they_are_given(tmp_path: Path) -> None:
    _, model = opened("g (float[k0, 4] x, float[k0] z) => (float[k0, 4] y) { y = Neg (x) }", tmp_path)
    good: Arrays = {"x": np.zeros((2, 4), np.float32), "z": np.zeros(2, np.float32)}
    assert input_extents(model, good) == {"k0": 2}
    wrong: tuple[tuple[Arrays, str], ...] = (
        ({"q": good["x"]}, "none of this name"),
        ({"x": good["x"].astype(np.float64)}, "declares FLOAT, given is float64"),
        ({"x": np.zeros(4, np.float32)}, "declares rank 2"),
        ({"x": np.zeros((2, 5), np.float32)}, "fixes axis 1 to 4"),
        ({"x": good["x"]}, "input z: it is missing"),
        ({"z": np.zeros((1, 1), np.float32), "q": good["x"]}, "declares rank 1"),
    )
    for inputs, why in wrong:
        with pytest.raises(BindingError, match=why):
            input_extents(model, inputs)
    with pytest.raises(SymbolConflictError) as caught:
        input_extents(model, {"z": np.zeros(3, np.float32), "x": good["x"]})
    assert (caught.value.first, caught.value.second) == (3, 2)
    assert (caught.value.first_source, caught.value.second_source) == ("input z, axis 0", "input x, axis 0")
