"""The question that a plan answers: sequences, tokens, what there is to fit into, and what is assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


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
        as_if: ids of rewrites (:data:`vramscope.plan.rewrites.table.REWRITES`): the model is planned as if it
            were exported so. Such a plan cannot run.
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
    as_if: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Assumption:
    """One way in which a planned model differs from the opened file, and how to export it so."""

    id: str
    title: str
    how: str
