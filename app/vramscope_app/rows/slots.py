"""Rows about slots: preconditions, graph slots, lost graphs, signature, verification, memory slots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.rows.cells import Cell, Heading, Row, bytes_cell, count_cell
from vramscope_app.text import short_bytes
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.live import SlotInfo
    from vramscope.messages.running import VerifyInfo, VerifyStep
    from vramscope.messages.slots import (
        FieldChange,
        GraphSlotInfo,
        LostGraph,
        PreconditionInfo,
        SignatureRow,
        SlotChangeInfo,
        SlotsInfo,
    )

PRECONDITION_HEADINGS = (
    Heading("", 3),
    Heading("A whole capture needs", 28),
    Heading("Now", 40, "What stands in the way; ✓ met, ✗ not met, ? not known yet"),
)
SLOT_HEADINGS = (
    Heading("Graph slot", 10, "Primary: decode one token; Verify: check a draft of several"),
    Heading("State", 12),
    Heading("Graphs", 8, "Launches of one replay: the captured segments", right=True),
    Heading("Nodes", 8, "Nodes of the model inside the captured graphs", right=True),
    Heading("Captures", 9, right=True),
    Heading("Replays", 9, right=True),
    Heading("Invalidated", 11, "Graphs that died on this slot", right=True),
    Heading("Quarantined", 14, "Operators whose recording failed; they run eagerly"),
    Heading("Last cause", 60, "Why the last graph died"),
)
LOST_HEADINGS = (
    Heading("Slot", 9),
    Heading("Step", 7, "The position at which the graph died", right=True),
    Heading("Binding", 26, "The first binding that differed"),
    Heading("Field", 20),
    Heading("Was", 18),
    Heading("Is", 18),
    Heading("And", 12, "Further fields that differed", right=True),
    Heading("Cause", 60),
)
SIGNATURE_FIELDS = (
    ("dtype", Heading("Type", 9)),
    ("physical_shape", Heading("Physical shape", 20, "The shape that is allocated")),
    ("kernel_input_shape", Heading("Kernel sees", 20, "The shape that kernels read")),
    ("output_shape", Heading("Writes", 20, "The prefix that is written")),
    ("device_pointer", Heading("Address", 17)),
    ("output_name", Heading("Output", 18)),
    ("fixed_physical_strides", Heading("Fixed strides", 12, "Its length may move under fixed strides")),
    ("exposes_logical_input_shape", Heading("Shows length", 12, "Kernels see the valid prefix only")),
    ("mask_decode_freeze_safe", Heading("Mask safe", 10, "A frozen mask stays right while decoding")),
    ("accepts_output_subshape", Heading("Part written", 12, "A prefix of the output is written")),
    ("binds_input", Heading("Is input", 9)),
)
SIGNATURE_HEADINGS = (
    Heading("Binding", 25, "What a replay must find unchanged, buffer by buffer"),
    *(heading for _, heading in SIGNATURE_FIELDS),
)
VERIFY_HEADINGS = (
    Heading("", 3),
    Heading("Step", 6, right=True),
    Heading("Replayed", 9, "Token of sequence 0", right=True),
    Heading("Eager", 9, "Token of sequence 0", right=True),
    Heading("Replayed text", 18),
    Heading("Eager text", 18),
    Heading("Logit difference", 16, "The largest over the vocabulary and all sequences", right=True),
)
MEMORY_HEADINGS = (
    Heading("#", 5, "In the order in which it happened", right=True),
    Heading("What", 12, "reserve, reuse, replace, release or refuse"),
    Heading("Component", 17),
    Heading("Slot", 26),
    Heading("Bytes", 11, right=True),
    Heading("Before", 11, "What the slot held before", right=True),
    Heading("Phase", 10, "What was going on"),
)
_MET = {
    True: ("✓", marked("met"), "good"),
    False: ("✗", marked("not met"), "bad"),
    None: ("?", marked("not known yet"), "muted"),
}
FATES = (
    marked("reserve"),
    marked("replace"),
    marked("reuse"),
    marked("release"),
    marked("refuse"),
)
"""What can become of a memory slot, in the order of its life."""
_FATES = {"reserve": "good", "replace": "warning", "refuse": "bad", "reuse": "info"}


def precondition_rows(found: Sequence[PreconditionInfo]) -> list[Row]:
    """One row a precondition, those that are not met first."""
    order = {False: 0, None: 1, True: 2}
    return [_precondition(item) for item in sorted(found, key=lambda item: order[item.met])]


def _precondition(item: PreconditionInfo) -> Row:
    sign, word, tone = _MET[item.met]
    remedy = item.remedy if not item.met else ""
    now = " – ".join(filter(None, (item.detail, remedy)))
    cells = (
        Cell(sign, tr(word), tone),
        Cell(tr(item.title), tr(item.title)),
        Cell(now, now, "" if item.met else tone),
    )
    return Row(item.title, cells)


def precondition_words(found: Sequence[PreconditionInfo]) -> str:
    """How many preconditions are met."""
    met = sum(item.met is True for item in found)
    return (
        tr("{met} of {preconditions} met", met=met, preconditions=tr("{n:,} precondition(s)", n=len(found)))
        if found
        else tr("Preconditions of a capture")
    )


def slot_rows(slots: Sequence[SlotInfo], graphs: Sequence[GraphSlotInfo]) -> list[Row]:
    """One row a graph slot: the live counts, and what only the ``graphs`` know."""
    known = {item.name: item for item in graphs}
    return [_slot(item, known.get(item.name)) for item in slots]


def _slot(slot: SlotInfo, graph: GraphSlotInfo | None) -> Row:
    barred = ", ".join(graph.quarantined) if graph else ""
    unknown = Cell("–", tr("not asked yet"), "muted", right=True)
    cells = (
        Cell(slot.name),
        Cell(tr(slot.state), tone="good" if slot.state in ("captured", "ready") else ""),
        count_cell(slot.segments),
        count_cell(graph.nodes) if graph else unknown,
        count_cell(graph.captures) if graph else unknown,
        count_cell(slot.replays),
        count_cell(slot.invalidations),
        Cell(barred or tr("none"), barred, "warning" if barred else "muted"),
        Cell(slot.last_cause, slot.last_cause, "warning" if slot.last_cause else ""),
    )
    return Row(slot.name, cells)


def lost_rows(graphs: Sequence[GraphSlotInfo]) -> list[Row]:
    """One row a graph that died, the newest of each slot first."""
    return [
        _lost(graph.name, number, item)
        for graph in graphs
        for number, item in reversed(list(enumerate(graph.lost)))
    ]


def _lost(slot: str, number: int, item: LostGraph) -> Row:
    first = item.changes[0] if item.changes else None
    more = len(item.changes) - 1
    parts = (first.binding, first.field, first.old, first.new) if first else ("", "", "", "")
    cells = (
        Cell(slot),
        Cell(f"{item.step:,}", right=True),
        *(Cell(text, text, "bad" if place == 3 else "") for place, text in enumerate(parts)),
        Cell(
            tr("{more:,} more", more=more) if more > 0 else "",
            changes_text(item.changes),
            "muted",
            right=True,
        ),
        Cell(item.cause, item.cause),
    )
    return Row(f"{slot} {number}", cells)


def changes_text(changes: Sequence[FieldChange]) -> str:
    """Every field that differed, a line each."""
    return "\n".join(f"{item.binding}: {item.field} {item.old} → {item.new}" for item in changes[:20])


def newest_loss(graph: GraphSlotInfo) -> LostGraph | None:
    """The last graph of a slot that died because a binding changed."""
    return next((item for item in reversed(graph.lost) if item.changes), None)


def changed_columns(graph: GraphSlotInfo | None) -> list[int]:
    """Columns of the signature in which a field differed."""
    loss = newest_loss(graph) if graph is not None else None
    fields = {item.field for item in loss.changes} if loss else set()
    return [place for place, (field, _) in enumerate(SIGNATURE_FIELDS, start=1) if field in fields]


def signature_rows(slots: SlotsInfo, graph: GraphSlotInfo) -> list[Row]:
    """One row a binding; fields that ended the slot's last graph say old and new, their bindings first."""
    loss = newest_loss(graph)
    changed = {(item.binding, item.field): item for item in loss.changes} if loss else {}
    places = {name: place for place, name in enumerate(slots.fields)}
    bindings = {binding for binding, _ in changed}
    rows = sorted(graph.signature, key=lambda row: row.binding not in bindings)
    tone = "warning" if graph.installed else "bad"
    return [_signature(row, number, changed, places, tone) for number, row in enumerate(rows)]


def _signature(
    row: SignatureRow,
    number: int,
    changed: Mapping[tuple[str, str], FieldChange],
    places: Mapping[str, int],
    tone: str,
) -> Row:
    hit = any(binding == row.binding for binding, _ in changed)
    cells = [Cell(row.binding, row.binding, tone if hit else "", icon="warning" if hit else "")]
    for field, _ in SIGNATURE_FIELDS:
        change = changed.get((row.binding, field))
        text = row.values[places[field]] if field in places else ""
        if change is not None:
            words = f"✗ {change.old} → {change.new}"
            cells.append(
                Cell(
                    words,
                    tr("{field} was {old} and is {new}", field=field, old=change.old, new=change.new),
                    tone,
                )
            )
        else:
            cells.append(Cell(_flag(text), text, "muted" if text == "False" else ""))
    return Row(f"{number} {row.binding}", tuple(cells))


def _flag(text: str) -> str:
    return {"True": tr("yes"), "False": tr("no")}.get(text, text)


def signature_words(graph: GraphSlotInfo | None) -> str:
    """Whose signature it is, and what ended the graph before."""
    if graph is None or not (graph.signature or graph.lost):
        return tr("A captured graph's bindings appear here: a replay must find them unchanged")
    held = tr(
        "{bindings} of the {name} slot",
        bindings=tr("{n:,} binding(s)", n=len(graph.signature)),
        name=graph.name,
    )
    loss = newest_loss(graph)
    state = tr("installed graph") if graph.installed else tr("last graph, which died")
    if loss is None:
        return f"{held}: {state}"
    first = loss.changes[0]
    more = (
        tr(" and {fields}", fields=tr("{n:,} more field(s)", n=len(loss.changes) - 1))
        if len(loss.changes) > 1
        else ""
    )
    died = tr(
        "at step {step:,} {binding}: {field} changed{more}",
        step=loss.step,
        binding=first.binding,
        field=first.field,
        more=more,
    )
    return f"{held}: {state} · {tr('the one before died ') if graph.installed else ''}{died}"


def verify_rows(verify: VerifyInfo | None) -> list[Row]:
    """One row a step, replayed beside eager."""
    return [_verify(number, item) for number, item in enumerate(verify.compared)] if verify else []


def _verify(number: int, item: VerifyStep) -> Row:
    sign, tone = ("✓", "good") if item.equal else ("✗", "bad")
    off = "" if item.equal else "bad"
    cells = (
        Cell(sign, tr("equal") if item.equal else tr("differs"), tone),
        Cell(f"{number:,}", right=True),
        Cell(str(item.replayed), tone=off, right=True),
        Cell(str(item.eager), tone=off, right=True),
        Cell(repr(item.replayed_text) if item.replayed_text else "–"),
        Cell(repr(item.eager_text) if item.eager_text else "–"),
        Cell(f"{item.logit_difference:.3g}", tone="warning" if item.logit_difference else "", right=True),
    )
    return Row(str(number), cells)


def memory_rows(changes: Sequence[SlotChangeInfo]) -> list[Row]:
    """What became of the memory slots, newest first; reuses are only counted and come last."""
    told = sorted((item for item in changes if item.number), key=lambda item: -item.number)
    return [_change(item) for item in (*told, *(item for item in changes if not item.number))]


def _change(item: SlotChangeInfo) -> Row:
    reused = item.kind == "reuse"
    none = Cell("–", tone="muted", right=True)
    cells = (
        none if reused else count_cell(item.number),
        Cell(
            tr("reuse ×{count:,}", count=item.count) if reused else tr(item.kind),
            tone=_FATES.get(item.kind, "muted"),
        ),
        Cell(tr(item.component)),
        Cell(item.slot, item.slot),
        none if reused else bytes_cell(item.bytes),
        bytes_cell(item.before) if item.before and item.kind != "release" else none,
        Cell(item.phase),
    )
    return Row(f"{item.number} {item.component} {item.slot}", cells)


def memory_words(changes: Sequence[SlotChangeInfo]) -> str:
    """The history in a line."""
    if not changes:
        return tr("What becomes of workspace, arena, cache and bindings appears here once something runs")
    counts = dict.fromkeys(FATES, 0)
    for item in changes:
        counts[item.kind] = counts.get(item.kind, 0) + item.count
    grown = max((item.bytes for item in changes if item.kind == "replace"), default=0)
    most = tr(" · largest replacement {grown}", grown=short_bytes(grown)) if grown else ""
    return " · ".join(f"{tr(kind)} {count:,}" for kind, count in counts.items()) + most
