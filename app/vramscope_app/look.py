"""A theme with its icons: what every part of the window is dressed with."""

from __future__ import annotations

from dataclasses import dataclass

from vramscope_app.icons import IconSet
from vramscope_app.theme import Theme, disabled_colour


@dataclass(frozen=True, slots=True)
class Look:
    """A theme and its icon set."""

    theme: Theme
    icons: IconSet

    @classmethod
    def of(cls, theme: Theme) -> Look:
        """The look of a theme."""
        return cls(theme, IconSet(theme.text, disabled_colour(theme)))

    def tone(self, name: str) -> str:
        """The colour of a tone: good, warning, bad, info, muted; the text colour for no tone."""
        return str(getattr(self.theme, name)) if name else self.theme.text
