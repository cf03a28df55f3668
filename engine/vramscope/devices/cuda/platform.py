"""What a CUDA device stands on: CuPy's runtime and one stream, and the driver that launches kernels."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vramscope.devices.cuda.driver import KernelLoader
from vramscope.devices.cuda.library import open_library
from vramscope.devices.cuda.pages import driver_memory
from vramscope.devices.cuda.staging import Staging
from vramscope.devices.driver import LIBRARY
from vramscope.errors import InputError

if TYPE_CHECKING:
    from vramscope.devices.base import Memory
    from vramscope.devices.cuda.library_form import AnyLaunch


class Issue(Protocol):
    """A launch that is ready: a call issues it once more."""

    @property
    def launch(self) -> AnyLaunch:
        """What it issues."""

    def __call__(self) -> None:
        """Issues it."""


class Loader(Protocol):
    """Makes launches ready."""

    def bind(self, launch: AnyLaunch, stream: int, *, overlap: bool = False) -> Issue:
        """The launch as a call that issues it on the stream."""

    def graph_nodes(self, graph: int) -> int:
        """How many nodes a graph has; ``graph`` is its handle."""

    def graph_dot(self, graph: int) -> str:
        """A graph in Graphviz' language."""

    def close(self) -> None:
        """Unloads all code."""


@dataclass(frozen=True, slots=True)
class Platform:
    """One GPU's runtime (CuPy's ``cupy.cuda.runtime``), a stream of ours, and the loader of kernels.

    ``hopper``: the card has clusters and programmatic dependent launch (compute capability 9.0 and up).
    ``memory``: where buffers come from; None for the runtime's ``malloc``.
    ``library``: the loader binds cuBLASLt's products too. ``staging``: what large uploads go through.
    """

    runtime: Any
    stream: Any
    loader: Loader
    hopper: bool = False
    memory: Memory | None = None
    library: bool = False
    staging: Staging | None = None


def open_platform(index: int) -> Platform:
    """CuPy, imported when a CUDA device is chosen and never before.

    Raises:
        InputError: CuPy is not installed, the driver does not answer, or there is no such GPU.
    """
    try:
        import cupy
    except ImportError as error:
        raise InputError(
            "the cuda device", f"CuPy cannot be imported: {error}", "Install vramscope[cuda13] or [cuda12]"
        ) from error
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        raise InputError("the cuda device", f"the driver answers {error}", "See vramscope doctor") from error
    if index >= count:
        raise InputError(f"cuda:{index}", f"the driver finds {count} GPUs", "See vramscope doctor")
    runtime.setDevice(index)
    stream = cupy.cuda.Stream(non_blocking=True)
    capability = cupy.cuda.Device(index).compute_capability
    memory = driver_memory(ctypes.CDLL(LIBRARY), index, runtime)
    products = open_library()
    if products is not None:
        products.start(runtime.setDevice, index)
    loader = KernelLoader(f"sm_{capability}", products=products)
    return Platform(
        *(runtime, stream, loader, int(capability) >= 90, memory),
        library=products is not None,
        staging=Staging(runtime, stream.ptr),
    )
