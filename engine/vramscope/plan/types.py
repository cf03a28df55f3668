"""The question and the answer of planning, as frozen data: a :class:`Scenario` gives a :class:`Plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vramscope.errors import VramscopeError
from vramscope.plan.pool import NO_POOL, BlockPool
from vramscope.plan.shapes import AxisBound, Bounded, Exact, Refused
from vramscope.plan.weight_types import StreamingPlan, WeightPlan, WeightRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vramscope.graph.model import Model
    from vramscope.ops.spec import Lifetime, WorkspaceRequirement
    from vramscope.plan.arena import ArenaPlan
    from vramscope.plan.bodies import BodyRegion


__all__ = [
    "OWN_RUNTIME",
    "REFERENCE_RUNTIME",
    "UNKNOWN",
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
class BucketPolicy:
    """KV capacity: the next power of two, at least ``minimum``, at most the hard limit (semantics 2.9)."""

    minimum: int = 256
    growing: bool = False
    """False: the cache is allocated for the whole context at once. True: it starts at a bucket and grows."""

    def capacity(self, length: int, limit: int) -> int:
        """Tokens of capacity for ``length`` valid tokens under ``limit``."""
        power = 1 << max(length - 1, 0).bit_length()
        return min(limit, max(power, self.minimum))


KEPT_TOKENS = 32
"""The newest tokens of every sequence that stay on the device: so many steps may run without a download."""
STATE_ROWS = 2 + KEPT_TOKENS
"""Of the decode state: the last token, the valid length, the newest tokens."""

OWN_RUNTIME = "vramscope"
"""Plans the scratch of VRAMScope's own host kernels."""

CUDA_RUNTIME = "cuda"
"""Plans the scratch of VRAMScope's own CUDA kernels."""

REFERENCE_RUNTIME = "reference"
"""Plans the scratch that the reference runtime's CUDA kernels document."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is asked: ``batch`` sequences, a prompt of ``prompt`` tokens, room for ``context`` tokens in all.

    Attributes:
        batch: sequences decoded together.
        prompt: tokens of the prompt.
        context: prompt and generated tokens together; 0 means the model's own limit.
        card: a name in the card catalogue; empty when only ``budget`` (or nothing) is given.
        budget: bytes that may be used, instead of a card's memory.
        maxima: declared maxima of symbols, by name.
        extents: what symbols of the inputs are exactly, by name; a maximum only bounds its symbol.
        bucket: how the KV cache grows.
        weight_budget: bytes that weights may take; those that do not fit are streamed from the model's file.
        prefill_chunk: tokens that one pass over the prompt takes at most; 0: one pass takes all of it.
        block_size: positions of one block of a paged cache; 0: the model's own.
        kv_blocks: blocks of a paged cache's pool; 0: as many as every sequence needs to become full.
        runtime: whose kernels' scratch is planned: :data:`OWN_RUNTIME`, :data:`CUDA_RUNTIME` or
            :data:`REFERENCE_RUNTIME`.
    """

    batch: int = 1
    prompt: int = 64
    context: int = 0
    card: str = ""
    budget: int | None = None
    maxima: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    extents: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    bucket: BucketPolicy = field(default_factory=BucketPolicy)
    weight_budget: int | None = None
    prefill_chunk: int = 0
    block_size: int = 0
    kv_blocks: int = 0
    runtime: str = OWN_RUNTIME


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
    """A change to the scenario or the model and the bytes it saves, found by planning it."""

    title: str
    saves: int
    change: Mapping[str, int | str]
    """Scenario fields to set; empty when the model itself must change."""


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
    """What was planned where known extents decide branches: phases tell of this model's values and steps."""

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
