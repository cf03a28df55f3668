"""Planned scratch of one kernel: an estimator's regions, and the kernel's views of the same bytes."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from vramscope.graph.dtypes import from_numpy
from vramscope.ops.call import Packed
from vramscope.ops.spec import (
    ABSENT_META,
    NO_WORKSPACE,
    Lifetime,
    Region,
    TensorMeta,
    WorkspaceQuery,
    WorkspaceRequirement,
)
from vramscope.units import ALIGNMENT, align

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.ops.call import Call, Tensor

Values: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[Any]]
"""An array in arithmetic, where the element type is known to the reader and not to the type checker."""


def lay_out(
    formula: str, sizes: Mapping[str, int], lifetime: Lifetime = Lifetime.SESSION_PERSISTENT
) -> WorkspaceRequirement:
    """One region per positive size, each from the next 256-byte boundary; the total is the last one's end."""
    offset = 0
    regions: list[Region] = []
    for name, size in sizes.items():
        if size > 0:
            start = align(offset)
            regions.append(Region(name, start, size))
            offset = start + size
    if not regions:
        return NO_WORKSPACE
    return WorkspaceRequirement(offset, ALIGNMENT, lifetime, formula, tuple(regions))


def region_of(
    call: Call,
    requirement: WorkspaceRequirement,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype[np.generic] | type = np.float32,
) -> Values:
    """The named region as an array of ``shape``; an array of no elements needs no region.

    Raises:
        VramscopeError: the prepared scratch ends before the region does.
    """
    if prod(shape) == 0:
        return np.empty(shape, dtype)
    call.scratch((requirement.bytes,), np.uint8)
    region = next(part for part in requirement.regions if part.name == name)
    return call.scratch(shape, dtype, region.offset)


def regions_of(call: Call, requirement: WorkspaceRequirement) -> dict[str, Values]:
    """Every region as flat bytes, by name.

    Raises:
        VramscopeError: less scratch is prepared than the requirement says.
    """
    whole = call.scratch((requirement.bytes,), np.uint8)
    return {part.name: whole[part.offset : part.offset + part.size] for part in requirement.regions}


def query_of(call: Call) -> WorkspaceQuery:
    """The question a planner would have asked about exactly this call."""
    return WorkspaceQuery(call.node, tuple(_meta(value) for value in call.inputs), sum(call.wanted))


def _meta(value: Tensor | None) -> TensorMeta:
    if isinstance(value, np.ndarray):
        return TensorMeta(from_numpy(value.dtype), value.shape)
    if isinstance(value, Packed):
        return TensorMeta(value.dtype, value.shape)
    return ABSENT_META
