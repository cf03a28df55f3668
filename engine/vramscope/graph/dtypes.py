"""ONNX element types: width in bits, exact storage in bytes, and the NumPy type that computes them."""

from __future__ import annotations

from enum import IntEnum

import ml_dtypes
import numpy as np

from vramscope.errors import ModelGraphError, ShapeOverflowError

BYTES_LIMIT = 2**63 - 1
"""More bytes or elements than this is an overflow (semantics, 'How to read it')."""


class ElementType(IntEnum):
    """ONNX ``TensorProto.DataType`` numbers, with ONNX's own names."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
    UINT4 = 21
    INT4 = 22
    FLOAT4E2M1 = 23
    FLOAT8E8M0 = 24
    UINT2 = 25
    INT2 = 26


_BITS: dict[ElementType, int] = {
    ElementType.FLOAT: 32,
    ElementType.UINT8: 8,
    ElementType.INT8: 8,
    ElementType.UINT16: 16,
    ElementType.INT16: 16,
    ElementType.INT32: 32,
    ElementType.INT64: 64,
    ElementType.BOOL: 8,
    ElementType.FLOAT16: 16,
    ElementType.DOUBLE: 64,
    ElementType.UINT32: 32,
    ElementType.UINT64: 64,
    ElementType.COMPLEX64: 64,
    ElementType.COMPLEX128: 128,
    ElementType.BFLOAT16: 16,
    ElementType.FLOAT8E4M3FN: 8,
    ElementType.FLOAT8E4M3FNUZ: 8,
    ElementType.FLOAT8E5M2: 8,
    ElementType.FLOAT8E5M2FNUZ: 8,
    ElementType.FLOAT8E8M0: 8,
    ElementType.UINT4: 4,
    ElementType.INT4: 4,
    ElementType.FLOAT4E2M1: 4,
    ElementType.UINT2: 2,
    ElementType.INT2: 2,
}

_NUMPY: dict[ElementType, type] = {
    ElementType.FLOAT: np.float32,
    ElementType.UINT8: np.uint8,
    ElementType.INT8: np.int8,
    ElementType.UINT16: np.uint16,
    ElementType.INT16: np.int16,
    ElementType.INT32: np.int32,
    ElementType.INT64: np.int64,
    ElementType.STRING: np.object_,
    ElementType.BOOL: np.bool_,
    ElementType.FLOAT16: np.float16,
    ElementType.DOUBLE: np.float64,
    ElementType.UINT32: np.uint32,
    ElementType.UINT64: np.uint64,
    ElementType.COMPLEX64: np.complex64,
    ElementType.COMPLEX128: np.complex128,
    ElementType.BFLOAT16: ml_dtypes.bfloat16,
    ElementType.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn,
    ElementType.FLOAT8E4M3FNUZ: ml_dtypes.float8_e4m3fnuz,
    ElementType.FLOAT8E5M2: ml_dtypes.float8_e5m2,
    ElementType.FLOAT8E5M2FNUZ: ml_dtypes.float8_e5m2fnuz,
    ElementType.FLOAT8E8M0: ml_dtypes.float8_e8m0fnu,
    ElementType.UINT4: ml_dtypes.uint4,
    ElementType.INT4: ml_dtypes.int4,
    ElementType.FLOAT4E2M1: ml_dtypes.float4_e2m1fn,
    ElementType.UINT2: ml_dtypes.uint2,
    ElementType.INT2: ml_dtypes.int2,
}

_FROM_NUMPY: dict[np.dtype[np.generic], ElementType] = {np.dtype(kind): key for key, kind in _NUMPY.items()}


def bit_width(dtype: ElementType) -> int:
    """Bits of one element; 0 for STRING and UNDEFINED, whose storage no formula gives."""
    return _BITS.get(dtype, 0)


def is_packed(dtype: ElementType) -> bool:
    """Whether several elements share a byte (4-bit and 2-bit types)."""
    return 0 < bit_width(dtype) < 8


def storage_bytes(dtype: ElementType, elements: int) -> int:
    """Exact bytes of ``elements`` values: bits are rounded up to whole bytes over the *whole* tensor.

    Raises:
        ShapeOverflowError: more than 2**63 - 1 elements or bytes.
    """
    size = (elements * bit_width(dtype) + 7) // 8
    if elements > BYTES_LIMIT or size > BYTES_LIMIT:
        raise ShapeOverflowError(
            what=f"a tensor of {elements:,} {dtype.name} elements",
            why=f"it takes {size:,} bytes, more than any device can address",
            remedy="Lower the batch, the context or the maximum of the symbol that makes it so large",
        )
    return size


def tensor_bytes(dtype: ElementType, shape: tuple[int, ...]) -> int:
    """Exact bytes of a dense tensor of ``shape``, in Python integers.

    Raises:
        ShapeOverflowError: more than 2**63 - 1 elements or bytes.
    """
    elements = 1
    for extent in shape:
        elements *= extent
    return storage_bytes(dtype, elements)


def numpy_dtype(dtype: ElementType) -> np.dtype[np.generic]:
    """The NumPy type that holds one element (packed types: one element a byte once unpacked).

    Raises:
        ModelGraphError: UNDEFINED, which the file gives a value without a type.
    """
    if dtype is ElementType.UNDEFINED:
        raise ModelGraphError("a value", "its element type is undefined", "Export the model again")
    return np.dtype(_NUMPY[dtype])


def from_numpy(dtype: np.dtype[np.generic]) -> ElementType:
    """The ONNX element type of a NumPy type; UNDEFINED when ONNX has none."""
    if dtype.kind in "US":
        return ElementType.STRING
    return _FROM_NUMPY.get(dtype, ElementType.UNDEFINED)
