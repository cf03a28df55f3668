"""What makes a graph a decoder: what each input is fed with, which pairs are KV, where the logits are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import bit_width
from vramscope.graph.expr import Symbol
from vramscope.graph.kvcache import HeadFacts, find_pairs
from vramscope.graph.limits import context_limit
from vramscope.graph.links import link
from vramscope.graph.locate import table
from vramscope.graph.masks import padding_refusal
from vramscope.graph.model import DecoderContract, Feed, KvForm, Limit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.links import Links
    from vramscope.graph.model import KvPair, Program, Value

_FEEDS: Mapping[str, Feed] = {
    "input_ids": Feed.TOKENS,
    "tokens": Feed.TOKENS,
    "decoder_input_ids": Feed.TOKENS,
    "attention_mask": Feed.MASK,
    "position_ids": Feed.POSITIONS,
    "positions": Feed.POSITIONS,
    "write_indices": Feed.WRITE_INDICES,
    "nonpad_kv_seqlen": Feed.VALID_LENGTH,
    "use_cache_branch": Feed.PAST_FLAG,
    "num_logits_to_keep": Feed.LOGITS_TO_KEEP,
    "logits_to_keep": Feed.LOGITS_TO_KEEP,
    "block_table": Feed.BLOCK_TABLE,
    "cumulative_sequence_lengths": Feed.SEQUENCE_STARTS,
    "past_sequence_lengths": Feed.PAST_LENGTHS,
    "attention_metadata": Feed.LENGTH_BOUNDS,
}

_PLACES: Mapping[tuple[str, str], Mapping[int, Feed]] = {
    ("", "TensorScatter"): {2: Feed.WRITE_INDICES},
    ("", "Attention"): {6: Feed.VALID_LENGTH},
    ("com.microsoft", "PagedAttention"): {
        5: Feed.SEQUENCE_STARTS,
        6: Feed.PAST_LENGTHS,
        7: Feed.BLOCK_TABLE,
        16: Feed.LENGTH_BOUNDS,
    },
}
"""What a cache-writing node's inputs are fed with, by their place."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote the model and what its companion files say."""

    producer: str
    settings: Mapping[str, object]
    generation: Mapping[str, object]


def decoder_contract(program: Program, origin: Origin) -> tuple[DecoderContract | None, tuple[str, ...]]:
    """The contract of a decoder, or None for any other graph; with what the user should know.

    A decoder takes token ids, has at least one KV pair and gives logits.
    """
    feeds = _feeds(program, origin.settings)
    if Feed.TOKENS not in feeds.values():
        return None, ()
    links = link(program)
    masks = tuple(key for key, feed in feeds.items() if feed is Feed.MASK)
    pairs, notes = find_pairs(program, links, masks, _head_facts(origin.settings))
    feeds = {**feeds, **_structural_feeds(program, pairs, feeds)}
    logits = _logits(program, pairs, origin.settings)
    if not pairs or logits is None:
        return None, notes
    return _assemble(program, links, feeds, pairs, logits, origin), notes


def _feeds(program: Program, settings: Mapping[str, object]) -> dict[int, Feed]:
    """What inputs are fed with, by value id: the settings' names first, then the usual ones; no text."""
    names = dict(_FEEDS)
    for key, name in table(settings, "model", "decoder", "inputs").items():
        if key in _FEEDS and isinstance(name, str):
            names[name] = _FEEDS[key]
    given = [(item, program.values[item]) for item in program.inputs]
    return {
        item: names[value.name] for item, value in given if value.name in names and bit_width(value.dtype)
    }


def _structural_feeds(
    program: Program, pairs: tuple[KvPair, ...], known: Mapping[int, Feed]
) -> dict[int, Feed]:
    """Inputs that a cache-writing node names by their place: write indices, lengths, block tables."""
    caches = {pair.input for pair in pairs}
    found: dict[int, Feed] = {}
    for step in program.steps:
        places = _PLACES.get((step.node.domain, step.node.operator), {})
        for position, value in enumerate(step.inputs):
            feed = places.get(position)
            if feed is None or value not in program.inputs or value in known:
                continue
            if program.values[value].name not in caches:
                found[value] = feed
    return found


def _head_facts(settings: Mapping[str, object]) -> HeadFacts:
    decoder = table(settings, "model", "decoder")
    heads = _number(decoder, "num_key_value_heads") or _number(settings, "num_key_value_heads")
    size = _number(decoder, "head_size") or _number(settings, "head_dim")
    if not size:
        size = _number(settings, "hidden_size") // max(_number(settings, "num_attention_heads"), 1)
    return HeadFacts(heads or _number(settings, "num_attention_heads"), size)


def _number(settings: Mapping[str, object], key: str) -> int:
    value = settings.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _logits(program: Program, pairs: tuple[KvPair, ...], settings: Mapping[str, object]) -> Value | None:
    named = table(settings, "model", "decoder", "outputs").get("logits")
    presents = {pair.output for pair in pairs}
    others = [program.values[item] for item in program.outputs if program.values[item].name not in presents]
    for value in others:
        if value.name in (named, "logits"):
            return value
    wide = [value for value in others if len(value.shape or ()) in (2, 3)]
    return wide[0] if len(wide) == 1 else None


def _assemble(
    program: Program,
    links: Links,
    feeds: Mapping[int, Feed],
    pairs: tuple[KvPair, ...],
    logits: Value,
    origin: Origin,
) -> DecoderContract:
    positions = tuple(item for item, feed in feeds.items() if feed is Feed.POSITIONS)
    named = {program.values[item].name: feed for item, feed in feeds.items()}
    eos, bos = _special_tokens(origin)
    unpadded = _unpadded(program, links, feeds, pairs)
    notes = _notes(program, pairs, named)
    return DecoderContract(
        dialect=dialect_of(program, pairs, origin),
        feeds=MappingProxyType(named),
        kv=pairs,
        logits=logits.name,
        vocabulary=_vocabulary(logits, origin.settings),
        layers=len({pair.layer for pair in pairs}),
        context_limit=context_limit(program, links, positions, pairs, origin.settings),
        eos_tokens=eos,
        bos_token=bos,
        batch_symbol=_batch_symbol(program, feeds),
        notes=(*notes, f"The mask keeps its own width and its readers are not captured: {unpadded}")
        if unpadded
        else notes,
        pads_mask=not unpadded,
        block_size=_block_size(program, pairs, origin.settings),
    )


def _block_size(program: Program, pairs: tuple[KvPair, ...], settings: Mapping[str, object]) -> Limit | None:
    """Positions of a block: what a paged cache's own shape fixes, else what the settings say."""
    paged = [pair for pair in pairs if pair.form is KvForm.PAGED]
    for pair in paged:
        value = program.value_named(pair.input)
        extent = value.shape[pair.sequence_axis] if value is not None and value.shape else None
        if isinstance(extent, int):
            return Limit(extent, f"extent of the paged cache {pair.input!r}")
    if not paged:
        return None
    size = _number(table(settings, "engine", "dynamic_batching"), "block_size")
    return Limit(size, "genai_config.json, engine.dynamic_batching.block_size") if size > 0 else None


def _unpadded(program: Program, links: Links, feeds: Mapping[int, Feed], pairs: tuple[KvPair, ...]) -> str:
    """Why the mask of a cache whose length is data must keep its logical width; "" when it may be padded."""
    if any(not pair.form.ragged for pair in pairs):
        return ""
    masks = [item for item, feed in feeds.items() if feed is Feed.MASK]
    return next((reason for mask in masks if (reason := padding_refusal(program, links, mask))), "")


def _vocabulary(logits: Value, settings: Mapping[str, object]) -> int:
    last = (logits.shape or (0,))[-1]
    if isinstance(last, int) and last > 0:
        return last
    return _number(table(settings, "model"), "vocab_size") or _number(settings, "vocab_size")


def _batch_symbol(program: Program, feeds: Mapping[int, Feed]) -> str:
    for item, feed in feeds.items():
        shape = program.values[item].shape or ()
        if feed is Feed.TOKENS and len(shape) == 2 and isinstance(shape[0], Symbol):
            return shape[0].name
    return ""


def _special_tokens(origin: Origin) -> tuple[tuple[int, ...], int | None]:
    """End and begin of sequence: genai_config, then generation_config, then config.json."""
    places = (table(origin.settings, "model"), origin.generation, origin.settings)
    eos = next((tokens for place in places if (tokens := _tokens(place.get("eos_token_id")))), ())
    bos = next((tokens for place in places if (tokens := _tokens(place.get("bos_token_id")))), ())
    return eos, (bos[0] if bos else None)


def _tokens(value: object) -> tuple[int, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))


def dialect_of(program: Program, pairs: tuple[KvPair, ...], origin: Origin) -> str:
    """Which exporter's conventions the graph follows: ``genai``, ``mobius-static``, ``optimum`` …."""
    operators = {step.node.operator for step in program.steps}
    family = _family(program, origin)
    if any(pair.form is KvForm.PAGED for pair in pairs):
        return f"{family}-paged"
    if any(pair.window for pair in pairs):
        return f"{family}-sliding"
    if any(pair.form is KvForm.SCATTER for pair in pairs):
        return f"{family}-static"
    if family == "mobius":
        return "mobius-gqa" if "GroupQueryAttention" in operators else "mobius-attention"
    return family


def _family(program: Program, origin: Origin) -> str:
    producer = origin.producer.lower()
    if "genai" in producer:
        return "genai"
    if "mobius" in producer:
        return "mobius"
    if "pytorch" in producer or "optimum" in producer:
        slashes = any(step.node.name.startswith("/") for step in program.steps)
        return "optimum" if slashes else "torch"
    return "genai" if table(origin.settings, "model", "decoder") else "onnx"


def _notes(program: Program, pairs: tuple[KvPair, ...], feeds: Mapping[str, Feed]) -> tuple[str, ...]:
    notes: list[str] = []
    reasons = dict.fromkeys(pair.reason for pair in pairs if pair.form is KvForm.GROW)
    notes.extend(f"Past and present are both alive: {reason}" for reason in reasons if reason)
    caches = {pair.input for pair in pairs}
    inputs = [program.values[item].name for item in program.inputs]
    unknown = [name for name in inputs if name not in caches and name not in feeds]
    if unknown:
        notes.append(
            f"Nothing is known about the inputs {', '.join(unknown)}: planned, and refused when it is to run"
        )
    if any(re.search(r"encoder", pair.input) for pair in pairs):
        notes.append("The encoder's cache is kept from the first step and never fed back")
    return tuple(notes)
