"""Drafts of the tokens to come, looked up in what was said already: no second model."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_MATCH = 4
"""Tokens of the end that are looked for; a longer match says more about what follows."""


def look_up(history: Sequence[int], count: int) -> tuple[int, ...]:
    """What followed the latest earlier occurrence of the history's end, at most ``count`` tokens.

    The longest end wins, down to a single token; empty when not even that occurred before.
    """
    end = len(history)
    for length in range(min(LONGEST_MATCH, end - 1), 0, -1):
        wanted = tuple(history[end - length :])
        for start in range(end - length - 1, -1, -1):
            if tuple(history[start : start + length]) == wanted:
                return tuple(history[start + length : start + length + count])
    return ()
