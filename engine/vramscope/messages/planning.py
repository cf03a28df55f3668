"""Planning: a scenario asked, a plan answered."""

from __future__ import annotations

import msgspec

DEVICE_CONTEXT = "device context"
"""The component that lies outside every buffer."""

KV_CACHE = "KV cache"
"""The component that only a decoder has."""


class BytesFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes (None: unknown) and how they are known: exact, bound, growing, measured or unknown."""

    bytes: int | None
    certainty: str


class ScenarioInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario as ``vramscope.plan.types.Scenario`` has it."""

    batch: int = 1
    prompt: int = 64
    context: int = 0
    card: str = ""
    budget: int | None = None
    maxima: dict[str, int] = {}
    bucket_minimum: int = 256
    bucket_growing: bool = False
    extents: dict[str, int] = {}
    runtime: str = "vramscope"
    weight_budget: int | None = None
    """Bytes that weights may take; those that do not fit are streamed from the model's file."""
    prefill_chunk: int = 0
    """Tokens that one pass over the prompt takes at most; 0: one pass takes all of it."""
    block_size: int = 0
    """Positions of one block of a paged cache; 0: the model's own."""
    kv_blocks: int = 0
    """Blocks of a paged cache's pool; 0: as many as every sequence needs to become full."""
    as_if: list[str] = []
    """Rewrites: the model is planned as if it were exported so, and cannot run."""


class PlanParams(msgspec.Struct, frozen=True, kw_only=True):
    """Plans the open model."""

    scenario: ScenarioInfo
    brief: bool = False
    """Without suggestions and without the rows of nodes and blocks: while a slider moves."""


class ComponentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One component of the total."""

    name: str
    figure: BytesFigure
    detail: str


class AxisInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One symbol and its interval; ``refused`` says why it has no ceiling."""

    symbol: str
    low: int
    high: int | None
    certainty: str
    kind: str
    source: str
    derivation: list[str]
    uses: int
    first_node: str
    refused: str
    editable: bool
    grows: bool = False
    """Whether it counts the tokens there are: it is used as far as the run is."""


class SuggestionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A change, the bytes it saves, and the bytes to spare after it (negative: still short)."""

    title: str
    saves: int
    change: dict[str, int | str]
    """Fields of the scenario; ``maxima`` names a symbol, ``as_if`` a rewrite that joins the scenario's."""
    headroom: int | None = None
    how: str = ""
    """How to export the model so, where that is what it takes."""


class AssumptionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which the planned model differs from the file, and how to export it so."""

    id: str
    title: str
    how: str = ""


class ProblemInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Something to tell the user: severity ``error``, ``warning`` or ``note``; ``node`` to jump to."""

    severity: str
    text: str
    remedy: str
    node: str


class VerdictInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict; ``kind`` is the text of ``VerdictKind``."""

    kind: str
    sentence: str
    needed: BytesFigure
    available: int | None
    headroom: int | None
    blame: str
    largest_context: int | None
    largest_batch: int | None


class PhaseInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One phase in short; −1 stands for unknown: an axis is refused."""

    name: str
    arena_bytes: int
    arena_peak: int
    arena_naive: int
    workspace_bytes: int
    peak_node: str


class PlanInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The plan without its node rows, which follow as tables ``nodes:PHASE`` carrying this ``ticket``."""

    ticket: int
    scenario: ScenarioInfo
    context: int
    context_source: str
    kv_capacity: int
    kv_bytes_per_token: int
    components: list[ComponentInfo]
    total: BytesFigure
    verdict: VerdictInfo
    axes: list[AxisInfo]
    phases: list[PhaseInfo]
    suggestions: list[SuggestionInfo]
    problems: list[ProblemInfo]
    node_rows: int
    milliseconds: float
    brief: bool = False
    """Nobody looked for suggestions, and no rows follow."""
    assumes: list[AssumptionInfo] = []
    """How the planned model differs from the file."""
    as_it_is: int | None = None
    """What the file as it is would take in the same scenario; None where nothing is assumed, or unknown."""


class HeadroomInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The total at one context (0: the model has none) and batch.

    ``bytes`` is None where it cannot be planned; ``fits`` is None too where no card or budget was given.
    """

    context: int
    batch: int
    bytes: int | None
    fits: bool | None


class ExportParams(msgspec.Struct, frozen=True, kw_only=True):
    """Writes what is shown: ``format`` json, csv, html, markdown, netron, explorer; empty: by the ending."""

    path: str
    format: str = ""
