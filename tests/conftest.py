"""What every test can use: the shared models' folder, and Qt off-screen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("QT_SCALE_FACTOR", "1")
os.environ.setdefault("QT_FONT_DPI", "96")

REPOSITORY = Path(__file__).resolve().parents[1]
SHARED = REPOSITORY.parent / "shared"


@pytest.fixture(scope="session")
def shared_models() -> Path:
    """The folder of third-party models; the test is skipped where it is not there."""
    folder = SHARED / "models"
    if not folder.is_dir():
        pytest.skip(f"the models beside the checkout are not there: {folder}")
    return folder
