"""CUDA builders of elementwise operators: arithmetic, comparison, logic, activations, casts, selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.devices.cuda.strided import FLOATS, elementwise
from vramscope.devices.cuda.work import NoKernelError
from vramscope.graph.dtypes import from_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.cuda.launch import Launch
    from vramscope.devices.cuda.work import Builder, Work

_CONTRIB = "com.microsoft"

_SAME: Mapping[str, str] = {
    "Add": "x0 + x1",
    "Sub": "x0 - x1",
    "Mul": "x0 * x1",
    "Div": "x0 / x1",
    "And": "x0 && x1",
    "Or": "x0 || x1",
    "Xor": "x0 != x1",
    "Equal": "x0 == x1",
    "Greater": "x0 > x1",
    "GreaterOrEqual": "x0 >= x1",
    "Less": "x0 < x1",
    "LessOrEqual": "x0 <= x1",
    "Neg": "-x0",
    "Not": "!x0",
    "Where": "x0 ? x1 : x2",
    "Identity": "x0",
    "Cast": "x0",
    "CastLike": "x0",
    "Expand": "x0",
    "Dropout": "x0",
    "BitwiseAnd": "x0 & x1",
    "BitwiseOr": "x0 | x1",
    "BitwiseXor": "x0 ^ x1",
    "BitwiseNot": "~x0",
    "PRelu": "x0 < 0 ? x0 * x1 : x0",
}
"""Operators whose expression serves every type."""

_FLOAT: Mapping[str, str] = {
    "Abs": "fabsf(x0)",
    "Acos": "acosf(x0)",
    "Acosh": "acoshf(x0)",
    "Asin": "asinf(x0)",
    "Asinh": "asinhf(x0)",
    "Atanh": "atanhf(x0)",
    "Cosh": "coshf(x0)",
    "Sinh": "sinhf(x0)",
    "Ceil": "ceilf(x0)",
    "Cos": "cosf(x0)",
    "Erf": "erff(x0)",
    "Exp": "expf(x0)",
    "Floor": "floorf(x0)",
    "HardSwish": "x0 * fminf(fmaxf(x0 / 6.f + 0.5f, 0.f), 1.f)",
    "IsNaN": "x0 != x0",
    "Log": "logf(x0)",
    "Mish": "x0 * tanhf(x0 > 20.f ? x0 : log1pf(expf(x0)))",
    "Reciprocal": "1.f / x0",
    "Relu": "x0 != x0 ? x0 : fmaxf(x0, 0.f)",
    "Round": "rintf(x0)",
    "Sigmoid": "1.f / (1.f + expf(-x0))",
    "Sign": "x0 > 0.f ? 1.f : x0 < 0.f ? -1.f : x0",
    "Sin": "sinf(x0)",
    "Softplus": "x0 > 20.f ? x0 : log1pf(expf(x0))",
    "Softsign": "x0 / (1.f + fabsf(x0))",
    "Sqrt": "sqrtf(x0)",
    "Tan": "tanf(x0)",
    "Tanh": "tanhf(x0)",
    "Atan": "atanf(x0)",
}
"""Operators of float, f16 and bf16."""

_ERF = "0.5f * {x} * (1.f + erff({x} * 0.70710678f))"
_TANH = "0.5f * {x} * (1.f + tanhf(0.79788456f * ({x} + 0.044715f * {x} * {x} * {x})))"


_WHOLE: Mapping[str, str] = {
    "Abs": "x0 < 0 ? -x0 : x0",
    "Relu": "x0 < 0 ? 0 : x0",
    "Sign": "x0 > 0 ? 1 : x0 < 0 ? -1 : 0",
}
"""Of these, what they are of signed integers."""

_SHAPED: Mapping[str, tuple[str, tuple[tuple[str, float], ...]]] = {
    "HardSigmoid": ("fminf(fmaxf({alpha} * x0 + {beta}, 0.f), 1.f)", (("alpha", 0.2), ("beta", 0.5))),
    "Selu": (
        "{gamma} * (x0 > 0.f ? x0 : {alpha} * expm1f(x0))",
        (("alpha", 1.6732632423543772), ("gamma", 1.0507009873554805)),
    ),
    "Celu": ("fmaxf(x0, 0.f) + fminf({alpha} * expm1f(x0 / {alpha}), 0.f)", (("alpha", 1.0),)),
    "ThresholdedRelu": ("x0 > {alpha} ? x0 : 0.f", (("alpha", 1.0),)),
    "Shrink": (
        "x0 < -{lambd} ? x0 + {bias} : x0 > {lambd} ? x0 - {bias} : 0.f",
        (("lambd", 0.5), ("bias", 0.0)),
    ),
    "IsInf": (
        "isinf(x0) && (x0 > 0.f ? {detect_positive} : {detect_negative}) != 0.f",
        (("detect_positive", 1.0), ("detect_negative", 1.0)),
    ),
}
"""Expressions of floats with the numbers that attributes give, and their defaults."""


def _shaped(work: Work) -> list[Launch]:
    _need_float(work)
    text, defaults = _SHAPED[work.node.operator]
    given = work.node.attributes
    known = {name: f"({float(given.get(name, default))!r}f)" for name, default in defaults}  # type: ignore[arg-type] # numbers
    return elementwise(work.node.operator, text.format(**known), [work.input(0)], work.output(0))


def _bit_shift(work: Work) -> list[Launch]:
    sign = "<<" if work.node.text("direction", "") == "LEFT" else ">>"
    width = 8 * work.input(0).itemsize
    text = f"x1 < {width} ? x0 {sign} x1 : 0"
    return elementwise("shift", text, [work.input(0), work.input(1)], work.output(0))


def _same(work: Work) -> list[Launch]:
    if work.node.operator == "Dropout" and (work.wants(1) or work.has(2)):
        raise NoKernelError("it hands out its mask, or may be training")
    inputs = [work.input(i) for i in range(_ARITY.get(work.node.operator, 2))]
    return elementwise(work.node.operator, _SAME[work.node.operator], inputs, work.output(0))


_ARITY: Mapping[str, int] = {
    "Neg": 1, "Not": 1, "Where": 3, "Identity": 1, "Cast": 1, "CastLike": 1, "Expand": 1, "Dropout": 1,
    "BitwiseNot": 1,
}  # fmt: skip


def _float(work: Work) -> list[Launch]:
    whole = _WHOLE.get(work.node.operator)
    if whole is not None and work.input(0).dtype.kind == "i":
        return elementwise(work.node.operator, whole, [work.input(0)], work.output(0))
    _need_float(work)
    return elementwise(work.node.operator, _FLOAT[work.node.operator], [work.input(0)], work.output(0))


def _need_float(work: Work, index: int = 0) -> None:
    kind = from_numpy(work.input(index).dtype)
    if kind not in FLOATS or work.input(index).dtype == np.float64:
        raise NoKernelError(f"its kernel computes float32, float16 and bfloat16, not {kind.name}")


def _gelu(work: Work) -> list[Launch]:
    _need_float(work)
    form = _TANH if work.node.text("approximate", "none") == "tanh" else _ERF
    return elementwise("gelu", form.format(x="x0"), [work.input(0)], work.output(0))


def _biased_gelu(work: Work) -> list[Launch]:
    _need_float(work)
    form = _TANH if work.node.operator == "FastGelu" else _ERF
    biased = work.has(1)
    inputs = [work.input(0), work.input(1)] if biased else [work.input(0)]
    value = "(x0 + x1)" if biased else "x0"
    return elementwise(work.node.operator, form.format(x=value), inputs, work.output(0))


def _swish(work: Work) -> list[Launch]:
    _need_float(work)
    alpha = work.node.number("alpha", 1.702 if work.node.operator == "QuickGelu" else 1.0)
    return elementwise("swish", f"x0 / (1.f + expf({-alpha!r}f * x0))", [work.input(0)], work.output(0))


def _leaky(work: Work) -> list[Launch]:
    _need_float(work)
    alpha = work.node.number("alpha", 0.01)
    return elementwise("leaky", f"x0 < 0.f ? {alpha!r}f * x0 : x0", [work.input(0)], work.output(0))


def _elu(work: Work) -> list[Launch]:
    _need_float(work)
    alpha = work.node.number("alpha", 1.0)
    return elementwise("elu", f"x0 < 0.f ? {alpha!r}f * expm1f(x0) : x0", [work.input(0)], work.output(0))


def _power(work: Work) -> list[Launch]:
    _need_float(work)
    return elementwise("pow", "powf(x0, (float)x1)", [work.input(0), work.input(1)], work.output(0))


def _extreme(work: Work) -> list[Launch]:
    """Max and Min of any number of inputs; NaN wins."""
    sign = ">" if work.node.operator == "Max" else "<"
    inputs = [work.input(i) for i in range(len(work.call.inputs))]
    if len(inputs) > 8:
        raise NoKernelError("it has more than 8 inputs")
    text = "x0"
    for index in range(1, len(inputs)):
        text = f"pick({text}, x{index})"
    chooser = f"[](auto a, auto b) {{ return (a {sign} b || a != a) ? a : b; }}"
    return elementwise(work.node.operator, text.replace("pick", f"({chooser})"), inputs, work.output(0))


def _sum(work: Work) -> list[Launch]:
    inputs = [work.input(i) for i in range(len(work.call.inputs))]
    if len(inputs) > 8:
        raise NoKernelError("it has more than 8 inputs")
    text = " + ".join(f"x{i}" for i in range(len(inputs)))
    if work.node.operator == "Mean":
        text = f"({text}) / {len(inputs)}"
    return elementwise(work.node.operator, text, inputs, work.output(0))


def _clip(work: Work) -> list[Launch]:
    inputs, text = [work.input(0)], "x0"
    for index, sign in ((1, "<"), (2, ">")):
        if work.has(index):
            text = f"[](auto a, auto b) {{ return a {sign} b ? b : a; }}({text}, x{len(inputs)})"
            inputs.append(work.input(index))
    for name, sign in (("min", "<"), ("max", ">")):
        if name in work.node.attributes:
            bound = f"{float(work.node.number(name, 0.0))!r}f"
            text = f"[](auto a, auto b) {{ return a {sign} b ? b : a; }}({text}, {bound})"
    return elementwise("clip", text, inputs, work.output(0))


def _modulo(work: Work) -> list[Launch]:
    if from_numpy(work.input(0).dtype) in FLOATS:
        _need_float(work)
        return elementwise("fmod", "fmodf(x0, x1)", [work.input(0), work.input(1)], work.output(0))
    if work.node.integer("fmod", 0):
        return elementwise("remainder", "x0 % x1", [work.input(0), work.input(1)], work.output(0))
    text = "[](auto a, auto b) { auto r = a % b; return r != 0 && ((r < 0) != (b < 0)) ? r + b : r; }(x0, x1)"
    return elementwise("mod", text, [work.input(0), work.input(1)], work.output(0))


def _special() -> dict[tuple[str, str], Builder]:
    return {
        ("", "Gelu"): _gelu,
        (_CONTRIB, "Gelu"): _gelu,
        (_CONTRIB, "FastGelu"): _biased_gelu,
        (_CONTRIB, "BiasGelu"): _biased_gelu,
        (_CONTRIB, "QuickGelu"): _swish,
        ("", "Swish"): _swish,
        ("", "LeakyRelu"): _leaky,
        ("", "Elu"): _elu,
        ("", "Pow"): _power,
        ("", "Max"): _extreme,
        ("", "Min"): _extreme,
        ("", "Sum"): _sum,
        ("", "Mean"): _sum,
        ("", "BitShift"): _bit_shift,
        **{("", name): _shaped for name in _SHAPED},
        ("", "Clip"): _clip,
        ("", "Mod"): _modulo,
    }


BUILDERS: Mapping[tuple[str, str], Builder] = {
    **{("", name): _same for name in _SAME},
    **{("", name): _float for name in _FLOAT},
    **_special(),
}
"""Builders of this family."""
