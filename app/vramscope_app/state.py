"""Everything the window shows except streams, as one frozen snapshot, and the questions asked about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.live import EMPTY_SNAPSHOT, SnapshotInfo
from vramscope.messages.planning import ScenarioInfo
from vramscope.messages.running import RunInfo
from vramscope.messages.slots import SlotsInfo
from vramscope_app.place import HERE, Place
from vramscope_app.rows.devices import obstacle
from vramscope_app.rows.history import History
from vramscope_app.translation import marked, tr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vramscope.messages.headroom import HeadroomCurves
    from vramscope.messages.model import Hello, ModelInfo, OpenParams
    from vramscope.messages.neighbours import NeighboursInfo
    from vramscope.messages.node import NodeInfo
    from vramscope.messages.planning import ComponentInfo, PlanInfo
    from vramscope.messages.running import CaptureInfo, ProfileInfo, RunModelInfo, TraceInfo, VerifyInfo
    from vramscope_app.client import Call, Death, Refusal
    from vramscope_app.rows.nodes import NodeTable

EMPTY_RUN = RunInfo(
    state="idle",
    position=0,
    capacity=0,
    new_tokens=[],
    text="",
    steps_eager=0,
    steps_replayed=0,
    tokens_per_second_eager=None,
    tokens_per_second_replay=None,
    finished="",
)
NO_SLOTS = SlotsInfo()
TITLES = {
    "hello": marked("starting the engine"),
    "open": marked("opening the model"),
    "plan": marked("planning"),
    "prefill": marked("prefill"),
    "step": marked("eager steps"),
    "capture": marked("capture"),
    "replay": marked("replay"),
    "verify": marked("verify"),
    "profile": marked("profile"),
    "reset": marked("reset"),
    "run_model": marked("running the model"),
    "export": marked("writing the report"),
    "trace": marked("the trace"),
    "report": marked("reading the report"),
    "baseline": marked("keeping the baseline"),
    "compare": marked("comparing"),
    "shutdown": marked("ending"),
}


class Engine(Enum):
    """Where the engine process stands."""

    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Busy:
    """The request that runs: what it is, how far it is, and when it was sent."""

    call: Call
    stage: str = ""
    done: int = 0
    total: int = 0

    @property
    def title(self) -> str:
        """What runs, in words."""
        return tr(TITLES.get(self.call.method, self.call.method))


@dataclass(frozen=True, slots=True)
class AppState:
    """The whole window at one moment."""

    engine: Engine = Engine.STARTING
    hello: Hello | None = None
    place: Place = HERE
    """Where the engine runs; every path that the engine is given is one of that machine."""
    death: Death | None = None
    source: OpenParams | None = None
    """What is open, or will be once the engine answers."""
    opened: OpenParams | None = None
    """What ``model`` was opened from."""
    model: ModelInfo | None = None
    report: str = ""
    """The saved report that is shown; empty when a model is open. Nothing can be planned or run from one."""
    detailed: bool = False
    """Whether the shown report can be asked for its nodes."""
    scenario: ScenarioInfo = field(default_factory=ScenarioInfo)
    history: History = field(default_factory=History)
    """Edits of the scenario that can be taken back."""
    plan: PlanInfo | None = None
    headroom: HeadroomCurves | None = None
    """Curves around a plan; of an older one while newer ones are computed."""
    nodes: Mapping[str, NodeTable] = field(default_factory=dict)
    """Node tables by phase."""
    arenas: Mapping[str, NodeTable] = field(default_factory=dict)
    """Blocks of the arenas by phase."""
    neighbours: NeighboursInfo | None = None
    """What stands around a node; of an older plan while the newer one is asked."""
    node: NodeInfo | None = None
    """The inspected node; of an older plan while the newer one is asked."""
    run: RunInfo = EMPTY_RUN
    ran: ScenarioInfo | None = None
    """The scenario of the newest run; None before one."""
    capture: CaptureInfo | None = None
    verify: VerifyInfo | None = None
    profile: ProfileInfo | None = None
    """What nodes took in the newest profiled steps."""
    slots: SlotsInfo = NO_SLOTS
    """Graph slots and memory slots as they were after the last request that ran the model."""
    outputs: RunModelInfo | None = None
    trace: TraceInfo | None = None
    """Whether the engine records what runs, as it said last; None before it was asked."""
    live: SnapshotInfo = EMPTY_SNAPSHOT
    busy: Busy | None = None
    failures: tuple[Refusal, ...] = ()
    """Requests that failed since the model was opened, newest first."""
    notice: Refusal | None = None
    """The failure that the banner shows until it is closed or something succeeds."""

    @property
    def ready(self) -> bool:
        """Whether the engine answers."""
        return self.engine is Engine.READY

    @property
    def decoder(self) -> bool:
        """Whether the open model generates tokens."""
        return self.model is not None and self.model.contract is not None

    @property
    def planned(self) -> bool:
        """Whether there is a plan that could run."""
        return self.plan is not None and not self.report and self.plan.verdict.kind != "cannot be planned"

    @property
    def askable(self) -> bool:
        """Whether the engine can be asked about nodes of what is shown."""
        known = self.detailed if self.report else self.plan is not None
        return self.ready and known and not self.working

    @property
    def working(self) -> bool:
        """Whether a request runs that others must wait for."""
        return self.busy is not None and self.busy.call.method != "plan"

    @property
    def idle(self) -> bool:
        """Whether a request that runs the model may be sent."""
        return self.ready and self.planned and not self.working and not self.obstacle

    @property
    def obstacle(self) -> str:
        """Why the open model can be planned but not run; empty when it can run."""
        if self.report:
            return tr("A saved report has no model to run: open its model")
        if self.scenario.as_if:
            return tr("The file is not exported as it is planned: plan the file as it is to run it")
        return obstacle(self.model, self.scenario.runtime, self.hello)

    @property
    def measured(self) -> Sequence[ComponentInfo]:
        """What a run took in the scenario that is planned, whatever card it is judged against.

        None of a run in another scenario: planned and measured bytes stand beside each other.
        """
        if self.ran is None or self.plan is None or _took(self.ran) == _took(self.plan.scenario):
            return self.live.measured
        return ()

    @property
    def started(self) -> bool:
        """Whether a prompt was prefilled."""
        return self.run.position > 0

    @property
    def steppable(self) -> bool:
        """Whether the next token may be computed."""
        return self.idle and self.decoder and self.started and not self.run.finished

    @property
    def replayable(self) -> bool:
        """Whether a captured graph may be replayed."""
        return self.steppable and self.run.state == "ready"


def _took(scenario: ScenarioInfo) -> ScenarioInfo:
    """A scenario without what it is judged against."""
    return msgspec.structs.replace(scenario, card="", budget=None)
