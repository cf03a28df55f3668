"""What a decoder's inputs are fed with: buffers on the device, filled for a prompt and advanced in place.

Token, position, lengths and mask live in these buffers; a step advances them there, so a replay uploads
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vramscope.decode.blocks import BlockTables
from vramscope.devices.base import FeedWrite
from vramscope.errors import InputError
from vramscope.graph.dtypes import numpy_dtype, tensor_bytes
from vramscope.graph.model import Array, Feed, KvForm, KvPair, Model, Value
from vramscope.plan.symbols import Extents, feed_shape, kv_shape, pair_capacity, physical_shape
from vramscope.plan.types import STATE_ROWS
from vramscope.run.bindings import Binding, bind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vramscope.graph.model import DecoderContract
    from vramscope.plan.types import Plan
    from vramscope.run.memory import SessionMemory


FULL = "no free KV block"
"""Why a run ends where no block of a paged cache is free."""

STEADY = (Feed.SEQUENCE_STARTS, Feed.LENGTH_BOUNDS)
"""Feeds that are the same in every decode step."""


@dataclass(frozen=True, slots=True)
class StateBuffers:
    """The decode state on the device, int64.

    Attributes:
        token: the last one of every sequence, [batch].
        length: valid tokens of every sequence, [batch].
        ring: the newest tokens, [KEPT_TOKENS, batch]: each in the row of its sequence's length then, modulo.
        all: all of it, in this order, [STATE_ROWS, batch].
    """

    token: Array
    length: Array
    ring: Array
    all: Array


def state_buffers(memory: SessionMemory, batch: int) -> StateBuffers:
    """Views of the state buffer."""
    rows = memory.io["decode state"].bytes.view(np.int64).reshape(STATE_ROWS, -1)[:, :batch]
    return StateBuffers(rows[0], rows[1], rows[2:], rows)


class Feeds:
    """Bindings of a decoder's graph at given extents, over the session's buffers."""

    def __init__(self, model: Model, plan: Plan, memory: SessionMemory) -> None:
        """``model`` is a decoder, planned so.

        Raises:
            InputError: nothing says what one of its inputs is fed with.
        """
        assert model.contract is not None
        _require_feeds(model.contract, model)
        self._model = model
        self._memory = memory
        self._contract = model.contract
        paged = model.contract.paged
        self.blocks = BlockTables(plan.kv.pool, plan.scenario.batch) if paged else None
        self._values: Mapping[str, Value] = {
            model.program.values[item].name: model.program.values[item]
            for item in (*model.program.inputs, *model.program.outputs)
        }

    def bindings(self, extents: Extents, output_shapes: Mapping[str, tuple[int, ...]]) -> tuple[Binding, ...]:
        """Every binding, inputs in graph order, then the outputs that no input shares a buffer with."""
        pairs = {pair.input: pair for pair in self._contract.kv}
        found: list[Binding] = []
        for identity in self._model.program.inputs:
            value = self._model.program.values[identity]
            pair = pairs.get(value.name)
            found.extend(self._kv(pair, value, extents) if pair else (self._feed(value, extents),))
        bound = {item.output for item in found if item.output}
        for identity in self._model.program.outputs:
            value = self._model.program.values[identity]
            if value.name not in bound:
                buffer = self._memory.io[value.name]
                found.append(bind(buffer, value.dtype, output_shapes[value.name], output_name=value.name))
        return tuple(found)

    def _feed(self, value: Value, extents: Extents) -> Binding:
        buffer = self._memory.io[value.name]
        feed = self._contract.feeds[value.name]
        shape = feed_shape(feed, value, extents, self._contract)
        if feed is not Feed.MASK:
            return bind(buffer, value.dtype, shape, input_name=value.name)
        columns = buffer.size // tensor_bytes(value.dtype, (extents.batch,))
        whole = bind(buffer, value.dtype, (extents.batch, columns), input_name=value.name)
        return whole.with_logical(shape, shape)

    def _kv(self, pair: KvPair, value: Value, extents: Extents) -> tuple[Binding, ...]:
        positions = pair_capacity(pair, extents.capacity)
        physical = physical_shape(pair, value, extents)
        buffer = self._memory.kv[pair.input]
        if not pair.form.moving:
            return (bind(buffer, pair.dtype, physical, input_name=pair.input, output_name=pair.output),)
        past = kv_shape(pair, value, extents.batch, min(extents.past, positions))
        present = kv_shape(pair, value, extents.batch, extents.past + extents.tokens)
        if pair.form is KvForm.APPEND:
            whole = bind(buffer, pair.dtype, physical, input_name=pair.input, output_name=pair.output)
            return (whole.with_logical(past, present),)
        reading = bind(buffer, pair.dtype, physical, input_name=pair.input)
        apart = bind(self._memory.kv[pair.output], pair.dtype, physical, output_name=pair.output)
        writing = replace(apart, fixed_strides=True)  # its length grows under the physical strides
        return (reading.with_logical(past, past), writing.with_logical(present, present))

    def hold(self, position: int) -> int:
        """Sees to it that a paged cache has blocks for so many tokens; returns the bytes uploaded.

        Raises:
            InputError: the pool has too few free blocks; nothing changed.
        """
        if self.blocks is None or not self.blocks.hold(position):
            return 0
        table, uploaded = self.blocks.table(), 0
        for name, feed in self._contract.feeds.items():
            if feed is Feed.BLOCK_TABLE:
                binding = bind(self._memory.io[name], self._values[name].dtype, table.shape, input_name=name)
                uploaded += self._upload(binding, binding.array, table)
        return uploaded

    def shortage(self, position: int) -> str:
        """Why no sequence can have so many tokens; empty where each can."""
        return "" if self.blocks is None or self.blocks.fits(position) else FULL

    def room(self, limit: int) -> int:
        """The most tokens, ``limit`` at most, that the longest sequence can have."""
        return limit if self.blocks is None else self.blocks.room(limit)

    def reach(self, limit: int) -> int:
        """The most tokens, ``limit`` at most, that the longest sequence can have without another block."""
        return limit if self.blocks is None else min(limit, self.blocks.reach())

    def fill_prompt(self, bindings: Sequence[Binding], prompts: Sequence[Sequence[int]]) -> int:
        """Writes the prompts into the feeds, padded on the right; returns the bytes uploaded.

        In a graph that takes the tokens of all sequences one after the other nothing is padded.
        """
        if self.blocks is not None:
            tokens = np.concatenate([np.array(prompt, np.int64) for prompt in prompts])
            counts = tuple(len(prompt) for prompt in prompts)
            return self._fill_paged(bindings, tokens, counts, 0)
        pad = self._padding()
        lengths = np.array([len(prompt) for prompt in prompts], np.int64)
        uploaded = 0
        for binding in bindings:
            feed = self._contract.feeds.get(binding.input)
            if feed is None:
                continue
            view = binding.input_view()
            if feed is Feed.MASK:
                binding.array[...] = 0
            self._fill(feed, view, prompts, lengths, pad)
            uploaded += view.nbytes
        return uploaded

    def fill_pass(self, bindings: Sequence[Binding], tokens: Array, past: int, *, kept: int) -> int:
        """Writes what a pass over ``tokens`` reads behind ``past`` valid ones; returns the bytes uploaded.

        Args:
            bindings: of the pass.
            tokens: int64 [batch, width]; all of them count as valid in the pass.
            past: valid tokens of every sequence.
            kept: rows of logits that are asked for, where the graph asks.
        """
        if self.blocks is not None:
            batch, width = tokens.shape
            return self._fill_paged(bindings, tokens, (width,) * batch, past)
        uploaded = 0
        for binding in bindings:
            feed = self._contract.feeds.get(binding.input)
            if feed is not None:
                target = binding.array if feed is Feed.MASK else binding.input_view()
                uploaded += self._upload(binding, target, feed_values(feed, target.shape, tokens, past, kept))
        return uploaded

    def _fill_paged(
        self, bindings: Sequence[Binding], tokens: Array, counts: tuple[int, ...], past: int
    ) -> int:
        """Writes a pass over so many tokens of each sequence behind ``past`` valid ones."""
        assert self.blocks is not None
        most = self.blocks.pool.table * self.blocks.pool.block_size
        numbers: dict[Feed, Array] = {
            Feed.TOKENS: tokens,
            Feed.SEQUENCE_STARTS: np.cumsum([0, *counts]),
            Feed.PAST_LENGTHS: np.full(len(counts), past),
            Feed.LENGTH_BOUNDS: np.array([max(counts), most, 0]),
        }
        uploaded = 0
        for binding in bindings:
            feed = self._contract.feeds.get(binding.input)
            if feed in numbers:
                shape = binding.array.shape
                uploaded += self._upload(binding, binding.array, numbers[feed].reshape(-1)[: prod(shape)])
        return uploaded

    def settle(self, bindings: Sequence[Binding], lengths: Array) -> int:
        """Behind a pass: what the decode step reads and does not move; returns the bytes uploaded.

        The mask shows so many valid tokens of each sequence and nothing behind them; a paged step takes one
        token of every sequence.
        """
        if self.blocks is not None:
            fixed = [item for item in bindings if self._contract.feeds.get(item.input) in STEADY]
            return self._fill_paged(fixed, np.zeros(0, np.int64), (1,) * self.blocks.batch, 0)
        masks = (item for item in bindings if self._contract.feeds.get(item.input) is Feed.MASK)
        return sum(
            self._upload(item, item.array, np.less(np.arange(item.array.shape[-1]), lengths[:, None]))
            for item in masks
        )

    def _upload(self, binding: Binding, target: Array, values: Array) -> int:
        made = values.astype(numpy_dtype(binding.dtype))
        self._memory.device.upload(target, made)
        return int(made.nbytes)

    def _padding(self) -> int:
        """A token that stands behind shorter prompts; the mask hides it."""
        candidates = [token for token in self._contract.eos_tokens if token < self._contract.vocabulary]
        return candidates[0] if candidates else 0

    def _fill(
        self, feed: Feed, view: Array, prompts: Sequence[Sequence[int]], lengths: Array, pad: int
    ) -> None:
        if feed is Feed.TOKENS:
            view[...] = pad
            for row, prompt in zip(view, prompts, strict=True):
                row[: len(prompt)] = prompt
        elif feed is Feed.MASK:
            view[...] = np.less(np.arange(view.shape[1])[None, :], lengths[:, None])
        elif feed is Feed.POSITIONS:
            view[...] = np.arange(view.shape[-1])
        elif feed is Feed.WRITE_INDICES or feed is Feed.PAST_FLAG:
            view[...] = 0
        elif feed is Feed.VALID_LENGTH:
            view[...] = lengths
        else:
            view[...] = 1

    def writes(self, bindings: Sequence[Binding], state: StateBuffers) -> tuple[FeedWrite, ...]:
        """What moves every feed one token on, entirely inside device buffers."""
        return tuple(
            write
            for binding in bindings
            if (feed := self._contract.feeds.get(binding.input)) is not None
            for write in _writes(feed, binding, state)
        )


def _require_feeds(contract: DecoderContract, model: Model) -> None:
    """Zeros where nobody knows what belongs would give tokens that look like an answer."""
    caches = {pair.input for pair in contract.kv}
    names = [model.program.values[item].name for item in model.program.inputs]
    unknown = [name for name in names if name not in caches and name not in contract.feeds]
    if unknown:
        why = "no dialect that is known here says what a decoder feeds it with"
        raise InputError(f"input {unknown[0]!r}", why, "Plan the model, or export it without that input")


def feed_values(feed: Feed, shape: tuple[int, ...], tokens: Array, past: int, kept: int) -> Array:
    """What an input holds in a pass, int64 of ``shape``; arguments as :meth:`Feeds.fill_pass` says."""
    width = tokens.shape[-1]
    if feed is Feed.TOKENS:
        return tokens.reshape(shape)
    if feed is Feed.POSITIONS:
        return np.array(np.broadcast_to(np.arange(past, past + width, dtype=np.int64), shape))
    if feed is Feed.MASK:
        valid = np.less(np.arange(shape[-1]), past + width).astype(np.int64)
        return np.array(np.broadcast_to(valid, shape))
    numbers = {Feed.WRITE_INDICES: past, Feed.VALID_LENGTH: past + width, Feed.PAST_FLAG: int(past > 0)}
    return np.full(shape, numbers.get(feed, kept), np.int64)


def _writes(feed: Feed, binding: Binding, state: StateBuffers) -> Iterator[FeedWrite]:
    if feed is Feed.MASK:
        yield FeedWrite("mark", binding.array, state.length)
        return
    sources: dict[Feed, tuple[Array | None, int]] = {
        Feed.TOKENS: (state.token, 0),
        Feed.POSITIONS: (state.length, 0),
        Feed.WRITE_INDICES: (state.length, 0),
        Feed.PAST_LENGTHS: (state.length, 0),
        Feed.VALID_LENGTH: (state.length, 1),
        Feed.PAST_FLAG: (None, 1),
    }
    if feed in sources:
        source, offset = sources[feed]
        for target in _targets(binding.input_view()):
            yield FeedWrite("copy" if source is not None else "fill", target, source, offset)


def _targets(view: Array) -> Iterator[Array]:
    """An element a sequence: of rows the first column, of planes of rows that of each."""
    if view.ndim == 3:
        yield from (view[plane, :, 0] for plane in range(view.shape[0]))
    else:
        yield view[:, 0] if view.ndim == 2 else view.reshape(-1)
