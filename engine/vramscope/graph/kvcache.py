"""Finding the KV cache of a decoder: which input is replaced by which output, and how its graph keeps it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.graph.links import Links, Reader, through_identity
from vramscope.graph.masks import freeze_refusal
from vramscope.graph.model import ABSENT, KvForm, KvPair

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.model import Program, Step, Value

_PAST = re.compile(r"past|cache|prev", re.IGNORECASE)
_PRESENT = re.compile(r"present|updated|new|cache", re.IGNORECASE)
_KEY = re.compile(r"(?:^|[._/])(?:key|k|keys)(?:[._/]|_cache|$)|key", re.IGNORECASE)
_VALUE = re.compile(r"(?:^|[._/])v(?:[._/]|_cache|$)|value(?!s(?:[._]|$))", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Update:
    """What a node does to a cache: which output replaces it, on which axis, in which form."""

    output: int
    axis: int
    form: KvForm
    step: Step | None = None
    role: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Heads and head size stated outside the graph; 0: not stated."""

    heads: int = 0
    head_size: int = 0


def find_pairs(
    program: Program, links: Links, masks: tuple[int, ...], facts: HeadFacts
) -> tuple[tuple[KvPair, ...], tuple[str, ...]]:
    """Every KV pair of ``program``, by layer with the key first, and what could not be paired.

    Args:
        program: the main graph.
        links: its makers and readers.
        masks: ids of attention-mask inputs.
        facts: heads and head size from the model's settings, for shapes that do not say them.
    """
    found: list[tuple[Value, Update]] = []
    notes: list[str] = []
    for identity in program.inputs:
        value = program.values[identity]
        update = _structural(program, links, value, masks) or _by_name(program, value)
        if update is not None:
            found.append((value, update))
    pairs: list[KvPair] = []
    counts: dict[str, int] = {}
    for value, update in found:
        role = update.role or role_of(value.name)
        number = counts.get(role, 0)
        counts[role] = number + 1
        pair = _pair(program, links, value, update, role, number, facts)
        if pair is None:
            notes.append(f"{value.name!r} looks like a KV cache, but its heads and head size are not stated")
        else:
            pairs.append(pair)
    return tuple(sorted(pairs, key=lambda pair: (pair.layer, pair.role))), tuple(notes)


def role_of(name: str) -> str:
    """``key`` or ``value`` from a cache's name; "" when the name does not say."""
    stripped = re.sub(r"past_key_values?|present_key_values?", "", name)
    if _VALUE.search(stripped):
        return "value"
    return "key" if _KEY.search(stripped) else ""


def _structural(program: Program, links: Links, value: Value, masks: tuple[int, ...]) -> Update | None:
    outputs = set(program.outputs)
    for reader in _past_identity(value.id, links):
        rule = _RULES.get((reader.step.node.domain, reader.step.node.operator))
        update = None if rule is None else rule(program, links, reader, masks)
        if update is None:
            continue
        target = next((item for item in outputs if through_identity(item, links) == update.output), None)
        if target is not None:
            return Update(target, update.axis, update.form, update.step, update.role, update.reason)
    return None


def _past_identity(value: int, links: Links) -> list[Reader]:
    """Readers of a value and of its plain copies."""
    readers: list[Reader] = []
    for reader in links.read_by(value):
        if reader.step.node.operator == "Identity" and reader.step.outputs[0] != value:
            readers.extend(_past_identity(reader.step.outputs[0], links))
        else:
            readers.append(reader)
    return readers


def _output(step: Step, index: int) -> int:
    return step.outputs[index] if index < len(step.outputs) else ABSENT


def _two_slots(first: int, form: KvForm, axis: int, reason: str = "") -> Callable[..., Update | None]:
    """A node with past key and value at inputs ``first`` and ``first + 1``, present at outputs 1 and 2."""

    def rule(_: Program, __: Links, reader: Reader, ___: tuple[int, ...]) -> Update | None:
        slot = reader.position - first
        if slot not in (0, 1):
            return None
        return Update(_output(reader.step, slot + 1), axis, form, reader.step, ("key", "value")[slot], reason)

    return rule


def _attention(program: Program, links: Links, reader: Reader, masks: tuple[int, ...]) -> Update | None:
    slot = reader.position - 4
    if slot not in (0, 1):
        return None
    refusal = _mask_refusal(program, links, reader.step, masks)
    form = KvForm.GROW if refusal else KvForm.MASKED
    return Update(_output(reader.step, slot + 1), 2, form, reader.step, ("key", "value")[slot], refusal)


def _mask_refusal(program: Program, links: Links, step: Step, masks: tuple[int, ...]) -> str:
    if step.inputs[3] == ABSENT:
        return "the Attention has no mask input, so every column of the cache counts"
    if not masks:
        return "the graph has no attention-mask input that could be frozen"
    refusals = [freeze_refusal(program, links, mask) for mask in masks]
    return next((refusal for refusal in refusals if refusal), "")


def _index_share(_: Program, __: Links, reader: Reader, ___: tuple[int, ...]) -> Update | None:
    slot = reader.position - 3
    if slot not in (0, 1):
        return None
    step = reader.step
    capacity = len(step.outputs) == 3 and len(step.inputs) > 6 and step.inputs[6] != ABSENT
    form = KvForm.CAPACITY if capacity else KvForm.GROW
    reason = "" if capacity else "IndexShare without a bias input has no valid length to go by"
    return Update(_output(step, slot + 1), 2, form, step, ("key", "value")[slot], reason)


def _scatter(program: Program, _: Links, reader: Reader, __: tuple[int, ...]) -> Update | None:
    if reader.position != 0:
        return None
    rank = len(program.values[reader.step.inputs[0]].shape or (0, 0))
    axis = reader.step.node.integer("axis", -2) % max(rank, 1)
    return Update(reader.step.outputs[0], axis, KvForm.SCATTER, reader.step)


def _concat(program: Program, links: Links, reader: Reader, _: tuple[int, ...]) -> Update | None:
    step = reader.step
    rank = len(program.values[step.outputs[0]].shape or ())
    if rank < 3:
        return None
    axis = step.node.integer("axis", 0) % rank
    reason = _append_refusal(links, reader)
    return Update(step.outputs[0], axis, KvForm.GROW if reason else KvForm.APPEND, step, "", reason)


def _append_refusal(links: Links, reader: Reader) -> str:
    """Why a Concat of the past cannot append in place; reading the past's shape does no harm."""
    if reader.position != 0 or len(reader.step.inputs) != 2:
        return "the new rows are not appended behind the past"
    past = reader.step.inputs[0]
    others = [
        other
        for other in _past_identity(through_identity(past, links), links)
        if other != reader and other.step.node.operator not in ("Shape", "Size")
    ]
    if not others:
        return ""
    node = others[0].step.node
    return f"node {node.name!r} ({node.operator}) reads the past as well"


_RULES: Mapping[tuple[str, str], Callable[..., Update | None]] = {
    ("com.microsoft", "GroupQueryAttention"): _two_slots(3, KvForm.CAPACITY, 2),
    ("com.microsoft", "SparseAttention"): _two_slots(3, KvForm.CAPACITY, 2),
    ("com.microsoft", "PagedAttention"): _two_slots(3, KvForm.PAGED, 1),
    ("com.microsoft", "DecoderMaskedMultiHeadAttention"): _two_slots(5, KvForm.CAPACITY, 2),
    ("com.microsoft", "MultiHeadAttention"): _two_slots(
        6, KvForm.GROW, 2, "MultiHeadAttention returns past and new rows as one new tensor"
    ),
    ("pkg.nxrt", "IndexShare"): _index_share,
    ("", "Attention"): _attention,
    ("", "TensorScatter"): _scatter,
    ("", "Concat"): _concat,
}


def _by_name(program: Program, value: Value) -> Update | None:
    """A past that no known node updates is paired with the present of its name, layer and role."""
    rank = len(value.shape or ())
    if not _PAST.search(value.name) or rank not in (3, 4) or not role_of(value.name):
        return None
    for identity in program.outputs:
        other = program.values[identity]
        same = _NUMBER.findall(other.name) == _NUMBER.findall(value.name)
        encoder = ("encoder" in other.name) == ("encoder" in value.name)
        if same and encoder and _PRESENT.search(other.name) and role_of(other.name) == role_of(value.name):
            reason = "no node is known to write the new rows into the past's buffer"
            return Update(identity, rank - 2, KvForm.GROW, None, "", reason)
    return None


def _pair(
    program: Program,
    links: Links,
    value: Value,
    update: Update,
    role: str,
    number: int,
    facts: HeadFacts,
) -> KvPair | None:
    shape = value.shape or ()
    heads, size = _heads(program, links, value, update, facts)
    if heads <= 0 or size <= 0:
        return None
    numbers = _NUMBER.findall(value.name)
    extent = shape[update.axis] if update.axis < len(shape) else None
    return KvPair(
        layer=int(numbers[0]) if numbers else number,
        role=role or "key",
        input=value.name,
        output=program.values[update.output].name,
        dtype=value.dtype,
        heads=heads,
        head_size=size,
        sequence_axis=update.axis,
        form=update.form,
        reason=update.reason,
        window=_window(update.step),
        fixed_capacity=extent if isinstance(extent, int) and update.form is not KvForm.PAGED else 0,
    )


def _heads(program: Program, links: Links, value: Value, update: Update, facts: HeadFacts) -> tuple[int, int]:
    """Heads and head size: the axes of a 4-D cache, the attention node of a 3-D one, else the settings."""
    shape = value.shape or ()
    if len(shape) == 4:
        head_axis = 2 if update.axis == 1 else 1
        heads, size = shape[head_axis], shape[3]
        return (
            heads if isinstance(heads, int) else facts.heads,
            size if isinstance(size, int) else facts.head_size,
        )
    if len(shape) == 3 and isinstance(shape[2], int):
        heads = _attention_heads(update, links) or facts.heads
        return (heads, shape[2] // heads) if heads and shape[2] % heads == 0 else (0, 0)
    return facts.heads, facts.head_size


def _attention_heads(update: Update, links: Links) -> int:
    """Kv heads of the attention node that reads the updated cache."""
    source = update.step.outputs[0] if update.step is not None and update.step.outputs else update.output
    for reader in links.read_by(source):
        node = reader.step.node
        heads = node.integer("kv_num_heads", 0) or node.integer("num_heads", 0)
        if heads:
            return heads
    return 0


def _window(step: Step | None) -> int:
    """Positions that a windowed cache keeps; 0 for a cache that keeps all."""
    if step is None or not step.node.integer("sliding_window_cache", 0):
        return 0
    return max(step.node.integer("local_window_size", 0), 0)
