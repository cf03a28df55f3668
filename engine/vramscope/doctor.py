"""What is installed, which devices answer, which system libraries are missing, and what cures each."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.devices import driver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


OLDEST_PYTHON = (3, 11)

ENGINE_PACKAGES = (
    "numpy",
    "ml_dtypes",
    "onnx",
    "onnx-ir",
    "onnx-shape-inference",
    "msgspec",
    "platformdirs",
    "tokenizers",
    "jinja2",
    "gguf",
    "rich",
    "threadpoolctl",
)
"""What the engine cannot do without, by distribution name."""

GUI_PACKAGES = ("PySide6-Essentials", "pyqtgraph")
"""What the window needs: the ``gui`` extra."""

CUPY_PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "cupy")
"""CuPy comes as one distribution per CUDA generation; two of them overwrite each other's files."""

TOOLKIT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "NVRTC": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
        "cuBLASLt": ("nvidia-cublas", "nvidia-cublas-cu12"),
    }
)
"""Parts of the CUDA toolkit, and the distributions that bring them: one for each CUDA generation."""

WITHOUT: Mapping[str, str] = MappingProxyType(
    {"NVRTC": "kernels cannot be compiled", "cuBLASLt": "products of many rows take our slower kernels"}
)
"""What is lost without a part."""

FAULTY_QT = ("6.11.0", "6.11.1", "6.12.0")
"""Releases of PySide6 that abort or misbehave on some supported Python."""

OFFSCREEN_LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "libEGL.so.1": "libegl1",
        "libGL.so.1": "libgl1",
        "libglib-2.0.so.0": "libglib2.0-0",
        "libfontconfig.so.1": "libfontconfig1",
        "libxkbcommon.so.0": "libxkbcommon0",
        "libdbus-1.so.3": "libdbus-1-3",
    }
)
"""What Qt loads even without a display: soname to Debian package."""

X11_LIBRARIES: Mapping[str, str] = MappingProxyType(
    {
        "libxcb-cursor.so.0": "libxcb-cursor0",
        "libxcb-icccm.so.4": "libxcb-icccm4",
        "libxcb-keysyms.so.1": "libxcb-keysyms1",
        "libxcb-shape.so.0": "libxcb-shape0",
        "libxcb-xkb.so.1": "libxcb-xkb1",
        "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    }
)
"""What Qt loads in addition for a window on an X server."""


class State(Enum):
    """How one thing stands."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One examined thing.

    Attributes:
        name: what was looked at.
        state: how it stands.
        detail: the version, the size, or why it is missing or unknown.
        remedy: a command or a step that cures it; empty when there is nothing to do.
        needed: without it the engine itself does not work; the rest serves the window or a CUDA device.
    """

    name: str
    state: State
    detail: str
    remedy: str = ""
    needed: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was examined, in the order to show it."""

    rows: tuple[Row, ...]

    @property
    def engine_works(self) -> bool:
        """Nothing that the engine needs is missing."""
        return all(row.state is State.OK for row in self.rows if row.needed)


def examine() -> Report:
    """Looks at this machine and this environment; imports nothing heavy and changes nothing."""
    optional = (*GUI_PACKAGES, *CUPY_PACKAGES, *(name for names in TOOLKIT.values() for name in names))
    versions = {name: _version(name) for name in (*ENGINE_PACKAGES, *optional)}
    found = driver.query()
    cuda = cuda_extra(versions, found)
    return Report(
        (
            python_row(sys.version_info[:2]),
            *(package_row(name, versions[name], extra="", needed=True) for name in ENGINE_PACKAGES),
            *(package_row(name, versions[name], extra="gui") for name in GUI_PACKAGES),
            cupy_row(versions, extra=cuda),
            *(toolkit_row(name, versions, extra=cuda, loads=_loads) for name in TOOLKIT),
            host_row(),
            *cuda_rows(found),
            library_row("Qt libraries", OFFSCREEN_LIBRARIES, _loads),
            library_row("Qt libraries for an X display", X11_LIBRARIES, _loads),
            display_row(_display_sockets()),
        )
    )


def python_row(version: tuple[int, ...]) -> Row:
    """The running interpreter against the oldest supported one."""
    detail = f"{platform.python_version()} at {sys.executable}"
    if version >= OLDEST_PYTHON:
        return Row("Python", State.OK, detail, needed=True)
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return Row("Python", State.MISSING, detail, f"Use Python {oldest} or newer", needed=True)


def package_row(name: str, version: str, *, extra: str, needed: bool = False) -> Row:
    """An installed distribution; ``version`` is empty when it is absent, ``extra`` names what brings it."""
    wanted = f"vramscope[{extra}]" if extra else "vramscope"
    remedy = f"pip install --upgrade '{wanted}'"
    if not version:
        return Row(name, State.MISSING, "not installed", remedy, needed)
    if name in GUI_PACKAGES and version in FAULTY_QT:
        detail = f"{version} is installed, a release with known faults"
        return Row(name, State.MISSING, detail, remedy, needed)
    return Row(name, State.OK, version, needed=needed)


def cupy_row(versions: Mapping[str, str], *, extra: str) -> Row:
    """The one CuPy distribution that a CUDA device needs."""
    found = [f"{name} {versions[name]}" for name in CUPY_PACKAGES if versions[name]]
    if len(found) > 1:
        names = " ".join(name for name in CUPY_PACKAGES if versions[name])
        remedy = f"pip uninstall {names}, then install one of the extras cuda12, cuda13"
        return Row("CuPy", State.MISSING, f"{' and '.join(found)} overwrite each other", remedy)
    if not found:
        return Row("CuPy", State.MISSING, "not installed", f"pip install 'vramscope[{extra}]'")
    return Row("CuPy", State.OK, found[0])


def toolkit_row(name: str, versions: Mapping[str, str], *, extra: str, loads: Callable[[str], bool]) -> Row:
    """A part of the CUDA toolkit: installed for Python, or known to the dynamic linker."""
    found = [f"{item} {versions[item]}" for item in TOOLKIT[name] if versions[item]]
    generation = "12" if extra == "cuda12" else "13"
    library = f"lib{name.replace('NVRTC', 'nvrtc').replace('cuBLAS', 'cublas')}.so.{generation}"
    if found or loads(library):
        return Row(name, State.OK, found[0] if found else library)
    return Row(name, State.MISSING, f"not installed: {WITHOUT[name]}", f"pip install 'vramscope[{extra}]'")


def cuda_extra(versions: Mapping[str, str], found: driver.Driver) -> str:
    """The extra that fits the CuPy that is installed, else the one that the driver supports."""
    older = versions["cupy-cuda12x"] or found.version.startswith("12.")
    return "cuda12" if older else "cuda13"


def host_row() -> Row:
    """The host device: cores this process may use, memory of the machine in bytes."""
    cores = len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Row("host device", State.OK, f"{cores} cores, {total / 2**30:.1f} GiB of memory", needed=True)


def cuda_rows(found: driver.Driver) -> tuple[Row, ...]:
    """The CUDA driver and one row per GPU; without a driver, one row that says why."""
    if found.problem:
        return (Row("CUDA driver", State.MISSING, found.problem, found.remedy),)
    rows = [Row("CUDA driver", State.OK, f"supports CUDA {found.version}")]
    for gpu in found.gpus:
        detail = f"{gpu.memory_bytes:,} bytes, compute capability {gpu.compute_capability}"
        rows.append(Row(f"GPU {gpu.index}: {gpu.name}", State.OK, detail))
    return tuple(rows)


def library_row(name: str, libraries: Mapping[str, str], loads: Callable[[str], bool]) -> Row:
    """Whether the dynamic linker finds every library; the remedy is one command for all that it does not."""
    absent = [soname for soname in libraries if not loads(soname)]
    if not absent:
        return Row(name, State.OK, f"all {len(libraries)} found")
    packages = " ".join(_package(libraries[soname]) for soname in absent)
    sudo = "" if os.geteuid() == 0 else "sudo "
    return Row(name, State.MISSING, ", ".join(absent), f"{sudo}apt-get install -y {packages}")


def display_row(sockets: Iterable[Path]) -> Row:
    """Whether a window can open here; a display forwarded from elsewhere leaves no trace to look for."""
    found = ", ".join(map(str, sockets))
    if found:
        return Row("display", State.OK, found)
    remedy = "Without one, the command line does all but the window"
    return Row("display", State.UNKNOWN, "no X or Wayland socket on this machine", remedy)


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def _package(name: str) -> str:
    """Debian's name for a package on this release: since 2024 GLib's ends in ``t64``."""
    if name != "libglib2.0-0":
        return name
    try:
        release = platform.freedesktop_os_release()
        newest = {"debian": 12, "ubuntu": 23}[release["ID"]]
        renamed = float(release["VERSION_ID"]) >= newest + 1
    except (OSError, KeyError, ValueError):
        renamed = False
    return f"{name}t64" if renamed else name


def _display_sockets() -> tuple[Path, ...]:
    x11 = sorted(Path("/tmp/.X11-unix").glob("X*"))  # the place that X servers use
    wayland = sorted(Path(f"/run/user/{os.getuid()}").glob("wayland-[0-9]"))
    return (*x11, *wayland)
