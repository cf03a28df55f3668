"""Choosing the next token from logits: greedy, or temperature with top-k and top-p under a seed.

A draw has no state. Its random number is Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as
1, 2, 3", 2011) of the seed, the row and the position; its weights are integers, so that their sum is the same
in whatever order a device adds them. So a replayed step draws what the eager one draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vramscope.errors import InputError

if TYPE_CHECKING:
    from vramscope.graph.model import Array

WEIGHT_ONE = 2**30
"""The weight of the likeliest token; one of less than half a unit is never drawn."""
LEAST_TEMPERATURE = 1e-30
"""A lower one would be 0 in float32."""

_WORD = 2**32 - 1
_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen: temperature 0 is greedy; top_k 0 and top_p 1 keep every token."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature == 0

    @property
    def divisor(self) -> float:
        """What logits are divided by."""
        return max(self.temperature, LEAST_TEMPERATURE)

    def checked(self) -> Sampling:
        """Itself.

        Raises:
            InputError: a negative temperature or top_k, or a top_p outside (0, 1].
        """
        if self.temperature < 0 or self.top_k < 0 or not 0 < self.top_p <= 1:
            given = f"temperature {self.temperature}, top-k {self.top_k}, top-p {self.top_p}"
            raise InputError(
                f"sampling with {given}", "0 ≤ temperature, 0 ≤ top-k and 0 < top-p ≤ 1 must hold"
            )
        return self


GREEDY = Sampling()


def choose(sampling: Sampling, logits: Array, positions: Array) -> Array:
    """One token id a row.

    Args:
        sampling: how.
        logits: [batch, vocabulary], any float type; of equal ones the first counts as likelier.
        positions: int64 [batch]: valid tokens of each sequence, with the one whose logits these are.

    Returns:
        int64 [batch].
    """
    values: npt.NDArray[np.float32] = np.asarray(logits, np.float32)
    if sampling.greedy:
        return np.asarray(np.argmax(values, axis=-1), np.int64)
    drawn = [
        _drawn(sampling, row, uniform(sampling.seed, number, int(position)))
        for number, (row, position) in enumerate(zip(values, positions, strict=True))
    ]
    return np.array(drawn, np.int64)


def _drawn(sampling: Sampling, row: npt.NDArray[np.float32], number: int) -> int:
    """The token that ``number`` (of 2⁶⁴) falls on; rows without a finite maximum give their likeliest."""
    most = row.max()
    if not np.isfinite(most):
        return int(np.argmax(row))
    order = _descending(row, sampling.top_k)
    scaled = (row[order] - most) / np.float32(sampling.divisor)
    sums = np.cumsum(np.rint(np.exp(scaled) * np.float32(WEIGHT_ONE)).astype(np.uint64))
    if sampling.top_p < 1:
        target = ceil(sampling.top_p * float(sums[-1]))
        sums = sums[: int(np.searchsorted(sums, np.uint64(target))) + 1]
    point = number * int(sums[-1]) >> 64
    return int(order[int(np.searchsorted(sums, np.uint64(point), side="right"))])


def _descending(row: npt.NDArray[np.float32], count: int) -> npt.NDArray[np.int64]:
    """Indices of the ``count`` likeliest (0: all), the likeliest first."""
    if not 0 < count < row.size:
        return np.argsort(-row, kind="stable")
    least = -np.partition(-row, count - 1)[count - 1]
    kept = np.flatnonzero(row >= least)
    return kept[np.argsort(-row[kept], kind="stable")][:count]


def uniform(seed: int, row: int, position: int) -> int:
    """A number below 2⁶⁴: the same for the same seed, row and position."""
    low, high = philox(
        (position & _WORD, position >> 32 & _WORD, row, 0), (seed & _WORD, seed >> 32 & _WORD)
    )[:2]
    return high << 32 | low


def philox(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Philox 4x32-10: four words of 32 bits."""
    a, b, c, d = counter
    first, second = key
    for _ in range(_ROUNDS):
        left, right = _MULTIPLIERS[0] * a, _MULTIPLIERS[1] * c
        a, b, c, d = right >> 32 ^ b ^ first, right & _WORD, left >> 32 ^ d ^ second, left & _WORD
        first, second = first + _WEYL[0] & _WORD, second + _WEYL[1] & _WORD
    return a, b, c, d
