"""The journey without a display, as the command line makes it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from PySide6.QtGui import QImage

if TYPE_CHECKING:
    from pathlib import Path


def picture(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vramscope_app", "--picture", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_the_journey_ends_with_a_picture_and_0(tmp_path: Path) -> None:
    path = tmp_path / "window.png"
    done = picture(path, "--theme", "dark")
    assert done.returncode == 0, done.stderr
    image = QImage(str(path))
    assert image.width() > 1000
    assert (
        len({image.pixel(x, y) for x in range(0, image.width(), 7) for y in range(0, image.height(), 7)}) > 50
    )


def test_a_model_that_is_not_there_ends_with_1_and_says_which(tmp_path: Path) -> None:
    done = picture(tmp_path / "window.png", str(tmp_path / "absent.onnx"))
    assert done.returncode == 1
    assert "absent.onnx" in done.stderr
    assert (tmp_path / "window.png").is_file()


def test_a_picture_that_cannot_be_written_ends_with_1(tmp_path: Path) -> None:
    done = picture(tmp_path / "nowhere" / "window.png")
    assert done.returncode == 1
    assert "could not be written" in done.stderr
