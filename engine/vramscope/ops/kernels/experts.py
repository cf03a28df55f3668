"""The weights of one expert in f32, however they are stored, and the gate between its two products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vramscope.errors import ModelGraphError, UnsupportedOperatorError
from vramscope.ops.kernels.block_formats import BlockFormat, decode
from vramscope.ops.kernels.codes import UNSIGNED, byte_table, expand_rows
from vramscope.ops.kernels.functors import functor
from vramscope.ops.kernels.widening import widen

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.kernels.planned import Values

_DECODED = 1 << 17


class Projection(Protocol):
    """One of fc1, fc2, fc3 of every expert."""

    @property
    def extents(self) -> tuple[int, int]:
        """Outputs and inputs."""

    def weight(self, expert: int, target: Values) -> Values:
        """The expert's weight [outputs, inputs] in f32: the stored one, or decoded into ``target``."""


@dataclass(frozen=True, slots=True)
class DenseProjection:
    """Floats [E, N, K]."""

    stored: Array

    @property
    def extents(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.stored.shape[1], self.stored.shape[2]

    def weight(self, expert: int, target: Values) -> Values:
        """See :class:`Projection`."""
        own: Values = self.stored[expert]
        if own.dtype == np.float32:
            return own
        widen(own, target)
        return target


@dataclass(frozen=True, slots=True)
class IntegerProjection:
    """uint8 [E, N, K·bits/8] with scales [E, N] or [E, N, blocks] and packed zero points (or None)."""

    stored: Array
    scales: Array
    zeros: Array | None
    bits: int

    @property
    def extents(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.stored.shape[1], self.stored.shape[2] * (8 // self.bits)

    def weight(self, expert: int, target: Values) -> Values:
        """See :class:`Projection`."""
        table = byte_table(UNSIGNED[self.bits], np.dtype(np.float32))
        expand_rows(self.stored[expert], table, target)
        rows = target.shape[0]
        scales: Values = self.scales[expert].reshape(rows, -1, 1)
        blocks = target.reshape(rows, scales.shape[1], -1)
        np.subtract(blocks, self._zeros(expert, scales.shape[:2], table), out=blocks)
        np.multiply(blocks, scales, out=blocks, dtype=np.float32, casting="unsafe")
        return target

    def _zeros(self, expert: int, shape: tuple[int, ...], table: Values) -> Values | int:
        if self.zeros is None:
            return 1 << (self.bits - 1)
        points: Values = np.empty(shape, np.float32)
        own = self.zeros[expert]
        if own.ndim == 1 and shape[1] == 1:
            expand_rows(own.reshape(1, -1), table, points.reshape(1, -1))
        else:
            expand_rows(own, table, points)
        return points[:, :, np.newaxis]


@dataclass(frozen=True, slots=True)
class BlockProjection:
    """uint8 [E, N, blocks, bytes] of a GGUF format; K is a whole number of blocks."""

    stored: Array
    form: BlockFormat

    @property
    def extents(self) -> tuple[int, int]:
        """Outputs and inputs."""
        return self.stored.shape[1], self.stored.shape[2] * self.form.elements

    def weight(self, expert: int, target: Values) -> Values:
        """See :class:`Projection`."""
        step = max(1, _DECODED // max(target.shape[1], 1))
        for start in range(0, target.shape[0], step):
            decode(self.form, self.stored[expert, start : start + step], target[start : start + step])
        return target


@dataclass(frozen=True, slots=True)
class Gate:
    """What happens between fc1 (and fc3) and fc2.

    ``fusion``: 0: fc1 is the gate and fc3 the linear part; 1: rows of fc1 alternate; 2: they are halves.
    """

    activation: str
    fusion: int
    alpha: float
    beta: float
    limit: float
    separate: bool

    @property
    def gated(self) -> bool:
        """Whether two projections meet in one product."""
        return self.activation == "swiglu" or self.separate

    def inner(self, outputs: int) -> int:
        """Inputs of fc2 for ``outputs`` of fc1."""
        return outputs // 2 if self.fusion else outputs


def gate_of(node: Node, *, separate: bool) -> Gate:
    """The gate that ``node``'s attributes describe.

    Raises:
        UnsupportedOperatorError: an unknown activation.
        ModelGraphError: attributes that contradict each other.
    """
    activation = node.text("activation_type", "relu")
    fusion = node.integer("swiglu_fusion", 0)
    if activation not in ("relu", "gelu", "silu", "swiglu", "identity"):
        raise UnsupportedOperatorError(
            f"activation {activation!r} of {node.qualified}", "it is not known", "", node.name
        )
    wrong = ""
    if fusion not in (0, 1, 2) or (fusion and activation != "swiglu"):
        wrong = f"swiglu_fusion {fusion} with {activation}"
    elif separate and activation not in ("silu", "swiglu"):
        wrong = f"a third projection with {activation}"
    elif activation == "swiglu" and separate == bool(fusion):
        wrong = f"swiglu with swiglu_fusion {fusion} and {'a' if separate else 'no'} third projection"
    if wrong:
        raise ModelGraphError(f"attributes of {node.qualified}", wrong, "", node.name)
    return Gate(
        activation,
        fusion,
        node.number("activation_alpha", 1.0),
        node.number("activation_beta", 0.0),
        node.number("swiglu_limit", float("inf")),
        separate,
    )


def apply_gate(gate: Gate, first: Values, third: Values | None, hidden: Values, spare: Values) -> None:
    """``hidden`` [rows, I] from fc1's output [rows, F] and fc3's (or None); ``spare`` has hidden's shape."""
    if not gate.gated:
        np.copyto(hidden, first)
        _activate(gate.activation, hidden, spare)
        return
    inner = hidden.shape[1]
    if gate.fusion == 1:
        gates, linear = first[:, 0::2], first[:, 1::2]
    elif gate.fusion == 2:
        gates, linear = first[:, :inner], first[:, inner:]
    else:
        assert third is not None
        gates, linear = first, third
    np.minimum(gates, gate.limit, out=hidden)
    np.multiply(hidden, gate.alpha, out=spare)
    functor("sigmoid", "")[0](spare, 0, 0)
    np.multiply(hidden, spare, out=hidden)
    np.clip(linear, -gate.limit, gate.limit, out=spare)
    np.add(spare, gate.beta, out=spare)
    np.multiply(hidden, spare, out=hidden)


def _activate(name: str, values: Values, spare: Values) -> None:
    if name == "relu":
        np.maximum(values, 0, out=values)
    elif name == "silu":
        np.copyto(spare, values)
        functor("sigmoid", "")[0](spare, 0, 0)
        np.multiply(values, spare, out=values)
    elif name == "gelu":
        np.multiply(values, values, out=spare)
        np.multiply(spare, np.float32(0.044715), out=spare)
        np.add(spare, 1, out=spare)
        np.multiply(spare, values, out=spare)
        np.multiply(spare, np.float32(np.sqrt(2 / np.pi)), out=spare)
        np.tanh(spare, out=spare)
        np.add(spare, 1, out=spare)
        np.multiply(values, spare, out=values)
        np.multiply(values, 0.5, out=values)
