"""How tiers are limited, what lowering a limit costs."""

from __future__ import annotations

import pytest

from vramscope.devices.governor import Governor
from vramscope.devices.governor_limits import (
    Auto,
    Breakdown,
    Bytes,
    Fraction,
    KvBudget,
    KvClaim,
    Limit,
    SequenceState,
    TierSnapshot,
    breakdown,
    change_limit,
    engine_limits,
    kv_budget,
    resolve_limit,
    snapshot,
)
from vramscope.devices.governor_types import KvCache, Tier, Weights
from vramscope.errors import InvalidRequestError

DEVICE, HOST, DISK = Tier.DEVICE, Tier.HOST, Tier.DISK


@pytest.mark.parametrize(
    ("limit", "tier", "capacity", "expected"),
    [
        (Auto(), DEVICE, 1000, 900),
        (Auto(), HOST, 1003, 250),
        (Auto(), DISK, 10**12, 0),
        (Auto(), DISK, None, 0),
        (Auto(), DEVICE, None, None),
        (Auto(), HOST, None, None),
        (Bytes(7), HOST, None, 7),
        (Bytes(0), DEVICE, 5, 0),
        (Fraction(0.9), DEVICE, 10**18, 9 * 10**17),
        (Fraction(0.3), DEVICE, 10**18 + 9, 3 * 10**17 + 2),
        (Fraction(1), DEVICE, 11, 11),
        (Fraction(0.0), DEVICE, 11, 0),
    ],
)
def test_a_stated_limit_comes_to_exact_bytes(
    limit: Limit, tier: Tier, capacity: int | None, expected: int | None
) -> None:
    assert resolve_limit(limit, tier, capacity) == expected


@pytest.mark.parametrize(
    ("limit", "capacity"),
    [
        (Fraction(0.5), None),
        (Fraction(-0.1), 100),
        (Fraction(1.01), 100),
        (Fraction(float("nan")), 100),
        (Fraction(float("inf")), 100),
        (Bytes(-1), 100),
        (Bytes(2**63), 100),
        (Auto(), -5),
    ],
)
def test_a_share_of_the_unknown_and_numbers_out_of_range_are_refused(
    limit: Limit, capacity: int | None
) -> None:
    with pytest.raises(InvalidRequestError):
        resolve_limit(limit, DEVICE, capacity)


def test_unknown_capacity_is_shown_as_unknown() -> None:
    governor = Governor(engine_limits({HOST: Bytes(50)}, {DEVICE: None, HOST: 10}))
    governor.reserve(DEVICE, 5, KvCache(), governor.kv_cache)
    governor.record_committed(HOST, 60, Weights(), governor.other)
    assert snapshot(governor) == (
        TierSnapshot(DEVICE, 5, None, None, 0),
        TierSnapshot(HOST, 60, 50, 0, 10),
        TierSnapshot(DISK, 0, 0, 0, 0),
    )


def test_the_breakdown_names_what_nobody_measured() -> None:
    governor = Governor({})
    assert breakdown(governor) == Breakdown(None)
    assert Breakdown(None).unmeasured == ("weights", "activations", "runtime_overhead")
    governor.reserve(DEVICE, 5, Weights(), governor.other)
    governor.reserve(DEVICE, 6, Weights(), governor.other)
    governor.reserve(DEVICE, 99, KvCache(), governor.kv_cache)
    governor.reserve(HOST, 99, Weights(), governor.other)
    known = breakdown(governor, activations=3)
    assert (known.weights, known.unmeasured, known.known_bytes) == (11, ("runtime_overhead",), 14)


@pytest.mark.parametrize(
    ("limit", "reservation", "expected"),
    [
        (100, 20, KvBudget(20, reservation_applied=True)),
        (90, 20, KvBudget(10, reservation_applied=True)),
        (89, 20, KvBudget(29, reservation_applied=False)),
        (50, 20, KvBudget(0, reservation_applied=False)),
        (None, 20, KvBudget(None, reservation_applied=True)),
    ],
)
def test_a_reservation_gives_way_to_one_kv_page(
    limit: int | None, reservation: int, expected: KvBudget
) -> None:
    assert kv_budget(limit, weights=60, reservation=reservation, page=10) == expected


def claims(**sizes: int) -> list[KvClaim]:
    """A claim for each state by its lower-case name, interactive first."""
    return [KvClaim(name, SequenceState[name.upper()], size) for name, size in reversed(sizes.items())]


def test_a_lower_limit_tells_the_overage_and_who_goes_first() -> None:
    governor = Governor({DEVICE: 100})
    governor.reserve(DEVICE, 100, KvCache(), governor.kv_cache)
    held = claims(background=10, paused=20, running=30, interactive=40)
    change = change_limit(governor, DEVICE, Bytes(75), None, held)
    assert (change.limit, change.overage, change.uncovered) == (75, 25, 0)
    assert [claim.sequence for claim in change.order] == ["background", "paused", "running", "interactive"]
    assert [claim.sequence for claim in change.needed] == ["background", "paused"]
    assert governor.used(DEVICE) == 100
    assert change_limit(governor, DEVICE, Bytes(0), None, claims(paused=20)).uncovered == 80
    assert change_limit(governor, DEVICE, Fraction(0.5), 200, held).needed == ()


def test_a_refused_limit_leaves_the_old_one() -> None:
    governor = Governor({DEVICE: 100})
    with pytest.raises(InvalidRequestError):
        change_limit(governor, DEVICE, Fraction(0.5), None)
    assert governor.limit(DEVICE) == 100


def test_within_one_state_the_largest_goes_first() -> None:
    states = SequenceState.PAUSED
    governor = Governor({DEVICE: 0})
    held = [KvClaim("b", states, 5), KvClaim("a", states, 5), KvClaim("c", states, 6)]
    order = change_limit(governor, DEVICE, Bytes(0), None, held).order
    assert [claim.sequence for claim in order] == ["c", "a", "b"]
