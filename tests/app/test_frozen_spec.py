"""The frozen build's recipe against the source: what is imported by name, read as a file, or left out."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCES = {"vramscope": REPOSITORY / "engine", "vramscope_app": REPOSITORY / "app"}
BY_NAME = {
    "vramscope/__init__.py": "vramscope",
    "vramscope/cli/main.py": "vramscope",
    "vramscope/ops/reference.py": "onnx.reference",
}
"""Files that import modules whose names they compute, and the package in which those are."""
OF_THE_GPU = "vramscope/devices/cuda/"
"""Here CuPy may be imported: the build leaves it out, and says so."""


@dataclass
class Build:
    """What the recipe asks PyInstaller for."""

    hidden: dict[str, list[str]] = field(default_factory=dict)
    excludes: set[str] = field(default_factory=set)
    datas: set[Path] = field(default_factory=set)

    def analysed(self, scripts: list[str], **asked: Any) -> SimpleNamespace:  # noqa: ANN401 - PyInstaller's
        """Stands for ``Analysis``."""
        (script,) = scripts
        assert Path(script).is_file()
        self.hidden[Path(script).name] = asked["hiddenimports"]
        self.excludes |= set(asked["excludes"])
        for source, _ in asked["datas"]:
            self.datas |= {Path(source), *Path(source).rglob("*")}
        return SimpleNamespace(pure=None, scripts=None, binaries=None, datas=None)


def data_files(package: str, includes: list[str]) -> list[tuple[str, str]]:
    """What PyInstaller's ``collect_data_files`` finds."""
    folder = SOURCES[package] / package
    return [(str(path), "") for pattern in includes for path in folder.glob(pattern)]


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    """The recipe, run with everything of PyInstaller's replaced by a note of what was asked."""
    made = Build()
    hooks = ModuleType("PyInstaller.utils.hooks")
    vars(hooks).update(
        collect_submodules=lambda name: [name],
        collect_data_files=data_files,
        copy_metadata=lambda _: [],
    )
    for name, module in (
        ("PyInstaller", ModuleType("PyInstaller")),
        ("PyInstaller.utils", ModuleType("PyInstaller.utils")),
        ("PyInstaller.utils.hooks", hooks),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    names = {
        "SPECPATH": str(REPOSITORY / "packaging"),
        "Analysis": made.analysed,
        "EXE": lambda *_, **__: None,
        "PYZ": lambda *_, **__: None,
        "COLLECT": lambda *_, **__: None,
    }
    path = REPOSITORY / "packaging" / "vramscope.spec"
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return made


@cache
def modules() -> dict[str, ast.Module]:
    """Every source file of the engine and the window, by its place in its source root."""
    return {
        path.relative_to(root).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for package, root in SOURCES.items()
        for path in (root / package).rglob("*.py")
    }


def imported(tree: ast.Module) -> set[str]:
    """Modules that a file's import statements name, wherever in it they stand."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{item.name}" for item in node.names)}
    return found


def computed(tree: ast.Module) -> bool:
    """Whether a file imports modules whose names do not stand in it."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(
        ast.unparse(call.func) in {"import_module", "importlib.import_module", "__import__"}
        and not isinstance(call.args[0], ast.Constant)
        for call in calls
    )


def below(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_modules_that_are_imported_by_a_computed_name_are_in_the_build(build: Build) -> None:
    assert {name for name, tree in modules().items() if computed(tree)} == set(BY_NAME)
    assert set(BY_NAME.values()) <= set(build.hidden["start_engine.py"])
    assert build.hidden["start_app.py"] == ["vramscope_app"]


def test_nothing_that_the_source_imports_is_left_out(build: Build) -> None:
    trees = {name: tree for name, tree in modules().items() if not name.startswith(OF_THE_GPU)}
    left_out = {
        (name, module)
        for name, tree in trees.items()
        for module in imported(tree)
        if below(module, build.excludes)
    }
    assert left_out == set()


def test_every_file_that_is_no_module_is_in_the_build(build: Build) -> None:
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "engine", "app", "resources"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this checkout is no git repository")
    needed = {
        REPOSITORY / name
        for name in listed.stdout.split("\0")
        if name and not name.endswith((".py", "py.typed"))
    }
    assert len(needed) > 50
    assert needed - build.datas == set()
