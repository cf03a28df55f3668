"""Verification: the same steps by replay and eagerly, compared token by token and logit by logit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.types import StepResult, VerifyReport, VerifyRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.decode.decoder import Decoder
    from vramscope.graph.model import Array
    from vramscope.run.events import CancelCheck


def verify(decoder: Decoder, count: int, cancel: CancelCheck) -> VerifyReport:
    """Replays ``count`` steps, goes back to where they began, runs them eagerly, and compares.

    The session ends where the eager steps end.
    """
    saved = decoder.save()
    replayed = _collect(decoder, count, lambda: decoder.replay(cancel))
    decoder.restore(saved)
    eager = _collect(decoder, count, lambda: decoder.step(cancel))
    rows = tuple(
        VerifyRow(one[0], two[0], float(np.max(np.abs(np.subtract(one[1], two[1])))))
        for one, two in zip(replayed, eager, strict=True)
    )
    largest = max((row.logit_difference for row in rows), default=0.0)
    first = next((number for number, row in enumerate(rows) if row.replayed != row.eager), None)
    return VerifyReport(count, first is None and largest == 0.0, first, largest, rows)


def _collect(
    decoder: Decoder, count: int, action: Callable[[], StepResult]
) -> list[tuple[tuple[int, ...], Array]]:
    return [(action().tokens, decoder.logits()) for _ in range(count)]
