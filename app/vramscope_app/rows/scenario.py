"""The scenario as the window edits it: the context slider's scale, the card list, applied suggestions."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import msgspec

from vramscope_app.text import parse_bytes, short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.model import CardInfo, ModelInfo
    from vramscope.messages.planning import ScenarioInfo

SLIDER_STEPS = 1000
NO_CARD = marked("No card")
OPEN_LIMIT = 131_072
"""The slider's end for a model that names no limit of its own."""
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""What the batch slider offers."""
OTHER_BATCHES = 3
LARGEST_COUNT = 2**31 - 1
PAGED = "paged"
"""The form of a cache in blocks."""
SMALLEST_BARE = 2**20
"""A smaller number without a unit is no amount of a card's memory."""


def is_paged(model: ModelInfo | None) -> bool:
    """Whether a model keeps its KV cache in blocks of one pool."""
    contract = None if model is None else model.contract
    return contract is not None and any(pair.form == PAGED for pair in contract.kv)


def context_limit(model: ModelInfo | None) -> int:
    """The largest context that the slider offers."""
    if model is None or model.contract is None:
        return OPEN_LIMIT
    return model.contract.context_limit or OPEN_LIMIT


def slider_to_context(place: int, limit: int) -> int:
    """Tokens for a place of the slider: each step multiplies; round numbers, from 16 to the limit."""
    if place >= SLIDER_STEPS:
        return limit
    low = min(16, limit)
    tokens: float = low * math.pow(limit / low, place / SLIDER_STEPS)
    grain = max(1, 1 << max(int(tokens).bit_length() - 5, 0))
    return max(low, min(limit, round(tokens / grain) * grain))


def context_to_slider(context: int, limit: int) -> int:
    """The place of a number of tokens; 0 (the model's own limit) is the end."""
    low = min(16, limit)
    if context <= 0 or context >= limit:
        return SLIDER_STEPS
    if context <= low:
        return 0
    return round(SLIDER_STEPS * math.log(context / low) / math.log(limit / low))


def card_label(card: CardInfo) -> str:
    """A card in the list."""
    return f"{card.name} · {short_bytes(card.memory_bytes)}"


def budget_of(text: str) -> int | None:
    """An amount of memory to judge against; None for a name, also for one such as ``4090``."""
    size = parse_bytes(text)
    bare = text.replace(",", "").strip().isdecimal()
    return None if size is None or (bare and size < SMALLEST_BARE) else size


def choose_card(scenario: ScenarioInfo, text: str, cards: Sequence[CardInfo]) -> ScenarioInfo:
    """The scenario with the card, the budget or nothing that was chosen or typed.

    What the list does not have goes to the engine as it is: it knows other names of cards, and says which
    ones are near to what is none.
    """
    typed = text.strip()
    if not typed or typed == tr(NO_CARD):
        return msgspec.structs.replace(scenario, card="", budget=None)
    wanted = typed.lower()
    for card in cards:
        if wanted in (card.name.lower(), card_label(card).lower()):
            return msgspec.structs.replace(scenario, card=card.name, budget=None)
    ending = [card for card in cards if card.name.lower().endswith(f" {wanted}")]
    if len(ending) == 1:
        return msgspec.structs.replace(scenario, card=ending[0].name, budget=None)
    budget = budget_of(typed)
    if budget:
        return msgspec.structs.replace(scenario, card="", budget=budget)
    return msgspec.structs.replace(scenario, card=typed, budget=None)


def chosen_card(scenario: ScenarioInfo, cards: Sequence[CardInfo]) -> str:
    """What the card list shows for a scenario."""
    if scenario.budget is not None:
        return short_bytes(scenario.budget)
    for card in cards:
        if card.name == scenario.card:
            return card_label(card)
    return scenario.card or tr(NO_CARD)


def wished(scenario: ScenarioInfo, changes: Mapping[str, Any]) -> ScenarioInfo:
    """A scenario with other fields; a prompt that a shorter context cannot hold becomes half of it."""
    changed = msgspec.structs.replace(scenario, **changes)
    room = max(changed.context // 2, 1) if changed.context else changed.prompt
    return msgspec.structs.replace(changed, prompt=min(changed.prompt, room))


def target(text: str) -> dict[str, Any]:
    """The fields of a scenario for a card's name or an amount such as ``6 GiB``; none for nothing."""
    if not text.strip():
        return {}
    budget = budget_of(text)
    return {"budget": budget, "card": ""} if budget else {"budget": None, "card": text.strip()}


def slider_to_batch(place: int) -> int:
    """Sequences for a place of the batch slider: 1, 2, 3, 4, 6, 8, 12 and so on."""
    return BATCHES[max(0, min(place, len(BATCHES) - 1))]


def batch_to_slider(batch: int) -> int:
    """The place of a number of sequences, or of the last that is not more."""
    return max(bisect_right(BATCHES, batch) - 1, 0)


def apply_change(scenario: ScenarioInfo, change: Mapping[str, int | str]) -> ScenarioInfo:
    """A scenario after a suggestion; fields it does not know are left alone, and so are maxima.

    A suggested maximum names its symbol only: the number is the user's to give. A suggested export joins
    those that are assumed already.
    """
    fields = set(scenario.__struct_fields__) - {"maxima", "as_if"}
    known: dict[str, Any] = {name: value for name, value in change.items() if name in fields}
    if "as_if" in change:
        known["as_if"] = list(dict.fromkeys((*scenario.as_if, str(change["as_if"]))))
    return msgspec.structs.replace(scenario, **known)


def without(scenario: ScenarioInfo, *rewrites: str) -> ScenarioInfo:
    """A scenario that does not assume these exports any more."""
    kept = [item for item in scenario.as_if if item not in rewrites]
    return msgspec.structs.replace(scenario, as_if=kept)


def declared(scenario: ScenarioInfo, symbol: str, text: str) -> ScenarioInfo:
    """With a symbol's maximum as it was typed; empty takes it back, no number changes nothing."""
    maxima = dict(scenario.maxima)
    digits = text.replace(",", "").replace(" ", "")
    if not digits:
        maxima.pop(symbol, None)
    elif digits.isdecimal() and 0 < int(digits) < 2**63:
        maxima[symbol] = int(digits)
    return msgspec.structs.replace(scenario, maxima=maxima)


def other_batches(batch: int) -> list[int]:
    """Batches to compare with: one sequence, half, twice and four times as many."""
    wanted = dict.fromkeys((1, batch // 2, batch * 2, batch * 4))
    return [item for item in wanted if item >= 1 and item != batch][:OTHER_BATCHES]
