"""The components of a plan: weights, KV cache, activations, workspace, bindings, and what cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.plan.types import (
    CUDA_RUNTIME,
    REFERENCE_RUNTIME,
    UNKNOWN,
    BindingRow,
    Bounded,
    Certainty,
    Component,
    ComponentName,
    Figure,
    KvPlan,
    PhasePlan,
    Scenario,
    WeightPlan,
)
from vramscope.plan.workspace import slot_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence


UNKNOWN_HERE = "(unknown here)"
"""In the name of a formula whose true figure only the device knows: its bytes are a ceiling."""


def plan_components(
    weights: WeightPlan,
    kv: KvPlan,
    phases: Sequence[PhasePlan],
    rows: Sequence[BindingRow],
    scenario: Scenario,
) -> tuple[Component, ...]:
    """The rows that the card is filled with, in their order."""
    unknown = any(phase.refusals for phase in phases)
    bounded = any(
        isinstance(phase.shapes[value], Bounded)
        for phase in phases
        for value in phase.arena.placements
        if value >= 0
    )
    bodies = {name: item for phase in phases for name, item in phase.bodies.items()}
    bounded = bounded or any(item.bounded or item.missing for item in bodies.values())
    gaps = [name for name, item in bodies.items() if item.missing]
    arena = max(phase.arena.bytes for phase in phases)
    scratch = slot_bytes([phase.workspace for phase in phases])
    largest = max(phases, key=lambda phase: phase.arena.bytes)
    figures = [row.figure for row in rows]
    bindings = UNKNOWN if UNKNOWN in figures else _sum(figures)
    kv_detail = _kv_detail(kv, scenario.batch) if kv.rows else "none"
    if kv.transient:
        kv_detail += f"; {kv.transient:,} B of it only while the bucket grows"
    if kv.first < kv.bytes:
        kv_detail = f"{kv.first:,} B at first, grows to {kv_detail}"
    known = Certainty.GROWING if kv.first < kv.bytes else Certainty.EXACT
    return (
        Component(ComponentName.WEIGHTS, Figure.exact(weights.bytes), _weights_detail(weights)),
        Component(ComponentName.KV_CACHE, Figure(kv.bytes + kv.transient, known), kv_detail),
        Component(
            ComponentName.ACTIVATIONS,
            UNKNOWN if unknown else Figure.of(arena, bounded=bounded),
            f"arena of the {largest.phase.value} phase"
            + (f", without all that runs inside {', '.join(gaps)}" if gaps else ""),
        ),
        Component(
            ComponentName.WORKSPACE,
            UNKNOWN if unknown else Figure.of(scratch, bounded=_scratch_bounded(phases)),
            _scratch_detail(phases, scenario),
        ),
        Component(ComponentName.BINDINGS, bindings, f"{len(rows)} buffers"),
        Component(ComponentName.CONTEXT, UNKNOWN, "unknown until measured on the device; not in the total"),
    )


def _kv_detail(kv: KvPlan, batch: int) -> str:
    """Tokens and bytes each; of a pool its blocks, and how much of them full sequences use."""
    words = f"{kv.capacity:,} tokens, {kv.bytes_per_token:,} B a token a sequence"
    pool = kv.pool
    if not pool.blocks:
        return words
    used, held = pool.filled(batch, kv.capacity)
    many = f"{pool.blocks:,} {'block' if pool.blocks == 1 else 'blocks'} of {pool.block_size:,} tokens"
    return f"{words}; {many}, {used:,} of {held:,} held tokens used when every sequence is full"


def _weights_detail(weights: WeightPlan) -> str:
    """How many tensors are stored, and what sharing saves or would save."""
    parts = [f"{len(weights.rows)} stored tensors"]
    if weights.tied_savings:
        parts.append(f"{weights.tied_savings:,} B saved by sharing")
    if weights.duplicate_bytes:
        parts.append(f"{weights.duplicate_bytes:,} B stored twice")
    if weights.streaming is not None:
        streaming = weights.streaming
        parts.append(
            f"{len(streaming.offsets)} streamed through a window of {streaming.window:,} B: "
            f"{streaming.step_bytes:,} B copied from the file in every step"
        )
    return ", ".join(parts)


def _sum(figures: Sequence[Figure]) -> Figure:
    """All of them together, known no better than the one that is known worst."""
    ways = {figure.certainty for figure in figures}
    known = next((way for way in (Certainty.BOUND, Certainty.GROWING) if way in ways), Certainty.EXACT)
    return Figure(sum(figure.known for figure in figures), known)


def _scratch_bounded(phases: Sequence[PhasePlan]) -> bool:
    """Whether a node with scratch has an input or a formula of which only a ceiling is known."""
    rows = [row for phase in phases for row in phase.nodes if row.workspace.bytes]
    if any(UNKNOWN_HERE in row.workspace.formula for row in rows):
        return True
    return any(isinstance(shape, Bounded) for row in rows for shape in row.inputs)


def _scratch_detail(phases: Sequence[PhasePlan], scenario: Scenario) -> str:
    """Whose kernels' scratch it is, and the nodes that ask for the most."""
    if scenario.runtime == REFERENCE_RUNTIME:
        whose = "scratch of the reference runtime's CUDA kernels"
    elif scenario.runtime == CUDA_RUNTIME:
        whose = "scratch of VRAMScope's CUDA kernels"
    else:
        whose = "scratch of VRAMScope's host kernels, not a GPU runtime's"
    nodes = dict.fromkeys(name for phase in phases for name in phase.workspace.blame.values() if name)
    return f"{whose}; most for {', '.join(nodes)}" if nodes else whose


def total_of(components: Sequence[Component], phases: Sequence[PhasePlan]) -> Figure:
    """Everything but the device context, which is unknown; unknown when an axis is refused."""
    if any(phase.refusals for phase in phases):
        return UNKNOWN
    return _sum([item.figure for item in components if item.name is not ComponentName.CONTEXT])
