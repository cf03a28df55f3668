"""The one table of operators: what planning and running know, looked up by domain and name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.ops.kernels import (
    activation,
    attention,
    casting,
    channels,
    comparison,
    control,
    convolution,
    cumulative,
    elementwise,
    filling,
    gather,
    grouped,
    layout,
    matmul,
    mixture,
    multihead,
    normalization,
    paged,
    quantized,
    recurrent,
    reduction,
    resize,
    rotary,
    scatter,
    selection,
    sequence,
    shared_index,
)
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Node

_FAMILIES = (
    activation,
    attention,
    casting,
    channels,
    comparison,
    control,
    convolution,
    cumulative,
    elementwise,
    filling,
    gather,
    grouped,
    layout,
    matmul,
    mixture,
    multihead,
    normalization,
    paged,
    quantized,
    recurrent,
    reduction,
    resize,
    rotary,
    scatter,
    selection,
    sequence,
    shared_index,
)

TABLE: Mapping[tuple[str, str], OpSpec] = MappingProxyType(
    {(row.domain, row.name): row for family in _FAMILIES for row in family.SPECS}
)
"""Every operator with facts of its own, by (domain, name)."""


def spec_for(node: Node) -> OpSpec:
    """The row of ``node``'s operator; a bare row (no kernel, nothing planned) when the table has none."""
    return TABLE.get((node.domain, node.operator)) or OpSpec(node.domain, node.operator)
