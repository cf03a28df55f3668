"""The geometry of sliding windows: kernel, strides, dilations, padding and the output extents they give."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from vramscope.errors import ModelGraphError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Array, Node
    from vramscope.ops.kernels.planned import Values


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows over spatial axes: each field has one entry an axis.

    ``extent`` is the input's, ``output`` the number of windows, ``before`` and ``after`` the padding.
    """

    extent: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    output: tuple[int, ...]

    @property
    def axes(self) -> range:
        """The spatial axes, from 0."""
        return range(len(self.extent))

    @property
    def padded(self) -> tuple[int, ...]:
        """Extents of the padded input, long enough for every window."""
        return tuple(
            max(
                self.before[i] + self.extent[i] + self.after[i],
                (self.output[i] - 1) * self.strides[i] + (self.kernel[i] - 1) * self.dilations[i] + 1,
            )
            for i in self.axes
        )

    @property
    def interior(self) -> tuple[slice, ...]:
        """Where the input lies inside the padded input."""
        return tuple(slice(self.before[i], self.before[i] + self.extent[i]) for i in self.axes)

    @property
    def plain(self) -> bool:
        """Whether every window is one input element and every element has one: a 1 × 1 kernel, no padding."""
        return prod(self.kernel) == 1 and self.output == self.extent and not any(self.before)

    def offsets(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        """Every place in the kernel, and the padded elements that stand there, one a window."""
        for place in product(*(range(size) for size in self.kernel)):
            yield (
                place,
                tuple(
                    slice(first, first + (self.output[i] - 1) * self.strides[i] + 1, self.strides[i])
                    for i, first in enumerate(place[i] * self.dilations[i] for i in self.axes)
                ),
            )

    def valid_counts(self, *, include_padding: bool) -> Array:
        """How many elements each window averages over, of shape ``output``: padding counts on request."""
        counts: Values = np.ones((), np.int64)
        for i in self.axes:
            first = np.arange(self.output[i]) * self.strides[i] - self.before[i]
            positions = first[:, np.newaxis] + np.arange(self.kernel[i]) * self.dilations[i]
            low = -self.before[i] if include_padding else 0
            high = self.extent[i] + (self.after[i] if include_padding else 0)
            own = ((positions >= low) & (positions < high)).sum(axis=1)
            counts = counts[..., np.newaxis] * own
        return counts


def windows(node: Node, extent: tuple[int, ...], kernel: tuple[int, ...]) -> Windows:
    """The windows that ``node``'s attributes describe.

    Raises:
        ModelGraphError: an attribute has a wrong number of entries, or a window does not fit.
    """
    rank = len(extent)
    strides = node.integers("strides", (1,) * rank)
    dilations = node.integers("dilations", (1,) * rank)
    pads = node.integers("pads", (0,) * (2 * rank))
    if not len(kernel) == len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ModelGraphError(
            f"attributes of {node.qualified}",
            f"kernel {list(kernel)}, strides {list(strides)}, dilations {list(dilations)} and pads "
            f"{list(pads)} for {rank} spatial axes",
            "",
            node.name,
        )
    automatic = node.text("auto_pad", "NOTSET")
    before, after = pads[:rank], pads[rank:]
    reach = tuple((kernel[i] - 1) * dilations[i] + 1 for i in range(rank))
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        totals = [
            max(0, (-(-extent[i] // strides[i]) - 1) * strides[i] + reach[i] - extent[i]) for i in range(rank)
        ]
        small = tuple(total // 2 for total in totals)
        large = tuple(total - total // 2 for total in totals)
        before, after = (small, large) if automatic == "SAME_UPPER" else (large, small)
    elif automatic == "VALID":
        before = after = (0,) * rank
    ceiling = node.integer("ceil_mode", 0) == 1
    output = tuple(
        _count(
            extent[i] + before[i] + after[i] - reach[i], strides[i], extent[i] + before[i], ceiling=ceiling
        )
        for i in range(rank)
    )
    if min(output, default=1) < 0:
        raise ModelGraphError(
            f"windows of {node.qualified}",
            f"a kernel of {list(kernel)} does not fit into {list(extent)}",
            "",
            node.name,
        )
    return Windows(extent, kernel, strides, dilations, before, after, output)


def _count(room: int, stride: int, last: int, *, ceiling: bool) -> int:
    """Windows along an axis; a rounded-up last one must still begin at an element or in the first padding."""
    if not ceiling:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= last else count


def channels(*rest: slice | int) -> tuple[Any, ...]:
    """The index of every channel at ``rest`` of the spatial (or kernel) axes."""
    return (slice(None), *rest)


def fill_padded(source: Array, form: Windows, padding: float, target: Values) -> None:
    """Copy ``source`` [..., spatial] into the middle of ``target`` [..., padded] and set the rest."""
    if target.shape[-len(form.extent) :] != source.shape[-len(form.extent) :]:
        target[...] = padding
    interior: tuple[Any, ...] = (..., *form.interior)
    np.copyto(target[interior], source, casting="unsafe")
