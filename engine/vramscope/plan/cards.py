"""The catalogue of cards: bytes, bandwidth and generation of each, and finding one by what a user types."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vramscope import resources
from vramscope.errors import ScenarioError

BRANDS = frozenset({"nvidia", "amd", "intel", "geforce", "radeon", "instinct", "tesla", "quadro"})
"""Words that drivers and users put before a card's name or leave out; they decide nothing."""

SUGGESTIONS = 6
"""How many near matches a refusal names."""


class MemorySource(Enum):
    """Where a card's number of bytes comes from."""

    DRIVER = "driver"
    """The total that the vendor's driver reports."""

    NOMINAL = "nominal"
    """The size printed on the box; the driver reports a little less."""


@dataclass(frozen=True, slots=True)
class Card:
    """One device memory that a plan is judged against.

    Attributes:
        name: the card's name without its vendor, unique in the catalogue.
        vendor: NVIDIA, AMD or Intel.
        architecture: the vendor's name for the chip generation.
        memory_bytes: the whole device memory, in bytes, as :attr:`memory_source` knows it.
        memory_source: whether a driver reported that number.
        bandwidth_bytes_per_second: the data sheet's peak of the device memory.
        compute_capability: CUDA's, such as ``9.0``; empty where CUDA does not run.
        aliases: other names that mean this card.
    """

    name: str
    vendor: str
    architecture: str
    memory_bytes: int
    memory_source: MemorySource
    bandwidth_bytes_per_second: int
    compute_capability: str
    aliases: tuple[str, ...]


def load_cards() -> tuple[Card, ...]:
    """Every card of ``resources/cards.json``, in the file's order: by vendor, kind and generation."""
    text = (resources.folder() / "cards.json").read_text(encoding="utf-8")
    return tuple(_card(row) for row in json.loads(text))


def find_card(text: str) -> Card:
    """The card that ``text`` names.

    Case, spaces, hyphens and brand words (``NVIDIA GeForce``) do not count. A full name or alias wins; else
    the one card that begins so.

    Args:
        text: a name, an alias, or the beginning of one.

    Raises:
        ScenarioError: no card or more than one is meant; the message names those that come near.
    """
    cards, wanted = load_cards(), _key(text)
    exact = [card for card in cards if wanted in _keys(card)]
    if exact:
        return exact[0]
    begun = [card for card in cards if wanted and any(key.startswith(wanted) for key in _keys(card))]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ScenarioError(f"card {text!r}", f"{len(begun)} cards begin so", _say(begun))
    raise ScenarioError(f"card {text!r}", "not in the catalogue", _say(_near(wanted, cards)))


def _card(row: dict[str, Any]) -> Card:
    fields = {**row, "memory_source": MemorySource(row["memory_source"]), "aliases": tuple(row["aliases"])}
    return Card(**fields)


def _key(text: str) -> str:
    words = re.findall(r"[a-z0-9]+", text.casefold())
    return "".join(word for word in words if word not in BRANDS)


def _keys(card: Card) -> tuple[str, ...]:
    return tuple(_key(name) for name in (card.name, *card.aliases))


def _near(wanted: str, cards: tuple[Card, ...]) -> list[Card]:
    """The cards whose names hold ``wanted`` or are spelt like it, nearest first."""
    owner = {key: card for card in reversed(cards) for key in _keys(card)}
    holding = [key for key in owner if wanted and wanted in key]
    alike = difflib.get_close_matches(wanted, owner, n=SUGGESTIONS)
    return list({owner[key].name: owner[key] for key in (*holding, *alike)}.values())


def _say(cards: list[Card]) -> str:
    if not cards:
        return "Name a card of the catalogue, or give a budget in bytes"
    names = ", ".join(card.name for card in cards[:SUGGESTIONS])
    more = f" and {len(cards) - SUGGESTIONS} more" if len(cards) > SUGGESTIONS else ""
    return f"Choose one of: {names}{more}"
