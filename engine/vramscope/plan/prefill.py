"""Prompts that are prefilled in several passes of few widths (semantics 2.9).

A pass over the whole prompt needs activations for all of it, and every length of prompt is another set of
shapes to prepare. Under a scenario's ``prefill_chunk`` no pass is wider than that, and the last one takes the
smallest of three widths that holds the rest: behind the prompt stand tokens that no later step reads. So the
arena is bounded and at most three shapes are prepared, beside the one of a decode step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vramscope.errors import ScenarioError

if TYPE_CHECKING:
    from vramscope.graph.model import DecoderContract
    from vramscope.plan.types import Scenario

STEPS = 3
"""Widths of a ladder."""
NARROWER = 4
"""Each is this part of the one before."""


class Pass(NamedTuple):
    """Tokens ``[start, start + tokens)`` of the prompt, in a pass of ``width`` positions."""

    start: int
    tokens: int
    width: int


def ladder(chunk: int) -> tuple[int, ...]:
    """The widths of passes, the widest first, at most three."""
    return tuple(dict.fromkeys(-(-chunk // NARROWER**step) for step in range(STEPS)))


def widest_pass(prompt: int, chunk: int) -> int:
    """Positions of the widest pass over a prompt; all of it where ``chunk`` is 0."""
    if chunk == 0:
        return prompt
    return min((width for width in ladder(chunk) if width >= prompt), default=chunk)


def room_for(scenario: Scenario, tokens: int) -> Scenario:
    """The scenario that plans a prompt of so many tokens: this one while its widest pass is wide enough."""
    planned, needed = (widest_pass(item, scenario.prefill_chunk) for item in (scenario.prompt, tokens))
    return scenario if needed <= planned else replace(scenario, prompt=tokens)


def passes(length: int, chunk: int, capacity: int, *, padded: bool) -> tuple[Pass, ...]:
    """How a prompt is taken.

    Args:
        length: tokens of the prompt.
        chunk: the widest pass; 0: one pass, as wide as the prompt.
        capacity: positions of the cache: no pass reaches beyond.
        padded: whether the last pass may be wider than what is left; else the rest is taken in ever narrower
            passes, down to single tokens.
    """
    if chunk == 0:
        return (Pass(0, length, length),)
    found: list[Pass] = []
    start = 0
    while start < length:
        rest = length - start
        fitting = [width for width in (*ladder(chunk), 1) if width <= capacity - start]
        holding = [width for width in fitting if width >= rest] if padded else []
        width = min(holding) if holding else max(width for width in fitting if width <= rest)
        found.append(Pass(start, min(rest, width), width))
        start += width
    return tuple(found)


def check_chunk(contract: DecoderContract, scenario: Scenario) -> None:
    """Passes where the prompt may be taken in passes as the scenario says.

    Raises:
        ScenarioError: a pass behind another one is no pass of the same shapes in this graph.
    """
    why = ""
    if scenario.prefill_chunk == 0:
        return
    if not contract.pads_mask or any(pair.form.moving for pair in contract.kv):
        why = "the length of this graph's cache is a shape, so every pass would have shapes of its own"
    elif any(pair.window for pair in contract.kv):
        why = "a sliding cache holds no more than its window, and a pass may reach beyond"
    if why:
        raise ScenarioError(
            f"prefill in passes of {scenario.prefill_chunk:,} tokens", why, "Prefill the prompt in one pass"
        )
