"""The opened model as frozen data: values, steps, weights, the decoder contract. Nothing here is executed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from vramscope.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vramscope.graph.dtypes import ElementType
    from vramscope.graph.expr import Dim, Shape

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]

AttributeValue: TypeAlias = (
    "int | float | str | bytes | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | Array"
)

ABSENT = -1
"""The value id of an optional input or output that the node leaves out (ONNX: an empty name)."""

WEIGHTS_KEY = "vramscope.weights"
"""Metadata of a model file that VRAMScope built: :data:`NO_WEIGHTS`, ``seed N``, or where they are from."""

NO_WEIGHTS = "none"
"""The data file is a hole: for planning alone."""


class Weights(Enum):
    """Whether a model's weights are here; each other member is a reason and a remedy of planning alone."""

    STORED = ("", "")
    LEFT_OUT = (
        "its weights were left out when it was built",
        "Build it without --no-weights to run it (vramscope build … --seed 0)",
    )
    NOT_HERE = (
        "it was opened without its weights",
        "Put the missing files beside it and open it without --without-weights",
    )
    AS_IF = (
        "it is planned as if it were exported otherwise, and no file holds it so",
        "Export it so, or run the file as it is",
    )


class ValueKind(Enum):
    """Who owns a value's bytes."""

    INPUT = "input"
    WEIGHT = "weight"
    ACTIVATION = "activation"
    CAPTURE = "capture"
    """A value of an enclosing graph, seen from inside a control-flow body."""


@dataclass(frozen=True, slots=True)
class Value:
    """One tensor (or sequence) of a program. ``shape`` None: the rank itself is unknown."""

    id: int
    name: str
    dtype: ElementType
    shape: Shape | None
    kind: ValueKind
    is_sequence: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """What one step computes: ONNX's words for it. ``domain`` is "" for the default domain."""

    name: str
    operator: str
    domain: str
    opset: int
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}))
    scope: tuple[str, ...] = ()

    @property
    def qualified(self) -> str:
        """``domain::operator``, with ``ai.onnx`` for the default domain."""
        return f"{self.domain or 'ai.onnx'}::{self.operator}"

    def integer(self, name: str, default: int) -> int:
        """An INT attribute or its default."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def number(self, name: str, default: float) -> float:
        """A FLOAT attribute or its default."""
        value = self.attributes.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str) -> str:
        """A STRING attribute or its default."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, str) else default

    def integers(self, name: str, default: tuple[int, ...] = ()) -> tuple[int, ...]:
        """An INTS attribute or its default."""
        value = self.attributes.get(name, default)
        return tuple(int(item) for item in value) if isinstance(value, tuple) else default

    def numbers(self, name: str, default: tuple[float, ...] = ()) -> tuple[float, ...]:
        """A FLOATS attribute or its default."""
        value = self.attributes.get(name, default)
        return tuple(float(item) for item in value) if isinstance(value, tuple) else default


@dataclass(frozen=True, slots=True)
class Step:
    """One node in execution order: value ids in and out (:data:`ABSENT`: left out), control-flow bodies."""

    index: int
    node: Node
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bodies: Mapping[str, Program] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Where a weight's bytes are: a region of an external file, or inline in the model file.

    Two weights with one ``identity`` are the same bytes (tied): they are stored, planned and loaded once.
    ``digest`` is the content hash of an inline weight; an external one has none, for planning never reads it.
    """

    dtype: ElementType
    shape: tuple[int, ...]
    size: int
    identity: str
    file: Path | None = None
    offset: int = 0
    inline: bytes = field(default=b"", repr=False)
    digest: str = ""
    present: bool = True
    """False: the bytes are not here (:attr:`Weights.NOT_HERE`); type, shape and size are still known."""


@dataclass(frozen=True, slots=True)
class Minted:
    """A symbol that shape inference invented for a data-dependent extent, and its proven ceiling, if any."""

    symbol: str
    node: str
    operator: str
    ceiling: Dim | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A graph compiled once: planning and running both walk it.

    ``steps[:constant_steps]`` depend on weights alone; they run once when a session is prepared and their
    outputs are weights from then on. ``captures`` maps a body's own value id to the enclosing program's.
    """

    name: str
    values: tuple[Value, ...]
    steps: tuple[Step, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    weights: Mapping[int, WeightSource]
    constant_steps: int = 0
    captures: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    minted: Mapping[str, Minted] = field(default_factory=lambda: MappingProxyType({}))

    def value_named(self, name: str) -> Value | None:
        """The input or output called ``name``, or None."""
        for identity in (*self.inputs, *self.outputs):
            if self.values[identity].name == name:
                return self.values[identity]
        return None


class KvForm(Enum):
    """How a dialect's graph keeps its KV cache, which decides what is planned and what can be captured."""

    CAPACITY = "capacity"
    """GroupQueryAttention: past and present are one buffer at its physical extent; the length is data."""
    SCATTER = "scatter"
    """TensorScatter with write indices into a static cache; the length is data."""
    PAGED = "paged"
    """PagedAttention: blocks of one pool, found through a block table; the length is data."""
    MASKED = "masked"
    """Attention with a mask input: the mask is frozen to capacity width and the cache appended in place."""
    APPEND = "append"
    """Concat(past, new): appended in place under fixed physical strides; the logical length is a shape."""
    GROW = "grow"
    """Concat that cannot be in place: past and present are both alive, both planned."""

    @property
    def moving(self) -> bool:
        """Whether the logical length is a shape, which moves from step to step."""
        return self in (KvForm.APPEND, KvForm.GROW)

    @property
    def ragged(self) -> bool:
        """Whether every sequence of a batch has a length of its own."""
        return self in (KvForm.CAPACITY, KvForm.PAGED)


@dataclass(frozen=True, slots=True)
class KvPair:
    """One layer's key or value cache: a graph input and the output that replaces it in the next step.

    ``shape`` is the symbolic input shape; ``sequence_axis`` the axis that holds positions.
    ``window`` > 0: a sliding layer that needs only this many positions.
    """

    layer: int
    role: str
    input: str
    output: str
    dtype: ElementType
    heads: int
    head_size: int
    sequence_axis: int
    form: KvForm
    reason: str = ""
    window: int = 0
    fixed_capacity: int = 0


@dataclass(frozen=True, slots=True)
class Limit:
    """A number together with where it was read."""

    value: int
    source: str


class Feed(Enum):
    """What an input of a decoder must be fed with at every step."""

    TOKENS = "tokens"
    MASK = "mask"
    POSITIONS = "positions"
    WRITE_INDICES = "write indices"
    VALID_LENGTH = "valid length"
    """nonpad_kv_seqlen: rows valid after the write."""
    PAST_FLAG = "past flag"
    """use_cache_branch."""
    LOGITS_TO_KEEP = "logits to keep"
    BLOCK_TABLE = "block table"
    """Which blocks of a paged cache each sequence has, in order; −1 behind the last one."""
    SEQUENCE_STARTS = "sequence starts"
    """Where each sequence begins among the tokens of all, and where the last one ends."""
    PAST_LENGTHS = "past lengths"
    """Positions of each sequence that lie in the cache before the step."""
    LENGTH_BOUNDS = "length bounds"
    """The most new tokens and the most positions that a sequence may have: hints in host memory."""


@dataclass(frozen=True, slots=True)
class DecoderContract:
    """What makes a graph a decoder: what each input is fed with, which pairs are KV, where the logits are."""

    dialect: str
    feeds: Mapping[str, Feed]
    kv: tuple[KvPair, ...]
    logits: str
    vocabulary: int
    layers: int
    context_limit: Limit | None
    eos_tokens: tuple[int, ...] = ()
    bos_token: int | None = None
    batch_symbol: str = ""
    notes: tuple[str, ...] = ()
    pads_mask: bool = True
    """Whether the mask may be as wide as the cache: nothing but attention's own lengths sees its width."""
    block_size: Limit | None = None
    """Positions of one block of a paged cache, as the model's settings say; None where they say nothing."""

    @property
    def paged(self) -> bool:
        """Whether the cache is blocks of one pool, and the tokens of all sequences follow each other."""
        return any(pair.form is KvForm.PAGED for pair in self.kv)


@dataclass(frozen=True, slots=True)
class Model:
    """An opened model. ``problems`` are things to tell the user that do not stop it from opening."""

    path: Path
    folder: Path
    producer: str
    opsets: Mapping[str, int]
    program: Program
    contract: DecoderContract | None
    problems: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """``genai_config.json`` or ``config.json`` as read, empty when there is none."""
    weights: Weights = Weights.STORED
    contradicted: bool = False
    """Whether a body holds a node that no run can get past: its shapes contradict each other."""

    @property
    def has_weights(self) -> bool:
        """Whether it can be run; without its weights it can be planned alone."""
        return self.weights is Weights.STORED

    def require_weights(self) -> Model:
        """This model, or the reason why nothing may run it: zeros read from a hole would look like weights.

        Raises:
            InputError: its weights are not here (:class:`Weights`).
        """
        if not self.has_weights:
            why, remedy = self.weights.value
            raise InputError(f"{self.path}", f"{why}: it can be planned, not run", remedy)
        return self
