"""Reading the ``.onnx`` file itself: a protobuf message that holds a graph, or a clear refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

    import onnx

_POINTER = b"version https://git-lfs"


def read_proto(file: Path) -> onnx.ModelProto:
    """The parsed message; external tensors stay references, no weight is read.

    Raises:
        ModelFileError: unreadable, empty, not protobuf, cut short, or no model.
    """
    content = _read(file)
    proto = _parse(file, content)
    _require_model(file, proto)
    return proto


def _read(file: Path) -> bytes:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ModelFileError(str(file), f"it cannot be read: {error.strerror}", "Check the file") from error
    if not content:
        raise ModelFileError(str(file), "the file is empty", "Copy or export the model again")
    if content.startswith(_POINTER):
        raise ModelFileError(str(file), "this is a Git LFS pointer, not the model", "Run git lfs pull")
    return content


def _parse(file: Path, content: bytes) -> onnx.ModelProto:
    import onnx

    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except Exception as error:  # protobuf's DecodeError, whose module carries no types
        raise ModelFileError(
            str(file),
            f"it is no ONNX protobuf message, or it was cut short ({len(content):,} bytes)",
            "Copy or export the model again",
        ) from error
    return proto


def _require_model(file: Path, proto: onnx.ModelProto) -> None:
    if not proto.HasField("graph") or not (proto.graph.node or proto.graph.output):
        raise ModelFileError(
            str(file), "it holds no graph: it is no ONNX model, or it was cut short", "Export the model again"
        )
    if not proto.opset_import:
        raise ModelFileError(
            str(file), "it names no operator set: the file was cut short", "Copy or export the model again"
        )
