"""Which inputs are read at a cache's physical extent, and which symbols that pins (semantics 2.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.expr import free_symbols
from vramscope.graph.links import link
from vramscope.graph.masks import freeze_refusal
from vramscope.graph.model import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vramscope.graph.expr import Shape
    from vramscope.graph.model import Program, Step

CACHES: Mapping[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]] = {
    ("com.microsoft", "GroupQueryAttention"): ((3, 4), (1, 2)),
    ("", "Attention"): ((4, 5), (1, 2)),
    ("pkg.nxrt", "IndexShare"): ((3, 4), (1, 2)),
    ("pkg.nxrt", "CompressedSparseAttention"): ((), (1, 3)),
}
"""Operator: inputs and outputs whose penultimate axis counts positions."""


def reads_capacity(step: Step, position: int) -> bool:
    """Whether ``step`` reads that input at its *physical* extent: a capacity-form input.

    GroupQueryAttention's past; default Attention's past only where a mask input hides what is not valid;
    IndexShare's past only with its bias and its third output.
    """
    node = step.node
    if (node.domain, node.operator) == ("com.microsoft", "GroupQueryAttention"):
        return position in (3, 4)
    if (node.domain, node.operator) == ("", "Attention"):
        return position in (4, 5) and _given(step.inputs, 3)
    if (node.domain, node.operator) == ("pkg.nxrt", "IndexShare"):
        return position in (3, 4) and _given(step.inputs, 6) and _given(step.outputs, 2)
    return False


def tolerates_padding(step: Step, position: int) -> bool:
    """Whether ``step`` may see that input at the padded width."""
    summed = not step.node.domain and step.node.operator in ("Shape", "ReduceSum") and position == 0
    return summed or reads_capacity(step, position)


def _given(values: tuple[int, ...], position: int) -> bool:
    return position < len(values) and values[position] != ABSENT


def fixed_capacity_symbols(program: Program) -> frozenset[str]:
    """Symbols of caches that every reader takes at capacity, and widths of masks that are safe to freeze.

    A pure function of the graph. A symbol that also counts the positions of a form that grows (an Attention
    without a mask, CompressedSparseAttention) is never pinned.
    """
    pinned: set[str] = set()
    growing: set[str] = set()
    for step in program.steps:
        reads, writes = CACHES.get((step.node.domain, step.node.operator), ((), ()))
        fixed = bool(reads) and all(reads_capacity(step, position) for position in reads)
        target = pinned if fixed else growing
        for value in (*_picked(step.inputs, reads), *_picked(step.outputs, writes)):
            target.update(_penultimate(program.values[value].shape, whole=not fixed))
    if not pinned:
        return frozenset()
    return frozenset((pinned | set(_mask_widths(program))) - growing)


def _picked(values: tuple[int, ...], positions: tuple[int, ...]) -> Iterator[int]:
    return (values[item] for item in positions if _given(values, item))


def _penultimate(shape: Shape | None, *, whole: bool) -> frozenset[str]:
    """Symbols of the penultimate axis; not ``whole``: only where the axis is one symbol."""
    if shape is None or len(shape) < 2:
        return frozenset()
    symbols = free_symbols(shape[-2])
    return symbols if whole or len(symbols) == 1 else frozenset()


def _mask_widths(program: Program) -> Iterator[str]:
    links = link(program)
    for value in program.inputs:
        shape = program.values[value].shape
        if shape and not freeze_refusal(program, links, value):
            yield from free_symbols(shape[-1])
