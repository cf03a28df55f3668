"""What a session holds of a governor: one lease for each purpose, pledged from the plan, charged by buffers.

A *pledge* is what the plan says a purpose will need: it is claimed before anything is allocated, so that a
session that was admitted is not refused halfway. Buffers are charged against it. A purpose that needs more
takes what the session's other purposes have not used yet (constants are folded while the arena is still
unused), and only then asks the governor. What is refunded goes back the same way, so that the governor's
charge is never less than what is out, and never more than the larger of that and the pledges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.devices.governor_types import Activation, KvCache, Role, Tier, Weights, Workspace
from vramscope.errors import InvalidRequestError
from vramscope.ops.spec import Lifetime
from vramscope.plan.types import ComponentName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.devices.governor_types import CapacityLease, MemoryGovernor
    from vramscope.devices.ledger import Site


@dataclass(slots=True, eq=False)
class _Account:
    """One purpose: its lease, the bytes of its buffers, and what it was promised."""

    lease: CapacityLease
    used: int = 0
    pledged: int = 0

    @property
    def floor(self) -> int:
        """What the lease should be."""
        return max(self.used, self.pledged)


def purpose_of(site: Site) -> str:
    """The purpose that a site's bytes are leased for: its component; the workspace by lifetime."""
    if site.component == ComponentName.WORKSPACE.value:
        return workspace_purpose(Lifetime(site.name))
    return site.component


def workspace_purpose(lifetime: Lifetime) -> str:
    """The purpose of a workspace slot: the two lifetimes stay distinct (conformance R-09)."""
    return f"{lifetime.value} {ComponentName.WORKSPACE.value}"


_ROLES: Mapping[str, Role] = {
    ComponentName.WEIGHTS.value: Weights(),
    ComponentName.KV_CACHE.value: KvCache(),
    workspace_purpose(Lifetime.STEP_SCOPED): Workspace(step_scoped=True),
    workspace_purpose(Lifetime.SESSION_PERSISTENT): Workspace(step_scoped=False),
}
"""The roles of purposes; any other one is of activations."""


def role_of(purpose: str) -> Role:
    """What a governor is told that a purpose's bytes are for."""
    return _ROLES.get(purpose, Activation())


class SessionLeases:
    """One session's leases in the device tier. One thread owns it; the governor may be shared."""

    def __init__(self, governor: MemoryGovernor, session: str, *, private: bool = False) -> None:
        """Holds nothing yet.

        Args:
            governor: grants the bytes.
            session: what refusals call it.
            private: the governor is this session's alone, and another one may adopt the session.
        """
        self.governor = governor
        self.session = session
        self._private = private
        self._accounts: dict[str, _Account] = {}

    @property
    def sizes(self) -> dict[str, int]:
        """Leased bytes by purpose."""
        return {purpose: account.lease.size for purpose, account in self._accounts.items()}

    @property
    def total(self) -> int:
        """Leased bytes over all purposes."""
        return sum(self.sizes.values())

    def pledge(self, needs: Mapping[str, int]) -> None:
        """Claims at least ``needs`` bytes for each purpose named, all of them or nothing.

        A purpose's earlier pledge is replaced; a smaller one gives back what no buffer uses.

        Raises:
            TierExhaustedError: the governor's limit does not hold them; every lease is as it was.
            CapacityUnavailableError: somebody who was asked for bytes failed, or the device is lost.
        """
        accounts = {purpose: self._account(purpose) for purpose in needs}
        before = [(account, account.pledged, account.lease.size) for account in accounts.values()]
        try:
            for purpose, size in needs.items():
                self._set_pledge(accounts[purpose], size)
        except BaseException:
            for account, pledged, size in before:
                account.pledged = pledged
                account.lease.shrink(account.lease.size - size)
            raise
        self._settle()

    def _set_pledge(self, account: _Account, size: int) -> None:
        account.pledged = size
        account.lease.grow(max(account.floor - account.lease.size, 0))

    def charge(self, site: Site, size: int) -> None:
        """Counts a buffer that is about to be allocated.

        Raises:
            TierExhaustedError: neither the session's own leases nor the governor's limit hold it.
            CapacityUnavailableError: as for :meth:`pledge`.
        """
        account = self._account(purpose_of(site))
        missing = account.used + size - account.lease.size
        if missing > 0:
            lent = self._borrow(account, missing)
            try:
                account.lease.grow(missing - lent)
            except BaseException:
                self._settle()
                raise
        account.used += size

    def refund(self, site: Site, size: int) -> None:
        """Counts a buffer that was given back."""
        account = self._accounts.get(purpose_of(site))
        if account is not None:
            account.used -= size
            self._settle()

    def adopt(self, governor: MemoryGovernor) -> int:
        """Moves every lease under ``governor``; returns the bytes newly placed there, 0 when it is the same.

        Raises:
            TierExhaustedError: it does not hold them; every lease is as it was.
            InvalidRequestError: another authority governs the session already.
        """
        if governor.authority is self.governor.authority:
            return 0
        if not self._private:
            raise InvalidRequestError(
                f"the memory of {self.session}",
                f"{self.governor.authority.name} governs it, not {governor.authority.name}",
                "Close the session first",
            )
        moved = SessionLeases(governor, self.session)
        try:
            for purpose, account in self._accounts.items():
                other = moved._account(purpose)
                other.lease.grow(account.lease.size)
                other.used, other.pledged = account.used, account.pledged
        except BaseException:
            moved.close()
            raise
        self.close()
        self.governor, self._accounts, self._private = governor, moved._accounts, False
        return self.total

    def close(self) -> int:
        """Gives every lease back and returns how many bytes that was; 0 the second time."""
        accounts, self._accounts = self._accounts, {}
        given = 0
        for account in accounts.values():
            given += account.lease.close()
            if account.lease.size == 0:
                self.governor.dismiss_holder(account.lease.holder)
        return given

    def _account(self, purpose: str) -> _Account:
        if purpose not in self._accounts:
            holder = self.governor.issue_holder(f"{purpose} of {self.session}")
            lease = self.governor.reserve(Tier.DEVICE, 0, role_of(purpose), holder)
            self._accounts[purpose] = _Account(lease)
        return self._accounts[purpose]

    def _borrow(self, account: _Account, missing: int) -> int:
        """Takes up to ``missing`` bytes that other purposes of this session do not use yet."""
        lent = 0
        for other in self._accounts.values():
            if other is not account and lent < missing:
                unused = other.lease.size - other.used
                lent += other.lease.give_to(account.lease, min(unused, missing - lent))
        return lent

    def _settle(self) -> None:
        """Excess goes to purposes that lent some, then to the governor."""
        for account in self._accounts.values():
            excess = account.lease.size - account.floor
            for other in self._accounts.values() if excess > 0 else ():
                short = other.floor - other.lease.size
                if short > 0 and excess > 0:
                    excess -= account.lease.give_to(other.lease, min(short, excess))
            if excess > 0:
                account.lease.shrink(excess)
