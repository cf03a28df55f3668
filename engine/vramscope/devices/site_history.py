"""What became of every site's bytes, in order: reserved, replaced, released, refused; and how often reused.

Kept by the ledger, bounded per component, so that thousands of weights push no workspace slot out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vramscope.devices.ledger import Site

KEPT = 256
"""Changes of one component that are remembered."""


class SiteFate(Enum):
    """What happened to a site's bytes."""

    RESERVE = "reserve"
    """Taken for the first time."""
    REUSE = "reuse"
    """Held and large enough, or given back and taken again in the same size; only counted."""
    REPLACE = "replace"
    """Taken again in another size."""
    RELEASE = "release"
    REFUSE = "refuse"
    """The budget did not hold it; nothing changed."""


@dataclass(frozen=True, slots=True)
class SiteChange:
    """One change: ``bytes`` are the new ones, ``before`` those that the site held last (0: none)."""

    number: int
    fate: SiteFate
    site: Site
    bytes: int
    before: int
    phase: str


@dataclass(slots=True, eq=False)
class SiteHistory:
    """Changes by component, oldest first; a release that a reuse takes back is forgotten."""

    _changes: dict[str, dict[int, SiteChange]] = field(default_factory=dict)
    _last: dict[Site, int] = field(default_factory=dict)
    _released: dict[Site, int] = field(default_factory=dict)
    _reuses: dict[Site, int] = field(default_factory=dict)
    _next: int = 1

    def taken(self, site: Site, size: int, phase: str) -> None:
        """A lease was granted."""
        before = self._last.get(site)
        if before == size and site in self._released:
            self.reused(site)
            self._changes[site.component].pop(self._released.pop(site), None)
            return
        self._released.pop(site, None)
        self._note(SiteFate.RESERVE if before is None else SiteFate.REPLACE, site, size, phase)
        self._last[site] = size

    def reused(self, site: Site) -> None:
        """What the site holds serves again."""
        self._reuses[site] = self._reuses.get(site, 0) + 1

    def given(self, site: Site, size: int, phase: str) -> None:
        """A lease was given back."""
        number = self._note(SiteFate.RELEASE, site, size, phase)
        if self._last.get(site) == size:
            self._released[site] = number

    def refused(self, site: Site, size: int, phase: str) -> None:
        """A lease was not granted."""
        self._note(SiteFate.REFUSE, site, size, phase)

    def _note(self, fate: SiteFate, site: Site, size: int, phase: str) -> int:
        number = self._next
        self._next += 1
        kept = self._changes.setdefault(site.component, {})
        kept[number] = SiteChange(number, fate, site, size, self._last.get(site, 0), phase)
        if len(kept) > KEPT:
            del kept[next(iter(kept))]
        return number

    def changes(self, component: str) -> tuple[SiteChange, ...]:
        """The remembered changes of one component, oldest first."""
        return tuple(self._changes.get(component, {}).values())

    def reuses(self, component: str) -> dict[Site, int]:
        """How often what each site of a component held served again."""
        return {site: count for site, count in self._reuses.items() if site.component == component}
