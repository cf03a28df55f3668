"""Where each weight's bytes are: a checked region of an external file, or bytes of the model file itself."""

from __future__ import annotations

import hashlib
import json
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from vramscope.errors import ModelFileError, ModelGraphError
from vramscope.graph.dtypes import ElementType, tensor_bytes
from vramscope.graph.model import WeightSource

if TYPE_CHECKING:
    from vramscope.graph.external import ExternalFiles


_VISIBLE_BYTES = MappingProxyType(
    {ElementType.INT64: 4_096, ElementType.INT32: 4_096, ElementType.BOOL: 4_096, ElementType.FLOAT: 64}
)
"""Tensors up to this size may be shape arithmetic (float: the scales of a Resize), which inference reads."""


def visible_bytes(dtype: ElementType) -> int:
    """The largest tensor of a type that shape inference may look into; 0 for types that are data only."""
    return _VISIBLE_BYTES.get(dtype, 0)


def element_type(value: int | None, what: str) -> ElementType:
    """The element type with ONNX's number ``value``; None is UNDEFINED.

    Raises:
        ModelGraphError: a number that this program does not know.
    """
    if value is None:
        return ElementType.UNDEFINED
    try:
        return ElementType(int(value))
    except ValueError as error:
        raise ModelGraphError(
            what, f"element type {value} is not supported", "Export it as another type"
        ) from error


def weight_source(name: str, tensor: ir.TensorProtocol, files: ExternalFiles) -> WeightSource:
    """The source of one initializer or constant; an external tensor's bytes are not touched.

    Raises:
        ModelFileError: what :mod:`vramscope.graph.external` refuses, or inline bytes of a wrong length.
        ModelGraphError: an unknown element type or a negative extent.
    """
    dtype = element_type(tensor.dtype, f"weight {name!r}")
    shape = tuple(int(extent) for extent in tensor.shape.numpy())
    if any(extent < 0 for extent in shape):
        raise ModelGraphError(f"weight {name!r}", f"its shape {shape} has a negative extent", "Export again")
    size = tensor_bytes(dtype, shape)
    if not isinstance(tensor, ir.ExternalTensor):
        return _inline(name, tensor, dtype, shape)
    location = str(tensor.location)
    region = files.region(name, location, tensor.offset or 0, tensor.length, size)
    identity = f"{location}:{region.offset}:{size}"
    return WeightSource(dtype, shape, size, identity, region.file, region.offset, present=region.present)


def _inline(name: str, tensor: ir.TensorProtocol, dtype: ElementType, shape: tuple[int, ...]) -> WeightSource:
    if dtype is ElementType.STRING:
        return _text(name, tensor, shape)
    size = tensor_bytes(dtype, shape)
    try:
        content = tensor.tobytes()
    except (ValueError, TypeError, OverflowError) as error:
        why = f"its data does not fill {dtype.name} {list(shape)}: {error}"
        raise ModelFileError(f"weight {name!r}", why, "Export the model again") from error
    return inline_source(name, dtype, shape, content, size)


def inline_source(
    name: str, dtype: ElementType, shape: tuple[int, ...], content: bytes, size: int
) -> WeightSource:
    """A weight whose bytes are ``content``.

    Raises:
        ModelFileError: ``content`` is not ``size`` bytes long.
    """
    if len(content) != size:
        why = f"it holds {len(content):,} bytes, {dtype.name} {list(shape)} needs {size:,}"
        raise ModelFileError(f"weight {name!r}", why, "Export the model again")
    digest = hashlib.sha256(content).hexdigest() if content else ""
    return WeightSource(dtype, shape, size, _identity(name, digest), inline=content, digest=digest)


def _identity(name: str, digest: str) -> str:
    """Two branches of an If may use one name for different bytes, so the bytes are part of the identity."""
    return f"inline:{name}:{digest[:16]}"


def _text(name: str, tensor: ir.TensorProtocol, shape: tuple[int, ...]) -> WeightSource:
    items = [_decoded(item) for item in np.asarray(tensor.numpy(), dtype=object).reshape(-1)]
    content = json.dumps(items).encode()
    digest = hashlib.sha256(content).hexdigest()
    return WeightSource(ElementType.STRING, shape, 0, _identity(name, digest), inline=content, digest=digest)


def _decoded(item: object) -> str:
    return item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else str(item)
