"""Weights are views of the file: right values for every type, read-only, checked again when they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from vramscope.errors import ModelFileError
from vramscope.graph.dtypes import ElementType, numpy_dtype
from vramscope.graph.load import open_model
from vramscope.graph.weights import read_weight

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Array, WeightSource


def source_of(tensor: onnx.TensorProto, folder: Path) -> WeightSource:
    """``tensor`` as the weight of a saved and opened model."""
    info = helper.make_tensor_value_info("y", tensor.data_type, None)
    graph = helper.make_graph([helper.make_node("Identity", [tensor.name], ["y"])], "g", [], [info], [tensor])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    (source,) = open_model(folder / "model.onnx").program.weights.values()
    return source


def external(content: bytes, data_type: int, dims: list[int], folder: Path, offset: int = 0) -> WeightSource:
    (folder / "w.bin").write_bytes(b"\xee" * offset + content)
    tensor = TensorProto(name="w", data_type=data_type, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", str(offset)), ("length", str(len(content)))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return source_of(tensor, folder)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32, np.float64, np.float16, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64,
        np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2,
    ],
)  # fmt: skip
@pytest.mark.parametrize("offset", [0, 1, 4096, 5003])
def test_external_weights_are_exact_at_any_offset(dtype: type, offset: int, tmp_path: Path) -> None:
    array: Array = np.arange(12).reshape(3, 4).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    read = read_weight(external(array.tobytes(), kind, [3, 4], tmp_path, offset))
    assert read.dtype == array.dtype
    assert read.shape == (3, 4)
    assert read.tobytes() == array.tobytes()
    assert not read.flags.writeable


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, ml_dtypes.bfloat16])
def test_inline_weights_are_exact(dtype: type, tmp_path: Path) -> None:
    array: Array = np.arange(6).reshape(2, 3).astype(dtype)
    read = read_weight(source_of(numpy_helper.from_array(array, "w"), tmp_path))
    assert read.tobytes() == array.tobytes()
    assert not read.flags.writeable


def test_values_in_typed_fields_become_bytes(tmp_path: Path) -> None:
    read = read_weight(
        source_of(helper.make_tensor("w", TensorProto.FLOAT16, [3], [1.0, 2.0, -0.5]), tmp_path)
    )
    assert read.tolist() == [1.0, 2.0, -0.5]


@pytest.mark.parametrize("data_type", [TensorProto.INT4, TensorProto.UINT4])
def test_packed_weights_are_their_bytes(data_type: int, tmp_path: Path) -> None:
    source = external(bytes([0x21, 0x43, 0x05]), data_type, [5], tmp_path)
    assert source.size == 3
    assert source.shape == (5,)
    read = read_weight(source)
    assert read.dtype == np.uint8
    assert read.tolist() == [0x21, 0x43, 0x05]


def test_scalars_and_empty_weights(tmp_path: Path) -> None:
    assert read_weight(source_of(numpy_helper.from_array(np.array(3, np.float32), "w"), tmp_path)).shape == ()
    empty = external(b"", TensorProto.FLOAT, [0, 4], tmp_path)
    assert read_weight(empty).shape == (0, 4)


def test_strings_come_as_objects(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(np.array([["café"], [""]], dtype=object), "w")
    source = source_of(tensor, tmp_path)
    assert source.dtype is ElementType.STRING
    assert read_weight(source).tolist() == [["café"], [""]]


def test_equal_inline_weights_have_one_digest_and_tied_external_ones_one_identity(tmp_path: Path) -> None:
    first = source_of(numpy_helper.from_array(np.ones(4, np.float32), "a"), tmp_path)
    second = source_of(numpy_helper.from_array(np.ones(4, np.float32), "b"), tmp_path)
    assert first.digest == second.digest
    assert first.identity != second.identity
    one = external(b"\0" * 16, TensorProto.FLOAT, [4], tmp_path)
    assert one.identity == external(b"\0" * 16, TensorProto.FLOAT, [2, 2], tmp_path).identity
    assert one.digest == ""


def test_a_file_that_shrank_since_opening_is_refused(tmp_path: Path) -> None:
    source = external(b"\0" * 16, TensorProto.FLOAT, [4], tmp_path)
    os.truncate(tmp_path / "w.bin", 8)
    with pytest.raises(ModelFileError, match="has 8 now"):
        read_weight(source)


def test_a_file_that_became_a_link_since_opening_is_refused(tmp_path: Path) -> None:
    source = external(b"\0" * 16, TensorProto.FLOAT, [4], tmp_path)
    outside = tmp_path / "outside.bin"
    (tmp_path / "w.bin").rename(outside)
    (tmp_path / "w.bin").symlink_to(outside)
    with pytest.raises(ModelFileError, match="symbolic link"):
        read_weight(source)


def test_a_file_that_vanished_since_opening_is_refused(tmp_path: Path) -> None:
    source = external(b"\0" * 16, TensorProto.FLOAT, [4], tmp_path)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_weight(source)


def test_every_element_type_has_a_numpy_type_to_be_read_as() -> None:
    assert all(numpy_dtype(kind) is not None for kind in ElementType if kind is not ElementType.UNDEFINED)
