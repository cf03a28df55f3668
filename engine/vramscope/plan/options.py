"""Which number of a scenario binds a symbol, in the words of a remedy: its option on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope.graph.expr import Symbol
from vramscope.graph.model import Feed
from vramscope.plan.types import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.graph.expr import Dim
    from vramscope.graph.model import DecoderContract, Model, Value
    from vramscope.plan.types import Scenario

BATCH, PROMPT, CONTEXT = "--batch", "--prompt-tokens", "--context"
BLOCKS, BLOCK_SIZE = "--kv-blocks", "--block-size"


def is_batch(dim: Dim) -> bool:
    """Whether an axis of a model that is not a decoder counts sequences, by its name."""
    return isinstance(dim, Symbol) and dim.name.lower() in ("batch", "batch_size", "n", "bs", "batchsize")


def binding_option(model: Model, scenario: Scenario, phase: Phase, symbol: str, extent: int) -> str:
    """The option that makes ``symbol`` ``extent`` in this phase; empty where none does."""
    if model.contract is None:
        given = f"--extent {symbol}" if symbol in scenario.extents else ""
        return given or (BATCH if is_batch(Symbol(symbol)) else "")
    for value, axis in _places(model, symbol):
        option = _option(model.contract, value, axis, phase)
        if option == CONTEXT and phase is Phase.PREFILL and extent <= scenario.prompt:
            return PROMPT
        return option
    return ""


def _places(model: Model, symbol: str) -> Iterator[tuple[Value, int]]:
    program = model.program
    for identity in program.inputs:
        value = program.values[identity]
        for axis, dim in enumerate(value.shape or ()):
            if isinstance(dim, Symbol) and dim.name == symbol:
                yield value, axis


def _option(contract: DecoderContract, value: Value, axis: int, phase: Phase) -> str:
    """Sequences are on axis 0; a decode step is fed one token whatever is asked.

    Blocks are on axis 0 of a pool; tokens of all sequences follow each other where there is one.
    """
    if contract.paged and value.name in {pair.input for pair in contract.kv}:
        return {0: BLOCKS, 1: BLOCK_SIZE}.get(axis, "")
    if contract.paged and contract.feeds.get(value.name) is Feed.TOKENS:
        return PROMPT if phase is Phase.PREFILL else BATCH
    if axis == 0:
        return BATCH
    if contract.feeds.get(value.name) in (Feed.TOKENS, Feed.POSITIONS):
        return PROMPT if phase is Phase.PREFILL else ""
    return CONTEXT
