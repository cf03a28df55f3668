"""The window on a real X11 desktop: a file dragged in, 900×600, the main job by keyboard alone."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from ctypes.util import find_library
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import dragged_file
import pytest

from vramscope.resources import folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SUPPORT = Path(dragged_file.__file__).parent
PROGRAMS = ("Xvfb", "openbox", "xdotool")
PATIENCE = 120.0
SMALL = (900, 600)
SCREEN = "1280x900x24"

missing = [name for name in PROGRAMS if shutil.which(name) is None]
missing += [] if find_library("xcb-cursor") else ["libxcb-cursor"]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@contextmanager
def running(command: list[str], environment: dict[str, str], **more: Any) -> Iterator[subprocess.Popen[str]]:  # noqa: ANN401 - Popen's
    """A program that is ended at the end."""
    process = subprocess.Popen(command, env=environment, text=True, **more)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def screen() -> Iterator[str]:
    """A display of its own, whose number the server chooses."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", SCREEN, "-nolisten", "tcp"]
    with running(command, dict(os.environ), pass_fds=(writing,), stderr=subprocess.DEVNULL):
        os.close(writing)
        with os.fdopen(reading) as told:
            yield f":{told.readline().strip()}"


@dataclass
class Desktop:
    """A display with the window on it; keys and the mouse are the server's own."""

    environment: dict[str, str]
    lines: queue.Queue[str]
    seen: dict[str, Any]

    def until(self, what: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Waits until the window shows it."""
        deadline = time.monotonic() + PATIENCE
        while not (self.seen and holds(self.seen)):
            try:
                self.seen = json.loads(self.lines.get(timeout=max(deadline - time.monotonic(), 0.01)))
            except queue.Empty:
                pytest.fail(f"{what}: not within {PATIENCE:.0f} s; the window shows {self.seen}")
        return self.seen

    def tool(self, *words: object) -> str:
        """One call of xdotool."""
        command = ["xdotool", *map(str, words)]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, check=True, timeout=PATIENCE
        )
        return done.stdout

    def command(self, name: str) -> None:
        """Chooses a command by its name, by keyboard."""
        self.tool("key", "ctrl+shift+p")
        self.until("the palette", lambda now: now["palette"] and now["focus"] == "palette_line")
        self.tool("type", "--delay", 5, name)
        self.tool("key", "Return")
        self.until("the palette closes", lambda now: not now["palette"])


def collect(told: TextIO, lines: queue.Queue[str]) -> None:
    """Moves lines into a queue, which can be waited for with a limit."""
    for line in told:
        lines.put(line)


@pytest.fixture
def desktop(tmp_path: Path) -> Iterator[Desktop]:
    """The planned sample in a window of 900×600 at the upper left."""
    with ExitStack() as stack:
        environment = {
            **os.environ,
            "DISPLAY": stack.enter_context(screen()),
            "QT_QPA_PLATFORM": "xcb",
            "HOME": str(tmp_path),
            "XDG_CONFIG_HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")]),
        }
        stack.enter_context(running(["openbox"], environment, stderr=subprocess.DEVNULL))
        window = stack.enter_context(
            running(
                [
                    sys.executable,
                    "-m",
                    "watched_window",
                    "--theme",
                    "light",
                    "--language",
                    "en",
                    "--sample",
                    "tiny-llama",
                ],
                environment,
                stdout=subprocess.PIPE,
            )
        )
        lines: queue.Queue[str] = queue.Queue()
        assert window.stdout is not None
        reader = threading.Thread(target=collect, args=[window.stdout, lines])
        reader.start()
        stack.callback(reader.join)
        stack.callback(window.terminate)
        made = Desktop(environment, lines, {})
        shown = made.until("the sample planned", lambda now: now["planned"] and now["exposed"])
        made.tool("windowsize", "--sync", shown["window"], *SMALL)
        made.tool("windowmove", shown["window"], 0, 20)
        made.tool("windowactivate", "--sync", shown["window"])
        made.until("the small window", lambda now: tuple(now["size"]) == SMALL)
        yield made


def test_the_main_job_by_keyboard_alone_in_a_small_window(desktop: Desktop, tmp_path: Path) -> None:
    desktop.command("Prefill")
    desktop.until("the prefill", lambda now: now["idle"] and now["position"] > 0)
    desktop.tool("key", "F10")  # a step
    before = desktop.seen["position"]
    desktop.until("a step", lambda now: now["idle"] and now["position"] == before + 1)
    desktop.command("Capture")
    desktop.until("the capture", lambda now: now["idle"] and now["captured"])
    desktop.tool("key", "F8")
    desktop.until("the replays", lambda now: now["idle"] and now["replayed"] > 0)
    report = tmp_path / "by-keyboard.vramscope.json"
    desktop.command("Save report")
    desktop.until("the dialog", lambda now: now["dialog"] == "QFileDialog")
    desktop.tool("key", "ctrl+a")
    desktop.tool("type", "--delay", 5, report)
    desktop.tool("key", "Return")
    desktop.until("the report", lambda now: now["dialog"] == "NoneType" and now["idle"])
    saved = json.loads(report.read_text(encoding="utf-8"))
    assert saved["run"]["snapshot"]["steps_replayed"] == desktop.seen["replayed"]
    assert tuple(desktop.seen["size"]) == SMALL


def test_a_file_that_is_dragged_in_is_opened(desktop: Desktop) -> None:
    model = next((folder() / "samples" / "declines").glob("*.onnx"))
    left, top, width, height = dragged_file.PLACE
    command = [sys.executable, "-m", "dragged_file", str(model)]
    with running(command, desktop.environment, stdout=subprocess.PIPE) as source:
        told: queue.Queue[str] = queue.Queue()
        assert source.stdout is not None
        reader = threading.Thread(target=collect, args=[source.stdout, told])
        reader.start()
        assert told.get(timeout=PATIENCE) == "shown\n"
        desktop.tool("mousemove", left + width // 2, top + height // 2, "mousedown", 1)
        for place in range(left, left // 2, -60):  # a drag is many small moves
            desktop.tool("mousemove", "--sync", place, top + 200)
        assert told.get(timeout=PATIENCE) == "welcome\n"
        desktop.tool("mouseup", 1)
        desktop.until("the dropped file", lambda now: "declines" in now["title"] and now["planned"])
        source.terminate()
        reader.join()
