"""cuBLASLt through its C interface: the library asked once a form, then called with planned workspace alone.

nvmath-python has the same interface; importing it takes longer than a model's first token may.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from vramscope.devices.cuda.library_form import LIBRARY, LibraryProduct, Operand
from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable

TYPES = {"float": 0, "f16": 2, "bf16": 14}
"""``cudaDataType`` of an element type; factors and sums are float32 (0)."""
COMPUTE_32F = 68
"""``CUBLAS_COMPUTE_32F``: products and sums in float32, never in a shorter mantissa."""
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
"""``cublasLtMatmulDescAttributes_t``."""
BIAS_EPILOGUE = 4
BATCH_COUNT, BATCH_STEP = 5, 6
"""``cublasLtMatrixLayoutAttribute_t``."""
MOST_WORKSPACE, REDUCTIONS, ALIGNMENTS = 1, 3, (5, 6, 7, 8)
"""``cublasLtMatmulPreferenceAttributes_t``; the alignments of A, B, C and D."""
REDUCE_IN_COMPUTE_TYPE = 2
"""The one way allowed to join partial sums of a split depth: in float32, in the workspace."""


class _Heuristic(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class BoundProduct:
    """A product ready to be issued any number of times."""

    __slots__ = ("_call", "_kept", "launch")

    def __init__(self, launch: LibraryProduct, call: Callable[[], int], kept: object) -> None:
        """``call`` issues it and answers cuBLASLt's code; ``kept`` lives as long."""
        self.launch = launch
        self._call = call
        self._kept = kept

    def __call__(self) -> None:
        """Issues it.

        Raises:
            VramscopeError: cuBLASLt refuses.
        """
        code = self._call()
        if code:
            raise _failure(f"the product {self.launch.function}", code)


class ProductLibrary:
    """One handle of cuBLASLt, made when it is first needed, and what it answered about every form."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """``library``: cuBLASLt, open."""
        self._library = library
        library.cublasLtMatmul.argtypes = (
            *(ctypes.c_void_p,) * 14,
            *(ctypes.c_size_t, ctypes.c_void_p),
        )
        self._starting: Thread | None = None
        self._handle = ctypes.c_void_p()
        self._heuristics: dict[LibraryProduct, _Heuristic] = {}
        self._layouts: dict[tuple[int, ...], ctypes.c_void_p] = {}
        self._descriptors: dict[tuple[bool, bool, int], ctypes.c_void_p] = {}

    def bind(self, product: LibraryProduct, stream: int) -> BoundProduct:
        """The product with an algorithm that fits its workspace.

        Row-major matrices are column-major ones turned: what is computed is Cᵀ = Bᵀ · Aᵀ.

        Raises:
            VramscopeError: cuBLASLt has no algorithm for it.
        """
        self._started()
        descriptor, layouts, found = self._ready(product)
        factors = (ctypes.c_float * 2)(product.alpha, 0.0)
        alpha = ctypes.addressof(factors)
        call = partial(
            self._library.cublasLtMatmul,
            *(self._handle, descriptor, alpha),
            *(product.b.address, layouts[0], product.a.address, layouts[1], alpha + 4),
            *(product.c.address, layouts[2], product.c.address, layouts[2]),
            *(ctypes.addressof(found), product.workspace or None, product.room, stream),
        )
        return BoundProduct(product, call, (factors, found))

    def start(self, choose: Callable[[int], object], index: int) -> None:
        """Makes the library ready beside other work: its first question takes a good part of a second.

        Args:
            choose: makes a GPU the current one of the calling thread.
            index: the GPU.
        """

        def ready() -> None:
            choose(index)
            some = Operand(4096, 64)
            with suppress(VramscopeError):
                self._ready(LibraryProduct("f16", 64, 64, 64, some, some, some))

        self._starting = Thread(target=ready, name="cuBLASLt", daemon=True)
        self._starting.start()

    def close(self) -> None:
        """Gives the handle back."""
        self._started()
        for layout in self._layouts.values():
            self._library.cublasLtMatrixLayoutDestroy(layout)
        for descriptor in self._descriptors.values():
            self._library.cublasLtMatmulDescDestroy(descriptor)
        for held in (self._heuristics, self._layouts, self._descriptors):
            held.clear()
        if self._handle.value:
            self._library.cublasLtDestroy(self._handle)
            self._handle = ctypes.c_void_p()

    def _started(self) -> None:
        if self._starting is not None:
            self._starting.join()
            self._starting = None

    def _ready(
        self, product: LibraryProduct
    ) -> tuple[ctypes.c_void_p, tuple[ctypes.c_void_p, ...], _Heuristic]:
        """A product's descriptor, layouts and algorithm."""
        if not self._handle.value:
            self._checked("cublasLtCreate", ctypes.byref(self._handle))
        descriptor = self._descriptor(product.b.turned, product.a.turned, product.bias)
        layouts = self._layouts_of(product)
        return descriptor, layouts, self._heuristic(product, descriptor, layouts)

    def _checked(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise _failure(function, code)

    def _descriptor(self, left: bool, right: bool, bias: int) -> ctypes.c_void_p:
        """A product's descriptor: which operands are read transposed, and the bias."""
        key = (left, right, bias)
        found = self._descriptors.get(key)
        if found is None:
            found = ctypes.c_void_p()
            self._checked("cublasLtMatmulDescCreate", ctypes.byref(found), COMPUTE_32F, TYPES["float"])
            numbers = [(TRANSPOSE_A, ctypes.c_int32(left)), (TRANSPOSE_B, ctypes.c_int32(right))]
            if bias:
                numbers.append((EPILOGUE, ctypes.c_int32(BIAS_EPILOGUE)))
            for attribute, value in numbers:
                self._set("MatmulDesc", found, attribute, value)
            if bias:
                self._set("MatmulDesc", found, BIAS_POINTER, ctypes.c_void_p(bias))
            self._descriptors[key] = found
        return found

    def _layouts_of(self, product: LibraryProduct) -> tuple[ctypes.c_void_p, ...]:
        """Of Bᵀ, Aᵀ and Cᵀ as column-major matrices."""
        kind, count = TYPES[product.kind], product.count
        extents = ((product.b, product.n, product.k), (product.a, product.k, product.m))
        pairs = [(item, (depth, lines) if item.turned else (lines, depth)) for item, lines, depth in extents]
        pairs.append((product.c, (product.n, product.m)))
        return tuple(self._layout(kind, *sizes, item.leading, count, item.step) for item, sizes in pairs)

    def _layout(self, *key: int) -> ctypes.c_void_p:
        found = self._layouts.get(key)
        if found is None:
            kind, rows, columns, leading, count, step = key
            found = ctypes.c_void_p()
            sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(leading))
            self._checked("cublasLtMatrixLayoutCreate", ctypes.byref(found), kind, *sizes)
            if count > 1:
                self._set("MatrixLayout", found, BATCH_COUNT, ctypes.c_int32(count))
                self._set("MatrixLayout", found, BATCH_STEP, ctypes.c_int64(step))
            self._layouts[key] = found
        return found

    def _set(self, what: str, item: ctypes.c_void_p, attribute: int, value: ctypes._SimpleCData[Any]) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._checked(f"cublasLt{what}SetAttribute", item, attribute, ctypes.byref(value), size)

    def _heuristic(
        self, product: LibraryProduct, descriptor: ctypes.c_void_p, layouts: tuple[ctypes.c_void_p, ...]
    ) -> _Heuristic:
        key = _form(product)
        found = self._heuristics.get(key)
        if found is None:
            found = self._heuristics[key] = self._asked(product, descriptor, layouts)
        return found

    def _asked(
        self, product: LibraryProduct, descriptor: ctypes.c_void_p, layouts: tuple[ctypes.c_void_p, ...]
    ) -> _Heuristic:
        preference, found, count = ctypes.c_void_p(), _Heuristic(), ctypes.c_int()
        self._checked("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        try:
            prefer = partial(self._set, "MatmulPreference", preference)
            prefer(MOST_WORKSPACE, ctypes.c_uint64(product.room))
            prefer(REDUCTIONS, ctypes.c_uint32(REDUCE_IN_COMPUTE_TYPE))
            places = (product.b, product.a, product.c, product.c)
            for attribute, item in zip(ALIGNMENTS, places, strict=True):
                prefer(attribute, ctypes.c_uint32(item.alignment))
            code = self._library.cublasLtMatmulAlgoGetHeuristic(
                *(self._handle, descriptor, *layouts, layouts[2], preference),
                *(1, ctypes.byref(found), ctypes.byref(count)),
            )
        finally:
            self._library.cublasLtMatmulPreferenceDestroy(preference)
        if code or count.value == 0:
            raise _failure(f"an algorithm for {product.function} in {product.room:,} bytes", code)
        return found


def _form(product: LibraryProduct) -> LibraryProduct:
    """The product with the least that the choice of an algorithm depends on: alignments for addresses."""

    def placed(item: Operand) -> Operand:
        return Operand(item.alignment, item.leading, item.turned, item.step)

    return LibraryProduct(
        *(product.kind, product.m, product.n, product.k),
        *(placed(product.a), placed(product.b), placed(product.c)),
        count=product.count,
        bias=int(product.bias != 0),
        room=product.room,
    )


def _failure(what: str, code: int) -> VramscopeError:
    return VramscopeError(what, f"cuBLASLt refuses with {code}")


def open_library() -> ProductLibrary | None:
    """The library where it is installed, else None: products then run on kernels of ours."""
    try:
        from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    except ImportError:
        return None
    try:
        return ProductLibrary(ctypes.CDLL(load_nvidia_dynamic_lib(LIBRARY).abs_path))
    except (DynamicLibNotFoundError, OSError):
        return None
