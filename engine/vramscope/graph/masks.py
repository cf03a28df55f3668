"""Whether an attention mask may be frozen to the cache's capacity: the mask cone (semantics 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.links import CAPTURED
from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from vramscope.graph.links import Links, Reader
    from vramscope.graph.model import Program

_DATA = frozenset(
    {"CumSum", "Unsqueeze", "Cast", "GreaterOrEqual", "And", "Where", "Slice", "Sub", "Identity"}
)
_SHAPE = frozenset({"Gather", "Slice", "Unsqueeze", "Squeeze", "Concat", "Cast", "Reshape", "Identity"})


def freeze_refusal(program: Program, links: Links, mask: int) -> str:
    """Why the mask cannot be frozen to capacity width; "" when it can.

    Every transitive consumer must keep the width or hide it, and the cone must reach an Attention that has a
    mask, a past key and a past value: there a masked column has no effect.
    """
    cone = {mask}
    pending = [mask]
    reached = False
    while pending:
        value = pending.pop()
        if value in program.outputs:
            return f"{program.values[value].name!r}, which derives from the mask, is a graph output"
        for reader in links.read_by(value):
            if _is_masked_attention(reader):
                reached = True
                continue
            refusal = _data_refusal(program, links, reader)
            if refusal:
                return refusal
            fresh = [item for item in _passed_on(reader) if item not in cone]
            cone.update(fresh)
            pending.extend(fresh)
    return "" if reached else "the mask reaches no Attention with a past"


def _is_masked_attention(reader: Reader) -> bool:
    step = reader.step
    if step.node.operator != "Attention" or step.node.domain or reader.position != 3:
        return False
    return len(step.inputs) > 5 and ABSENT not in step.inputs[3:6]


def _passed_on(reader: Reader) -> tuple[int, ...]:
    """Values that carry the mask's columns further."""
    operator = reader.step.node.operator
    if operator in _DATA or (operator == "Expand" and reader.position == 0):
        return tuple(value for value in reader.step.outputs if value != ABSENT)
    return ()


def _data_refusal(program: Program, links: Links, reader: Reader) -> str:
    operator = reader.step.node.operator
    name = reader.step.node.name
    if reader.position == CAPTURED or reader.step.node.domain:
        return f"node {name!r} ({operator}) reads the mask"
    if operator in _DATA or operator == "Expand" or (operator == "ReduceSum" and reader.position == 0):
        return ""
    if operator == "Shape":
        return _shape_refusal(program, links, reader.step.outputs[0])
    return f"node {name!r} ({operator}) reads the mask"


def _shape_refusal(program: Program, links: Links, shape: int) -> str:
    """Why the mask's width, as a number, goes where it would be noticed; "" when only Expand sees it."""
    seen = {shape}
    pending = [shape]
    while pending:
        value = pending.pop()
        if value in program.outputs:
            return f"{program.values[value].name!r}, the mask's width, is a graph output"
        for reader in links.read_by(value):
            operator = reader.step.node.operator
            if operator == "Expand" and reader.position == 1:
                continue
            if operator not in _SHAPE or reader.position == CAPTURED:
                return f"node {reader.step.node.name!r} ({operator}) computes with the mask's width"
            fresh = [item for item in reader.step.outputs if item not in seen and item != ABSENT]
            seen.update(fresh)
            pending.extend(fresh)
    return ""


_SUMMED = frozenset({"Cast", "Identity"})


def padding_refusal(program: Program, links: Links, mask: int) -> str:
    """Why a mask whose cache keeps its length as data cannot be as wide as the cache; "" when it can.

    Zeros behind the valid columns change no sum; the width itself may only reach GroupQueryAttention's
    total length, which may be the capacity. Anything else that sees the width computes something else.
    """
    pending, seen = [(mask, False)], {mask}
    while pending:
        value, is_width = pending.pop()
        if value in program.outputs:
            return f"{program.values[value].name!r}, which derives from the mask, is a graph output"
        for reader in links.read_by(value):
            follow = _width_follows(reader) if is_width else _sum_follows(reader)
            if follow is None:
                return f"node {reader.step.node.name!r} ({reader.step.node.operator}) sees the mask's width"
            fresh = [(item, follow) for item in reader.step.outputs if item != ABSENT and item not in seen]
            ends = reader.step.node.operator in ("ReduceSum", "GroupQueryAttention")
            pending.extend([] if ends else fresh)
            seen.update(item for item, _ in fresh)
    return ""


def _sum_follows(reader: Reader) -> bool | None:
    """Whether outputs carry the width as a number; None where the columns themselves would be noticed."""
    operator = reader.step.node.operator
    if reader.position != 0 or (reader.step.node.domain and operator != "GroupQueryAttention"):
        return None
    if operator == "Shape":
        return True
    return False if operator in _SUMMED or operator == "ReduceSum" else None


def _width_follows(reader: Reader) -> bool | None:
    operator = reader.step.node.operator
    if operator == "GroupQueryAttention":
        return True if reader.position == 6 else None
    return True if operator in _SHAPE and reader.position != CAPTURED else None
