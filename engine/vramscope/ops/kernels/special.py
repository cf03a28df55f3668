"""Functions that NumPy lacks: erf, the logistic function, softplus and the Gelu forms built on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from vramscope.ops.kernels.common import Values

_ERF_LIMIT = 4.0
_ERF_NUMERATOR = (
    1.1283791693733292,
    0.1852050725018778,
    0.05431695504416602,
    0.0038496615269340384,
    0.0003796013422620309,
    4.684527865259073e-06,
    -1.3201048293655168e-08,
)
_ERF_DENOMINATOR = (
    1.0,
    0.4974671356818824,
    0.1139590023227573,
    0.015462163696874195,
    0.0013075700472126451,
    6.310824406324023e-05,
)


def erf(x: Values) -> Values:
    """The error function of at least 1-D f32 or f64 values, as a fresh array.

    f32: x·P(x²)/Q(x²) on [-4, 4], a rational fit of relative error 1.4e-8 evaluated in f64 and rounded once;
    beyond ±4 the value rounds to ±1. f64: the C library's ``erf``.
    """
    if x.dtype == np.float64:
        values = np.fromiter(map(math.erf, x.reshape(-1).tolist()), np.float64, x.size)
        return values.reshape(x.shape)
    clipped = x.astype(np.float64)
    np.minimum(clipped, _ERF_LIMIT, out=clipped)
    np.maximum(clipped, -_ERF_LIMIT, out=clipped)
    square = np.square(clipped)
    ratio = _horner(_ERF_NUMERATOR, square)
    np.divide(ratio, _horner(_ERF_DENOMINATOR, square), out=ratio)
    np.multiply(ratio, clipped, out=ratio)
    return ratio.astype(np.float32)


def _horner(coefficients: tuple[float, ...], at: Values) -> Values:
    total = np.multiply(at, coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        np.add(total, coefficient, out=total)
        np.multiply(total, at, out=total)
    np.add(total, coefficients[0], out=total)
    return total


def sigmoid(x: Values) -> Values:
    """1/(1 + e^-x) as a fresh array; e^-x may overflow to infinity, which gives exactly 0."""
    out = np.negative(x)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.reciprocal(out, out=out)


def swish(x: Values, alpha: float = 1.0) -> Values:
    """x·sigmoid(alpha·x) as a fresh array (operators 3.5)."""
    out = np.multiply(x, -alpha)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    return np.divide(x, out, out=out)


def softplus(x: Values) -> Values:
    """ln(1 + e^x) without overflow, as a fresh array."""
    out = np.absolute(x)
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    return np.add(out, np.maximum(x, 0), out=out)


def gelu(x: Values) -> Values:
    """x·(1 + erf(x/√2))/2 as a fresh array (operators 2.10)."""
    out = erf(np.multiply(x, math.sqrt(0.5)))
    np.add(out, 1, out=out)
    np.multiply(out, x, out=out)
    return np.multiply(out, 0.5, out=out)


def gelu_tanh(x: Values) -> Values:
    """x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 as a fresh array (operators 2.10)."""
    out = np.square(x)
    np.multiply(out, 0.044715, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, x, out=out)
    np.multiply(out, math.sqrt(2 / math.pi), out=out)
    np.tanh(out, out=out)
    np.add(out, 1, out=out)
    np.multiply(out, x, out=out)
    return np.multiply(out, 0.5, out=out)
