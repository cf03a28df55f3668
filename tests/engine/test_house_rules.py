"""The rules that hold for every file of the project: sizes, layers, docstrings, layout and clean text."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
ENGINE = REPOSITORY / "engine" / "vramscope"
APP = REPOSITORY / "app" / "vramscope_app"

LONGEST_FILE = 400

TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "LICENSE",
    "README.md",
    "app",
    "engine",
    "packaging",
    "pyproject.toml",
    "resources",
    "tests",
}

READS_ENVIRONMENT = {ENGINE / "build" / "fetch.py"}
"""The fetcher alone: proxies and certificates of a download are the environment's business."""


@cache
def project_files(*kinds: str) -> tuple[Path, ...]:
    """What git tracks or would track; every file that is not ignored by name where there is no git."""
    kinds = kinds or ("--cached", "--others")
    command = ["git", "-C", str(REPOSITORY), "ls-files", "-z", "--exclude-standard", *kinds]
    try:
        listing = subprocess.run(command, capture_output=True, check=True, text=True).stdout
        found = [REPOSITORY / name for name in listing.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = list(_walk())
    return tuple(sorted(path for path in found if path.is_file()))


def _walk() -> list[Path]:
    ignored = {
        line.strip("/\n") for line in (REPOSITORY / ".gitignore").read_text(encoding="utf-8").splitlines()
    }
    found: list[Path] = []
    for folder, names, files in os.walk(REPOSITORY):
        names[:] = [
            name for name in names if name not in ignored | {".git"} and not name.endswith(".egg-info")
        ]
        found.extend(Path(folder, name) for name in files if name not in ignored)
    return found


def python_files(*folders: str) -> list[Path]:
    roots = tuple(f"{REPOSITORY / folder}{os.sep}" for folder in folders)
    return [path for path in project_files() if path.suffix == ".py" and str(path).startswith(roots)]


def relative(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(REPOSITORY)) for path in paths]


def test_there_is_something_to_check() -> None:
    assert len(python_files("engine", "app", "tests")) > 20


def test_no_file_is_longer_than_a_reader_s_patience() -> None:
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for path in python_files("engine", "app", "tests")
    }
    assert relative([path for path, lines in lengths.items() if lines > LONGEST_FILE]) == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        path
        for path in python_files("engine", "app", "tests")
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert relative(silent) == []


def reads_environment(source: str) -> bool:
    """Whether the code asks for environment variables, through ``os`` or names taken from it."""
    names = {"environ", "environb", "getenv", "getenvb"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in names:
            return True
        if (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and names & {item.name for item in node.names}
        ):
            return True
    return False


@pytest.mark.parametrize(
    ("source", "guilty"),
    [
        ("import os\nos.environ['A']", True),
        ("from os import getenv", True),
        ("import os as system\nsystem.getenv('A')", True),
        ("'os.environ is not read here'", False),
    ],
)
def test_the_environment_check_sees_what_it_should(source: str, guilty: bool) -> None:
    assert reads_environment(source) is guilty


def test_the_engine_reads_no_environment_variable() -> None:
    guilty = [
        path
        for path in python_files("engine/vramscope")
        if path not in READS_ENVIRONMENT and reads_environment(path.read_text(encoding="utf-8"))
    ]
    assert relative(guilty) == []


def modules_after(statement: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after the statement."""
    script = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(answer.stdout.split())


HEAVY = {
    "numpy",
    "onnx",
    "onnx_ir",
    "ml_dtypes",
    "sympy",
    "tokenizers",
    "rich",
    "cupy",
    "PySide6",
    "shiboken6",
}


@pytest.mark.parametrize(
    "statement", ["import vramscope", "import vramscope.protocol", "import vramscope.doctor"]
)
def test_the_doors_import_nothing_heavy(statement: str) -> None:
    assert modules_after(statement) & HEAVY == set()


def test_the_window_starts_the_engine_before_it_imports_what_draws() -> None:
    assert modules_after("import vramscope_app.run") & {"numpy", "pyqtgraph", "onnx"} == set()


def test_importing_the_plan_brings_no_device_and_no_window() -> None:
    assert (
        modules_after("import vramscope.plan.cards, vramscope.plan.types") & {"cupy", "cuda", "PySide6"}
        == set()
    )


def test_the_readme_s_commands_exist() -> None:
    for command in ("packaging/dev", ".ci/run"):
        assert os.access(REPOSITORY / command, os.X_OK), command
    help_text = subprocess.run(
        [REPOSITORY / "packaging" / "dev", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "packaging/dev run" in help_text
    assert "packaging/dev test" in help_text


def test_the_readme_shows_the_two_commands_first() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    if not text:
        pytest.skip("the README is not written yet")
    first_screen = "\n".join(text.splitlines()[:40])
    assert "packaging/dev run" in first_screen
    assert "packaging/dev test" in first_screen


def test_ci_runs_exactly_the_test_command() -> None:
    lines = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith("#")]
    assert commands[0] == "set -euo pipefail"
    assert len(commands) == 2
    assert commands[1].endswith('packaging/dev" test')


def test_the_top_level_holds_what_the_design_shows() -> None:
    top = {path.relative_to(REPOSITORY).parts[0] for path in project_files("--cached")}
    assert top - TOP_LEVEL == set()
    assert TOP_LEVEL - top == set()


def test_tests_and_packaging_are_no_packages() -> None:
    for folder in (
        "tests",
        "tests/engine",
        "tests/app",
        "tests/story",
        "tests/gpu",
        "packaging",
        "engine",
        "app",
    ):
        assert not (REPOSITORY / folder / "__init__.py").exists(), folder


def test_test_files_have_names_of_their_own() -> None:
    names = [path.name for path in python_files("tests") if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


LOCAL_PATH = re.compile(r"(?<![\w.])/(?:work|home/\w+|root)/")
"""A path that exists on one machine only."""


def local_paths(text: str) -> list[str]:
    return [line.strip()[:120] for line in text.splitlines() if LOCAL_PATH.search(line)]


def test_the_local_path_check_sees_what_it_should() -> None:
    assert local_paths("see /" + "work/x\nfine\n'/" + "home/somebody/y'") != []
    assert local_paths("a frame/work/x\nhttps://example.com/root/x\n/usr/share/x") == []


def test_text_speaks_of_the_project_alone() -> None:
    texts = {path: path.read_bytes() for path in project_files() if path != Path(__file__)}
    found = {
        str(path.relative_to(REPOSITORY)): lines
        for path, data in texts.items()
        if b"\0" not in data and (lines := local_paths(data.decode(errors="replace")))
    }
    assert found == {}


def test_text_files_end_with_one_newline_and_have_unix_line_ends() -> None:
    odd = []
    for path in python_files("engine", "app", "tests"):
        data = path.read_bytes()
        if b"\r" in data or (data and not data.endswith(b"\n")) or data.endswith(b"\n\n"):
            odd.append(path)
    assert relative(odd) == []


def test_every_suppression_gives_its_reason() -> None:
    bare = re.compile(r"#\s*(?:noqa(?:: [A-Z0-9, ]+)?|type: ignore(?:\[[\w, -]+\])?)\s*$")
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}"
        for path in python_files("engine", "app", "tests")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
