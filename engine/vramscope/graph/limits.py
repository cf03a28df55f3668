"""How long a context a decoder can have, and which of its parts says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.locate import table
from vramscope.graph.model import ABSENT, Limit, ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vramscope.graph.links import Links
    from vramscope.graph.model import KvPair, Program, Step

_CONFIG_KEYS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
_ROTARY = {
    ("com.microsoft", "GroupQueryAttention"): 7,
    ("com.microsoft", "PagedAttention"): 8,
    ("com.microsoft", "RotaryEmbedding"): 2,
    ("", "RotaryEmbedding"): 1,
}
_KEEPS_POSITIONS = frozenset({"Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze"})


def context_limit(
    program: Program,
    links: Links,
    positions: tuple[int, ...],
    pairs: tuple[KvPair, ...],
    settings: Mapping[str, object],
) -> Limit | None:
    """The smallest of all stated limits, with its source; None when nothing states one.

    Looked at: the settings' context length, rows of rotary tables, rows of tables gathered by position,
    the extent of static caches.
    """
    found = [
        *_stated(settings),
        *_rotary_rows(program),
        *_gathered_rows(program, links, positions),
        *_static_extents(pairs),
    ]
    return min(found, key=lambda limit: limit.value, default=None)


def _stated(settings: Mapping[str, object]) -> Iterator[Limit]:
    length = table(settings, "model").get("context_length")
    if isinstance(length, int) and length > 0:
        yield Limit(length, "genai_config.json, model.context_length")
    for place in ((), ("text_config",)):
        for key in _CONFIG_KEYS:
            value = table(settings, *place).get(key)
            if isinstance(value, int) and value > 0:
                yield Limit(value, f"config.json, {'.'.join((*place, key))}")


def _rotary_rows(program: Program) -> Iterator[Limit]:
    seen: set[int] = set()
    for step in program.steps:
        position = _ROTARY.get((step.node.domain, step.node.operator))
        if position is None or position >= len(step.inputs) or step.inputs[position] in seen:
            continue
        seen.add(step.inputs[position])
        yield from _rows(program, step, position)


def _rows(program: Program, step: Step, position: int) -> Iterator[Limit]:
    identity = step.inputs[position]
    value = program.values[identity] if identity != ABSENT else None
    if value is None or value.kind is not ValueKind.WEIGHT or len(value.shape or ()) != 2:
        return
    rows = (value.shape or (0,))[0]
    if isinstance(rows, int):
        yield Limit(rows, f"rows of {value.name!r}")


def _gathered_rows(program: Program, links: Links, positions: tuple[int, ...]) -> Iterator[Limit]:
    """Tables whose rows are picked by position: learned position embeddings, cos and sin tables."""
    pending = list(positions)
    seen = set(pending)
    while pending:
        for reader in links.read_by(pending.pop()):
            operator = reader.step.node.operator
            if operator == "Gather" and reader.position == 1 and reader.step.node.integer("axis", 0) == 0:
                yield from _rows(program, reader.step, 0)
            elif operator in _KEEPS_POSITIONS and reader.step.outputs[0] not in seen:
                seen.add(reader.step.outputs[0])
                pending.append(reader.step.outputs[0])


def _static_extents(pairs: tuple[KvPair, ...]) -> Iterator[Limit]:
    for pair in pairs:
        if pair.fixed_capacity and not pair.window:
            yield Limit(pair.fixed_capacity, f"extent of the static cache {pair.input!r}")
