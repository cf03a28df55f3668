"""Launches kernels through the CUDA driver: machine code loaded, functions kept, arguments packed once."""

from __future__ import annotations

import ctypes
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vramscope.devices.cuda.compiler import cache_folder, compiled
from vramscope.devices.cuda.library_form import LibraryProduct
from vramscope.devices.driver import LIBRARY
from vramscope.errors import VramscopeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope.devices.cuda.launch import Launch, Source
    from vramscope.devices.cuda.library import BoundProduct, ProductLibrary
    from vramscope.devices.cuda.library_form import AnyLaunch

DYNAMIC_SHARED_ATTRIBUTE, CARVEOUT_ATTRIBUTE = 8, 9
"""``CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`` and ``…_PREFERRED_SHARED_MEMORY_CARVEOUT``."""
MOST_CARVEOUT = 100
"""All of a multiprocessor's first-level memory that can be is shared memory.

The same for every kernel: two of different splits cannot be on one multiprocessor at a time, and a kernel
could not begin before its predecessor's end.
"""
CLUSTER_ATTRIBUTE, SERIALIZATION_ATTRIBUTE = 4, 6
"""``CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`` and ``…_PROGRAMMATIC_STREAM_SERIALIZATION``."""


MOST_DOT = 4 * 2**20
"""Bytes of a graph's drawing that are read; a node takes about 150."""


def shortened(drawing: bytes) -> str:
    """At most :data:`MOST_DOT` bytes, cut behind a whole statement and closed."""
    if len(drawing) <= MOST_DOT:
        return drawing.decode(errors="replace")
    whole = drawing[: drawing.rindex(b";\n", 0, MOST_DOT) + 2]
    opened = whole.count(b"{\n") - whole.count(b"}\n")
    return whole.decode(errors="replace") + "// the rest is left out\n" + "}\n" * opened


class _Attribute(ctypes.Structure):
    """``CUlaunchAttribute``: an id, padding to 8 bytes, a 64-byte value."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class _Config(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


class BoundIssue:
    """A launch with its packed arguments, which stay where the driver reads them."""

    __slots__ = ("_call", "_kept", "_loader", "launch")

    def __init__(self, launch: Launch, call: Callable[[], int], loader: KernelLoader, kept: object) -> None:
        """``call`` issues it and answers the driver's code; ``kept`` lives as long."""
        self.launch = launch
        self._call = call
        self._loader = loader
        self._kept = kept

    def __call__(self) -> None:
        """Issues it.

        Raises:
            VramscopeError: the driver refuses.
        """
        code = self._call()
        if code:
            raise self._loader.failure(f"launching {self.launch.function}", code)


class KernelLoader:
    """Functions of compiled sources, loaded into the current context when first asked for."""

    def __init__(
        self, architecture: str, folder: Path | None = None, products: ProductLibrary | None = None
    ) -> None:
        """``architecture`` as ``sm_90``; ``folder``: where compiled code is kept; ``products``: cuBLASLt."""
        self._products = products
        self._architecture = architecture
        self._folder = folder or cache_folder()
        self._library = ctypes.CDLL(LIBRARY)
        self._library.cuLaunchKernelEx.argtypes = (ctypes.c_void_p,) * 4
        self._modules: dict[str, ctypes.c_void_p] = {}
        self._functions: dict[tuple[str, str], ctypes.c_void_p] = {}
        self._shared: dict[tuple[str, str], int] = {}

    def bind(self, launch: AnyLaunch, stream: int, *, overlap: bool = False) -> BoundIssue | BoundProduct:
        """The launch ready to be issued any number of times.

        Args:
            launch: what to launch.
            stream: the stream's handle.
            overlap: the kernel waits for its predecessor itself (programmatic dependent launch).

        Raises:
            VramscopeError: the source does not compile or load, or the driver refuses the launch.
        """
        if isinstance(launch, LibraryProduct):
            return self._bound_product(launch, stream, overlap=overlap)
        function = self._function(launch.source, launch.function)
        self._allow_shared(launch, function)
        held, pointers = _placed(launch.arguments)
        attributes = (_Attribute * 2)()
        config = _config(launch, stream, attributes, overlap=overlap)
        address, parameters = ctypes.addressof(config), ctypes.addressof(pointers)
        library_call, handle = self._library.cuLaunchKernelEx, function.value
        issue = partial(library_call, address, handle, parameters, None)
        return BoundIssue(launch, issue, self, (held, pointers, attributes, config))

    def _bound_product(
        self, product: LibraryProduct, stream: int, *, overlap: bool
    ) -> BoundIssue | BoundProduct:
        """The product by cuBLASLt, or by own kernels where it does not have it."""
        try:
            if self._products is not None:
                return self._products.bind(product, stream)
        except VramscopeError:
            if product.instead is None:
                raise
        if product.instead is None:
            raise VramscopeError(f"the product {product.function}", "cuBLASLt is not installed")
        return self.bind(product.instead(), stream, overlap=overlap)

    def _function(self, source: Source, name: str) -> ctypes.c_void_p:
        key = (source.text, name)
        found = self._functions.get(key)
        if found is None:
            found = ctypes.c_void_p()
            module = self._module(source)
            code = self._library.cuModuleGetFunction(ctypes.byref(found), module, name.encode())
            if code:
                raise self.failure(f"kernel {name} of {source.name}", code)
            self._library.cuFuncSetAttribute(found, CARVEOUT_ATTRIBUTE, MOST_CARVEOUT)
            self._functions[key] = found
        return found

    def _module(self, source: Source) -> ctypes.c_void_p:
        found = self._modules.get(source.text)
        if found is None:
            found = ctypes.c_void_p()
            image = compiled(source, self._architecture, self._folder)
            code = self._library.cuModuleLoadData(ctypes.byref(found), image)
            if code:
                raise self.failure(f"loading {source.name}", code)
            self._modules[source.text] = found
        return found

    def _allow_shared(self, launch: Launch, function: ctypes.c_void_p) -> None:
        key = (launch.source.text, launch.function)
        if launch.shared <= self._shared.get(key, 0):
            return
        code = self._library.cuFuncSetAttribute(function, DYNAMIC_SHARED_ATTRIBUTE, launch.shared)
        if code:
            raise self.failure(f"{launch.shared:,} bytes of shared memory for {launch.function}", code)
        self._shared[key] = launch.shared

    def graph_nodes(self, graph: int) -> int:
        """How many nodes a graph has (``cuGraphGetNodes``).

        Raises:
            VramscopeError: the driver refuses.
        """
        count = ctypes.c_size_t()
        code = self._library.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count))
        if code:
            raise self.failure("counting the nodes of a graph", code)
        return count.value

    def graph_dot(self, graph: int) -> str:
        """A graph in Graphviz' language (``cuGraphDebugDotPrint``), cut at :data:`MOST_DOT` bytes.

        Raises:
            VramscopeError: the driver refuses, or no temporary file can be written.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.dot"
            code = self._library.cuGraphDebugDotPrint(ctypes.c_void_p(graph), str(path).encode(), 0)
            if code:
                raise self.failure("drawing a graph", code)
            with path.open("rb") as file:
                return shortened(file.read(MOST_DOT + 1))

    def failure(self, what: str, code: int) -> VramscopeError:
        """The driver's refusal in words."""
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        reason = text.value.decode(errors="replace") if text.value else "unknown error"
        return VramscopeError(what, f"the CUDA driver refuses with {code}: {reason}")

    def close(self) -> None:
        """Unloads every module."""
        for module in self._modules.values():
            self._library.cuModuleUnload(module)
        self._modules.clear()
        self._functions.clear()
        self._shared.clear()
        if self._products is not None:
            self._products.close()


def _placed(arguments: Sequence[bytes]) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_void_p]]:
    """Arguments behind each other in one buffer, each at a multiple of 8 bytes, and where each begins."""
    raw, starts = bytearray(), []
    for item in arguments:
        starts.append(len(raw))
        raw += item + b"\0" * (-len(item) % 8)
    held = (ctypes.c_char * len(raw)).from_buffer(raw)
    base = ctypes.addressof(held)
    return held, (ctypes.c_void_p * len(starts))(*(base + start for start in starts))


def _config(launch: Launch, stream: int, attributes: ctypes.Array[_Attribute], *, overlap: bool) -> _Config:
    count = 0
    if launch.cluster > 1:
        attributes[count].id = CLUSTER_ATTRIBUTE
        attributes[count].value[0:3] = (launch.cluster, 1, 1)
        count += 1
    if overlap:
        attributes[count].id = SERIALIZATION_ATTRIBUTE
        attributes[count].value[0] = 1
        count += 1
    return _Config(
        (ctypes.c_uint * 3)(*launch.grid),
        (ctypes.c_uint * 3)(*launch.block),
        launch.shared,
        stream,
        ctypes.cast(attributes, ctypes.POINTER(_Attribute)),
        count,
    )
