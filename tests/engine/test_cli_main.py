"""The command line's frame: help, exit codes, errors on the screen, start-up."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from vramscope.cli import doors, screen
from vramscope.cli import main as cli
from vramscope.cli.complaints import complain
from vramscope.cli.parser import build_parser
from vramscope.errors import CancelledError, InputError, UnboundedAxisError, VramscopeError
from vramscope.server.failures import error_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMANDS = sorted(cli.COMMANDS)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vramscope", *words], capture_output=True, text=True, check=False
    )


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "examples:" in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_teaches_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main([command, "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"vramscope {command}" in text.partition("examples:")[2]


def test_every_parsed_command_has_a_function() -> None:
    (subparsers,) = (
        action for action in build_parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    assert sorted(subparsers.choices) == COMMANDS


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["dance"], "dance"),
        (["plan"], "MODEL"),
        (["plan", "m", "--budget", "lots"], "lots"),
        (["plan", "m", "--max", "batch"], "batch"),
        (["plan", "m", "--batch", "-2"], "-2"),
        (["run", "m", "--tokens", "a,b"], "a,b"),
        (["run", "m", "--tokens", "1", "--prompt", "x"], "--prompt"),
        (["build", "c.json", "out", "--precision", "fp8"], "fp8"),
    ],
)
def test_a_wrong_option_is_named_and_exits_with_2(
    words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert named in capsys.readouterr().err


def raising(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def command(_arguments: argparse.Namespace) -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("the thing", "the reason", "the cure"), 2),
        (VramscopeError("the thing", "the reason", "the cure"), 2),
        (CancelledError("the thing", "the reason", "the cure"), 130),
        (KeyboardInterrupt(), 130),
        (FileNotFoundError(2, "No such file", "the thing"), 2),
        (MemoryError(), 2),
        (RuntimeError("the thing"), 3),
    ],
)
def test_each_error_has_its_exit_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doors, "doctor", raising(error))
    assert cli.main(["doctor"]) == code
    said = capsys.readouterr().err
    assert said
    if isinstance(error, VramscopeError):
        assert all(part in said for part in ("the thing", "the reason", "the cure"))


def test_with_json_an_error_is_a_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = UnboundedAxisError("axis 0 of x", "nothing bounds n", "Give n a maximum", "reshape", symbol="n")
    arguments = argparse.Namespace(command="plan", json=True)
    assert complain(error, arguments) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "UnboundedAxis"
    assert document["error"]["details"]["symbol"] == "n"
    assert document["error"]["node"] == "reshape"


def test_an_error_is_told_as_what_why_where_and_remedy() -> None:
    info = error_info(InputError("model.onnx", "it is cut short", "Copy it again", "node7"), "open")
    assert info.text().splitlines() == [
        "error: model.onnx",
        "  why:    it is cut short",
        "  where:  node node7",
        "  remedy: Copy it again",
    ]


def test_a_defect_keeps_its_traceback() -> None:
    with pytest.raises(RuntimeError) as caught:
        raising(RuntimeError("boom"))(argparse.Namespace())
    info = error_info(caught.value, "plan")
    assert info.code == "Internal"
    assert info.what == "plan"
    assert "boom" in info.why
    assert "test_cli_main" in info.details["traceback"]
    assert "test_cli_main" in info.text()


def test_only_slow_stages_are_told_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 0.1, 0.2, 5.0, 5.5, 7.5))
    monkeypatch.setattr(screen, "monotonic", lambda: next(clock))
    meter = screen.Meter()
    for stage, done in (("read", 0), ("read", 9), ("load", 0), ("load", 50), ("load", 60), ("load", 100)):
        meter(stage, done, 100)
    meter.clear()
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["load 50 % …", "load 100 % …"]
    assert captured.out == ""


def test_the_version_is_printed() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("vramscope ")


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys\nfrom vramscope.cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('numpy','onnx','rich','msgspec','tokenizers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_window_s_absence_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doors, "find_spec", lambda _name: None)
    assert cli.main(["gui"]) == 2
    assert "vramscope[gui]" in capsys.readouterr().err


def test_the_window_replaces_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def become(_program: str, words: list[str]) -> None:
        seen.append(words)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", become)
    with pytest.raises(SystemExit):
        cli.main(["gui", str(tmp_path)])
    with pytest.raises(SystemExit):
        cli.main(["gui", "--sample", "tiny-llama", "--theme", "dark", "--card", "6 GiB", "--batch", "2"])
    window = [sys.executable, "-m", "vramscope_app"]
    assert seen[0] == [*window, "--", str(tmp_path)]
    assert seen[1] == [*window, "--sample=tiny-llama", "--theme=dark", "--card=6 GiB", "--batch=2"]


def test_the_window_takes_every_option_that_is_passed_on() -> None:
    window = pytest.importorskip("vramscope_app.main", reason="the window's packages are not installed")
    words = ["gui", "--picture", "a.png", "--context", "4096", "--card", "RTX 4090", "--", "-odd.onnx"]
    options = window.parse(doors.window_words(build_parser().parse_args(words)))
    assert (options.picture, options.context, options.card) == ("a.png", 4096, "RTX 4090")
    assert options.path == "-odd.onnx"


def test_doctor_s_document_is_one() -> None:
    done = run("doctor", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == (0 if document["engine_works"] else 2)
    assert any(row["name"] == "numpy" for row in document["rows"])


def test_a_reader_that_leaves_ends_a_command_with_141_and_no_traceback() -> None:
    script = (
        "import sys\nfrom vramscope.cli import doors\nfrom vramscope.cli.main import main\n"
        "def leave(_):\n    raise BrokenPipeError\n"
        "doors.doctor = leave\nsys.argv = ['vramscope', 'doctor']\nsys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_ends_a_command_within_200_ms_with_130() -> None:
    script = (
        "import sys, time\nfrom vramscope.cli import doors\nfrom vramscope.cli.main import main\n"
        "def wait(_):\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "doors.doctor = wait\nsys.argv = ['vramscope', 'doctor']\nsys.exit(main())"
    )
    # A runner in the background hands down an ignored SIGINT; a terminal does not.
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + script
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert time.monotonic() - started < 2  # 200 ms and room for a busy machine
