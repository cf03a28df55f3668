"""Choosing the next token from logits: greedy, or temperature with top-k and top-p under a seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from vramscope.errors import InputError

if TYPE_CHECKING:
    from vramscope.decode.types import Sampling
    from vramscope.graph.model import Array


class Sampler:
    """Chooses one token per sequence; its random state advances only when it samples."""

    def __init__(self, sampling: Sampling) -> None:
        """Checks the settings.

        Raises:
            InputError: a negative temperature or top_k, or a top_p outside (0, 1].
        """
        if sampling.temperature < 0 or sampling.top_k < 0 or not 0 < sampling.top_p <= 1:
            given = f"temperature {sampling.temperature}, top-k {sampling.top_k}, top-p {sampling.top_p}"
            raise InputError(
                f"sampling with {given}", "0 ≤ temperature, 0 ≤ top-k and 0 < top-p ≤ 1 must hold"
            )
        self._sampling = sampling
        self.restart()

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken, which a device does by itself."""
        return self._sampling.temperature == 0

    def restart(self) -> None:
        """Back to the seed: what is drawn next is what a fresh sampler draws first."""
        self._random = np.random.Generator(np.random.PCG64(self._sampling.seed))

    def choose(self, logits: Array) -> Array:
        """One token id per row.

        Args:
            logits: [batch, vocabulary], any float type.

        Returns:
            int64 [batch].
        """
        values: npt.NDArray[np.float32] = np.asarray(logits, np.float32)
        if self._sampling.temperature == 0:
            return np.asarray(np.argmax(values, axis=-1), np.int64)
        return np.array([self._draw(row) for row in values], np.int64)

    def _draw(self, row: npt.NDArray[np.float32]) -> int:
        order = np.argsort(-row, kind="stable")
        if self._sampling.top_k:
            order = order[: self._sampling.top_k]
        scaled = row[order].astype(np.float64) / self._sampling.temperature
        weights = np.exp(scaled - scaled.max())
        weights /= weights.sum()
        keep = int(np.searchsorted(np.cumsum(weights), self._sampling.top_p)) + 1
        kept = weights[:keep] / weights[:keep].sum()
        point = self._random.random()
        return int(order[min(int(np.searchsorted(np.cumsum(kept), point, side="right")), len(kept) - 1)])

    def save(self) -> dict[str, object]:
        """The random state, to be given to :meth:`restore`."""
        return dict(self._random.bit_generator.state)

    def restore(self, state: dict[str, object]) -> None:
        """Puts the random state back."""
        self._random.bit_generator.state = state
