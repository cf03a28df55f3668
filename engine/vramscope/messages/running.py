"""Running: prefill, steps, capture, replay, verification."""

from __future__ import annotations

import msgspec

from vramscope.messages.live import StreamingInfo
from vramscope.messages.planning import ScenarioInfo


class SamplingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """How the next token is chosen; temperature 0 is greedy."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0


class PrefillParams(msgspec.Struct, frozen=True, kw_only=True):
    """Starts a generation: a prompt as text (needs a tokenizer) or as token ids, for each sequence."""

    scenario: ScenarioInfo
    prompt: str = ""
    tokens: list[int] = []
    chat: bool = False
    sampling: SamplingInfo = SamplingInfo()
    device: str = "host"
    """``host``, ``cuda`` or ``cuda:N``; the scratch that is planned is that of its kernels."""
    watch_experts: bool = False
    """Count what mixtures of experts ask of memory, by phase."""


class CountParams(msgspec.Struct, frozen=True, kw_only=True):
    """How many steps."""

    count: int = 1
    multi_step: int = 1
    """Of replays: so many may run before their tokens are read from the device."""


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where the run stands after a request."""

    state: str
    """idle, warm-up, armed, ready, unsupported, finished."""
    position: int
    capacity: int
    new_tokens: list[int]
    text: str
    """Text of the tokens this request produced, sequence 0."""
    steps_eager: int
    steps_replayed: int
    tokens_per_second_eager: float | None
    tokens_per_second_replay: float | None
    finished: str
    """Why generation ended: empty, ``end of sequence``, ``context full`` or ``no free KV block``."""


class ProfileInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What each node took on the device, in the mean over ``steps`` eager steps.

    A node that another one's launch does too has no time of its own and is left out.
    """

    steps: int
    step_microseconds: float
    """From before the first node to behind the last."""
    nodes: list[int]
    """Steps of the program."""
    microseconds: list[float]
    """Of each of them."""
    run: RunInfo


class TraceParams(msgspec.Struct, frozen=True, kw_only=True):
    """Whether what runs is recorded from now on; with a path, what was recorded so far is written there.

    Every session has a record of its own: it starts empty with a new prompt's session and when recording is
    switched on.
    """

    record: bool
    path: str = ""
    """A ``.json`` file of the engine's machine, for Perfetto or chrome://tracing; empty: none."""


class TraceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Where recording stands, and the file that was written."""

    recording: bool
    records: int
    dropped: int
    """Older records that were not kept."""
    path: str = ""


class DeclineInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One node (or the graph) that was not captured, and why."""

    node: str
    operator: str
    seam: str
    reason: str
    remedy: str
    step: int


class SeamSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Launches ``[start, end)`` of a seam that are eager for the same kind of reason."""

    start: int
    end: int
    reason: str


class SegmentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Launches ``[start, end)``, counted from the first: captured, or run eagerly as a seam."""

    start: int
    end: int
    captured: bool
    seams: list[SeamSpan] = []
    """Of a seam why its launches are eager; empty where the whole graph was declined."""
    steps: list[int] = []
    """Of each of its launches the program's step, as nodes and declines name it."""


class CaptureInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a capture."""

    captured: bool
    segments: list[SegmentInfo]
    declines: list[DeclineInfo]
    nodes_captured: int
    nodes_total: int
    run: RunInfo
    device_nodes: int | None = None
    """Nodes of the device's own graphs; None where the device has none."""
    dots: list[str] = []
    """Each of those graphs in Graphviz' language, in order."""


class VerifyStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step by replay and eagerly: sequence 0's token, its text, and whether every sequence agrees."""

    replayed: int
    eager: int
    replayed_text: str
    eager_text: str
    equal: bool
    logit_difference: float


class VerifyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Replay beside eager: equal tokens or where they first differ, and the largest logit difference."""

    equal: bool
    steps: int
    first_difference: int | None
    largest_logit_difference: float
    run: RunInfo
    compared: list[VerifyStep] = []
    """Step by step; at most the first 1,000."""


class InputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A ``.npy`` or ``.npz`` file of the engine's machine that gives an input; nameless, all it holds."""

    name: str = ""
    path: str


class RunModelParams(msgspec.Struct, frozen=True, kw_only=True):
    """Runs a model that is not a decoder, on the arrays of files or on seeded random ones.

    Files decide the extents of their symbols; random inputs have the scenario's shapes. ``save`` names a
    ``.npz`` file that the outputs are written to; empty: none.
    """

    scenario: ScenarioInfo
    seed: int = 0
    inputs: list[InputFile] = []
    save: str = ""
    device: str = "host"


class OutputInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One output, summarised."""

    name: str
    dtype: str
    shape: list[int]
    minimum: float | None
    maximum: float | None
    mean: float | None


class RunModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of a plain model gave."""

    outputs: list[OutputInfo]
    milliseconds: float
    streaming: StreamingInfo | None = None
    """Where a weight budget streams weights."""
