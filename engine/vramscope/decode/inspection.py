"""A decode session's graph slots and memory slots in full: what a capture asks for, baked in, and lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.decode.types import DecodeState
from vramscope.plan.types import ComponentName
from vramscope.run.audit import audit
from vramscope.run.capture import SeamReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.session_state import RunState
    from vramscope.decode.slot import GraphSlot
    from vramscope.decode.stepper import Stepper
    from vramscope.devices.site_history import SiteChange
    from vramscope.run.capture import Decline
    from vramscope.run.runner import Runner
    from vramscope.run.signature import BindingSignature
    from vramscope.run.slot import Invalidation

SLOT_COMPONENTS = (
    ComponentName.WORKSPACE,
    ComponentName.ACTIVATIONS,
    ComponentName.KV_CACHE,
    ComponentName.BINDINGS,
)
"""Whose memory is held in slots that are reserved, reused and replaced."""

NAMED = 3
"""Nodes that a precondition names."""

NODE_RULES = (
    ("No recording failed before", (SeamReason.CAPTURE_RECORDING_FAILED,)),
    ("No control flow, no sequences", (SeamReason.HOST_CONTROL_FLOW_OR_SEQUENCE,)),
    (
        "No shape depends on data",
        (SeamReason.UNRESOLVED_OUTPUT_SHAPE, SeamReason.UNRESOLVED_INPUT_SHAPE),
    ),
    ("No shape grows by the step", (SeamReason.CLASSIFIER_DISQUALIFIED,)),
    ("Every node warm at its shapes", (SeamReason.KERNEL_NOT_WARMED,)),
    ("Every kernel can be recorded", (SeamReason.KERNEL_CAPTURE_UNSUPPORTED,)),
)
"""What every node is asked (semantics 2.1); one that fails runs eagerly between two graphs."""


@dataclass(frozen=True, slots=True)
class Precondition:
    """Something that a whole capture needs: met, not met, or not known yet (None)."""

    title: str
    met: bool | None
    detail: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class SlotView:
    """One graph slot: what it holds, what its graph baked in, and every graph that died on it."""

    name: str
    installed: bool
    captures: int
    replays: int
    invalidations: int
    graphs: int
    nodes: int
    quarantined: tuple[str, ...]
    signature: tuple[BindingSignature, ...]
    history: tuple[Invalidation, ...]


@dataclass(frozen=True, slots=True)
class SlotsView:
    """Everything about slots at one moment; ``reuses`` by component and site name."""

    graphs: tuple[SlotView, ...]
    preconditions: tuple[Precondition, ...]
    memory: tuple[SiteChange, ...]
    reuses: tuple[tuple[str, str, int], ...]
    groups: tuple[tuple[int, ...], ...] = ()
    """Steps of the program that are one launch of the bound decode step."""


def inspect(
    runner: Runner, run: RunState, state: DecodeState, stepper: Stepper, slots: Sequence[GraphSlot]
) -> SlotsView:
    """Looks at a session without moving anything in it.

    Args:
        runner: of the session.
        run: where it stands.
        state: of its state machine.
        stepper: says whether the decode step is bound, and what moves in it.
        slots: Primary and Verify.
    """
    bound = () if stepper.kept is None else stepper.kept[1].groups
    history = runner.device.ledger.history
    changes = [change for name in SLOT_COMPONENTS for change in history.changes(name.value)]
    reuses = [
        (site.component, site.name, count)
        for name in SLOT_COMPONENTS
        for site, count in history.reuses(name.value).items()
    ]
    return SlotsView(
        tuple(_view(slot) for slot in slots),
        (*_session_rules(runner, run, state), *_node_rules(runner, run, stepper, slots[0])),
        tuple(sorted(changes, key=lambda change: change.number)),
        tuple(reuses),
        bound,
    )


def _view(slot: GraphSlot) -> SlotView:
    graph = slot.graph
    return SlotView(
        name=slot.name,
        installed=graph is not None,
        captures=slot.captures,
        replays=slot.replays,
        invalidations=slot.invalidations,
        graphs=0 if graph is None else graph.report.captured_segments,
        nodes=0 if graph is None else graph.nodes,
        quarantined=tuple(sorted(f"{domain or 'ai.onnx'}::{name}" for domain, name in slot.quarantined)),
        signature=() if graph is None else graph.signature,
        history=slot.history,
    )


def _session_rules(runner: Runner, run: RunState, state: DecodeState) -> tuple[Precondition, ...]:
    begun = state is not DecodeState.IDLE
    room = run.position < runner.plan.context
    stands = f"{run.position:,} of {runner.plan.context:,} tokens"
    return (
        Precondition("A prompt is prefilled", begun, stands if begun else "", "Prefill a prompt"),
        Precondition("Room for one more token", room if begun else None, stands, "Plan a longer context"),
    )


def _node_rules(runner: Runner, run: RunState, stepper: Stepper, slot: GraphSlot) -> list[Precondition]:
    declines = _declines(runner, run, stepper, slot)
    if declines is None:
        later = "known once a decode step has run"
        return [Precondition(title, None, later, "Run an eager step") for title, _ in NODE_RULES]
    return [_rule(title, [item for item in declines if item.seam in seams]) for title, seams in NODE_RULES]


def _declines(runner: Runner, run: RunState, stepper: Stepper, slot: GraphSlot) -> Sequence[Decline] | None:
    """What the newest capture said; before one, what it would say; None where no step is bound yet."""
    if slot.report is not None:
        return slot.report.declines
    if stepper.kept is None:
        return None
    launches, growing = stepper.kept[1].launches, stepper.moving_symbols(run.position, run.capacity)
    index = runner.planner.index
    return audit(index, runner.device, launches, growing, run.warmed, slot.quarantined).declines


def _rule(title: str, declines: Sequence[Decline]) -> Precondition:
    if not declines:
        return Precondition(title, met=True)
    names = [item.node or item.operator for item in declines[:NAMED]]
    more = f" and {len(declines) - NAMED:,} more" if len(declines) > NAMED else ""
    return Precondition(title, False, ", ".join(names) + more, declines[0].remedy)
