"""The question and the answer of planning, as frozen data: a :class:`Scenario` gives a :class:`Plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vramscope.errors import ScenarioError, VramscopeError
from vramscope.plan.pool import NO_POOL, BlockPool
from vramscope.plan.scenario import (
    CUDA_RUNTIME,
    KEPT_TOKENS,
    OWN_RUNTIME,
    REFERENCE_RUNTIME,
    STATE_ROWS,
    Assumption,
    BucketPolicy,
    Scenario,
)
from vramscope.plan.shapes import AxisBound, Bounded, Exact, Refused
from vramscope.plan.weight_types import StreamingPlan, WeightPlan, WeightRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Model
    from vramscope.ops.spec import Lifetime, WorkspaceRequirement
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.bodies import BodyRegion


__all__ = [
    "CUDA_RUNTIME",
    "KEPT_TOKENS",
    "OWN_RUNTIME",
    "REFERENCE_RUNTIME",
    "STATE_ROWS",
    "UNKNOWN",
    "Assumption",
    "AxisBound",
    "AxisRow",
    "BindingRow",
    "Bounded",
    "BucketPolicy",
    "Certainty",
    "Component",
    "ComponentName",
    "Exact",
    "Figure",
    "KvPlan",
    "KvRow",
    "NodeRow",
    "Phase",
    "PhasePlan",
    "Plan",
    "Refused",
    "Scenario",
    "StreamingPlan",
    "Suggestion",
    "Verdict",
    "VerdictKind",
    "WeightPlan",
    "WeightRow",
    "WorkspacePlan",
]


class Certainty(Enum):
    """How a number is known. Unknown is never shown as 0."""

    EXACT = "exact"
    BOUND = "bound"
    GROWING = "growing"
    """What a growing cache becomes at most; less is held until then."""
    MEASURED = "measured"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Figure:
    """Bytes and how they are known; ``bytes`` None exactly when unknown."""

    bytes: int | None
    certainty: Certainty

    @classmethod
    def exact(cls, size: int) -> Figure:
        """A figure that is what execution will ask for, to the byte."""
        return cls(size, Certainty.EXACT)

    @classmethod
    def of(cls, size: int, *, bounded: bool) -> Figure:
        """A ceiling when ``bounded``, else exact."""
        return cls(size, Certainty.BOUND if bounded else Certainty.EXACT)

    @property
    def known(self) -> int:
        """The bytes for a sum that says elsewhere that parts are unknown."""
        return self.bytes or 0


UNKNOWN = Figure(None, Certainty.UNKNOWN)


class Phase(Enum):
    """What a step computes: the whole prompt at once, or one token."""

    PREFILL = "prefill"
    DECODE = "decode"
    SINGLE = "run"
    """The one phase of a model that is not a decoder."""


@dataclass(frozen=True, slots=True)
class AxisRow:
    """One symbol of the program: its interval, where that comes from, and what refuses or uses it."""

    symbol: str
    low: int
    high: int | None
    certainty: Certainty
    kind: str
    source: str
    derivation: tuple[str, ...]
    uses: int
    """How many values mention the symbol."""
    first_node: str
    refused: str = ""
    """Why no ceiling is known; empty when one is."""
    editable: bool = True


class NodeRow(NamedTuple):
    """One step in one phase: its bytes, how they are known, and who runs it."""

    step: int
    name: str
    operator: str
    domain: str
    scope: tuple[str, ...]
    kernel: str
    """Who runs it: ``cuda`` for a kernel on the card (in CUDA plans), ``host`` for an own kernel on
    the host, ``reference`` for onnx.reference, ``none`` when nothing does."""
    inputs: tuple[Exact | Bounded | Refused, ...]
    outputs: tuple[Exact | Bounded | Refused, ...]
    weight_bytes: int
    output_bytes: Figure
    workspace: WorkspaceRequirement
    live_bytes: int
    """Arena bytes alive while this step runs."""
    peak_bytes: int
    """Bytes of what this step made that are alive at the arena's peak step: its part of ``live_peak``."""


@dataclass(frozen=True, slots=True)
class WorkspacePlan:
    """The largest scratch of each lifetime (semantics 1.2: a peak, not a sum) and the nodes that set it."""

    bytes: Mapping[Lifetime, int]
    alignment: Mapping[Lifetime, int]
    blame: Mapping[Lifetime, str]

    @property
    def total(self) -> int:
        """Both slots together."""
        return sum(self.bytes.values())


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase: extents of symbols, every value's shape, the arena, the workspace, a row per node."""

    phase: Phase
    symbols: Mapping[str, int]
    shapes: Mapping[int, Exact | Bounded | Refused]
    arena: ArenaPlan
    workspace: WorkspacePlan
    nodes: tuple[NodeRow, ...]
    refusals: tuple[Refused, ...]
    bodies: Mapping[str, BodyRegion] = field(default_factory=lambda: MappingProxyType({}))
    """What the bodies of each control-flow node keep while they run, by the node's name."""


@dataclass(frozen=True, slots=True)
class KvRow:
    """One KV buffer: physical shape, bytes, how past and present share it."""

    layer: int
    role: str
    input: str
    output: str
    shape: tuple[int, ...]
    bytes: int
    form: str
    reason: str
    shared: bool


@dataclass(frozen=True, slots=True)
class KvPlan:
    """The KV cache: capacity in tokens, bytes a token, buffers, and the transient of growing to it."""

    capacity: int
    bytes_per_token: int
    bytes: int
    rows: tuple[KvRow, ...]
    transient: int = 0
    """Bytes alive beyond the final buffers while a bucket grows: the old ones."""
    first: int = 0
    """Bytes of the buffers that a session begins with; less than ``bytes`` where the cache grows."""
    pool: BlockPool = NO_POOL
    """What a paged cache is made of."""


@dataclass(frozen=True, slots=True)
class BindingRow:
    """One graph input or output that lives in a buffer for the whole session."""

    name: str
    direction: str
    shape: tuple[int, ...]
    figure: Figure


class ComponentName(Enum):
    """The parts a card is filled with, in the order they are shown."""

    WEIGHTS = "weights"
    KV_CACHE = "KV cache"
    ACTIVATIONS = "activations"
    WORKSPACE = "workspace"
    BINDINGS = "inputs and outputs"
    CONTEXT = "device context"
    """Outside our allocator: driver context, modules, graphs. Unknown until a device is open."""


@dataclass(frozen=True, slots=True)
class Component:
    """One part and its bytes; ``detail`` says in a few words what it is made of."""

    name: ComponentName
    figure: Figure
    detail: str = ""


class VerdictKind(Enum):
    """The answer in one word."""

    FITS = "fits"
    SHORT = "does not fit"
    REFUSED = "cannot be planned"
    UNJUDGED = "no card or budget given"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Does it fit, by how much, what is to blame, and the largest context and batch that would fit."""

    kind: VerdictKind
    needed: Figure
    available: int | None
    headroom: int | None
    """Bytes to spare; negative: bytes short."""
    blame: str
    largest_context: int | None
    largest_batch: int | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change to the scenario, or another export, and the bytes it saves, found by planning it."""

    title: str
    saves: int
    change: Mapping[str, int | str]
    """Scenario fields to set; ``maxima`` names a symbol, ``as_if`` a rewrite that joins the scenario's."""
    how: str = ""
    """How to export the model so, where that is what it takes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The whole answer to one scenario."""

    scenario: Scenario
    context: int
    """Tokens of context that were planned, after the model's own limit."""
    context_source: str
    weights: WeightPlan
    kv: KvPlan
    bindings: tuple[BindingRow, ...]
    phases: tuple[PhasePlan, ...]
    components: tuple[Component, ...]
    total: Figure
    verdict: Verdict
    axes: tuple[AxisRow, ...]
    notes: tuple[str, ...] = ()
    specialised: Model | None = None
    """What was planned where it is not the opened model: known extents decide branches, or another export is
    assumed. Phases tell of this model's values and steps."""
    assumes: tuple[Assumption, ...] = ()
    """How the planned model differs from the file."""
    as_it_is: int | None = None
    """What the file as it is would take in the same scenario; None where nothing is assumed, or unknown."""

    @property
    def refusals(self) -> tuple[Refused, ...]:
        """Every axis that nothing bounds, over all phases, each once."""
        found = {(item.value, item.axis): item for phase in self.phases for item in phase.refusals}
        return tuple(found.values())

    def phase(self, phase: Phase) -> PhasePlan:
        """The plan of one phase.

        Raises:
            VramscopeError: the model has no such phase.
        """
        for item in self.phases:
            if item.phase is phase:
                return item
        raise VramscopeError(f"phase {phase.value}", "this model has no such phase")

    def component(self, name: ComponentName) -> Component:
        """One component by name (every plan has all of them)."""
        return next(item for item in self.components if item.name is name)

    def require(self) -> Plan:
        """This plan, or the error of its first refused axis.

        Raises:
            UnboundedAxisError: an axis has no ceiling.
        """
        for refusal in self.refusals:
            raise refusal.error()
        return self

    def require_runnable(self) -> Plan:
        """This plan, or why nothing can run it: it assumes what the file is not.

        Raises:
            ScenarioError: the scenario assumes another export.
        """
        if not self.assumes:
            return self
        ids = ", ".join(item.id for item in self.assumes)
        raise ScenarioError(
            f"a run as if exported otherwise ({ids})",
            "this file is not exported so: its graph and its weights are the ones it has",
            f"Run it without --as-if {ids.replace(', ', ',')}, or export it so first",
        )
