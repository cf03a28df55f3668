"""Weights: every stored byte once, with what sharing saves and what equal contents under two names cost."""

from __future__ import annotations

from vramscope.graph.compile import static_bytes
from vramscope.graph.model import ABSENT, Program, WeightSource
from vramscope.plan.index import PlanningIndex, body_captures
from vramscope.plan.types import WeightPlan, WeightRow


def resident_roots(index: PlanningIndex) -> dict[int, int]:
    """Weights that stay in device memory: value id of the stored bytes → number of values that use them.

    A weight that only constant steps read (a Concat of three projections, a norm's 1 + w) is dropped once the
    session is prepared; the constant step's result stays instead, unless it is a view of the weight.
    """
    program = index.program
    constant = {
        output
        for step in program.steps[: program.constant_steps]
        for output in step.outputs
        if output != ABSENT
    }
    stored = program.weights.keys() | constant
    users: dict[int, set[int]] = {}
    for value in read_by_main_steps(program):
        root = index.root_of[value]
        if root in stored:
            users.setdefault(root, set()).add(value)
    return {root: len(values) for root, values in users.items()}


def read_by_main_steps(program: Program) -> set[int]:
    """Every value that main steps, their bodies or the graph's outputs read."""
    read = set(program.outputs)
    for step in program.steps[program.constant_steps :]:
        read.update(value for value in step.inputs if value != ABSENT)
        read.update(body_captures(step))
    return read


def plan_weights(index: PlanningIndex) -> WeightPlan:
    """Exact bytes of all weights, and of the results of constant steps that stay.

    A sequence's tensors are no device memory.
    """
    program = index.program
    rows: dict[str, WeightRow] = {}
    by_digest: dict[str, str] = {}
    tied = 0
    for root, users in sorted(resident_roots(index).items()):
        value = program.values[root]
        if value.is_sequence:
            continue
        source = program.weights.get(root)
        identity = source.identity if source else f"folded:{value.name}"
        size = source.size if source else static_bytes(value)
        if identity in rows:
            known = rows[identity]
            rows[identity] = WeightRow(known.name, known.dtype, known.shape, size, known.users + users)
            tied += size
            continue
        twin = by_digest.setdefault(source.digest, value.name) if source and source.digest else value.name
        shape = source.shape if source else tuple(dim for dim in value.shape or () if isinstance(dim, int))
        duplicate = twin if twin != value.name else ""
        rows[identity] = WeightRow(value.name, value.dtype.name, shape, size, users, duplicate)
    for identity, (name, source) in body_weights(program).items():
        rows.setdefault(identity, WeightRow(name, source.dtype.name, source.shape, source.size, 1))
    return WeightPlan(
        bytes=sum(row.bytes for row in rows.values()),
        rows=tuple(rows.values()),
        tied_savings=tied,
        duplicate_bytes=sum(row.bytes for row in rows.values() if row.duplicate_of),
    )


def body_weights(program: Program) -> dict[str, tuple[str, WeightSource]]:
    """Weights that control-flow bodies hold, at any depth: name and source by identity."""
    found: dict[str, tuple[str, WeightSource]] = {}
    for step in program.steps:
        for body in step.bodies.values():
            for value, source in body.weights.items():
                found.setdefault(source.identity, (body.values[value].name, source))
            found.update(body_weights(body))
    return found
