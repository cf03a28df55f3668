"""The activation functions that other operators name in an attribute (FusedGemm, LSTM, GRU, RNN)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vramscope.graph.model import Array

Functor: TypeAlias = "Callable[[Array, float, float], None]"


def _relu(x: Array, _alpha: float, _beta: float) -> None:
    np.maximum(x, 0, out=x)


def _leaky_relu(x: Array, alpha: float, _beta: float) -> None:
    np.multiply(x, alpha, out=x, where=np.less(x, 0))


def _thresholded_relu(x: Array, alpha: float, _beta: float) -> None:
    np.copyto(x, 0, where=np.less_equal(x, alpha))


def _tanh(x: Array, _alpha: float, _beta: float) -> None:
    np.tanh(x, out=x)


def _sigmoid(x: Array, _alpha: float, _beta: float) -> None:
    np.negative(x, out=x)
    np.minimum(x, 88.0, out=x)  # exp of more overflows f32
    np.exp(x, out=x)
    np.add(x, 1.0, out=x)
    np.reciprocal(x, out=x)


def _scaled_tanh(x: Array, alpha: float, beta: float) -> None:
    np.multiply(x, beta, out=x)
    np.tanh(x, out=x)
    np.multiply(x, alpha, out=x)


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> None:
    np.multiply(x, alpha, out=x)
    np.add(x, beta, out=x)
    np.clip(x, 0, 1, out=x)


def _affine(x: Array, alpha: float, beta: float) -> None:
    np.multiply(x, alpha, out=x)
    np.add(x, beta, out=x)


def _elu(x: Array, alpha: float, _beta: float) -> None:
    negative = np.less(x, 0)
    np.expm1(x, out=x, where=negative)
    np.multiply(x, alpha, out=x, where=negative)


def _softsign(x: Array, _alpha: float, _beta: float) -> None:
    np.divide(x, np.abs(x) + 1, out=x)


def _softplus(x: Array, _alpha: float, _beta: float) -> None:
    np.logaddexp(x, 0, out=x)


FUNCTORS: Mapping[str, tuple[Functor, float, float]] = MappingProxyType(
    {
        "relu": (_relu, 0.0, 0.0),
        "tanh": (_tanh, 0.0, 0.0),
        "sigmoid": (_sigmoid, 0.0, 0.0),
        "leakyrelu": (_leaky_relu, 0.01, 0.0),
        "thresholdedrelu": (_thresholded_relu, 1.0, 0.0),
        "scaledtanh": (_scaled_tanh, 1.0, 1.0),
        "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
        "affine": (_affine, 1.0, 0.0),
        "elu": (_elu, 1.0, 0.0),
        "softsign": (_softsign, 0.0, 0.0),
        "softplus": (_softplus, 0.0, 0.0),
    }
)
"""Function, default alpha, default beta, by lower-case name (the names match whatever their case)."""


def functor(name: str, node: str) -> tuple[Functor, float, float]:
    """The activation called ``name`` with its default alpha and beta.

    Raises:
        UnsupportedOperatorError: no activation has that name.
    """
    found = FUNCTORS.get(name.lower())
    if found is None:
        known = ", ".join(sorted(FUNCTORS))
        raise UnsupportedOperatorError(
            f"activation {name!r}", "no function has that name", f"Known are {known}", node
        )
    return found
