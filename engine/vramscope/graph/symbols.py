"""Giving every free extent of the graph's inputs a name of its own, and reading dimensions back.

Names that say nothing (``?``, empty, a number, ``unk__…``) and negative extents become a fresh symbol at each
occurrence and never unify. Everything else keeps its name: a sum such as ``past + seq`` is that sum when each
of its names is some input's whole extent, else one symbol of that spelling, for nothing could bind its parts.
Inside shape inference every symbol has a short safe name, so that no spelling can confuse it, and so has
every power of one: the library prints ``n - n*n`` as ``-n**2 + n`` and reads that back as ``n**2 + n``.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx_ir as ir

from vramscope.graph.dimtext import DimTextError, parse_dim, render_dim
from vramscope.graph.expr import Apply, Operator, Symbol, free_symbols

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vramscope.graph.expr import Dim, Shape

_ANONYMOUS = re.compile(r"\?|-?\d+|unk__.*|None", re.IGNORECASE)


@dataclass(slots=True)
class SymbolTable:
    """The symbols of one opening: safe names for inference, and what each safe name means."""

    safe: dict[str, str] = field(default_factory=dict)
    meaning: dict[str, Dim] = field(default_factory=dict)
    declared: frozenset[str] = frozenset()
    spellings: dict[Dim, str] = field(default_factory=dict)
    _read: dict[str, Dim | None] = field(default_factory=dict)
    _powers: dict[Dim, str] = field(default_factory=dict)

    def fresh(self, wanted: str) -> str:
        """A new symbol called ``wanted``, or that with a suffix where the name is taken."""
        name = wanted
        number = 2
        while name in self.safe:
            name = f"{wanted}#{number}"
            number += 1
        self.name(name)
        return name

    def name(self, symbol: str) -> str:
        """The safe name of a symbol, made at its first use."""
        if symbol not in self.safe:
            self.safe[symbol] = f"s{len(self.safe)}"
            self.meaning[self.safe[symbol]] = Symbol(symbol)
        return self.safe[symbol]

    def mean(self, minted: str, symbol: str) -> None:
        """Make inference's own name ``minted`` stand for ``symbol``."""
        self.safe[symbol] = minted
        self.meaning[minted] = Symbol(symbol)

    def fix(self, symbol: str, extent: int) -> None:
        """Make ``symbol`` mean a number from now on."""
        self.meaning[self.safe[symbol]] = extent
        self._read.clear()

    def write(self, dim: Dim) -> int | ir.SymbolicDim:
        """``dim`` for shape inference."""
        if isinstance(dim, int):
            return dim
        names: dict[str, str] = {}
        plain = self._without_powers(dim, names)
        names |= {name: self.name(name) for name in free_symbols(plain) - names.keys()}
        return ir.SymbolicDim(render_dim(plain, names))

    def _without_powers(self, dim: Dim, names: dict[str, str]) -> Dim:
        """``dim`` with a symbol in the place of every power; ``names`` gets their safe names."""
        if not isinstance(dim, Apply):
            return dim
        if dim.operator is not Operator.MUL:
            parts = tuple(self._without_powers(part, names) for part in dim.arguments)
            return Apply(dim.operator, parts)
        factors: list[Dim] = []
        for factor, times in Counter(dim.arguments).items():
            if times == 1:
                factors.append(self._without_powers(factor, names))
                continue
            power = Apply(Operator.MUL, (factor,) * times)
            safe = self._powers.setdefault(power, f"p{len(self._powers)}")
            self.meaning[safe] = power
            names[f"{power}"] = safe
            factors.append(Symbol(f"{power}"))
        return factors[0] if len(factors) == 1 else Apply(Operator.MUL, tuple(factors))

    def spell(self, dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
        """What inference says, with every power in it under a safe name of its own."""
        powered = isinstance(dim, ir.SymbolicDim) and dim.value is not None and "**" in dim.value
        known = self.read(dim) if powered else None
        return dim if known is None else self.write(known)

    def read(self, dim: int | ir.SymbolicDim) -> Dim | None:
        """What inference says, as an expression; None where it says nothing that can be represented."""
        if isinstance(dim, int):
            return dim
        text = dim.value
        if text is None:
            return None
        if text not in self._read:
            try:
                self._read[text] = parse_dim(text, self.meaning)
            except ValueError:
                self._read[text] = None
        return self._read[text]


def name_inputs(table: SymbolTable, inputs: Iterable[ir.Value]) -> dict[str, Shape]:
    """Rewrite the shapes of graph inputs with safe names.

    Returns:
        The symbolic shape of each input that has one, by name.
    """
    values = [value for value in inputs if value.shape is not None]
    whole = {dim.value for value in values for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    table.declared = frozenset(name for name in whole if name and not _ANONYMOUS.fullmatch(name.strip()))
    for name in sorted(table.declared):
        table.name(name)
    shapes: dict[str, Shape] = {}
    for value in values:
        shape = tuple(_input_dim(table, value, axis) for axis in range(len(value.shape or ())))
        shapes[value.name or ""] = shape
        value.shape = ir.Shape([table.write(dim) for dim in shape])
    return shapes


def _input_dim(table: SymbolTable, value: ir.Value, axis: int) -> Dim:
    dim = (value.shape or ())[axis]
    if isinstance(dim, int) and dim >= 0:
        return dim
    text = "" if isinstance(dim, int) else (dim.value or "").strip()
    if not text or _ANONYMOUS.fullmatch(text):
        return Symbol(table.fresh(f"{value.name}.axis{axis}"))
    return declared_dim(table, text)


def declared_dim(table: SymbolTable, text: str) -> Dim:
    """What a dimension name in the file means: a sum of known extents, or a symbol of that name."""
    try:
        dim = parse_dim(text)
    except DimTextError:
        return Symbol(text)
    if isinstance(dim, int | Symbol):
        return Symbol(text)
    if free_symbols(dim) <= table.declared:
        return dim
    return Symbol(table.spellings.setdefault(dim, text))


def declared_shape(table: SymbolTable, shape: ir.Shape | None) -> tuple[Dim | None, ...] | None:
    """A shape that the file declares for an inner value or an output; None where it says nothing."""
    if shape is None:
        return None
    dims: list[Dim | None] = []
    for dim in shape:
        text = "" if isinstance(dim, int) else (dim.value or "").strip()
        if isinstance(dim, int):
            dims.append(dim if dim >= 0 else None)
        else:
            dims.append(None if not text or _ANONYMOUS.fullmatch(text) else declared_dim(table, text))
    return tuple(dims)
