"""Host kernels: mixtures of experts: MoE, QMoE and BlockQuantizedMoE; one expert in work at a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError, UnsupportedOperatorError
from vramscope.graph.dtypes import ElementType
from vramscope.ops.kernels.block_formats import block_format
from vramscope.ops.kernels.experts import (
    BlockProjection,
    DenseProjection,
    IntegerProjection,
    apply_gate,
    gate_of,
)
from vramscope.ops.kernels.planned import lay_out, query_of, region_of
from vramscope.ops.kernels.routing import route
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.experts import Gate, Projection
    from vramscope.ops.kernels.planned import Values
    from vramscope.ops.spec import WorkspaceQuery, WorkspaceRequirement


@dataclass(frozen=True, slots=True)
class Roles:
    """Which input is what; scales and zero points are those of fc1, fc2, fc3; −1: the operator has none."""

    weights: tuple[int, int, int]
    biases: tuple[int, int, int]
    router_weights: int
    scales: tuple[int, int, int] = (-1, -1, -1)
    zeros: tuple[int, int, int] = (-1, -1, -1)


_ROLES = {
    "MoE": Roles((2, 4, 6), (3, 5, 7), -1),
    "QMoE": Roles((2, 5, 8), (4, 7, 10), 14, (3, 6, 9), (11, 12, 13)),
    "BlockQuantizedMoE": Roles((2, 4, 6), (3, 5, 7), 8),
}


def roles_of(operator: str) -> Roles:
    """Which input of a mixture is what."""
    return _ROLES[operator]


def mixture_workspace(query: WorkspaceQuery) -> WorkspaceRequirement:
    """Tokens of one expert through its products, and one decoded projection where it is not stored in f32."""
    node = query.node
    roles = _ROLES[node.operator]
    hidden = query.input(0).shape[-1]
    rows = prod(query.input(0).shape[:-1])
    outputs = query.input(roles.weights[0]).shape[1]
    separate = query.input(roles.weights[2]).present
    inner = gate_of(node, separate=separate).inner(outputs)
    half = query.input(0).dtype in (ElementType.FLOAT16, ElementType.BFLOAT16)
    stored_f32 = node.operator == "MoE" and not half
    sizes = {
        "tokens": 4 * rows * hidden,
        "first": 4 * rows * outputs,
        "third": 4 * rows * inner if separate else 0,
        "hidden": 4 * rows * inner,
        "spare": 4 * rows * inner,
        "second": 4 * rows * hidden,
        "sum": 4 * rows * hidden if half else 0,
        "weight": 0 if stored_f32 else 4 * max(outputs * hidden, hidden * inner),
    }
    return lay_out("host-mixture", sizes)


def moe(call: Call) -> None:
    """Y of X's shape: dense experts; gelu is the tanh form, equal logits go to the lower index."""
    _mixture(call, [_dense(call, index) for index in _ROLES["MoE"].weights])


def check_integers(node: Node) -> None:
    """Whether a QMoE holds integers as they are.

    Raises:
        UnsupportedOperatorError: another quant_type, or weights prepacked for one GPU's kernel.
    """
    if node.text("quant_type", "int") != "int" or node.integer("weights_prepacked", -1) > 0:
        raise UnsupportedOperatorError(
            f"the weights of {node.qualified}",
            f"quant_type {node.text('quant_type', 'int')!r}, weights_prepacked "
            f"{node.integer('weights_prepacked', -1)}",
            "Integer weights in the raw layout are supported",
            node.name,
        )


def qmoe(call: Call) -> None:
    """Y of X's shape: experts of 2, 4 or 8 bits with scales by row or by block.

    Raises:
        UnsupportedOperatorError: another quant_type, or weights prepacked for one GPU's kernel.
    """
    node = call.node
    check_integers(node)
    roles, bits = _ROLES["QMoE"], node.integer("expert_weight_bits", 4)
    projections: list[Projection | None] = []
    for place in range(3):
        if not call.has(roles.weights[place]):
            projections.append(None)
            continue
        stored, scales = call.array(roles.weights[place]), call.array(roles.scales[place])
        projections.append(IntegerProjection(stored, scales, call.optional(roles.zeros[place]), bits))
    _mixture(call, projections)


_BLOCK_ATTRIBUTES = frozenset(
    (
        "k",
        "activation_type",
        "normalize_routing_weights",
        "swiglu_fusion",
        "activation_alpha",
        "activation_beta",
        "swiglu_limit",
        "block_layout_version",
        "format",
        "fc1_format",
        "fc2_format",
        "fc3_format",
    )
)


PLANAR = (9, 10, 11)
"""Inputs of the planar layout."""


def check_blocks(node: Node, *, planar: bool) -> None:
    """Whether a BlockQuantizedMoE has the layout that is known.

    Raises:
        UnsupportedOperatorError: planar weights, another version, an unknown attribute.
    """
    unknown = sorted(set(node.attributes) - _BLOCK_ATTRIBUTES)
    if unknown or planar or node.integer("block_layout_version", 1) != 1:
        raise UnsupportedOperatorError(
            f"operator {node.qualified}",
            f"attributes {unknown}" if unknown else "a planar layout or another layout version",
            "Block layout version 1 with up to nine inputs is supported",
            node.name,
        )


def block_moe(call: Call) -> None:
    """Y of X's shape: experts in GGUF blocks; ``format`` for all, or one format a projection.

    Raises:
        UnsupportedOperatorError: planar weights (inputs 9 to 11), another version, an unknown attribute.
        ModelGraphError: formats missing.
    """
    node = call.node
    check_blocks(node, planar=any(call.has(index) for index in PLANAR))
    projections: list[Projection | None] = []
    for place, index in enumerate(_ROLES["BlockQuantizedMoE"].weights):
        if not call.has(index):
            projections.append(None)
            continue
        name = node.text(f"fc{place + 1}_format", "") or node.text("format", "")
        projections.append(BlockProjection(call.array(index), block_format(name, node.name)))
    _mixture(call, projections)


def _dense(call: Call, index: int) -> Projection | None:
    return DenseProjection(call.array(index)) if call.has(index) else None


def _mixture(call: Call, projections: list[Projection | None]) -> None:
    source = call.array(0)
    gate = gate_of(call.node, separate=projections[2] is not None)
    _check(call, gate, projections)
    out = call.output(0, source.shape, source.dtype)
    if out.size == 0:
        return
    flat = source.reshape(-1, source.shape[-1])
    requirement = mixture_workspace(query_of(call))

    def region(name: str, shape: tuple[int, ...]) -> Values:
        return region_of(call, requirement, name, shape)

    half = source.dtype != np.float32
    total: Values = region("sum", flat.shape) if half else out.reshape(flat.shape)
    total[...] = 0
    chosen, shares = _routed(call)
    for expert in np.unique(chosen).tolist():
        rows, places = np.nonzero(chosen == expert)
        tokens = region("tokens", (rows.size, flat.shape[1]))
        for place, number in enumerate(rows.tolist()):
            np.copyto(tokens[place], flat[number], casting="unsafe")
        second = _expert(call, gate, projections, expert, tokens, region)
        np.multiply(second, shares[rows, places][:, np.newaxis], out=second)
        np.take(total, rows, axis=0, out=tokens, mode="clip")
        np.add(tokens, second, out=tokens)
        total[rows] = tokens
    if half:
        np.copyto(out.reshape(flat.shape), total, casting="unsafe")


def _routed(call: Call) -> tuple[Values, Values]:
    """Experts and their weights, both [rows, k]."""
    place = _ROLES[call.node.operator].router_weights
    return route(
        call.array(1).astype(np.float32),
        call.optional(place) if place >= 0 else None,
        call.node.integer("k", 1),
        normalize=call.node.integer("normalize_routing_weights", 0) == 1,
    )


def chosen_experts(call: Call) -> Values:
    """The experts of every row, [rows, k], as the kernel routes them."""
    return _routed(call)[0]


def expert_inputs(operator: str) -> tuple[int, ...]:
    """Inputs whose first axis counts experts: weights, biases, scales, zero points."""
    roles = _ROLES[operator]
    groups = (roles.weights, roles.biases, roles.scales, roles.zeros)
    return tuple(place for group in groups for place in group if place >= 0)


def _expert(
    call: Call,
    gate: Gate,
    projections: list[Projection | None],
    expert: int,
    tokens: Values,
    region: Callable[[str, tuple[int, ...]], Values],
) -> Values:
    """fc2(gate(fc1(tokens), fc3(tokens))) in f32."""

    def project(place: int, name: str, given: Values) -> Values:
        projection = projections[place]
        assert projection is not None
        result = region(name, (given.shape[0], projection.extents[0]))
        direct = isinstance(projection, DenseProjection) and projection.stored.dtype == np.float32
        target = given if direct else region("weight", projection.extents)
        np.matmul(given, projection.weight(expert, target).T, out=result)
        index = _ROLES[call.node.operator].biases[place]
        if call.has(index):
            np.add(result, call.array(index)[expert], out=result, dtype=np.float32, casting="unsafe")
        return result

    first = project(0, "first", tokens)
    third = project(2, "third", tokens) if projections[2] is not None else None
    shape = (tokens.shape[0], gate.inner(first.shape[1]))
    hidden = region("hidden", shape)
    apply_gate(gate, first, third, hidden, region("spare", shape))
    return project(1, "second", hidden)


def _check(call: Call, gate: Gate, projections: list[Projection | None]) -> None:
    """The extents of the projections follow each other, and the router has a row for every token."""
    node, source, router = call.node, call.array(0), call.array(1)
    first, second, third = (item.extents if item is not None else (0, 0) for item in projections)
    hidden = source.shape[-1]
    inner = gate.inner(first[0])
    count = node.integer("k", 1)
    fits = (
        first[1] == hidden
        and second == (hidden, inner)
        and (projections[2] is None or third == (inner, hidden))
        and router.shape == (prod(source.shape[:-1]), call.array(2).shape[0])
        and 0 < count <= router.shape[1]
        and inner > 0
        and not (gate.fusion and first[0] % 2)
    )
    if not fits:
        raise ModelGraphError(
            f"inputs of {node.qualified}",
            f"X {list(source.shape)}, router {list(router.shape)}, fc1 {first}, fc2 {second}, fc3 {third}, "
            f"k {count}",
            "fc1 is [F, H], fc2 [H, I], fc3 [I, H] for every expert, the router [rows, experts]",
            node.name,
        )


def _spec(domain: str, name: str, kernel: Callable[[Call], None]) -> OpSpec:
    return OpSpec(domain, name, kernel, workspace=mixture_workspace)


MIXTURES = frozenset((("com.microsoft", "MoE"), ("com.microsoft", "QMoE"), ("pkg.nxrt", "BlockQuantizedMoE")))
"""Domain and name of every mixture of experts."""

SPECS: tuple[OpSpec, ...] = (
    _spec("com.microsoft", "MoE", moe),
    _spec("com.microsoft", "QMoE", qmoe),
    _spec("pkg.nxrt", "BlockQuantizedMoE", block_moe),
)
