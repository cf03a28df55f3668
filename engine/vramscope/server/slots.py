"""The ``slots`` request: a generation's graph slots and memory slots, as a message."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from vramscope.messages.slots import (
    FieldChange,
    GraphSlotInfo,
    LostGraph,
    PreconditionInfo,
    SignatureRow,
    SlotChangeInfo,
    SlotsInfo,
)
from vramscope.run.signature import BindingSignature, field_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vramscope.decode.inspection import Precondition, SlotsView, SlotView
    from vramscope.devices.site_history import SiteChange
    from vramscope.run.slot import Invalidation

FIELDS = tuple(field.name for field in fields(BindingSignature))


def slots_info(view: SlotsView) -> SlotsInfo:
    """The same as a message."""
    reused = [
        SlotChangeInfo(
            number=0, kind="reuse", component=component, slot=name, bytes=0, before=0, phase="", count=count
        )
        for component, name, count in view.reuses
    ]
    return SlotsInfo(
        fields=list(FIELDS),
        graphs=[_graph(item) for item in view.graphs],
        preconditions=[_precondition(item) for item in view.preconditions],
        memory=[*(_change(item) for item in view.memory), *reused],
        groups=[list(group) for group in view.groups],
    )


def _graph(view: SlotView) -> GraphSlotInfo:
    signature = view.signature or (view.history[-1].signature if view.history else ())
    return GraphSlotInfo(
        name=view.name,
        installed=view.installed,
        captures=view.captures,
        replays=view.replays,
        invalidations=view.invalidations,
        graphs=view.graphs,
        nodes=view.nodes,
        quarantined=list(view.quarantined),
        signature=_rows(signature),
        lost=[_lost(item) for item in view.history],
    )


def _rows(signature: Sequence[BindingSignature]) -> list[SignatureRow]:
    return [
        SignatureRow(
            binding=item.input_name or item.output_name,
            values=[field_text(getattr(item, name)) for name in FIELDS],
        )
        for item in signature
    ]


def _lost(item: Invalidation) -> LostGraph:
    return LostGraph(
        step=item.step,
        cause=item.cause,
        changes=[
            FieldChange(binding=change.binding, field=change.field, old=change.old, new=change.new)
            for change in item.changed
        ],
    )


def _precondition(item: Precondition) -> PreconditionInfo:
    return PreconditionInfo(title=item.title, met=item.met, detail=item.detail, remedy=item.remedy)


def _change(item: SiteChange) -> SlotChangeInfo:
    return SlotChangeInfo(
        number=item.number,
        kind=item.fate.value,
        component=item.site.component,
        slot=item.site.name,
        bytes=item.bytes,
        before=item.before,
        phase=item.phase,
    )
