"""One operator on the CUDA device: inputs uploaded, outputs poisoned, the result brought back."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from vramscope.devices.cuda.work import NoKernelError, Work
from vramscope.devices.ledger import Site
from vramscope.graph.dtypes import ElementType, from_numpy
from vramscope.graph.model import Node
from vramscope.ops.call import Call, Packed
from vramscope.ops.cuda_workspace import CUDA_WORKSPACE
from vramscope.ops.spec import ABSENT_META, TensorMeta, WorkspaceQuery
from vramscope.ops.table import spec_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.devices.base import Buffer
    from vramscope.devices.cuda.device import CudaDevice

Tensors = np.ndarray[Any, Any]
POISON = 0xFF


@dataclass
class Bench:
    """Runs single nodes on a device and gives everything back at the end."""

    device: CudaDevice
    buffers: list[Buffer] = field(default_factory=list)

    def put(self, value: Tensors) -> Any:  # noqa: ANN401 - a device array
        """A copy on the device."""
        array = self.room(value.shape, value.dtype)
        self.device.upload(array, value)
        return array

    def room(self, shape: Sequence[int], dtype: Any) -> Any:  # noqa: ANN401 - a device array
        """Poisoned memory: every byte 0xFF, which is NaN in every float type."""
        size = prod(shape) * np.dtype(dtype).itemsize
        buffer = self.device.allocate(Site("weights", "a test's tensor"), size)
        self.buffers.append(buffer)
        buffer.bytes[:] = np.full(size, POISON, np.uint8)
        return buffer.bytes.view(dtype).reshape(tuple(shape))

    def run(
        self,
        node: Node,
        inputs: Sequence[Tensors | Packed | None],
        outputs: Sequence[tuple[Sequence[int], Any] | int | None],
        *,
        need_kernel: bool = True,
    ) -> list[Tensors]:
        """The wanted outputs of one node: as :meth:`call` takes it.

        Args:
            node: what to run.
            inputs: host tensors; None: left out.
            outputs: shape and type of each; a number: it is that input's buffer; None: not wanted.
            need_kernel: the node must have kernels of its own.
        """
        call = self.call(node, inputs, outputs)
        if need_kernel:
            self._must_build(call)
        self.device.kernel(node, spec_for(node))(call)
        return [self.device.download(cast("Tensors", item)) for item in call.placed if item is not None]

    def call(
        self,
        node: Node,
        inputs: Sequence[Tensors | Packed | None],
        outputs: Sequence[tuple[Sequence[int], Any] | int | None],
    ) -> Call:
        """One node's call on the device: inputs uploaded, outputs poisoned."""
        given = [self._given(item) for item in inputs]
        placed = [self._place(item, given) for item in outputs]
        return Call(
            node=node,
            inputs=tuple(given),
            placed=list(placed),
            wanted=tuple(item is not None for item in placed),
            output_types=tuple(ElementType.FLOAT for _ in placed),
            scratch_bytes=self._scratch(node, inputs, placed),
        )

    def _must_build(self, call: Call) -> None:
        from vramscope.devices.cuda.table import BUILDERS

        try:
            BUILDERS[call.node.domain, call.node.operator](Work(call, self.device))
        except NoKernelError as refusal:
            raise AssertionError(f"{call.node.qualified} has no kernel: {refusal.why}") from refusal

    def _given(self, value: Tensors | Packed | None) -> Any:  # noqa: ANN401 - a device tensor
        if value is None:
            return None
        if isinstance(value, Packed):
            return Packed(self.put(value.data), value.dtype, value.shape)
        return self.put(value)

    def _place(self, wanted: tuple[Sequence[int], Any] | int | None, given: list[Any]) -> Any:  # noqa: ANN401 - a device array
        if wanted is None:
            return None
        return given[wanted] if isinstance(wanted, int) else self.room(*wanted)

    def _scratch(self, node: Node, inputs: Sequence[Tensors | Packed | None], placed: list[Any]) -> Any:  # noqa: ANN401 - a device array
        estimate = CUDA_WORKSPACE.get((node.domain, node.operator))
        if estimate is None:
            return None
        metas = tuple(ABSENT_META if item is None else meta_of(item) for item in inputs)
        count = sum(item is not None for item in placed)
        need = estimate(WorkspaceQuery(node, metas, count))
        return self.room((need.bytes,), np.uint8) if need.bytes else None

    def close(self) -> None:
        """Gives every buffer back."""
        for buffer in self.buffers:
            self.device.release(buffer)
        self.buffers.clear()


def meta_of(value: Tensors | Packed) -> TensorMeta:
    """What planning knows of a tensor."""
    if isinstance(value, Packed):
        return TensorMeta(value.dtype, value.shape)
    return TensorMeta(from_numpy(value.dtype), value.shape)


def node(name: str, domain: str = "", opset: int = 23, **attributes: Any) -> Node:  # noqa: ANN401 - attributes
    """A node of this operator."""
    return Node("the node", name, domain, opset, attributes)


def error(found: Tensors, reference: Tensors) -> float:
    """‖found − reference‖ / ‖reference‖ in float64; NaN anywhere gives NaN."""
    wide, true = found.astype(np.float64), np.asarray(reference, np.float64)
    norm = float(np.linalg.norm(true.reshape(-1)))
    return float(np.linalg.norm((wide - true).reshape(-1))) / (norm or 1.0)


def cast_to(value: Tensors, dtype: Any) -> Tensors:  # noqa: ANN401 - a NumPy type
    """Rounded to the type."""
    return cast("Tensors", value.astype(dtype))
