"""The arithmetic of one tier: limit, used and growing bytes, and what that leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.errors import InvalidRequestError, TierExhaustedError
from vramscope.graph.dtypes import BYTES_LIMIT

if TYPE_CHECKING:
    from vramscope.devices.governor_types import Tier


@dataclass(slots=True)
class TierBook:
    """One tier. ``limit`` is None where the capacity was never measured: then nothing can be said to be left.

    ``used`` is the sum of the leases, ``growing`` what mapped growth has reserved and not settled.
    """

    tier: Tier
    limit: int | None = None
    used: int = 0
    growing: int = 0

    @property
    def available(self) -> int | None:
        """``limit − used − growing``, at least 0; None when the limit is unknown."""
        return None if self.limit is None else max(self.limit - self.used - self.growing, 0)

    @property
    def oversubscribed(self) -> int:
        """``used − limit``, at least 0."""
        return 0 if self.limit is None else max(self.used - self.limit, 0)

    def missing(self, size: int) -> int:
        """Bytes that others would have to give before ``size`` more fit."""
        return 0 if self.limit is None else max(self.used + self.growing + size - self.limit, 0)

    def fits(self, size: int) -> bool:
        """Whether ``size`` bytes more are within the limit; 0 bytes always are.

        Raises:
            InvalidRequestError: the tier's bytes would pass 2**63 - 1.
        """
        self.require_countable(size)
        return size == 0 or self.missing(size) == 0

    def require_countable(self, size: int) -> None:
        """Refuses what would take the sum past 2**63 - 1 bytes."""
        if self.used + self.growing + size > BYTES_LIMIT:
            raise InvalidRequestError(
                f"{size:,} bytes of the {self.tier.value} tier",
                f"with the {self.used + self.growing:,} bytes in use that is more than 2**63 - 1",
                "Ask for less",
            )

    def refusal(self, size: int, who: str) -> TierExhaustedError:
        """Why ``size`` bytes do not fit, in numbers."""
        left = self.available or 0
        over = f", {self.oversubscribed:,} over it" if self.oversubscribed else ""
        return TierExhaustedError(
            what=f"{size:,} bytes of {self.tier.value} memory for {who}",
            why=f"{left:,} of the limit of {self.limit or 0:,} bytes are left ({self.used:,} in use{over})",
            remedy="Release something, raise the limit, or lower the context or the batch",
            requested=size,
            available=left,
            site=who,
            tier=self.tier.value,
        )
