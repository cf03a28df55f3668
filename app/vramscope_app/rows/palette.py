"""The command palette's list: which commands match what was typed, the best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope_app.translation import tr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vramscope_app.commands import Command
    from vramscope_app.state import AppState


@dataclass(frozen=True, slots=True)
class Choice:
    """One command in the list."""

    id: str
    title: str
    shortcut: str
    tip: str
    enabled: bool


def plain_title(command: Command) -> str:
    """A title without its menu's marks."""
    return tr(command.title).replace("&", "").rstrip("…")


def fuzzy_score(text: str, typed: str) -> int | None:
    """How well the letters of ``typed`` stand in ``text`` in their order; None when they do not.

    Letters that begin a word or follow each other count more; a later first letter counts less.
    """
    letters = [letter for letter in typed.lower() if not letter.isspace()]
    best = _score(text.lower(), letters, _next)
    return _score(text.lower(), letters, str.find) if best is None else best


def _score(text: str, letters: list[str], find: Callable[[str, str, int], int]) -> int | None:
    score, place = 0, -1
    for letter in letters:
        found = find(text, letter, place + 1)
        if found < 0:
            return None
        begins = found == 0 or not text[found - 1].isalnum()
        score += 8 if found == place + 1 and place >= 0 else 6 if begins else 1
        score -= found if place < 0 else 0
        place = found
    return score


def _next(text: str, letter: str, start: int) -> int:
    """Where a letter stands next: at ``start``, else at the begin of a word, else anywhere; −1: nowhere."""
    if text[start : start + 1] == letter:
        return start
    for found in range(start, len(text)):
        if text[found] == letter and (found == 0 or not text[found - 1].isalnum()):
            return found
    return text.find(letter, start)


def choices(commands: Sequence[Command], state: AppState, typed: str) -> list[Choice]:
    """Matching commands: those that can be used now first, then by how well they match."""
    found = []
    for order, command in enumerate(commands):
        title = plain_title(command)
        tip = tr(command.tip)
        scores = [fuzzy_score(title, typed), fuzzy_score(tip, typed)]
        known = [score - 20 * place for place, score in enumerate(scores) if score is not None]
        if known:
            enabled = command.enabled(state)
            shortcut = command.shortcuts[0] if command.shortcuts else ""
            choice = Choice(command.id, title, shortcut, tip, enabled)
            found.append((not enabled, -max(known) if typed.strip() else 0, order, choice))
    return [choice for *_, choice in sorted(found, key=lambda item: item[:3])]
