"""What resolving a symbolic shape answers: exact extents, proven ceilings, or a refusal (semantics 1.6)."""

from __future__ import annotations

from dataclasses import dataclass

from vramscope.errors import UnboundedAxisError


@dataclass(frozen=True, slots=True)
class AxisBound:
    """The ceiling of one symbol and where it comes from (semantics 1.3)."""

    symbol: str
    extent: int
    kind: str
    """``ConfiguredMax``, ``KvCapacity``, ``Binding`` or ``Derived``."""
    source: str

    def __str__(self) -> str:
        return f"{self.symbol} ≤ {self.extent} ({self.kind}: {self.source})"


@dataclass(frozen=True, slots=True)
class Exact:
    """Every extent is what execution will see."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounded:
    """Extents that execution never exceeds; ``applied`` says which axes are ceilings and why."""

    shape: tuple[int, ...]
    applied: tuple[tuple[int, AxisBound], ...]


IN_A_BODY = -2
"""The input index of a value that a body of the node reads."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An axis that nothing bounds: no size is given for it, for a guess would under-reserve."""

    value: str
    axis: int
    symbol: str
    node: str
    operator: str
    input_index: int
    reason: str
    derivation: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Which input of the node needs it, that a body of it does, or that it is what the node gives."""
        if self.input_index >= 0:
            return f"input {self.input_index}"
        if self.input_index == IN_A_BODY:
            return "read in its body"
        return "an output" if self.node else "an input of the graph"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.symbol:
            return f"Give {self.symbol} a maximum"
        return f"Correct the shape that {self.node or self.value} is given"

    def error(self) -> UnboundedAxisError:
        """The same as an exception, for callers that cannot go on."""
        why = f"{self.reason}; its extent is genuinely unknown and guessing would under-reserve"
        where = f"symbol {self.symbol}, {self.place}" if self.symbol else self.place
        axis = f"axis {self.axis}" if self.axis >= 0 else "the rank"
        return UnboundedAxisError(
            what=f"{axis} of {self.value} ({where})",
            why=why if self.symbol or self.axis < 0 else self.reason,
            remedy=self.remedy,
            node=self.node,
            value=self.value,
            axis=self.axis,
            symbol=self.symbol,
            input_index=self.input_index,
            operator=self.operator,
        )
