"""The engine's limit of each tier: how it is stated, what it comes to, and what lowering it costs.

An unmeasured capacity is unknown and stays so: it is never replaced by a number (semantics 2.11).
"""

from __future__ import annotations

import fractions
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from vramscope.devices.governor_types import Tier, Weights, checked_bytes
from vramscope.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vramscope.devices.governor import Governor

DEVICE_SHARE = fractions.Fraction(90, 100)
HOST_SHARE = fractions.Fraction(25, 100)
"""What ``Auto`` takes of a measured capacity; of the disk it takes nothing."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A limit of exactly ``count`` bytes."""

    count: int


@dataclass(frozen=True, slots=True)
class Fraction:
    """A share of the capacity, from 0 to 1."""

    share: float


@dataclass(frozen=True, slots=True)
class Auto:
    """0.90 of the device, 0.25 of the host, the disk off; unknown where the capacity is."""


Limit: TypeAlias = Bytes | Fraction | Auto


def resolve_limit(limit: Limit, tier: Tier, capacity: int | None) -> int | None:
    """The limit in bytes, rounded down; None where it is unknown.

    Args:
        limit: as it was stated.
        tier: which tier it is for.
        capacity: the tier's bytes; None where nobody measured them.

    Raises:
        InvalidRequestError: a share that is not a number from 0 to 1, or of an unknown capacity.
    """
    if capacity is not None:
        checked_bytes(capacity, f"the {tier.value} capacity")
    match limit:
        case Bytes(count):
            return checked_bytes(count, f"the {tier.value} limit")
        case Fraction(share):
            return _part(_exact(share, tier), _measured(capacity, share, tier))
        case Auto():
            return _automatic(tier, capacity)


def _automatic(tier: Tier, capacity: int | None) -> int | None:
    if tier is Tier.DISK:
        return 0
    if capacity is None:
        return None
    return _part(DEVICE_SHARE if tier is Tier.DEVICE else HOST_SHARE, capacity)


def _part(share: fractions.Fraction, capacity: int) -> int:
    return share.numerator * capacity // share.denominator


def _exact(share: float, tier: Tier) -> fractions.Fraction:
    """The share as it was written: 0.9 is nine tenths, not the nearest binary number."""
    if not 0 <= share <= 1:
        raise InvalidRequestError(
            f"the {tier.value} limit", f"a share of {share} is not between 0 and 1", "Give 0.9, for instance"
        )
    return fractions.Fraction(repr(float(share)))


def _measured(capacity: int | None, share: float, tier: Tier) -> int:
    if capacity is None:
        raise InvalidRequestError(
            f"the {tier.value} limit",
            f"{share} of the capacity was asked for, and the capacity is unknown",
            "Give the limit in bytes",
        )
    return capacity


def engine_limits(
    stated: Mapping[Tier, Limit], capacities: Mapping[Tier, int | None]
) -> dict[Tier, int | None]:
    """Every tier's limit in bytes, ``Auto`` where nothing is stated: what a governor is made with.

    Raises:
        InvalidRequestError: see ``resolve_limit``.
    """
    return {tier: resolve_limit(stated.get(tier, Auto()), tier, capacities.get(tier)) for tier in Tier}


@dataclass(frozen=True, slots=True)
class TierSnapshot:
    """One tier now: ``limit`` and ``headroom`` are None where the limit is unknown."""

    tier: Tier
    used: int
    limit: int | None
    headroom: int | None
    oversubscribed: int


def snapshot(governor: Governor) -> tuple[TierSnapshot, ...]:
    """Every tier of a governor as it is now."""
    return tuple(
        TierSnapshot(
            tier,
            governor.used(tier),
            governor.limit(tier),
            governor.available(tier),
            governor.oversubscribed_bytes(tier),
        )
        for tier in Tier
    )


@dataclass(frozen=True, slots=True)
class Breakdown:
    """What the engine's own bytes are for; None is unknown, and ``unmeasured`` names what is."""

    weights: int | None
    activations: int | None = None
    runtime_overhead: int | None = None

    @property
    def unmeasured(self) -> tuple[str, ...]:
        """Names of the parts that nobody measured."""
        parts = ("weights", "activations", "runtime_overhead")
        return tuple(name for name in parts if getattr(self, name) is None)

    @property
    def known_bytes(self) -> int:
        """The sum of the measured parts: a floor, not the total, while something is unmeasured."""
        return sum(
            part for part in (self.weights, self.activations, self.runtime_overhead) if part is not None
        )


def breakdown(
    governor: Governor, *, activations: int | None = None, overhead: int | None = None
) -> Breakdown:
    """The device tier's bytes by purpose; what is not passed in was not measured."""
    charges = governor.charges()
    weights = [item.size for item in charges if item.tier is Tier.DEVICE and isinstance(item.role, Weights)]
    return Breakdown(sum(weights) if weights else None, activations, overhead)


@dataclass(frozen=True, slots=True)
class KvBudget:
    """Bytes left for the KV cache; None when the limit is unknown.

    ``reservation_applied`` is False when honouring the fixed reservation would leave no room for one KV page;
    then the cache may use what was to be set aside.
    """

    size: int | None
    reservation_applied: bool


def kv_budget(limit: int | None, weights: int, reservation: int, page: int) -> KvBudget:
    """What the KV cache may take of ``limit`` beside ``weights``, with ``reservation`` bytes set aside."""
    if limit is None:
        return KvBudget(None, reservation_applied=True)
    beside = limit - weights
    applied = beside - reservation >= page
    return KvBudget(max(beside - reservation if applied else beside, 0), applied)


class SequenceState(Enum):
    """What a sequence is doing, in the order in which its KV cache is evicted."""

    BACKGROUND = 0
    PAUSED = 1
    RUNNING = 2
    INTERACTIVE = 3


@dataclass(frozen=True, slots=True)
class KvClaim:
    """One sequence's KV bytes."""

    sequence: str
    state: SequenceState
    size: int


@dataclass(frozen=True, slots=True)
class LimitChange:
    """What a new limit means: nothing was revoked, ``overage`` is what is out above it.

    ``order`` is everything that could be evicted, first to go first; ``needed`` the part of it that covers
    the overage; ``uncovered`` what would still be over after all of it.
    """

    limit: int | None
    overage: int
    order: tuple[KvClaim, ...]
    needed: tuple[KvClaim, ...]
    uncovered: int


def eviction_order(claims: Iterable[KvClaim]) -> tuple[KvClaim, ...]:
    """Background, paused, running, interactive last; within one state the largest first, then by name."""
    return tuple(sorted(claims, key=lambda claim: (claim.state.value, -claim.size, claim.sequence)))


def change_limit(
    governor: Governor, tier: Tier, limit: Limit, capacity: int | None, claims: Iterable[KvClaim] = ()
) -> LimitChange:
    """Sets a tier's limit and says what is over it and what would go first.

    Raises:
        InvalidRequestError: see ``resolve_limit``; the old limit stays.
    """
    governor.set_limit(tier, resolve_limit(limit, tier, capacity))
    overage = governor.oversubscribed_bytes(tier)
    order = eviction_order(claims)
    needed: list[KvClaim] = []
    left = overage
    for claim in order:
        if left <= 0:
            break
        needed.append(claim)
        left -= claim.size
    return LimitChange(governor.limit(tier), overage, order, tuple(needed), max(left, 0))
