"""The decode-inline sibling of a model: Scans of a single trip dissolved into their steps (semantics 2.7).

A Scan is a host seam in a captured step. Where its scanned axis is known to be 1, its body runs exactly once,
so its steps can stand in the graph themselves and be captured.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.graph.model import ABSENT, Model, Node, Program, Step, Value, ValueKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Minted, WeightSource

_AXES_AS_ATTRIBUTE = 11
"""An opset in which Squeeze and Unsqueeze still take their axes as an attribute."""


def inline_single_scans(model: Model) -> Model:
    """The model with every Scan of one trip dissolved; the model itself where there is none.

    Values and steps are numbered anew, so plan the answer by itself.
    """
    program = model.program
    found = [step.index for step in program.steps if is_single_trip(program, step)]
    return model if not found else replace(model, program=_Inliner(program, frozenset(found)).inlined())


def is_single_trip(program: Program, step: Step) -> bool:
    """Whether ``step`` is a Scan (opset 9 and later) whose every scanned axis has the static extent 1."""
    node = step.node
    if (node.domain, node.operator) != ("", "Scan") or node.opset < 9:
        return False
    scanned = scan_inputs(step)
    axes = node.integers("scan_input_axes") or (0,) * len(scanned)
    for value, axis in zip(scanned, axes, strict=True):
        shape = program.values[value].shape
        if shape is None or shape[axis] != 1:
            return False
    return bool(scanned)


def scan_inputs(step: Step) -> tuple[int, ...]:
    """The inputs that are scanned; those before them are states."""
    return step.inputs[len(step.inputs) - step.node.integer("num_scan_inputs", 0) :]


class _Inliner:
    """One pass over the steps, numbering values of bodies behind those of the graph."""

    def __init__(self, program: Program, dissolved: frozenset[int]) -> None:
        self._program = program
        self._dissolved = dissolved
        self._values: list[Value] = list(program.values)
        self._weights: dict[int, WeightSource] = dict(program.weights)
        self._minted: dict[str, Minted] = dict(program.minted)
        self._steps: list[Step] = []

    def inlined(self) -> Program:
        for step in self._program.steps:
            if step.index in self._dissolved:
                self._dissolve(step)
            else:
                self._steps.append(replace(step, index=len(self._steps)))
        return replace(
            self._program,
            values=tuple(self._values),
            steps=tuple(self._steps),
            weights=MappingProxyType(self._weights),
            minted=MappingProxyType(self._minted),
        )

    def _dissolve(self, scan: Step) -> None:
        body = scan.bodies["body"]
        count = len(scan.inputs) - len(scan_inputs(scan))
        known = dict(body.captures)
        known.update(zip(body.inputs[:count], scan.inputs[:count], strict=True))
        axes = scan.node.integers("scan_input_axes") or (0,) * (len(scan.inputs) - count)
        for inner, outer, axis in zip(body.inputs[count:], scan.inputs[count:], axes, strict=True):
            known[inner] = self._copy(body.values[inner], scan)
            self._add(scan, "Squeeze", f"slice of {body.values[inner].name}", outer, known[inner], axis)
        made = {value for step in body.steps for value in step.outputs if value != ABSENT}
        for inner, outer in zip(body.outputs[:count], scan.outputs[:count], strict=True):
            if inner in made and inner not in known and outer != ABSENT:
                known[inner] = outer
        self._copy_steps(scan, body, known)
        self._write_states(scan, body, known, count)
        writes = scan.node.integers("scan_output_axes") or (0,) * (len(scan.outputs) - count)
        for inner, outer, axis in zip(body.outputs[count:], scan.outputs[count:], writes, strict=True):
            if outer != ABSENT:
                name = f"stack of {self._values[outer].name}"
                self._add(scan, "Unsqueeze", name, known[inner], outer, axis)

    def _copy_steps(self, scan: Step, body: Program, known: dict[int, int]) -> None:
        for value, source in body.weights.items():
            known[value] = self._copy(body.values[value], scan, ValueKind.WEIGHT)
            self._weights[known[value]] = source
        for symbol, origin in body.minted.items():
            self._minted[symbol] = replace(origin, node=f"{scan.node.name}/{origin.node}")
        for step in body.steps:
            bodies = {name: _recaptured(inner, known) for name, inner in step.bodies.items()}
            for value in step.outputs:
                if value != ABSENT and value not in known:
                    known[value] = self._copy(body.values[value], scan)
            self._steps.append(
                Step(
                    len(self._steps),
                    replace(step.node, name=f"{scan.node.name}/{step.node.name}"),
                    tuple(known.get(value, ABSENT) for value in step.inputs),
                    tuple(known.get(value, ABSENT) for value in step.outputs),
                    MappingProxyType(bodies),
                )
            )

    def _write_states(self, scan: Step, body: Program, known: Mapping[int, int], count: int) -> None:
        """A final state that no body step makes, or that two of them share, is copied."""
        for inner, outer in zip(body.outputs[:count], scan.outputs[:count], strict=True):
            if outer != ABSENT and known[inner] != outer:
                self._add(scan, "Identity", f"state {self._values[outer].name}", known[inner], outer)

    def _copy(self, value: Value, scan: Step, kind: ValueKind = ValueKind.ACTIVATION) -> int:
        fresh = replace(value, id=len(self._values), name=f"{scan.node.name}/{value.name}", kind=kind)
        self._values.append(fresh)
        return fresh.id

    def _add(
        self, scan: Step, operator: str, name: str, source: int, target: int, axis: int | None = None
    ) -> None:
        attributes = {} if axis is None else {"axes": (axis,)}
        opset = scan.node.opset if axis is None else _AXES_AS_ATTRIBUTE
        node = Node(f"{scan.node.name}/{name}", operator, "", opset, MappingProxyType(attributes))
        self._steps.append(Step(len(self._steps), node, (source,), (target,)))


def _recaptured(body: Program, known: Mapping[int, int]) -> Program:
    """A body of a dissolved body's step, which now reads from the graph itself."""
    captures = {inner: known[outer] for inner, outer in body.captures.items()}
    return replace(body, captures=MappingProxyType(captures))
