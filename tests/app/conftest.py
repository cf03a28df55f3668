"""Messages as the engine would send them, and a window that is fed with them instead of an engine."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings
from PySide6.QtWidgets import QApplication

from vramscope.messages.columns import TableChunk, integer_column, text_column
from vramscope.messages.live import CounterInfo, EventInfo, Events, SlotInfo, SnapshotInfo, TokenInfo
from vramscope.messages.model import (
    CardInfo,
    ContractInfo,
    DeviceInfo,
    Hello,
    ModelInfo,
    OpenParams,
    SampleInfo,
)
from vramscope.messages.planning import (
    AxisInfo,
    BytesFigure,
    ComponentInfo,
    PhaseInfo,
    PlanInfo,
    PlanParams,
    ProblemInfo,
    ScenarioInfo,
    SuggestionInfo,
    VerdictInfo,
)
from vramscope.messages.running import CaptureInfo, DeclineInfo, RunInfo, SeamSpan, SegmentInfo, VerifyInfo
from vramscope_app.client import Call, EngineClient, Reply
from vramscope_app.controller import Controller
from vramscope_app.look import Look
from vramscope_app.settings import Settings
from vramscope_app.theme import LIGHT, apply_theme, style_sheet
from vramscope_app.window import MainWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

    from pytestqt.qtbot import QtBot

MIB = 2**20
GIB = 2**30
UNKNOWN = BytesFigure(bytes=None, certainty="unknown")


def exact(size: int) -> BytesFigure:
    return BytesFigure(bytes=size, certainty="exact")


def bound(size: int) -> BytesFigure:
    return BytesFigure(bytes=size, certainty="bound")


def hello() -> Hello:
    return Hello(
        version=1,
        engine_version="0.1.0",
        python="3.11",
        process=4711,
        devices=[DeviceInfo(name="host", available=True, detail="NumPy")],
        cards=[
            CardInfo(
                name=name, architecture="Ada", memory_bytes=size * GIB, bandwidth_bytes_per_second=10**12
            )
            for name, size in (("GeForce RTX 4060", 8), ("GeForce RTX 4090", 24), ("H100 SXM", 80))
        ],
        samples=[
            SampleInfo(name="tiny-llama", title="Tiny Llama", shows="a decoder that fits"),
            SampleInfo(name="unbounded-axis", title="Unbounded axis", shows="a refusal"),
        ],
    )


def model(*, decoder: bool = True, chat: bool = False) -> ModelInfo:
    contract = ContractInfo(
        dialect="genai",
        feeds={"input_ids": "ids"},
        logits="logits",
        layers=2,
        vocabulary=512,
        context_limit=8192,
        context_source="genai_config.json",
        kv=[],
        notes=[],
    )
    return ModelInfo(
        path="/models/tiny/model.onnx",
        name="tiny",
        producer="tests",
        nodes=6,
        weights_bytes=3 * GIB,
        contract=contract if decoder else None,
        inputs=[],
        problems=["an unused initializer"],
        has_tokenizer=decoder,
        has_chat_template=chat,
        default_prompt="The capital of France is" if decoder else "",
        scenario=ScenarioInfo(context=2048, card="GeForce RTX 4060"),
    )


def axis(symbol: str, *, refused: str = "") -> AxisInfo:
    return AxisInfo(
        symbol=symbol,
        low=1,
        high=None if refused else 2048,
        certainty="unknown" if refused else "bound",
        kind="" if refused else "ConfiguredMax",
        source="" if refused else "context of the scenario",
        derivation=["total = past + sequence", "past ≤ 2047"],
        uses=17,
        first_node="/model/layers.0/attn/MatMul",
        refused=refused,
        editable=True,
    )


def components() -> list[ComponentInfo]:
    figures = {
        "weights": exact(3 * GIB),
        "KV cache": exact(640 * MIB),
        "activations": bound(210 * MIB),
        "workspace": exact(32 * MIB),
        "inputs and outputs": exact(2 * MIB),
        "device context": UNKNOWN,
    }
    return [ComponentInfo(name=name, figure=figure, detail="detail") for name, figure in figures.items()]


def plan(*, ticket: int = 1, refused: bool = False, context: int = 2048) -> PlanInfo:
    kind = "cannot be planned" if refused else "fits"
    return PlanInfo(
        ticket=ticket,
        scenario=ScenarioInfo(context=context, card="GeForce RTX 4060"),
        context=context,
        context_source="scenario",
        kv_capacity=2048,
        kv_bytes_per_token=4096,
        components=components(),
        total=bound(4 * GIB),
        verdict=VerdictInfo(
            kind=kind,
            sentence=f"It {kind}: GeForce RTX 4060",
            needed=bound(4 * GIB),
            available=8 * GIB,
            headroom=4 * GIB,
            blame="weights",
            largest_context=65536,
            largest_batch=8,
        ),
        axes=[axis("total"), axis("boxes", refused="nothing bounds NonZero" if refused else "")],
        phases=[
            PhaseInfo(
                name=name,
                arena_bytes=210 * MIB,
                arena_peak=200 * MIB,
                arena_naive=900 * MIB,
                workspace_bytes=32 * MIB,
                peak_node="/model/layers.0/attn/MatMul",
            )
            for name in ("prefill", "decode")
        ],
        suggestions=[SuggestionInfo(title="Context 1,024", saves=320 * MIB, change={"context": 1024})],
        problems=[
            ProblemInfo(severity="note", text="a note", remedy="", node=""),
            ProblemInfo(
                severity="error",
                text="axis 1 of boxes has no ceiling",
                remedy="Give boxes a maximum",
                node="/model/layers.1/mlp/MatMul",
            ),
        ],
        node_rows=12,
        milliseconds=3.0,
    )


NODES = (
    ("model/embed", "/model/embed/Gather", "Gather", 1 * GIB, 4 * MIB),
    ("model/layers.0/attn", "/model/layers.0/attn/MatMul", "MatMul", 512 * MIB, 8 * MIB),
    ("model/layers.0/attn", "/model/layers.0/attn/GQA", "GroupQueryAttention", 0, 8 * MIB),
    ("model/layers.0/mlp", "/model/layers.0/mlp/MatMul", "MatMul", 512 * MIB, 32 * MIB),
    ("model/layers.1/mlp", "/model/layers.1/mlp/MatMul", "MatMul", 512 * MIB, -1),
    ("", "/lm_head/MatMul", "MatMul", 512 * MIB, 2 * MIB),
)


def chunk(phase: str, *, ticket: int = 1, scale: int = 1) -> TableChunk:
    rows = len(NODES)
    sizes = [size * scale if size > 0 else size for *_, size in NODES]
    return TableChunk(
        table=f"nodes:{phase}",
        ticket=ticket,
        start=0,
        rows=rows,
        columns=[
            integer_column("step", range(rows)),
            text_column("name", [name for _, name, *_ in NODES]),
            text_column("operator", [operator for _, _, operator, *_ in NODES]),
            text_column("domain", [""] * rows),
            text_column("scope", [scope for scope, *_ in NODES]),
            text_column("kernel", ["host"] * (rows - 1) + ["reference"]),
            text_column("input_shapes", ["1×64×576"] * rows),
            text_column("output_shapes", ["1×≤64×576"] * rows),
            text_column("certainty", ["exact"] * 3 + ["bound", "unknown", "exact"]),
            integer_column("weight_bytes", [weights for *_, weights, _ in NODES]),
            integer_column("output_bytes", sizes),
            integer_column("workspace_bytes", [0, 0, 32 * MIB, 0, 0, 0]),
            integer_column("live_bytes", [size * 2 if size > 0 else 0 for size in sizes]),
            integer_column("peak_bytes", [0, 0, 30 * MIB, 10 * MIB, 0, 0]),
        ],
        last=True,
    )


def run(**changes: object) -> RunInfo:
    base = RunInfo(
        state="ready",
        position=12,
        capacity=256,
        new_tokens=[7],
        text="",
        steps_eager=4,
        steps_replayed=16,
        tokens_per_second_eager=40.0,
        tokens_per_second_replay=60.0,
        finished="",
    )
    return msgspec.structs.replace(base, **changes)


def capture(*, declined: bool = False, dots: Sequence[str] = ()) -> CaptureInfo:
    declines = [
        DeclineInfo(
            node="/model/layers.0/attn/GQA",
            operator="GroupQueryAttention",
            seam="HostControlFlowOrSequence",
            reason="the host reads its output",
            remedy="Keep the length on the device",
            step=2,
        )
    ]
    whole = [SegmentInfo(start=0, end=6, captured=True, steps=list(range(6)))]
    cut = [
        SegmentInfo(start=0, end=2, captured=True, steps=[0, 1]),
        SegmentInfo(
            start=2,
            end=3,
            captured=False,
            steps=[2],
            seams=[SeamSpan(start=2, end=3, reason="HostControlFlowOrSequence")],
        ),
        SegmentInfo(start=3, end=6, captured=True, steps=[3, 4, 5]),
    ]
    return CaptureInfo(
        captured=True,
        segments=cut if declined else whole,
        declines=declines if declined else [],
        nodes_captured=5 if declined else 6,
        nodes_total=6,
        run=run(),
        device_nodes=40 if dots else None,
        dots=list(dots),
    )


def verify() -> VerifyInfo:
    return VerifyInfo(equal=True, steps=8, first_difference=None, largest_logit_difference=0.0, run=run())


def snapshot(sequence: int = 1, *, allocated: int = 4 * GIB, allocations: int = 0) -> SnapshotInfo:
    counter = CounterInfo(
        component="weights",
        current_bytes=3 * GIB,
        peak_bytes=3 * GIB,
        total_bytes=3 * GIB,
        current_count=20,
        peak_count=20,
        total_count=20,
    )
    slot = SlotInfo(name="Primary", state="ready", segments=1, replays=16, invalidations=0, last_cause="")
    return SnapshotInfo(
        sequence=sequence,
        seconds=sequence / 30,
        state="ready",
        position=12,
        capacity=256,
        steps_eager=4,
        steps_replayed=16,
        allocations_last_step=allocations,
        allocated_bytes=allocated,
        peak_bytes=allocated,
        budget=8 * GIB,
        counters=[counter],
        kernel_temporaries=BytesFigure(bytes=5 * MIB, certainty="measured"),
        uploads=1,
        upload_bytes=64,
        downloads=2,
        download_bytes=128,
        slots=[slot],
        measured=[
            ComponentInfo(
                name="weights", figure=BytesFigure(bytes=3 * GIB, certainty="measured"), detail="20 buffers"
            )
        ],
    )


def event(sequence: int, kind: str = "allocate", *, size: int = MIB, step: int = 0) -> EventInfo:
    return EventInfo(
        sequence=sequence,
        seconds=sequence / 100,
        kind=kind,
        step=step,
        subject=f"buffer {sequence}",
        text=f"{kind} {size}",
        bytes=size,
        component="weights",
    )


def token(step: int, *, replayed: bool = False, text: str = " word") -> TokenInfo:
    return TokenInfo(step=step, tokens=[step + 3], text=text, replayed=replayed, milliseconds=5.0)


@dataclass
class Script:
    """A window, and the signals that an engine would cause; no process is started."""

    window: MainWindow
    client: EngineClient

    @property
    def controller(self) -> Controller:
        return self.window.controller

    def answer(self, method: str, params: msgspec.Struct, result: msgspec.Struct) -> None:
        self.client.answered.emit(Reply(Call(0, method, params, 0.0), result, 0.01))

    def open(self, *, decoder: bool = True) -> None:
        self.client.ready.emit(hello())
        self.answer("open", OpenParams(sample="tiny"), model(decoder=decoder))

    def plan(self, *, ticket: int = 1, refused: bool = False, context: int = 2048, scale: int = 1) -> None:
        made = plan(ticket=ticket, refused=refused, context=context)
        self.answer("plan", PlanParams(scenario=made.scenario), made)
        for phase in ("prefill", "decode"):
            self.client.table.emit(chunk(phase, ticket=ticket, scale=scale))

    def events(self, *events: EventInfo) -> None:
        self.client.events.emit(Events(events=list(events), dropped=0))


def make_script(store: Path, look: Look) -> Script:
    client = EngineClient()
    settings = Settings(QSettings(str(store), QSettings.Format.IniFormat))
    window = MainWindow(Controller(client), settings, look)
    return Script(window, client)


@pytest.fixture
def messages() -> ModuleType:
    return sys.modules[__name__]


@pytest.fixture
def light(qapp: object) -> Look:
    assert isinstance(qapp, QApplication)
    if qapp.styleSheet() != style_sheet(LIGHT):
        apply_theme(qapp, LIGHT)
    return Look.of(LIGHT)


@pytest.fixture
def script(qtbot: QtBot, tmp_path: Path, light: Look) -> Iterator[Script]:
    made = make_script(tmp_path / "settings.ini", light)
    made.window.show()
    yield made
    made.window.close()
    made.window.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)


@pytest.fixture
def window(script: Script) -> MainWindow:
    return script.window
