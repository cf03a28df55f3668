"""Which symbols grow from step to step, and so which nodes a captured step cannot freeze (semantics 2.3)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vramscope.graph.capacity import CACHES
from vramscope.graph.expr import Apply, Symbol, free_symbols
from vramscope.graph.links import link
from vramscope.graph.masks import freeze_refusal
from vramscope.graph.model import ABSENT, Feed, KvForm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.expr import Dim, Shape
    from vramscope.graph.model import DecoderContract, Program, Step, Value

_CACHE_NAME = re.compile(r"past|present")
_BROADCASTING = frozenset(
    {
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Pow",
        "Mod",
        "Max",
        "Min",
        "Sum",
        "Mean",
        "Where",
        "And",
        "Or",
        "Xor",
        "Equal",
        "Less",
        "LessOrEqual",
        "Greater",
        "GreaterOrEqual",
        "Expand",
        "PRelu",
    }
)


def growing_symbols(
    program: Program,
    contract: DecoderContract | None,
    pinned: frozenset[str] = frozenset(),
    *,
    fail_safe: bool = True,
) -> frozenset[str]:
    """Symbols whose extent changes from one decode step to the next.

    Seeds are the position axes of caches and the widths of attention masks; the closure adds what
    broadcasting unifies with them and what inference derives from them. A pinned symbol neither grows nor
    passes growth on.

    Args:
        program: the main graph.
        contract: its decoder contract, whose token extents are no growth; None for any other graph.
        pinned: symbols that the session holds at a fixed capacity.
        fail_safe: a symbol whose origin nothing records grows too; False: only what is known to grow.
    """
    fed = _fed_symbols(program, contract)
    growing = frozenset([*_seeds(program, fed), *_mask_widths(program, contract, fed)]) - pinned
    links = tuple(_unified(program, fed))
    while True:
        wider = growing | _derived(program, growing, fail_safe=fail_safe) | _linked(links, growing)
        wider -= pinned
        if wider == growing:
            return growing
        growing = wider


def pinnable_symbols(program: Program, contract: DecoderContract | None) -> frozenset[str]:
    """Symbols that a session may hold at capacity: caches read at their physical extent, and masks.

    A pure function of the graph: the past and present extents of capacity-form nodes and the width of masks
    that are safe to freeze. Forms that grow (an Attention without a mask, Concat) are never pinned.
    """
    if contract is None:
        return frozenset()
    frozen = [pair for pair in contract.kv if pair.form in (KvForm.CAPACITY, KvForm.MASKED)]
    names = {name for pair in frozen for name in (pair.input, pair.output)}
    fed = _fed_symbols(program, contract)
    found: set[str] = set()
    for value in _interface(program):
        if value.name in names:
            found.update(_positions(value.shape, fed))
    return frozenset(found | _frozen_masks(program, contract, all_frozen=len(frozen) == len(contract.kv)))


def is_sequence_independent(program: Program, step: Step, growing: frozenset[str]) -> bool:
    """Whether ``step`` has an output and no input or output shape of it mentions a growing symbol."""
    values = [value for value in (*step.inputs, *step.outputs) if value != ABSENT]
    has_output = any(value != ABSENT for value in step.outputs)
    return has_output and all(not mentions(program.values[value].shape, growing) for value in values)


def mentions(shape: Shape | None, symbols: frozenset[str]) -> bool:
    """Whether a dimension of ``shape`` depends on one of ``symbols``; an unknown shape does."""
    return shape is None or any(free_symbols(dim) & symbols for dim in shape)


def _interface(program: Program) -> Iterator[Value]:
    yield from (program.values[item] for item in (*program.inputs, *program.outputs))


def _fed_symbols(program: Program, contract: DecoderContract | None) -> frozenset[str]:
    """Symbols of the token input: batch and tokens of this step, which are chosen and do not grow."""
    if contract is None:
        return frozenset()
    values = (program.values[item] for item in program.inputs)
    shapes = [value.shape or () for value in values if contract.feeds.get(value.name) is Feed.TOKENS]
    return frozenset().union(*(free_symbols(dim) for shape in shapes for dim in shape))


def _positions(shape: Shape | None, fed: frozenset[str]) -> frozenset[str]:
    """Symbols of the penultimate axis, without those of the tokens of one step."""
    return free_symbols(shape[-2]) - fed if shape is not None and len(shape) >= 2 else frozenset()


def _seeds(program: Program, fed: frozenset[str]) -> frozenset[str]:
    """Symbols of the position axes of caches.

    An axis such as ``past + tokens`` adds nothing where ``past`` is one already: the tokens do not grow.
    """
    shapes = [program.values[value].shape for value in _caches(program)]
    axes = [shape[-2] for shape in shapes if shape is not None and len(shape) >= 2]
    axes += list(_last_axes(program))
    plain = frozenset(dim.name for dim in axes if isinstance(dim, Symbol)) - fed
    sums = [free_symbols(dim) - fed for dim in axes if isinstance(dim, Apply)]
    return plain.union(*(found for found in sums if not found & plain))


def _caches(program: Program) -> Iterator[int]:
    for step in program.steps:
        inputs, outputs = CACHES.get((step.node.domain, step.node.operator), ((), ()))
        yield from (*_picked(step.inputs, inputs), *_picked(step.outputs, outputs))
    for item in _interface(program):
        if _CACHE_NAME.match(item.name) and len(item.shape or ()) == 4:
            yield item.id


def _last_axes(program: Program) -> Iterator[Dim]:
    for step in program.steps:
        if step.node.operator == "CompressedSparseAttention":
            yield from ((program.values[item].shape or (0,))[-1] for item in _picked(step.outputs, (5,)))


def _mask_widths(program: Program, contract: DecoderContract | None, fed: frozenset[str]) -> Iterator[str]:
    """An attention mask has a column for every position, so its width grows with the cache."""
    for item in program.inputs if contract is not None else ():
        value = program.values[item]
        if contract is not None and contract.feeds.get(value.name) is Feed.MASK and value.shape:
            yield from free_symbols(value.shape[-1]) - fed


def _picked(values: tuple[int, ...], indices: tuple[int, ...]) -> Iterator[int]:
    return (values[index] for index in indices if index < len(values) and values[index] != ABSENT)


def _unified(program: Program, fed: frozenset[str]) -> Iterator[frozenset[str]]:
    """Sets of symbols that some node's broadcasting makes equal in extent."""
    for step in program.steps:
        if step.node.domain or step.node.operator not in (*_BROADCASTING, "MatMul"):
            continue
        shapes = [program.values[value].shape or () for value in step.inputs if value != ABSENT]
        for axis in range(
            3 if step.node.operator == "MatMul" else 1, max((len(shape) for shape in shapes), default=0) + 1
        ):
            dims = {
                shape[-axis] for shape in shapes if len(shape) >= axis and not isinstance(shape[-axis], int)
            }
            if len(dims) > 1:
                yield _loose(dims) - fed


def _loose(dims: set[Dim]) -> frozenset[str]:
    return frozenset().union(*(free_symbols(dim) for dim in dims))


def _linked(links: tuple[frozenset[str], ...], growing: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(link for link in links if link & growing))


def _derived(program: Program, growing: frozenset[str], *, fail_safe: bool) -> frozenset[str]:
    """Minted symbols whose node reads a growing shape, whose ceiling grows, or whose origin is unknown."""
    sources = dict(_steps_by_name(program))
    found: set[str] = set()
    for symbol, minted in program.minted.items():
        if minted.node not in sources:
            found.update([symbol] if fail_safe else [])
            continue
        owner, step = sources[minted.node]
        shapes = [owner.values[value].shape for value in step.inputs if value != ABSENT]
        bound = minted.ceiling if isinstance(minted.ceiling, Apply) else None
        if any(mentions(shape, growing) for shape in shapes) or (bound and free_symbols(bound) & growing):
            found.add(symbol)
    return frozenset(found)


def _steps_by_name(program: Program) -> Iterator[tuple[str, tuple[Program, Step]]]:
    for step in program.steps:
        yield step.node.name, (program, step)
        for body in step.bodies.values():
            yield from _steps_by_name(body)


def _frozen_masks(program: Program, contract: DecoderContract, *, all_frozen: bool) -> set[str]:
    """Widths of the attention masks that may stay at capacity."""
    links = link(program)
    gqa = all_frozen and all(pair.form is KvForm.CAPACITY for pair in contract.kv)
    found: set[str] = set()
    for item in program.inputs:
        value = program.values[item]
        if contract.feeds.get(value.name) is not Feed.MASK or not value.shape:
            continue
        if gqa or not freeze_refusal(program, links, item):
            found.update(free_symbols(value.shape[-1]) - _fed_symbols(program, contract))
    return found
