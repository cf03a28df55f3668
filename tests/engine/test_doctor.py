"""The doctor names what is missing with its cure, and asks the CUDA driver without CuPy."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Protocol, cast

import pytest

from vramscope import doctor
from vramscope.devices import driver
from vramscope.doctor import State

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

REPOSITORY = Path(__file__).resolve().parents[2]


class Out(Protocol):
    """What ``ctypes.byref`` gives: the driver writes through it."""

    _obj: ctypes.c_int


GpuFacts = tuple[str, int, int, int]
H200: GpuFacts = ("NVIDIA H200", 143771 * 2**20, 9, 0)
ERRORS = {100: b"no CUDA-capable device is detected"}


def fake_functions(version: int, gpus: tuple[GpuFacts, ...]) -> dict[str, Callable[..., object]]:
    """The driver's functions that the query calls, answering through the same pointers."""

    def name(out: ctypes.Array[ctypes.c_char], size: int, device: int) -> None:
        out.value = gpus[device][0].encode()[: size - 1]

    def explain(code: int, out: Out) -> None:
        setattr(out._obj, "value", ERRORS[code])  # noqa: B010 # a char pointer, not the int that Out declares

    def write(value: Callable[..., int]) -> Callable[..., None]:
        def function(out: Out, *arguments: int) -> None:
            out._obj.value = value(*arguments)

        return function

    return {
        "cuInit": lambda flags: None,
        "cuDriverGetVersion": write(lambda: version),
        "cuDeviceGetCount": write(lambda: len(gpus)),
        "cuDeviceGet": write(lambda index: index),
        "cuDeviceGetName": name,
        "cuDeviceTotalMem_v2": write(lambda device: gpus[device][1]),
        "cuDeviceGetAttribute": write(
            lambda which, device: gpus[device][2] if which == 75 else gpus[device][3]
        ),
        "cuGetErrorString": explain,
    }


def query(
    version: int = 12080, gpus: tuple[GpuFacts, ...] = (H200,), failing: dict[str, int] | None = None
) -> driver.Driver:
    """Asks a fake driver in which each function of ``failing`` returns that code."""

    def returning(name: str, function: Callable[..., object]) -> Callable[..., int]:
        code = (failing or {}).get(name, 0)
        return lambda *arguments: code or bool(function(*arguments))

    functions = {name: returning(name, function) for name, function in fake_functions(version, gpus).items()}
    return driver.query(lambda _name: cast("ctypes.CDLL", SimpleNamespace(**functions)))


def no_library(name: str) -> ctypes.CDLL:
    raise OSError(name)


def test_the_driver_s_answer_keeps_every_byte() -> None:
    found = query(gpus=(("NVIDIA H200", 150755868672, 9, 0), ("Tesla T4", 15828320256, 7, 5)))
    assert found.version == "12.8"
    assert found.gpus == (
        driver.Gpu(0, "NVIDIA H200", 150755868672, "9.0"),
        driver.Gpu(1, "Tesla T4", 15828320256, "7.5"),
    )
    assert [row.name for row in doctor.cuda_rows(found)] == [
        "CUDA driver",
        "GPU 0: NVIDIA H200",
        "GPU 1: Tesla T4",
    ]


def test_without_a_driver_the_row_says_which_library() -> None:
    (row,) = doctor.cuda_rows(driver.query(no_library))
    assert (row.state, row.detail) == (State.MISSING, "libcuda.so.1 is not here")
    assert row.remedy


@pytest.mark.parametrize("function", ["cuInit", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceTotalMem_v2"])
def test_a_failing_driver_call_is_named_with_its_reason(function: str) -> None:
    found = query(failing={function: 100})
    assert found.problem == f"{function} failed with 100: no CUDA-capable device is detected"
    assert (found.version, found.gpus) == ("", ())


def test_an_error_that_the_driver_cannot_explain_keeps_its_number() -> None:
    found = query(failing={"cuInit": 4242, "cuGetErrorString": 1})
    assert found.problem == "cuInit failed with 4242: unknown error"


def test_missing_libraries_are_cured_by_one_command() -> None:
    libraries = {"libEGL.so.1": "libegl1", "libGL.so.1": "libgl1", "libdbus-1.so.3": "libdbus-1-3"}
    row = doctor.library_row("Qt libraries", libraries, lambda soname: soname == "libGL.so.1")
    assert (row.state, row.detail) == (State.MISSING, "libEGL.so.1, libdbus-1.so.3")
    assert row.remedy.removeprefix("sudo ") == "apt-get install -y libegl1 libdbus-1-3"
    assert doctor.library_row("Qt libraries", libraries, lambda _soname: True).state is State.OK


@pytest.mark.parametrize(
    ("release", "package"),
    [
        ({"ID": "debian", "VERSION_ID": "12"}, "libglib2.0-0"),
        ({"ID": "debian", "VERSION_ID": "13"}, "libglib2.0-0t64"),
        ({"ID": "ubuntu", "VERSION_ID": "22.04"}, "libglib2.0-0"),
        ({"ID": "ubuntu", "VERSION_ID": "24.04"}, "libglib2.0-0t64"),
        ({"ID": "gentoo"}, "libglib2.0-0"),
    ],
)
def test_glib_is_named_as_the_release_names_it(
    monkeypatch: pytest.MonkeyPatch, release: dict[str, str], package: str
) -> None:
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: release)
    row = doctor.library_row("Qt", {"libglib-2.0.so.0": "libglib2.0-0"}, lambda _soname: False)
    assert row.remedy.split()[-1] == package


def test_an_absent_package_names_the_extra_that_brings_it() -> None:
    row = doctor.package_row("pyqtgraph", "", extra="gui")
    assert (row.state, row.remedy) == (State.MISSING, "pip install --upgrade 'vramscope[gui]'")
    assert doctor.package_row("onnx", "1.23.2", extra="", needed=True).state is State.OK


def test_a_faulty_qt_counts_as_missing() -> None:
    row = doctor.package_row("PySide6-Essentials", "6.12.0", extra="gui")
    assert row.state is State.MISSING
    assert "6.12.0" in row.detail


NONE_INSTALLED = dict.fromkeys(doctor.CUPY_PACKAGES, "")


def test_two_cupys_overwrite_each_other() -> None:
    both = NONE_INSTALLED | {"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"}
    row = doctor.cupy_row(both, extra="cuda12")
    assert row.state is State.MISSING
    assert row.remedy.startswith("pip uninstall cupy-cuda12x cupy-cuda13x")


@pytest.mark.parametrize(("version", "extra"), [(12080, "cuda12"), (13000, "cuda13")])
def test_the_driver_chooses_the_cuda_extra(version: int, extra: str) -> None:
    assert doctor.cuda_extra(NONE_INSTALLED, query(version=version)) == extra


def test_an_installed_cupy_chooses_the_cuda_extra() -> None:
    assert doctor.cuda_extra(NONE_INSTALLED | {"cupy-cuda12x": "14.2.0"}, driver.Driver("13.0")) == "cuda12"


def test_a_display_is_seen_by_its_socket_and_never_denied() -> None:
    assert doctor.display_row([Path("/tmp/.X11-unix/X0")]).state is State.OK  # where X servers put it
    assert doctor.display_row([]).state is State.UNKNOWN


def test_an_old_python_is_refused() -> None:
    row = doctor.python_row((3, 10))
    assert (row.state, row.remedy) == (State.MISSING, "Use Python 3.11 or newer")


def test_this_machine_runs_the_engine() -> None:
    report = doctor.examine()
    assert report.engine_works
    assert all(row.detail for row in report.rows)
    assert all(row.remedy for row in report.rows if row.state is not State.OK)
    assert len({row.name for row in report.rows}) == len(report.rows)


def test_examining_imports_nothing_heavy() -> None:
    script = (
        "import sys; from vramscope.doctor import examine; examine();"
        "print({name.split('.')[0] for name in sys.modules} & {'numpy', 'onnx', 'cupy', 'PySide6', 'rich'})"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "set()"


def test_the_dev_script_and_the_doctor_know_the_same_libraries() -> None:
    script = (REPOSITORY / "packaging" / "dev").read_text(encoding="utf-8")
    named = dict(re.findall(r"(lib[\w.+-]+\.so\.\d+)=([\w.+-]+)", script))
    known = {**doctor.OFFSCREEN_LIBRARIES, **doctor.X11_LIBRARIES}
    assert known.items() <= named.items()
    assert {soname for soname in named if "wayland" not in soname} == set(known)


def test_every_engine_dependency_is_examined() -> None:
    text = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("\ndependencies = [")[1].split("]")[0]
    declared = {re.split(r"[<>=!~]", line)[0] for line in re.findall(r'"([^"]+)"', block)}
    assert declared == set(doctor.ENGINE_PACKAGES)


@pytest.mark.parametrize("name", doctor.TOOLKIT)
def test_a_part_of_the_toolkit_is_a_package_or_a_library(name: str) -> None:
    absent = dict.fromkeys(doctor.TOOLKIT[name], "")
    row = doctor.toolkit_row(name, absent, extra="cuda13", loads=lambda _library: False)
    assert (row.state, row.remedy) == (State.MISSING, "pip install 'vramscope[cuda13]'")
    row = doctor.toolkit_row(name, absent, extra="cuda12", loads=lambda library: library.endswith(".so.12"))
    assert row.state is State.OK
    versions = absent | {doctor.TOOLKIT[name][0]: "13.1"}
    row = doctor.toolkit_row(name, versions, extra="cuda13", loads=lambda _library: False)
    assert (row.state, row.detail) == (State.OK, f"{doctor.TOOLKIT[name][0]} 13.1")
