"""A KV cache in 8 or 4 bits: the quantised cache of two operators, one scale for each tensor of it.

GroupQueryAttention and PagedAttention store int8, or two 4-bit codes in a uint8 of half the head size; their
scales are float32, inputs 12 and 13 of the one, 14 and 15 of the other (operators.md 2.1, 2.11).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.dtypes import ElementType, bit_width
from vramscope.graph.edit import ProgramEdit
from vramscope.graph.links import link
from vramscope.graph.model import ABSENT
from vramscope.plan.rewrites.types import Impossible, Rewritten, given, rebuilt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.graph.links import Links, Reader
    from vramscope.graph.model import KvPair, Model, Program, Step
    from vramscope.plan.rewrites.types import Apply

PAST, PRESENT = (3, 4), (1, 2)
"""Where both operators have key and value: inputs, outputs."""
SCALES: Mapping[tuple[str, str], tuple[int, int]] = {
    ("com.microsoft", "GroupQueryAttention"): (12, 13),
    ("com.microsoft", "PagedAttention"): (14, 15),
}
"""The inputs of their scales."""


def kv_bits(bits: int) -> Apply:
    """The rewrite to a cache of ``bits`` (8 or 4) an element."""
    return partial(_quantised, bits)


def _quantised(bits: int, model: Model) -> Rewritten | Impossible:
    contract, program = model.contract, model.program
    if contract is None:
        return Impossible("it is no decoder: it has no KV cache")
    links = link(program)
    steps: dict[int, Step] = {}
    for pair in contract.kv:
        found = _writer(program, links, pair, bits)
        if isinstance(found, Impossible):
            return found
        steps[found.index] = found
    edit = ProgramEdit(program)
    for step in steps.values():
        _rewrite(edit, step, bits)
    return rebuilt(model, edit.finish())


def _writer(program: Program, links: Links, pair: KvPair, bits: int) -> Step | Impossible:
    """The attention that reads and writes the pair, where it can keep it in so many bits."""
    if bit_width(pair.dtype) <= 8:
        return Impossible(f"{pair.input!r} is kept in {bit_width(pair.dtype)} bits an element already")
    value = program.value_named(pair.input)
    readers = [] if value is None else [item for item in links.read_by(value.id) if not _asks_extents(item)]
    if not readers:
        return Impossible(f"nothing reads {pair.input!r}")
    step = readers[0].step
    why = _refusal(program, step, pair, bits)
    if not why and (len(readers) > 1 or readers[0].position not in PAST):
        why = f"{pair.input!r} is read by more than its attention"
    return Impossible(why, step.node.name) if why else step


def _refusal(program: Program, step: Step, pair: KvPair, bits: int) -> str:
    """Why a node cannot keep the pair in so many bits; empty where it can."""
    node = step.node
    if (node.domain, node.operator) not in SCALES:
        known = "a quantised cache is known of GroupQueryAttention and PagedAttention alone"
        return f"{known}, and {node.qualified} keeps this one"
    if not all(given(step, place) for place in (0, *PAST)) or len(step.outputs) <= PRESENT[1]:
        return f"{node.qualified} lacks a past or a present"
    if pair.output not in [program.values[item].name for item in step.outputs[1:3] if item != ABSENT]:
        return f"{pair.output!r} is not the attention's own result"
    odd = bits == 4 and pair.head_size % 2
    return f"two codes share a byte, and the head size is {pair.head_size}" if odd else ""


def _asks_extents(reader: Reader) -> bool:
    """Whether a reader wants a cache's extents alone, which stay (but for the head size of 4-bit codes)."""
    return reader.step.node.operator in ("Shape", "Size")


def _rewrite(edit: ProgramEdit, step: Step, bits: int) -> None:
    node = step.node
    attributes = {**node.attributes, "k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR"}
    if node.operator == "GroupQueryAttention":
        attributes["kv_cache_bit_width"] = bits
    else:
        attributes["k_cache_dtype"] = attributes["v_cache_dtype"] = f"int{bits}"
    scales = SCALES[node.domain, node.operator]
    inputs = [*step.inputs, *[ABSENT] * (scales[1] + 1 - len(step.inputs))]
    for place, name in zip(scales, ("k_scale", "v_scale"), strict=True):
        inputs[place] = edit.unwritten(f"{node.name}/{name}", ElementType.FLOAT, (1,))
    for value in _caches(step):
        _narrow(edit, value, bits)
    edit.change(step, replace(node, attributes=MappingProxyType(attributes)), inputs)


def _caches(step: Step) -> Sequence[int]:
    values = (*(step.inputs[place] for place in PAST), *(step.outputs[place] for place in PRESENT))
    return [value for value in values if value != ABSENT]


def _narrow(edit: ProgramEdit, value: int, bits: int) -> None:
    shape = edit.values[value].shape
    if bits == 4 and shape is not None and isinstance(shape[-1], int):
        shape = (*shape[:-1], shape[-1] // 2)
    edit.reshape(value, ElementType.INT8 if bits == 8 else ElementType.UINT8, shape)
