"""Scratch that the CUDA kernels of mixtures of experts take: routes, hidden rows, and each expert's share."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from vramscope.ops.kernels.experts import gate_of
from vramscope.ops.kernels.mixture import roles_of
from vramscope.ops.kernels.planned import lay_out
from vramscope.ops.spec import Lifetime

if TYPE_CHECKING:
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


def cuda_mixture_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Every region in 4-byte elements: [rows, k] routes and shares, their order by expert, hidden, parts."""
    node, roles = query.node, roles_of(query.node.operator)
    source, weight = query.input(0).shape, query.input(roles.weights[0]).shape
    rows, hidden, experts = prod(source[:-1]), source[-1], weight[0]
    inner = gate_of(node, separate=query.input(roles.weights[2]).present).inner(weight[1])
    slots = rows * node.integer("k", 1)
    sizes = {
        "chosen": 4 * slots,
        "share": 4 * slots,
        "order": 4 * slots,
        "start": 4 * (experts + 1),
        "hidden": 4 * slots * inner,
        "part": 4 * slots * hidden,
    }
    return lay_out("cuda-mixture", sizes, Lifetime.STEP_SCOPED)
