"""Node names: made unique, and cut into the module path that exporters write into them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NUMBERED = re.compile(r"_\d+$")


def scope_of(name: str) -> tuple[str, ...]:
    """The module path in a node's name, outermost first; () where the name has none.

    ``/model/layers.0/attn/MatMul`` and ``model.layers.0.attn.MatMul_3`` both give
    ``("model", "layers.0", "attn")``: the last part is the operator, a number belongs to the part before it.
    """
    if "/" in name:
        parts = [part for part in name.split("/") if part]
        return tuple(parts[:-1])
    parts = []
    for part in name.split("."):
        if part.isdigit() and parts:
            parts[-1] = f"{parts[-1]}.{part}"
        elif part:
            parts.append(part)
    return tuple(parts[:-1])


@dataclass(slots=True)
class NodeNames:
    """Unique names for the nodes of one model; which were empty or repeated is counted."""

    used: set[str] = field(default_factory=set)
    counters: dict[str, int] = field(default_factory=dict)
    repeated: list[str] = field(default_factory=list)
    unnamed: int = 0

    def unique(self, name: str, operator: str) -> str:
        """``name``, or it with a number where it is taken; unnamed nodes are called after their operator."""
        if not name:
            self.unnamed += 1
            return self._numbered(operator, 0)
        if name not in self.used:
            self.used.add(name)
            return name
        self.repeated.append(name)
        return self._numbered(name, 2)

    def _numbered(self, stem: str, first: int) -> str:
        number = self.counters.get(stem, first)
        while f"{stem}_{number}" in self.used:
            number += 1
        self.counters[stem] = number + 1
        self.used.add(f"{stem}_{number}")
        return f"{stem}_{number}"

    def problem(self) -> str:
        """What to tell the user, empty when every name was unique."""
        if not self.repeated:
            return ""
        some = ", ".join(repr(name) for name in self.repeated[:3])
        return f"{len(self.repeated)} nodes share a name ({some}); each got a number"
