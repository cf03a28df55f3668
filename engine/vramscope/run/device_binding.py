"""A caller's binding with an identity: its buffer, the logical length that moves, transfers, lifetime.

What kernels and signatures see of it at one moment is a frozen :class:`~vramscope.run.bindings.Binding`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.governor_release import Quarantine
from vramscope.errors import BindingError, InvalidRequestError, ShapeOverflowError, VramscopeError
from vramscope.graph.dtypes import is_packed, numpy_dtype, tensor_bytes
from vramscope.run.bindings import Binding, check_logical, check_named, too_short

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.base import Device
    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.model import Array
    from vramscope.run.store import GraphStore, GraphToken
    from vramscope.run.virtual_memory import Ranges, VirtualBacking


@dataclass(frozen=True, slots=True)
class BindingTransfers:
    """Copies through one binding: calls and bytes each way. A whole read counts once."""

    uploads: int = 0
    upload_bytes: int = 0
    downloads: int = 0
    download_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BindingSpec:
    """What a binding is bound to, and how it is shown (see :class:`~vramscope.run.bindings.Binding`)."""

    input: str
    output: str
    dtype: ElementType
    physical: tuple[int, ...]
    exposes: bool = True
    fixed_strides: bool = False
    mask_freeze_safe: bool = False

    @property
    def name(self) -> str:
        """The input's name, else the output's."""
        return self.input or self.output


def physical_bytes(spec: BindingSpec) -> int:
    """Bytes of the physical shape, exact.

    Raises:
        ShapeOverflowError: more than 2**63 - 1 elements or bytes; names the binding and the shape.
    """
    try:
        return tensor_bytes(spec.dtype, spec.physical)
    except ShapeOverflowError as error:
        what = f"binding {spec.name} of shape {list(spec.physical)}"
        raise ShapeOverflowError(what, f"{error.what}: {error.why}", error.remedy) from error


def span_of(shape: tuple[int, ...], spec: BindingSpec) -> int:
    """Bytes from the start to the end of the last element of a prefix ``shape`` in the physical strides."""
    if 0 in shape or is_packed(spec.dtype):
        return 0 if 0 in shape else physical_bytes(spec)
    last, stride = 0, 1
    for extent, whole in zip(reversed(shape), reversed(spec.physical), strict=False):
        last += (extent - 1) * stride
        stride *= whole
    return (last + 1) * numpy_dtype(spec.dtype).itemsize


class DeviceIoBinding:
    """A buffer bound to an input, an output or both. The session's own, or the caller's, used in place."""

    def __init__(
        self,
        device: Device,
        spec: BindingSpec,
        raw: Array,
        address: int,
        owner: Callable[[], None] | None = None,
        keep: object = None,
        backing: VirtualBacking | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        """Binds the head of ``raw``.

        Args:
            device: whose memory it is.
            spec: what it is bound to.
            raw: the allocation as flat bytes.
            address: where it starts.
            owner: gives the memory back when the binding is closed; None: it is the caller's.
            keep: held as long as the binding lives.
            backing: of memory that is committed range by range.
            quarantine: keeps the memory while a graph over it cannot be retired; left out, one of its own.

        Raises:
            BindingError: bound to nothing.
        """
        check_named(spec.input, spec.output)
        self.device = device
        self.spec = spec
        self.transfers = BindingTransfers()
        self.quarantined = False
        self._raw, self._address, self._owner, self._keep = raw, address, owner, keep
        self._backing = backing
        self._quarantine = quarantine or Quarantine()
        self._logical = spec.physical
        self._tokens: list[tuple[GraphStore, GraphToken]] = []
        self._closed = False

    @property
    def name(self) -> str:
        """The input's name, else the output's."""
        return self.spec.name

    @property
    def size(self) -> int:
        """Bytes of the allocation."""
        return int(self._raw.nbytes)

    @property
    def address(self) -> int:
        """Where the buffer starts."""
        return self._address

    @property
    def physical(self) -> tuple[int, ...]:
        """The allocation's geometry."""
        return self.spec.physical

    @property
    def logical(self) -> tuple[int, ...]:
        """The valid prefix."""
        return self._logical

    def set_logical(self, shape: tuple[int, ...]) -> None:
        """Moves the valid prefix; the allocation is not touched.

        Raises:
            BindingError: another rank, or beyond the physical shape.
        """
        check_logical(self.name, shape, self.spec.physical)
        if is_packed(self.spec.dtype) and shape != self.spec.physical:
            raise BindingError(
                f"logical shape {list(shape)} of {self.name}",
                f"elements of {self.spec.dtype.name} share bytes, so a prefix of them has no place",
                "Show the whole physical shape",
            )
        self._logical = shape

    @property
    def committed_ranges(self) -> Ranges:
        """Byte ranges with memory behind them: all of it, but for virtual memory."""
        return ((0, self.size),) if self._backing is None else self._backing.committed

    @property
    def committed_bytes(self) -> int:
        """Bytes with memory behind them, in whole granules for virtual memory."""
        return self.size if self._backing is None else self._backing.committed_bytes

    def commit(self, start: int, end: int) -> int:
        """See :meth:`VirtualBacking.commit`; 0 for memory that is committed as a whole."""
        return 0 if self._backing is None else self._backing.commit(start, end)

    def decommit(self, start: int, end: int) -> int:
        """See :meth:`VirtualBacking.decommit`.

        Raises:
            InvalidRequestError: the memory is committed as a whole, or the range is not its own.
        """
        if self._backing is None:
            raise InvalidRequestError(f"decommitting {self.name}", "its memory is committed as a whole")
        return self._backing.decommit(start, end)

    def _require_committed(self, shape: tuple[int, ...]) -> None:
        end = span_of(shape, self.spec)
        if self._backing is not None and not self._backing.covers(end):
            raise BindingError(
                f"binding {self.name} of shape {list(shape)}",
                f"it reaches byte {end:,}, and {self.committed_ranges} are committed",
                "Commit the range first",
            )

    def snapshot(self) -> Binding:
        """The binding as kernels and signatures see it now; its output is the exposed shape too.

        Raises:
            BindingError: the buffer is shorter than the physical shape, or the binding is closed.
            ShapeOverflowError: more bytes than any device holds.
        """
        self._open()
        spec = self.spec
        need = physical_bytes(spec)
        if need > self.size:
            raise too_short(spec.name, spec.physical, need, self.size)
        array = self._raw[:need]
        if not is_packed(spec.dtype):
            array = array.view(numpy_dtype(spec.dtype)).reshape(spec.physical)
        shown = self._logical if spec.exposes else spec.physical
        self._require_committed(shown)
        return Binding(
            input=spec.input,
            output=spec.output,
            dtype=spec.dtype,
            physical=spec.physical,
            logical=self._logical,
            output_logical=shown,
            array=array,
            address=self._address,
            exposes=spec.exposes,
            fixed_strides=spec.fixed_strides,
            mask_freeze_safe=spec.mask_freeze_safe,
        )

    def write(self, values: Array) -> None:
        """Uploads values of the physical or the logical shape; counted.

        Raises:
            BindingError: another shape or type.
        """
        whole = self.snapshot()
        self._require_committed(values.shape)
        target = whole.array if values.shape == self.spec.physical else whole.input_view()
        if values.shape != target.shape or values.dtype != target.dtype:
            raise BindingError(
                f"values for {self.name}",
                f"{values.dtype}{list(values.shape)} is given, the binding holds "
                f"{target.dtype}{list(self.spec.physical)} and shows {list(self._logical)}",
                "Give the physical or the logical shape",
            )
        self.device.upload(target, values)
        old = self.transfers
        self.transfers = replace(
            old, uploads=old.uploads + 1, upload_bytes=old.upload_bytes + int(values.nbytes)
        )

    def read(self) -> Array:
        """A copy of the whole physical buffer; counted as one download."""
        self._require_committed(self.spec.physical)
        return self._download(self.snapshot().array)

    def read_logical(self) -> Array:
        """A copy of the valid prefix; counted as one download of its bytes."""
        whole = self.snapshot().array
        return self._download(whole[tuple(slice(0, extent) for extent in self._logical)])

    def _download(self, view: Array) -> Array:
        found = self.device.download(view)
        old = self.transfers
        self.transfers = replace(
            old, downloads=old.downloads + 1, download_bytes=old.download_bytes + int(view.nbytes)
        )
        return np.asarray(found)

    def stamp(self, store: GraphStore, token: GraphToken) -> None:
        """Remembers a graph that baked this buffer in: it is retired before the buffer goes."""
        self._tokens = [item for item in self._tokens if item[0].has(item[1])]
        self._tokens.append((store, token))

    def close(self) -> None:
        """Retires the graphs that hold the buffer, then gives it back; closing again does nothing.

        Where a graph cannot be retired the buffer is quarantined, for a graph that may still run would write
        into it: it stays allocated until the session, which tries again, is closed.

        Raises:
            VramscopeError: the reason for which a graph could not be retired.
        """
        if self._closed:
            return
        self._closed = True
        if self._owner is None:
            self._retire_graphs()
        elif not self._quarantine.drop(self.name, self.size, self._retire_graphs, self._owner):
            self.quarantined = True
            raise VramscopeError(f"binding {self.name}", self._quarantine.items[-1].why)

    def _retire_graphs(self) -> None:
        for store, token in self._tokens:
            store.retire(token, f"binding {self.name} was closed")
        self._tokens.clear()

    def _open(self) -> None:
        if self._closed:
            raise BindingError(f"binding {self.name}", "it is closed", "Bind again")

    def __enter__(self) -> DeviceIoBinding:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
