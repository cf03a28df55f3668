"""Opening: who answers, and what the opened model is."""

from __future__ import annotations

import msgspec

from vramscope.messages.planning import ScenarioInfo


class CardInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One card of the catalogue."""

    name: str
    architecture: str
    memory_bytes: int
    bandwidth_bytes_per_second: int


class SampleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One bundled sample."""

    name: str
    title: str
    shows: str


class DeviceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A device the engine can run on, or why it cannot."""

    name: str
    available: bool
    detail: str


class HelloParams(msgspec.Struct, frozen=True, kw_only=True):
    """The client's protocol version."""

    version: int


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers."""

    version: int
    engine_version: str
    python: str
    process: int
    devices: list[DeviceInfo]
    cards: list[CardInfo]
    samples: list[SampleInfo]


class OpenParams(msgspec.Struct, frozen=True, kw_only=True):
    """A ``.onnx`` file or a folder, or the name of a bundled sample; exactly one of them."""

    path: str = ""
    sample: str = ""
    without_weights: bool = False
    """Whether data files may be missing: such a model can be planned, not run."""


class KvInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One KV pair of the contract."""

    layer: int
    role: str
    input: str
    output: str
    heads: int
    head_size: int
    form: str
    reason: str


class ContractInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The decoder contract in words and numbers."""

    dialect: str
    feeds: dict[str, str]
    logits: str
    layers: int
    vocabulary: int
    context_limit: int | None
    context_source: str
    kv: list[KvInfo]
    notes: list[str]
    block_size: int = 0
    """Positions of one block of a paged cache, as the model says; 0: it says nothing."""
    block_source: str = ""


class InputInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One graph input of a plain model: its type, and dims as text (a symbol's name or a number)."""

    name: str
    dtype: str
    dims: list[str]


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The opened model."""

    path: str
    name: str
    producer: str
    nodes: int
    weights_bytes: int
    contract: ContractInfo | None
    inputs: list[InputInfo]
    problems: list[str]
    has_tokenizer: bool
    has_chat_template: bool = False
    has_weights: bool = True
    """False: they are not here, so it can be planned and not run; ``problems`` say why."""
    default_prompt: str
    scenario: ScenarioInfo
    """What to plan first."""
