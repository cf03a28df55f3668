"""Which nodes take part in scratch planning, and where they are, nested control-flow bodies included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.ops.formulas import REFERENCE_WORKSPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.model import Program, Step

CONTROL_FLOW_SCOPE = "control-flow/"
"""Begins the scope of a nested node where planning tells of it (semantics 1.9)."""


def is_planned(domain: str, operator: str) -> bool:
    """Whether the reference runtime plans scratch for the operator (semantics 1.1).

    The domain is compared literally: ``ai.onnx`` is normalised to "" when a model is opened.
    """
    return (domain, operator) in REFERENCE_WORKSPACE


def workspace_node_locations(program: Program) -> tuple[str, ...]:
    """Every planned node, at any depth: scope, ``node#<step>`` and the quoted operator (semantics 1.1)."""
    return tuple(
        f"{scope}node#{step.index} '{step.node.qualified}'"
        for scope, _, step in walk_steps(program)
        if is_planned(step.node.domain, step.node.operator)
    )


def walk_steps(program: Program, scope: str = "") -> Iterator[tuple[str, Program, Step]]:
    """Every step with its scope and its own program: a step first, then those of its bodies."""
    for step in program.steps:
        yield scope, program, step
        for name, body in step.bodies.items():
            yield from walk_steps(body, f"{scope}node#{step.index}/{name}/")
