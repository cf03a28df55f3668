"""How many threads the BLAS library multiplies with: as many as measurably help.

A decode step reads every weight once, so memory sets its pace. BLAS threads spin while they wait: where one
core already draws the memory's full pace, or other processes want the cores, more threads only cost.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROWS, _COLUMNS = 576, 4096
"""A matrix of 9 MiB: larger than a core's own caches, small enough to be timed in a few milliseconds."""

_TRIES = 6


class BlasThreads:
    """Holds the BLAS library to a number of threads: given, or found by timing a matrix-vector product.

    The number is found once and kept: another one adds in another order, and a session's replays must equal
    its eager steps bit for bit.
    """

    def __init__(self, threads: int | None = None) -> None:
        """``threads``: None to choose between one and one a core at the first use."""
        self._threads = threads
        self._controller: ThreadpoolController | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """That many BLAS threads inside the block, the caller's setting afterwards."""
        if self._controller is None:
            self._controller = ThreadpoolController()
        if self._threads is None:
            self._threads = self._choose(self._controller)
        with self._controller.limit(limits=self._threads, user_api="blas"):
            yield

    @staticmethod
    def _choose(controller: ThreadpoolController) -> int:
        cores = len(os.sched_getaffinity(0))
        if cores == 1:
            return 1
        vector, matrix = np.ones((1, _ROWS), np.float32), np.ones((_ROWS, _COLUMNS), np.float32)
        out = np.empty((1, _COLUMNS), np.float32)
        seconds = {1: 0.0, cores: 0.0}
        for _ in range(_TRIES):
            for threads in seconds:
                with controller.limit(limits=threads, user_api="blas"):
                    started = time.perf_counter()
                    np.matmul(vector, matrix, out=out)
                    seconds[threads] += time.perf_counter() - started
        return min(seconds, key=lambda threads: seconds[threads])
