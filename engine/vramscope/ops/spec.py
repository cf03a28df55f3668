"""The row type of the operator table: everything the planner and the runners know about one operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.ops.call import Call, Packed, Tensor

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node

Kernel: TypeAlias = Callable[[Call], None]


class Lifetime(Enum):
    """How long a workspace is held (semantics 1.2)."""

    STEP_SCOPED = "step-scoped"
    SESSION_PERSISTENT = "session-persistent"


@dataclass(frozen=True, slots=True)
class Region:
    """One named part of a workspace: bytes ``[offset, offset + size)``."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class WorkspaceRequirement:
    """Scratch one node needs: bytes, alignment, lifetime, its formula's name and layout (semantics 1.2)."""

    bytes: int
    alignment: int = 1
    lifetime: Lifetime = Lifetime.STEP_SCOPED
    formula: str = ""
    regions: tuple[Region, ...] = ()


NO_WORKSPACE = WorkspaceRequirement(0)
"""Zero bytes, alignment 1, step-scoped."""


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """What planning knows of one input: type, concrete shape, whether it is given, a constant's value."""

    dtype: ElementType
    shape: tuple[int, ...]
    present: bool = True
    constant: Array | None = None


ABSENT_META = TensorMeta(ElementType.UNDEFINED, (), present=False)


def meta_of(value: Tensor | None) -> TensorMeta:
    """What an estimator is told of a value at hand; a sequence counts as left out."""
    if value is None or isinstance(value, list):
        return ABSENT_META
    if isinstance(value, Packed):
        return TensorMeta(value.dtype, value.shape)
    return TensorMeta(from_numpy(np.dtype(value.dtype)), tuple(value.shape))


@dataclass(frozen=True, slots=True)
class WorkspaceQuery:
    """The question to a workspace estimator: the node, its inputs, how many outputs are wanted."""

    node: Node
    inputs: tuple[TensorMeta, ...]
    outputs: int

    def input(self, index: int) -> TensorMeta:
        """Metadata of input ``index``; an absent one has shape [] and present=False."""
        return self.inputs[index] if index < len(self.inputs) else ABSENT_META


Workspace: TypeAlias = Callable[[WorkspaceQuery], WorkspaceRequirement]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One operator.

    Attributes:
        domain: "" for the default domain.
        name: the operator's ONNX name.
        kernel: the host kernel; None means the reference evaluator runs it, and the node says so.
        workspace: planned scratch of *our* kernel; None means it needs none. What the reference CUDA kernels
            take stands in :data:`vramscope.ops.formulas.REFERENCE_WORKSPACE`.
        view: (output, input) pairs where the output is the input's bytes under another shape.
        strided_view: (output, input) pairs where strides alone make the output from a *weight's* bytes.
        in_place: (output, input) pairs where the output may overwrite a dead input of the same size.
        aliases: (output, input) pairs that may be bound to one caller-owned buffer (past/present).
        capture_refusal: why the kernel can never be captured; empty when it can.
        host_inputs: inputs that are read on the host (shapes, lengths): frozen under capture.
        data_dependent: output extents depend on input *values*.
        control_flow: runs a body graph.
        sequence: reads or writes a sequence.
    """

    domain: str
    name: str
    kernel: Kernel | None = None
    workspace: Workspace | None = None
    view: tuple[tuple[int, int], ...] = ()
    strided_view: tuple[tuple[int, int], ...] = ()
    in_place: tuple[tuple[int, int], ...] = ()
    aliases: tuple[tuple[int, int], ...] = ()
    capture_refusal: str = ""
    host_inputs: tuple[int, ...] = ()
    data_dependent: bool = False
    control_flow: bool = False
    sequence: bool = False
