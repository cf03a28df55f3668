"""Several replays between two downloads: a replay needs nothing of the host, so its token may stay behind.

The device keeps the newest tokens. A burst launches its replays one behind the other and then reads all of
their tokens at once. Steps behind an end of sequence were surplus: the state goes back to before the last
wanted step, and that one is replayed once more, so that cache, logits and feeds are as it leaves them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.errors import CancelledError
from vramscope.plan.types import KEPT_TOKENS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.decode.accounting import Accounts
    from vramscope.decode.speculation import Parts
    from vramscope.run.events import CancelCheck


class MultiStep:
    """Bursts of one session's captured step."""

    def __init__(self, parts: Parts, accounts: Accounts, launch: Callable[[], None]) -> None:
        """``launch``: replays one step and moves the host's position on; reads nothing."""
        self._parts = parts
        self._accounts = accounts
        self._launch = launch

    def most(self, count: int) -> int:
        """How many of ``count`` steps may run before a token is read: at least one.

        No more than are kept, none beyond the cache or the blocks that are held. One where steps could not be
        taken back: the cache's length is a shape, or a sliding cache overwrote its rows.
        """
        parts, run = self._parts, self._parts.run
        if parts.stepper.moving or any(pair.window for pair in parts.contract.kv):
            return 1
        room = parts.stepper.feeds.reach(min(run.capacity, parts.runner.plan.context)) - run.position
        return max(min(count, room, KEPT_TOKENS), 1)

    def replay(self, count: int, cancel: CancelCheck) -> list[tuple[int, ...]]:
        """Launches up to ``count`` replays, at most :meth:`most`; gives each wanted step's tokens.

        Raises:
            CancelledError: before the first one; later, fewer steps have run.
        """
        run, before, launched = self._parts.run, self._parts.run.tokens, 0
        while launched < count:
            try:
                cancel()
            except CancelledError:
                if not launched:
                    raise
                break
            self._launch()
            launched += 1
        taken = self._parts.worker.newest(launched)
        run.downloaded(self._parts.worker.state.all.nbytes)
        last = next((n for n, tokens in enumerate(taken) if self._accounts.ends(tokens)), launched - 1)
        if last < launched - 1:
            self._go_back(launched - last, (before, *taken)[last])
        return taken[: last + 1]

    def _go_back(self, steps: int, tokens: tuple[int, ...]) -> None:
        """To before the last ``steps`` steps, when ``tokens`` were the newest; replays the first of them."""
        parts = self._parts
        lengths = parts.worker.take_back(tokens, steps)
        bindings, _ = parts.stepper.decode(parts.run.position, parts.run.capacity)
        settled = parts.stepper.feeds.settle(bindings, lengths)
        for size in filter(None, (lengths.nbytes, lengths.nbytes, settled)):
            parts.run.uploaded(size)
        parts.run.downloaded(lengths.nbytes)
        parts.run.position -= steps
        self._launch()
