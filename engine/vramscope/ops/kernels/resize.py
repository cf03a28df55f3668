"""Host kernels: Resize and Upsample, one axis after the other.

Interpolation is separable: along each axis an output position reads a few input positions with weights that
depend on that axis alone. Coordinates follow the ONNX standard; antialiasing is a wider set of weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from typing import TYPE_CHECKING

import numpy as np

from vramscope.errors import ModelGraphError
from vramscope.ops.spec import OpSpec

if TYPE_CHECKING:
    from vramscope.graph.model import Array, Node
    from vramscope.ops.call import Call
    from vramscope.ops.kernels.planned import Values

_MODERN = 11
"""Resize has coordinate modes, sizes and a region of interest from this operator set on."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: extents before and after, the scale, and the part of the input that is shown (0 to 1)."""

    axis: int
    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def idle(self) -> bool:
        """Whether nothing changes along it."""
        return self.before == self.after and isclose(self.scale, 1.0) and (self.start, self.end) == (0, 1)


@dataclass(frozen=True, slots=True)
class _Style:
    """How positions are found and weighted."""

    mode: str
    coordinates: str
    nearest: str
    cubic: float
    antialias: bool
    exclude_outside: bool
    extrapolation: float


def resize(call: Call) -> None:
    """Resize (opset 10 and later): X, roi, scales or sizes.

    Raises:
        ModelGraphError: neither scales nor sizes, a mode that the standard lacks, or lengths that disagree.
    """
    data = call.array(0)
    if call.node.opset < _MODERN:
        scales = [float(item) for item in call.array(1).reshape(-1)]
        _run(call, data, _scaled(call.node, data, scales, list(range(data.ndim)), []), _old_style(call.node))
        return
    axes = [axis % data.ndim for axis in call.node.integers("axes")] or list(range(data.ndim))
    style = _style(call.node)
    roi = call.optional(1) if style.coordinates == "tf_crop_and_resize" else None
    region = [] if roi is None else [float(item) for item in roi.reshape(-1)]
    if call.has(3) and call.array(3).size:
        sizes = [int(item) for item in call.array(3).reshape(-1)]
        plan = _sized(call.node, data, sizes, axes, region)
    elif call.has(2) and call.array(2).size:
        scales = [float(item) for item in call.array(2).reshape(-1)]
        plan = _scaled(call.node, data, scales, axes, region)
    else:
        raise _wrong(call.node, "neither scales nor sizes are given")
    _run(call, data, plan, style)


def upsample(call: Call) -> None:
    """Upsample: opset 9 has scales as input 1, 7 as an attribute, 1 as two attributes."""
    data, node = call.array(0), call.node
    if call.has(1):
        scales = [float(item) for item in call.array(1).reshape(-1)]
    elif node.numbers("scales"):
        scales = list(node.numbers("scales"))
    else:
        scales = [1.0, 1.0, node.number("height_scale", 1.0), node.number("width_scale", 1.0)]
    _run(call, data, _scaled(node, data, scales, list(range(data.ndim)), []), _old_style(node))


def _wrong(node: Node, why: str) -> ModelGraphError:
    return ModelGraphError(node.qualified, why, "Correct the node's inputs", node.name)


def _old_style(node: Node) -> _Style:
    """Before opset 11: out / scale, rounded down."""
    mode = node.text("mode", "nearest")
    return _Style("linear" if mode == "bilinear" else mode, "asymmetric", "floor", -0.75, False, False, 0.0)


def _style(node: Node) -> _Style:
    return _Style(
        node.text("mode", "nearest"),
        node.text("coordinate_transformation_mode", "half_pixel"),
        node.text("nearest_mode", "round_prefer_floor"),
        node.number("cubic_coeff_a", -0.75),
        bool(node.integer("antialias", 0)),
        bool(node.integer("exclude_outside", 0)),
        node.number("extrapolation_value", 0.0),
    )


def _scaled(
    node: Node, data: Array, scales: list[float], axes: list[int], region: list[float]
) -> list[_Axis]:
    """Axes by their scales: each becomes floor(extent · scale) long."""
    _check_length(node, "scales", len(scales), axes)
    return [
        _Axis(axis, data.shape[axis], int(data.shape[axis] * scale), scale, *_part(region, place, len(axes)))
        for place, (axis, scale) in enumerate(zip(axes, scales, strict=True))
    ]


def _sized(node: Node, data: Array, sizes: list[int], axes: list[int], region: list[float]) -> list[_Axis]:
    """Axes by their sizes, or by the one scale that keeps the proportions."""
    _check_length(node, "sizes", len(sizes), axes)
    policy = node.text("keep_aspect_ratio_policy", "stretch")
    scales = [size / max(data.shape[axis], 1) for size, axis in zip(sizes, axes, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(axes)
        sizes = [int(scale * data.shape[axis] + 0.5) for axis in axes]
    return [
        _Axis(axis, data.shape[axis], size, scale, *_part(region, place, len(axes)))
        for place, (axis, size, scale) in enumerate(zip(axes, sizes, scales, strict=True))
    ]


def _check_length(node: Node, what: str, found: int, axes: list[int]) -> None:
    if found != len(axes):
        raise _wrong(node, f"{found} {what} for {len(axes)} axes")


def _part(region: list[float], place: int, count: int) -> tuple[float, float]:
    """Start and end of an axis in roi = [start…, end…]."""
    return (region[place], region[count + place]) if len(region) == 2 * count else (0.0, 1.0)


def _run(call: Call, data: Array, axes: list[_Axis], style: _Style) -> None:
    shape = list(data.shape)
    for item in axes:
        shape[item.axis] = item.after
    out = call.output(0, tuple(shape), data.dtype)
    if out.size == 0:
        return
    # Shrinking first keeps what lies between two axes small.
    work = sorted((item for item in axes if not item.idle), key=lambda item: item.after / max(item.before, 1))
    if style.mode == "nearest":
        _nearest(data, out, work, style)
    elif style.mode in ("linear", "cubic"):
        _weighted(data, out, work, style)
    else:
        raise _wrong(call.node, f"mode {style.mode!r} is not one of nearest, linear and cubic")


def _nearest(data: Array, out: Array, axes: list[_Axis], style: _Style) -> None:
    current = data
    outside: list[tuple[int, Array]] = []
    for item in axes:
        places = _places(item, style)
        whole = np.floor(places)
        picked = whole + _rounds_up(places - whole, style.nearest)
        index = np.clip(picked, 0, item.before - 1).astype(np.intp)
        outside.append((item.axis, _outside(places, item, style)))
        current = current.take(index, item.axis, mode="clip")
    np.copyto(out, current)
    _extrapolate(out, outside, style)


def _rounds_up(ratio: Values, mode: str) -> Values:
    """1 where the position after a coordinate is the nearest one, by the way it is rounded."""
    rules = {
        "round_prefer_floor": ratio > 0.5,
        "round_prefer_ceil": ratio >= 0.5,
        "floor": np.zeros_like(ratio, bool),
        "ceil": ratio > 0,
    }
    if mode not in rules:
        raise ModelGraphError("Resize", f"nearest_mode {mode!r} is not known", f"It has {', '.join(rules)}")
    return rules[mode].astype(np.float64)


def _weighted(data: Array, out: Array, axes: list[_Axis], style: _Style) -> None:
    kind = np.float64 if data.dtype.kind in "iu" or data.dtype.itemsize > 4 else np.float32
    current: Values = data.astype(kind)
    outside: list[tuple[int, Array]] = []
    for item in axes:
        places = _places(item, style)
        outside.append((item.axis, _outside(places, item, style)))
        current = _along(current, item, places, style)
    if out.dtype.kind in "iu":
        limits = np.iinfo(str(out.dtype))
        np.clip(np.rint(current), limits.min, limits.max, out=current)
    np.copyto(out, current, casting="unsafe")
    _extrapolate(out, outside, style)


def _along(data: Values, item: _Axis, places: Values, style: _Style) -> Values:
    """Weighted sums of a few positions along one axis."""
    index, weights = _taps(item, places, style)
    shape = [1] * data.ndim
    shape[item.axis] = item.after
    total: Values | None = None
    for tap in range(index.shape[1]):
        part = data.take(index[:, tap], item.axis, mode="clip")
        part *= weights[:, tap].astype(data.dtype).reshape(shape)
        total = part if total is None else np.add(total, part, out=total)
    return data if total is None else total


def _taps(item: _Axis, places: Values, style: _Style) -> tuple[Values, Values]:
    """For each output position the input positions it reads [after, taps], clamped, and their weights."""
    left = np.ceil(places) - 1
    scale = min(item.scale, 1.0) if style.antialias else 1.0
    reach = 1 if style.mode == "linear" else 2
    first = int(np.floor(-reach / scale)) + 1
    offsets = np.arange(first, 2 - first)
    away = np.abs(offsets[None, :] - (places - left)[:, None]) * scale
    weights = np.clip(1 - away, 0, 1) if style.mode == "linear" else _cubic(away, style.cubic)
    index = left[:, None] + offsets[None, :]
    if style.exclude_outside:
        weights = np.where((index < 0) | (index >= item.before), 0.0, weights)
    if style.exclude_outside or style.antialias:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(index, 0, item.before - 1).astype(np.intp), weights


def _cubic(away: Values, slope: float) -> Values:
    """Keys' cubic convolution with ``slope`` at distance 1; 0 from distance 2 on."""
    near = ((slope + 2) * away - (slope + 3)) * away * away + 1
    far = ((slope * away - 5 * slope) * away + 8 * slope) * away - 4 * slope
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))


def _places(item: _Axis, style: _Style) -> Values:
    """Where in the input each output position lies, in single precision as runtimes compute it."""
    y: Values = np.arange(item.after, dtype=np.float32)
    exact = item.scale * item.before
    scale = np.float32(item.scale)
    centred = (y + np.float32(0.5)) / scale - np.float32(0.5)
    mode = style.coordinates
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and exact != 1):
        return centred
    if mode == "pytorch_half_pixel":
        return np.full(item.after, -0.5, np.float32)
    if mode == "half_pixel_symmetric":
        return centred + np.float32(item.before / 2 * (1 - item.after / exact))
    if mode == "asymmetric":
        return y / scale
    return _stretched(item, y, exact, mode)


def _stretched(item: _Axis, y: Values, exact: float, mode: str) -> Values:
    """Coordinates that map corners to corners, of the whole input or of the region of interest."""
    last = item.before - 1
    if mode == "align_corners":
        return np.zeros_like(y) if exact == 1 else y * last / (exact - 1)
    if mode == "tf_half_pixel_for_nn":
        return (y + 0.5) / item.scale
    if mode != "tf_crop_and_resize":
        raise ModelGraphError("Resize", f"coordinate_transformation_mode {mode!r} is not known")
    width = (item.end - item.start) * last
    inside = np.full(item.after, width / 2) if exact == 1 else y * width / (exact - 1)
    return inside + item.start * last


def _outside(places: Values, item: _Axis, style: _Style) -> Array:
    """Which output positions lie outside of the input; only a region of interest can reach there."""
    if style.coordinates != "tf_crop_and_resize":
        return np.zeros(0, bool)
    return (places < 0) | (places > item.before - 1)


def _extrapolate(out: Array, outside: list[tuple[int, Array]], style: _Style) -> None:
    for axis, mask in outside:
        if mask.any():
            np.moveaxis(out, axis, 0)[mask] = np.asarray(style.extrapolation).astype(out.dtype)


SPECS: tuple[OpSpec, ...] = (
    OpSpec("", "Resize", resize, host_inputs=(1, 2, 3)),
    OpSpec("", "Upsample", upsample, host_inputs=(1,)),
)
