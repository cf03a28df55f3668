"""CUDA builders of operators that work on rows: norms, softmax, reductions, running sums."""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING

from vramscope.devices.cuda.launch import Launch, blocks, f32, generated, i64, numbers, pointer, source
from vramscope.devices.cuda.strided import FLOATS, Axes, elementwise, merged, type_name
from vramscope.devices.cuda.work import NoKernelError
from vramscope.graph.dtypes import from_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.array import DeviceArray
    from vramscope.devices.cuda.work import Builder, Work

_CONTRIB = "com.microsoft"
MOST_SHARED = 227 * 1024
"""Dynamic shared memory of one block on the architectures from 8.0 on is less or equal."""

MANY_ROWS = 32
"""Rows from which on an RMS norm keeps them in registers, a block a row."""
PIECES = 8
"""Pieces of 16 bytes that a thread of it holds, where the row is not longer than a block's."""


def row_threads(width: int) -> int:
    """Threads for a row: a power of two that gives each a few elements."""
    return min(1024, max(32, 1 << max(width // 4 - 1, 0).bit_length()))


def _narrow_kind(value: DeviceArray) -> str:
    name = type_name(value.dtype)
    if name not in ("float", "f16", "bf16"):
        raise NoKernelError(f"its kernel computes float32, float16 and bfloat16, not {value.dtype}")
    return name


class _NormInputs:
    """Pointers of one norm; what is left out is the null pointer."""

    def __init__(self, x: DeviceArray, gamma: DeviceArray, y: DeviceArray, width: int) -> None:
        self.x, self.gamma, self.y, self.width = x, gamma, y, width
        self.skip: DeviceArray | None = None
        self.bias: DeviceArray | None = None
        self.beta: DeviceArray | None = None
        self.mean: DeviceArray | None = None
        self.inverse: DeviceArray | None = None
        self.total: DeviceArray | None = None


def _norm(given: _NormInputs, *, centred: bool, epsilon: float) -> list[Launch]:
    width, x = given.width, given.x
    every = (x, given.gamma, given.y, given.skip, given.bias, given.beta, given.total)
    if any(item is not None and not item.contiguous for item in every):
        raise NoKernelError("its tensors are strided")
    if given.gamma.size != width or (given.beta is not None and given.beta.size != width):
        raise NoKernelError("its scale differs from row to row")
    if 4 * width > MOST_SHARED - 256:
        raise NoKernelError(f"a row of {width:,} elements does not fit in shared memory")
    if x.size == 0:
        return []
    skip_rows = given.skip.size // width if given.skip is not None else 1
    if _in_pieces(given, centred=centred):
        return [_norm_pieces(given, skip_rows, epsilon)]
    kinds = (("T", _narrow_kind(x)), ("G", _narrow_kind(given.gamma)), ("Y", _narrow_kind(given.y)))
    form = struct.pack("<qqqd", width, skip_rows, int(centred), epsilon)
    pointers = (x, given.skip, given.bias, given.gamma, given.beta, given.y)
    outputs = (given.mean, given.inverse, given.total)
    return [
        Launch(
            source("rows", kinds),
            "normalise",
            (x.size // width, 1, 1),
            (row_threads(width), 1, 1),
            (form, *(pointer(item) for item in (*pointers, *outputs))),
            4 * width,
        )
    ]


def _in_pieces(given: _NormInputs, *, centred: bool) -> bool:
    """Whether it is an RMS norm of many rows with one type, in whole pieces of 16 bytes."""
    tensors = [given.x, given.gamma, given.y, given.skip, given.total]
    held = [item for item in tensors if item is not None]
    plain = not centred and all(item is None for item in (given.bias, given.beta, given.mean, given.inverse))
    even = all(item.dtype == given.x.dtype and item.address % 16 == 0 for item in held)
    pieces = given.width * given.x.itemsize
    return (
        plain and even and given.x.size // given.width >= MANY_ROWS and pieces % 16 == 0 and pieces <= 2**17
    )


def _norm_pieces(given: _NormInputs, skip_rows: int, epsilon: float) -> Launch:
    pieces = given.width * given.x.itemsize // 16
    threads = min(1024, max(32, -(-pieces // (32 * PIECES)) * 32))
    defines = (("T", _narrow_kind(given.x)), ("PIECES", str(-(-pieces // threads))))
    pointers = (given.x, given.skip, given.gamma, given.y, given.total)
    arguments = (i64(given.width), i64(skip_rows), f32(epsilon), *(pointer(item) for item in pointers))
    grid = (given.x.size // given.width, 1, 1)
    return Launch(source("norm", defines), "norm_pieces", grid, (threads, 1, 1), arguments)


def _statistic(work: Work, index: int) -> DeviceArray | None:
    return work.output(index) if work.wants(index) else None


def _plain_norm(work: Work) -> list[Launch]:
    """RMSNormalization, SimplifiedLayerNormalization and LayerNormalization."""
    x = work.input(0)
    axis = work.node.integer("axis", -1)
    width = prod(x.shape[axis + x.ndim if axis < 0 else axis :])
    centred = work.node.operator == "LayerNormalization"
    given = _NormInputs(x, work.input(1), work.output(0, x.shape), width)
    if centred:
        given.beta, given.mean, given.inverse = work.optional(2), _statistic(work, 1), _statistic(work, 2)
    else:
        given.inverse = _statistic(work, 1)
    return _norm(given, centred=centred, epsilon=work.node.number("epsilon", 1e-5))


def _skip_norm(work: Work) -> list[Launch]:
    """SkipSimplifiedLayerNormalization and SkipLayerNormalization."""
    x = work.input(0)
    centred = work.node.operator == "SkipLayerNormalization"
    given = _NormInputs(x, work.input(2), work.output(0, x.shape), x.shape[-1])
    given.skip, given.bias = work.input(1), work.optional(4 if centred else 3)
    if centred:
        given.beta = work.optional(3)
    if x.size and (given.skip.size == 0 or x.size % given.skip.size):
        raise NoKernelError("its skip input does not repeat evenly")
    given.mean, given.inverse, given.total = (_statistic(work, index) for index in (1, 2, 3))
    return _norm(given, centred=centred, epsilon=work.node.number("epsilon", 1e-12))


def _softmax(work: Work) -> list[Launch]:
    x, out = work.input(0), work.output(0)
    if not (x.contiguous and out.contiguous):
        raise NoKernelError("its tensors are strided")
    flattened = work.node.opset < 13
    axis = work.node.integer("axis", 1 if flattened else -1)
    axis += x.ndim if axis < 0 else 0
    inner = 1 if flattened else prod(x.shape[axis + 1 :])
    width = prod(x.shape[axis:]) // inner if x.size else 0
    if x.size == 0:
        return []
    form = numbers((width, inner, inner, width * inner, int(work.node.operator == "LogSoftmax")))
    grid = (x.size // width, 1, 1)
    threads = (row_threads(width), 1, 1)
    kind = _narrow_kind(x)
    return [Launch(source("lines"), f"softmax_{kind}", grid, threads, (form, pointer(x), pointer(out)))]


def _cumulative(work: Work) -> list[Launch]:
    x, out = work.input(0), work.output(0)
    axis = work.host_integers(1)[0]
    axis += x.ndim if axis < 0 else 0
    kind = type_name(x.dtype)
    if kind not in ("float", "f16", "bf16", "i32", "i64", "double") or not (x.contiguous and out.contiguous):
        raise NoKernelError(f"no kernel sums {x.dtype} along a line")
    inner = prod(x.shape[axis + 1 :])
    lines = x.size // max(x.shape[axis], 1)
    flags = (work.node.integer("reverse", 0), work.node.integer("exclusive", 0))
    form = numbers((lines, x.shape[axis], inner, *flags))
    if x.size == 0:
        return []
    grid = (blocks(lines, 64), 1, 1)
    return [Launch(source("lines"), f"cumulate_{kind}", grid, (64, 1, 1), (form, pointer(x), pointer(out)))]


_FOLDS: Mapping[str, tuple[str, str, str]] = {
    "ReduceSum": ("0", "a + b", "a"),
    "ReduceMean": ("0", "a + b", "a / (A)count"),
    "ReduceSumSquare": ("0", "a + b", "a"),
    "ReduceL2": ("0", "a + b", "sqrtf(a)"),
    "ReduceL1": ("0", "a + b", "a"),
    "ReduceLogSum": ("0", "a + b", "logf(a)"),
    "ReduceProd": ("1", "a * b", "a"),
    "ReduceMax": ("first", "(a > b || a != a) ? a : b", "a"),
    "ReduceMin": ("first", "(a < b || a != a) ? a : b", "a"),
}
"""Start, how two partial results join (``a``, ``b``), and what is written of the last one."""

_BEFORE: Mapping[str, str] = {"ReduceSumSquare": "v * v", "ReduceL2": "v * v", "ReduceL1": "v < 0 ? -v : v"}


def _reduce(work: Work) -> list[Launch]:
    x, out = work.input(0), work.output(0)
    kind = type_name(x.dtype)
    floating = from_numpy(x.dtype) in FLOATS
    rooted = work.node.operator in ("ReduceL2", "ReduceLogSum")
    ordered = work.node.operator in ("ReduceMax", "ReduceMin")
    if (kind == "boolean" and not ordered) or (rooted and (kind == "double" or not floating)):
        raise NoKernelError(f"no kernel reduces {x.dtype}")
    axes = _reduced_axes(work, x.ndim)
    if not axes and work.node.integer("noop_with_empty_axes", 0):
        return elementwise("copy", "x0", [x], out)
    keep = [axis for axis in range(x.ndim) if axis not in axes]
    outer = merged(tuple(x.shape[i] for i in keep), [tuple(x.steps[i] for i in keep)])
    inner = merged(tuple(x.shape[i] for i in axes), [tuple(x.steps[i] for i in axes)])
    if out.size == 0 or not out.contiguous:
        if out.size:
            raise NoKernelError("its output is strided")
        return []
    count = prod(inner.shape)
    if count == 0:
        raise NoKernelError("it reduces over no element")
    return [_reduce_launch(work.node.operator, (outer, inner), x, out)]


def _reduce_launch(operator: str, axes: tuple[Axes, Axes], x: DeviceArray, out: DeviceArray) -> Launch:
    outer, inner = axes
    ranks = (len(outer.shape), len(inner.shape))
    count = prod(inner.shape)
    form = numbers((count, *outer.shape, *outer.steps[0], *inner.shape, *inner.steps[0]))
    threads = min(256, max(32, 1 << max(count - 1, 1).bit_length()))
    text = _reduce_text(operator, type_name(x.dtype), type_name(out.dtype), ranks)
    return Launch(
        generated(f"fold-{operator.lower()}", text),
        "fold",
        (out.size, 1, 1),
        (threads, 1, 1),
        (form, pointer(x), pointer(out)),
    )


def _reduced_axes(work: Work, rank: int) -> tuple[int, ...]:
    given = work.host_integers(1) if work.has(1) else tuple(work.node.integers("axes") or ())
    if not given:
        return () if work.node.integer("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted({axis + rank if axis < 0 else axis for axis in given}))


def _reduce_text(operator: str, kind: str, target: str, ranks: tuple[int, int]) -> str:
    start, join, last = _FOLDS[operator]
    before = _BEFORE.get(operator, "v")
    fields = "".join(
        f" i64 {name}_extent[{rank}], {name}_step[{rank}];"
        for name, rank in (("o", ranks[0]), ("i", ranks[1]))
        if rank
    )
    return f"""
struct Fold {{ i64 count;{fields} }};
typedef decltype(wide({kind}{{}})) A;
__device__ __forceinline__ A join(A a, A b) {{ return {join}; }}
__device__ __forceinline__ A value(Fold f, const {kind}* x, i64 base, i64 n) {{
  i64 at = base;
{_walk("i", ranks[1])}
  A v = wide(x[at]);
  return {before};
}}
extern "C" __global__ void fold(Fold f, const {kind}* x, {target}* out) {{
  BEGIN();
  __shared__ A room[256];
  i64 at = 0, n = blockIdx.x;
{_walk("o", ranks[0])}
  A first = value(f, x, at, 0);
  A mine = {"first" if start == "first" else start}; i64 k = threadIdx.x;
  bool any = k < f.count;
  {"if (any) { mine = value(f, x, at, k); k += blockDim.x; }" if start == "first" else ""}
  for (; k < f.count; k += blockDim.x) mine = join(mine, value(f, x, at, k));
  {"if (!any) mine = first;" if start == "first" else ""}
  room[threadIdx.x] = mine;
  __syncthreads();
  for (int half = blockDim.x / 2; half; half /= 2) {{
    if (threadIdx.x < half) room[threadIdx.x] = join(room[threadIdx.x], room[threadIdx.x + half]);
    __syncthreads();
  }}
  if (threadIdx.x == 0) {{
    A a = room[0]; i64 count = f.count; (void)count;
    out[blockIdx.x] = To<{target}>::from({last});
  }}
}}
"""


def _walk(name: str, rank: int) -> str:
    return "\n".join(
        f"  {{ i64 k = n % f.{name}_extent[{axis}]; n /= f.{name}_extent[{axis}];"
        f" at += k * f.{name}_step[{axis}]; }}"
        for axis in reversed(range(rank))
    )


BUILDERS: Mapping[tuple[str, str], Builder] = {
    ("", "RMSNormalization"): _plain_norm,
    ("", "SimplifiedLayerNormalization"): _plain_norm,
    (_CONTRIB, "SimplifiedLayerNormalization"): _plain_norm,
    ("", "LayerNormalization"): _plain_norm,
    (_CONTRIB, "SkipSimplifiedLayerNormalization"): _skip_norm,
    (_CONTRIB, "SkipLayerNormalization"): _skip_norm,
    ("", "Softmax"): _softmax,
    ("", "LogSoftmax"): _softmax,
    ("", "CumSum"): _cumulative,
    **{("", name): _reduce for name in _FOLDS},
}
"""Builders of this family."""
