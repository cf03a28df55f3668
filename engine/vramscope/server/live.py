"""Engine types to messages: events, snapshots, steps, captures."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, TypedDict

from vramscope.messages.live import (
    BlocksInfo,
    CounterInfo,
    EventInfo,
    ExpertTraffic,
    LeaseInfo,
    PhasePeak,
    SlotInfo,
    SnapshotInfo,
    StreamingInfo,
)
from vramscope.messages.planning import BytesFigure, ComponentInfo
from vramscope.messages.running import (
    CaptureInfo,
    DeclineInfo,
    OutputInfo,
    RunInfo,
    SeamSpan,
    SegmentInfo,
    VerifyInfo,
    VerifyStep,
)
from vramscope.plan.types import ComponentName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vramscope.decode.blocks import BlockUse
    from vramscope.decode.types import DecodeSnapshot, SlotState, VerifyReport
    from vramscope.devices.base import GraphFacts
    from vramscope.devices.ledger import Counters
    from vramscope.ops.call import Tensor
    from vramscope.run.capture import CaptureReport
    from vramscope.run.events import Event
    from vramscope.run.memory_state import MemoryState, Streaming
    from vramscope.run.traffic import Traffic, TrafficPhase

COMPARED = 1000
"""Steps of a verification that are told one by one."""


def event_info(event: Event, sequence: int, seconds: float) -> EventInfo:
    """One event with its number and its time on the clock that snapshots have too."""
    return EventInfo(
        sequence=sequence,
        seconds=seconds,
        kind=event.kind.value,
        step=event.step,
        subject=event.subject,
        text=event.text,
        bytes=event.bytes,
        component=event.component,
    )


def snapshot_info(
    snapshot: DecodeSnapshot,
    traffic: Mapping[TrafficPhase, Traffic],
    *,
    finished: str,
    sequence: int,
    seconds: float,
) -> SnapshotInfo:
    """Everything live about a decode session."""
    return SnapshotInfo(
        sequence=sequence,
        seconds=seconds,
        state="finished" if finished else snapshot.state.value,
        position=snapshot.position,
        capacity=snapshot.capacity,
        steps_eager=snapshot.steps_eager,
        steps_replayed=snapshot.steps_replayed,
        allocations_last_step=snapshot.allocations_last_step,
        kernel_temporaries=BytesFigure(
            bytes=snapshot.kernel_temporaries.bytes, certainty=snapshot.kernel_temporaries.certainty.value
        ),
        uploads=snapshot.transfers.uploads,
        upload_bytes=snapshot.transfers.upload_bytes,
        downloads=snapshot.transfers.downloads,
        download_bytes=snapshot.transfers.download_bytes,
        slots=[_slot(slot) for slot in snapshot.slots],
        **memory_fields(snapshot.total, snapshot.budget, snapshot.components, snapshot.memory),
        experts=[_expert_traffic(phase, item) for phase, item in traffic.items()],
        blocks=None if snapshot.blocks is None else _blocks(snapshot.blocks),
    )


def _blocks(use: BlockUse) -> BlocksInfo:
    return BlocksInfo(
        block_size=use.block_size, blocks=use.blocks, taken=use.taken, held=use.held, used=use.used
    )


class MemoryFields(TypedDict):
    """Fields of a snapshot that any session's memory gives."""

    allocated_bytes: int
    peak_bytes: int
    budget: int | None
    counters: list[CounterInfo]
    measured: list[ComponentInfo]
    leases: list[LeaseInfo]
    left: int | None
    card_used: int | None
    card_total: int | None
    phase_peaks: list[PhasePeak]
    streaming: StreamingInfo | None


def memory_fields(
    total: Counters, budget: int | None, components: Mapping[str, Counters], memory: MemoryState
) -> MemoryFields:
    """What a session's ledger and claims give a snapshot."""
    held = _measurable(components)
    return {
        "allocated_bytes": total.current_bytes,
        "peak_bytes": total.peak_bytes,
        "budget": budget,
        "counters": [_counter(name, item) for name, item in held.items()],
        "measured": [*(_measured(name, item) for name, item in held.items()), *_outside(total, memory)],
        "leases": [LeaseInfo(purpose=name, bytes=size) for name, size in memory.leases.items()],
        "left": memory.left,
        "card_used": None if memory.card is None else memory.card.used,
        "card_total": None if memory.card is None else memory.card.total,
        "phase_peaks": [PhasePeak(phase=name, bytes=size) for name, size in memory.peaks.items()],
        "streaming": streaming_info(memory.streaming),
    }


def _expert_traffic(phase: str, traffic: Traffic) -> ExpertTraffic:
    return ExpertTraffic(
        phase=phase,
        uploaded=traffic.uploaded,
        committed=traffic.committed,
        logical=traffic.logical,
        unique=traffic.unique,
        page_ins=traffic.page_ins,
        physical=traffic.physical,
    )


def streaming_info(streaming: Streaming | None) -> StreamingInfo | None:
    """Weights under a budget."""
    if streaming is None:
        return None
    plan, counts = streaming.plan, streaming.counts
    return StreamingInfo(
        budget=plan.budget,
        least=plan.least,
        streamed=len(plan.offsets),
        window_bytes=plan.window,
        page_ins=counts.page_ins,
        page_in_bytes=counts.page_in_bytes,
        hits=counts.hits,
    )


def _measurable(components: Mapping[str, Counters]) -> dict[str, Counters]:
    """Components that the ledger sees; what the device itself keeps lies outside it, and is not 0."""
    outside = ComponentName.CONTEXT.value
    return {name: item for name, item in components.items() if name != outside or item.total_count}


def _outside(total: Counters, memory: MemoryState) -> list[ComponentInfo]:
    """What a card holds beside the session's buffers; nothing where there is no card."""
    card = memory.card
    if card is None:
        return []
    beside = max(0, card.used - total.current_bytes)
    figure = BytesFigure(bytes=beside, certainty="measured")
    detail = "the driver's context, pages, kernels and graphs, and what other programs hold"
    return [ComponentInfo(name=ComponentName.CONTEXT.value, figure=figure, detail=detail)]


def _counter(name: str, counters: Counters) -> CounterInfo:
    return CounterInfo(
        component=name,
        current_bytes=counters.current_bytes,
        peak_bytes=counters.peak_bytes,
        total_bytes=counters.total_bytes,
        current_count=counters.current_count,
        peak_count=counters.peak_count,
        total_count=counters.total_count,
    )


def _measured(name: str, counters: Counters) -> ComponentInfo:
    return ComponentInfo(
        name=name,
        figure=BytesFigure(bytes=counters.current_bytes, certainty="measured"),
        detail=f"{counters.current_count} allocations, peak {counters.peak_bytes:,} bytes",
    )


def _slot(slot: SlotState) -> SlotInfo:
    return SlotInfo(
        name=slot.name,
        state=slot.state,
        segments=slot.segments,
        replays=slot.replays,
        invalidations=slot.invalidations,
        last_cause=slot.last_cause,
    )


def run_info(
    snapshot: DecodeSnapshot, *, batch: int, finished: str, tokens: Sequence[int], text: str
) -> RunInfo:
    """Where a run stands, and what one request produced."""
    return RunInfo(
        state="finished" if finished else snapshot.state.value,
        position=snapshot.position,
        capacity=snapshot.capacity,
        new_tokens=list(tokens),
        text=text,
        steps_eager=snapshot.steps_eager,
        steps_replayed=snapshot.steps_replayed,
        tokens_per_second_eager=_rate(snapshot.steps_timed * batch, snapshot.seconds_eager),
        tokens_per_second_replay=_rate(snapshot.steps_replayed * batch, snapshot.seconds_replayed),
        finished=finished,
    )


def _rate(tokens: int, seconds: float) -> float | None:
    return tokens / seconds if tokens and seconds > 0 else None


def capture_info(report: CaptureReport, graphs: Sequence[GraphFacts], run: RunInfo) -> CaptureInfo:
    """What was captured, what was not and why; ``graphs`` as the device has them."""
    return CaptureInfo(
        captured=report.captured,
        segments=segment_infos(report),
        declines=[
            DeclineInfo(
                node=item.node,
                operator=f"{item.domain or 'ai.onnx'}::{item.operator}",
                seam="" if item.seam is None else item.seam.value,
                reason=item.reason,
                remedy=item.remedy,
                step=item.step,
            )
            for item in report.declines
        ],
        nodes_captured=sum(item.end - item.start for item in report.segments if item.captured),
        nodes_total=sum(item.end - item.start for item in report.segments),
        run=run,
        device_nodes=sum(item.nodes for item in graphs) if graphs else None,
        dots=[item.dot for item in graphs],
    )


def segment_infos(report: CaptureReport) -> list[SegmentInfo]:
    """The segments, each seam with its reasons.

    The audit declines every step of a seam once and in order; where their numbers differ, a whole graph was
    declined, and no step has a reason of its own.
    """
    reasons = [item.seam.value for item in report.declines if item.seam is not None]
    eager = sum(item.end - item.start for item in report.segments if not item.captured)
    told = iter(reasons if len(reasons) == eager else ())
    return [
        SegmentInfo(
            start=item.start,
            end=item.end,
            captured=item.captured,
            seams=[] if item.captured else _spans(item.start, list(islice(told, item.end - item.start))),
            steps=list(report.steps[item.start : item.end]),
        )
        for item in report.segments
    ]


def _spans(start: int, reasons: Sequence[str]) -> list[SeamSpan]:
    found = []
    for reason, run in groupby(reasons):
        end = start + len(list(run))
        found.append(SeamSpan(start=start, end=end, reason=reason))
        start = end
    return found


def verify_info(report: VerifyReport, run: RunInfo, piece: Callable[[int], str]) -> VerifyInfo:
    """Replay beside eager; ``piece`` gives a token's text."""
    return VerifyInfo(
        equal=report.equal,
        steps=report.steps,
        first_difference=report.first_difference,
        largest_logit_difference=report.largest_logit_difference,
        run=run,
        compared=[
            VerifyStep(
                replayed=row.replayed[0],
                eager=row.eager[0],
                replayed_text=piece(row.replayed[0]),
                eager_text=piece(row.eager[0]),
                equal=row.replayed == row.eager,
                logit_difference=row.logit_difference,
            )
            for row in report.rows[:COMPARED]
        ],
    )


def output_info(name: str, array: Tensor) -> OutputInfo:
    """One output summarised; no minimum, maximum and mean for what has no order or no finite element."""
    import numpy as np

    from vramscope.ops.call import Packed

    if isinstance(array, Packed):
        array = array.unpack()
    if isinstance(array, list):
        return OutputInfo(
            name=name, dtype="sequence", shape=[len(array)], minimum=None, maximum=None, mean=None
        )
    numbers = array.astype(np.float64).ravel() if array.dtype.kind not in "OSUc" else np.empty(0)
    known = numbers[np.isfinite(numbers)]
    return OutputInfo(
        name=name,
        dtype=str(array.dtype),
        shape=list(array.shape),
        minimum=float(known.min()) if known.size else None,
        maximum=float(known.max()) if known.size else None,
        mean=float(known.mean()) if known.size else None,
    )
