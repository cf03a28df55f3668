"""Bytes, shares and rates as text for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.messages.planning import KV_CACHE, ScenarioInfo
from vramscope.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.messages.live import BlocksInfo
    from vramscope.messages.model import ModelInfo
    from vramscope.messages.planning import BytesFigure, ComponentInfo, PlanInfo

PREFIXES = {"bound": "≤ ", "growing": "grows to "}
"""What stands in front of bytes that are the most there may be."""

OWN_RUNTIME = ScenarioInfo().runtime


def asked_words(model: ModelInfo, info: PlanInfo) -> list[str]:
    """What was asked, a few words each: batch, context, extents, and the runtime where it is another one."""
    asked = info.scenario
    words = [f"batch {asked.batch}"]
    if model.contract is not None:
        source = f" ({info.context_source})" if info.context_source else ""
        words += [
            f"prompt {asked.prompt}",
            f"context {info.context}{source}",
            f"KV capacity {info.kv_capacity}",
        ]
    words += [f"{symbol} = {extent}" for symbol, extent in asked.extents.items()]
    if asked.prefill_chunk:
        words.append(f"prefill in passes of {asked.prefill_chunk}")
    if asked.block_size:
        words.append(f"blocks of {asked.block_size} tokens")
    if asked.kv_blocks:
        words.append(f"{asked.kv_blocks} KV blocks")
    if asked.weight_budget is not None:
        words.append(f"weight budget {format_bytes(asked.weight_budget)}")
    if asked.runtime != OWN_RUNTIME:
        words.append(f"{asked.runtime} runtime")
    words += [f"as if with {item.title}" for item in info.assumes]
    return words


def assumed_words(info: PlanInfo) -> list[str]:
    """What the plan assumes of another export, as sentences; none where it is of the file as it is."""
    if not info.assumes:
        return []
    titles = ", ".join(item.title for item in info.assumes)
    found = [f"Planned as if exported otherwise: {titles}; the file itself is not so."]
    if info.as_it_is is not None:
        found.append(f"The file as it is takes {format_bytes(info.as_it_is)}.")
    return [*found, *(f"How to export it with {item.title}: {item.how}" for item in info.assumes if item.how)]


def shown_components(components: Iterable[ComponentInfo]) -> list[ComponentInfo]:
    """What people are shown: every component but the KV cache of a model that has none."""
    return [item for item in components if item.name != KV_CACHE or item.figure.bytes != 0]


def figure_text(figure: BytesFigure) -> str:
    """Bytes with ``≤`` in front of a ceiling, and that they grow; ``unknown`` when unknown, never 0."""
    if figure.bytes is None:
        return "unknown"
    return PREFIXES.get(figure.certainty, "") + format_bytes(figure.bytes)


def after_text(headroom: int | None) -> str:
    """Where a suggestion leads: a saving alone does not say whether it fits then."""
    if headroom is None:
        return "–"
    return (
        f"fits, {format_bytes(headroom)} to spare" if headroom >= 0 else f"short by {format_bytes(-headroom)}"
    )


def blocks_text(use: BlocksInfo) -> str:
    """How many blocks of a paged cache are taken, and how much of them is used."""
    many = f"{use.taken:,} of {use.blocks:,} blocks of {use.block_size:,} tokens"
    return f"{many}; {use.used:,} of {use.held:,} held tokens used"


def difference_text(size: int | None) -> str:
    """A difference with its sign; a dash where a side is unknown or missing."""
    if size is None:
        return "–"
    return f"+{format_bytes(size)}" if size > 0 else format_bytes(size)


def percent_text(difference: int | None, whole: int | None) -> str:
    """A difference as a part of the whole, ``×12`` where it is tenfold; a dash where there is no whole."""
    if difference is None or not whole:
        return "–"
    if difference >= 10 * whole:
        return f"×{(whole + difference) / whole:,.0f}"
    return f"{100 * difference / whole:+.1f} %".replace("-", "−")


def rate_text(rate: float | None) -> str:
    """Tokens a second; a dash before anything ran."""
    return "–" if rate is None else f"{rate:,.1f} tok/s"


def range_text(low: int, high: int | None) -> str:
    """An interval of extents; one number when both ends agree."""
    if high is None:
        return f"{low} to ∞"
    return str(high) if low == high else f"{low} to {high}"
