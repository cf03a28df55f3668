"""What 4-bit weights would save: arithmetic over the floating-point weights of matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.dtypes import ElementType, bit_width, tensor_bytes
from vramscope.graph.model import ABSENT, Step
from vramscope.plan.index import body_captures
from vramscope.plan.weights import resident_roots

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.plan.index import PlanningIndex

BLOCK = 32
"""Weights along the reduced axis that share one scale."""

BLOCK_BYTES = BLOCK // 2
"""Codes of one block: two weights a byte."""

FLOATS = frozenset({ElementType.FLOAT, ElementType.FLOAT16, ElementType.BFLOAT16})
"""Types of weights that can be quantised; the scales have the same one."""

PRODUCTS = frozenset({("", "MatMul"), ("", "Gemm")})
"""Operators whose second input ``com.microsoft::MatMulNBits`` could hold as codes."""


def four_bit_savings(index: PlanningIndex) -> int:
    """Bytes that a session would hold less with these weights in 4 bits, symmetric, in blocks of 32.

    A weight [K, N] takes N × ⌈K / 32⌉ blocks of 16 bytes and a scale (MatMulNBits' layout, without zero
    points). Only weights that nothing but products read count: a token table that is looked up as well stays.
    Scratch is not looked at, so the saving is an estimate.
    """
    roots = resident_roots(index)
    others = {index.root_of[value] for value in _read_otherwise(index)}
    saved: dict[int, int] = {}
    for step in index.main_steps:
        if _is_product(step) and (root := index.root_of[step.inputs[1]]) in roots and root not in others:
            saved[root] = max(0, _saved(index, step))
    return sum(saved.values())


def _is_product(step: Step) -> bool:
    return (step.node.domain, step.node.operator) in PRODUCTS


def _read_otherwise(index: PlanningIndex) -> Iterator[int]:
    """Values that something reads in another place than the second input of a product."""
    yield from index.program.outputs
    for step in index.main_steps:
        for position, value in enumerate(step.inputs):
            if value != ABSENT and not (position == 1 and _is_product(step)):
                if _is_view(index, step, value):
                    continue
                yield value
        yield from body_captures(step)


def _is_view(index: PlanningIndex, step: Step, value: int) -> bool:
    """Whether the step only shows the same bytes under another name, whose readers count themselves."""
    return any(index.root_of[output] == index.root_of[value] for output in step.outputs if output != ABSENT)


def _saved(index: PlanningIndex, step: Step) -> int:
    """Bytes of the second input less those of its codes and scales; 0 where it is no matrix of floats."""
    value = index.program.values[step.inputs[1]]
    shape = tuple(dim for dim in value.shape or () if isinstance(dim, int))
    if value.dtype not in FLOATS or len(shape) != 2 or len(value.shape or ()) != 2:
        return 0
    reduced, columns = reversed(shape) if step.node.integer("transB", 0) else shape
    block = BLOCK_BYTES + bit_width(value.dtype) // 8
    return tensor_bytes(value.dtype, shape) - columns * -(-reduced // BLOCK) * block
