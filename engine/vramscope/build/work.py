"""How long work reports and stops: the progress and cancel callbacks of everything under ``build``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")

POLL_SECONDS = 0.05
"""How often a wait asks whether the user wants to stop."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with the stage, what is done and the total (0: unknown), in the stage's unit, mostly bytes."""

Cancel: TypeAlias = Callable[[], None]
"""Called often (well under 200 ms apart); raises ``CancelledError`` when the user asked to stop."""


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that tells nobody."""


def never() -> None:
    """A cancel callback that never stops."""


def in_background(action: Callable[[], Result], cancel: Cancel) -> Result:
    """Runs one long call that cannot be interrupted on a thread of its own, and watches ``cancel`` meanwhile.

    When ``cancel`` raises, the call is left to finish alone and its result is dropped: ``action`` must
    touch nothing but what it returns.
    """
    results: list[Result] = []
    failures: list[BaseException] = []

    def body() -> None:
        try:
            results.append(action())
        except BaseException as error:  # raised again in the caller's thread
            failures.append(error)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    while thread.is_alive():
        cancel()
        thread.join(POLL_SECONDS)
    for failure in failures:
        raise failure
    return results[0]
