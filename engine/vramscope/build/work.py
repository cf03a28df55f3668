"""How long work reports and stops: the progress and cancel callbacks of everything under ``build``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage, what is done and the total (0: unknown), in the stage's unit, mostly bytes."""

Cancel: TypeAlias = Callable[[], None]
"""Called often (well under 200 ms apart); raises ``CancelledError`` when the user asked to stop."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that tells nobody."""


def never() -> None:
    """A cancel callback that never stops."""
