"""Which extent each input has in each phase, and what that binds every symbol to.

With the source of each number.

For a decoder the contract says what every input is fed with, so its shape follows from batch, prompt and
capacity. Planning uses *physical* shapes (plan-capacity mode, semantics 1.13): a cache that grows is
planned full.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from vramscope.errors import ScenarioError, SymbolConflictError
from vramscope.graph.expr import Interval, Symbol, evaluate
from vramscope.graph.model import DecoderContract, Feed, KvForm, KvPair, Model, Value
from vramscope.plan.options import binding_option, is_batch
from vramscope.plan.pool import NO_POOL, BlockPool
from vramscope.plan.prefill import widest_pass
from vramscope.plan.types import Phase, Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class PhaseBindings:
    """One phase's inputs: concrete shapes by value id, and every bound symbol with its source.

    An input to which the graph gives no rank has none here until it is fed. ``outputs`` holds shapes that a
    caller-owned buffer fixes (KV present), whatever inference says.
    """

    phase: Phase
    inputs: Mapping[int, tuple[int, ...]]
    outputs: Mapping[int, tuple[int, ...]]
    symbols: Mapping[str, int]
    sources: Mapping[str, str]
    intervals: Mapping[str, Interval]
    """Symbols with no binding but a declared maximum."""


@dataclass(frozen=True, slots=True)
class Extents:
    """The numbers that a decoder's phase is made of.

    Attributes:
        batch: sequences.
        tokens: new ones of each sequence, the most where lengths differ.
        past: positions of each sequence before them.
        capacity: positions that a sequence may have.
        pool: of a paged cache.
        rows: new tokens of all sequences where those follow each other; 0: batch × tokens.
    """

    batch: int
    tokens: int
    past: int
    capacity: int
    pool: BlockPool = NO_POOL
    rows: int = 0


def phase_extents(phase: Phase, scenario: Scenario, capacity: int, pool: BlockPool = NO_POOL) -> Extents:
    """Tokens fed and past length.

    The prompt's widest pass on an empty cache, or one token on a cache with one row free.
    """
    if phase is Phase.PREFILL:
        width = widest_pass(scenario.prompt, scenario.prefill_chunk)
        return Extents(scenario.batch, min(width, capacity), 0, capacity, pool)
    return Extents(scenario.batch, 1, capacity - 1, capacity, pool)


def pair_capacity(pair: KvPair, capacity: int) -> int:
    """Physical positions of one pair: a static cache keeps its own, a sliding layer needs only its window."""
    if pair.fixed_capacity:
        return pair.fixed_capacity
    return pair.window or capacity


def kv_shape(pair: KvPair, value: Value, batch: int, positions: int) -> tuple[int, ...]:
    """The shape of a KV input with ``positions`` on its sequence axis."""
    rank = len(value.shape or (0,) * 4)
    if rank == 3:
        return (batch, positions, pair.heads * pair.head_size)
    shape = [batch, pair.heads, pair.heads, pair.head_size]
    shape[pair.sequence_axis % rank] = positions
    other = 2 if pair.sequence_axis % rank == 1 else 1
    shape[other] = pair.heads
    return tuple(shape)


def physical_shape(pair: KvPair, value: Value, extents: Extents) -> tuple[int, ...]:
    """The shape of a KV buffer: its capacity, or the whole pool."""
    if pair.form is KvForm.PAGED:
        return (extents.pool.blocks, extents.pool.block_size, pair.heads, pair.head_size)
    return kv_shape(pair, value, extents.batch, pair_capacity(pair, extents.capacity))


def feed_shape(feed: Feed, value: Value, extents: Extents, contract: DecoderContract) -> tuple[int, ...]:
    """The shape of an input that is not KV; of another rank than the graph's where none fits it."""
    rank = len(value.shape or ())
    if feed in (Feed.TOKENS, Feed.POSITIONS):
        return _token_shape(feed, value, extents, contract)
    if feed is Feed.MASK:
        return (extents.batch, mask_width(contract, extents))
    if feed is Feed.LENGTH_BOUNDS:
        return tuple(dim if isinstance(dim, int) else MOST_BOUNDS for dim in value.shape or ())
    a_sequence = {
        Feed.WRITE_INDICES: (extents.batch,),
        Feed.VALID_LENGTH: (extents.batch,),
        Feed.PAST_LENGTHS: (extents.batch,),
        Feed.SEQUENCE_STARTS: (extents.batch + 1,),
        Feed.BLOCK_TABLE: (extents.batch, extents.pool.table),
    }
    return a_sequence.get(feed, (1,) * rank)


def _token_shape(feed: Feed, value: Value, extents: Extents, contract: DecoderContract) -> tuple[int, ...]:
    """Of tokens or positions: a row for each sequence, or one of all; positions also in planes of rows.

    A plane is an axis of multimodal rotary embedding (time, height, width), all the same for text.
    """
    shape, rows = value.shape or (), (extents.batch, extents.tokens)
    if len(shape) == 3 and feed is Feed.POSITIONS and isinstance(shape[0], int):
        return (shape[0], *rows)
    if len(shape) >= 2:
        return rows
    packed = Feed.BLOCK_TABLE in contract.feeds.values()  # all sequences one after the other
    together = extents.rows or extents.tokens * extents.batch
    return (together if packed else extents.tokens,) * len(shape)


MOST_BOUNDS = 3
"""Numbers that a PagedAttention's bounds have at most: new tokens, positions, and the least positions."""


def mask_width(contract: DecoderContract, extents: Extents) -> int:
    """Columns of the attention mask: the capacity where the length is data, else past plus new tokens."""
    frozen = all(pair.form in (KvForm.CAPACITY, KvForm.SCATTER, KvForm.MASKED) for pair in contract.kv)
    return (
        extents.capacity if frozen and contract.pads_mask and contract.kv else extents.past + extents.tokens
    )


def decoder_bindings(model: Model, scenario: Scenario, phase: Phase, extents: Extents) -> PhaseBindings:
    """Shapes and symbols of one phase of a decoder.

    Raises:
        ScenarioError: a shape that does not fit the graph's rank or static dimensions.
    """
    contract = model.contract
    if contract is None:
        raise ScenarioError(str(model.path), "it is not a decoder", "Plan it as a plain model")
    pairs = {pair.input: pair for pair in contract.kv}
    presents = {pair.output: pair for pair in contract.kv}
    program = model.program
    inputs: dict[int, tuple[int, ...]] = {}
    for identity in program.inputs:
        value = program.values[identity]
        if value.shape is None:
            continue
        if value.name in pairs:
            inputs[identity] = _past_shape(pairs[value.name], value, extents)
        elif value.name in contract.feeds:
            inputs[identity] = feed_shape(contract.feeds[value.name], value, extents, contract)
        else:
            inputs[identity] = _plain_shape(value, scenario)
    outputs = {
        identity: _present_shape(presents[name], program.values[identity], extents)
        for identity in program.outputs
        if (name := program.values[identity].name) in presents
    }
    return bind_symbols(model, scenario, phase, inputs, outputs)


def _past_shape(pair: KvPair, value: Value, extents: Extents) -> tuple[int, ...]:
    if not pair.form.moving:
        return physical_shape(pair, value, extents)
    positions = min(extents.past, pair_capacity(pair, extents.capacity))
    return kv_shape(pair, value, extents.batch, positions)


def _present_shape(pair: KvPair, value: Value, extents: Extents) -> tuple[int, ...]:
    if not pair.form.moving:
        return physical_shape(pair, value, extents)
    return kv_shape(pair, value, extents.batch, extents.past + extents.tokens)


def _plain_shape(value: Value, scenario: Scenario) -> tuple[int, ...]:
    shape: list[int] = []
    for dim in value.shape or ():
        extent = evaluate(dim, scenario.extents)
        if extent is None:
            extent = scenario.batch if is_batch(dim) else -1
        shape.append(extent)
    return tuple(shape)


def plain_bindings(model: Model, scenario: Scenario) -> PhaseBindings:
    """Symbols of a model that is not a decoder.

    The scenario's extents and its batch bind symbols. Everything else has at most a declared maximum, which
    bounds it but does not bind it: an extent such as ``10 - n`` is larger for a smaller ``n``.
    """
    inputs = {
        item: _plain_shape(value, scenario)
        for item in model.program.inputs
        if (value := model.program.values[item]).shape is not None
    }
    return bind_symbols(model, scenario, Phase.SINGLE, inputs, {})


def bind_symbols(
    model: Model,
    scenario: Scenario,
    phase: Phase,
    inputs: Mapping[int, tuple[int, ...]],
    outputs: Mapping[int, tuple[int, ...]],
) -> PhaseBindings:
    """Binds every symbol of the inputs to the extent it has there; −1 means that a symbol's is not known.

    Raises:
        SymbolConflictError: two inputs give one symbol different extents.
        ScenarioError: a shape of another rank than the graph's, or an extent that contradicts a static
            dimension or exceeds a declared maximum.
    """
    symbols: dict[str, int] = {}
    sources: dict[str, str] = {}
    intervals: dict[str, Interval] = {}
    for identity, shape in inputs.items():
        _bind_input(model.program.values[identity], shape, symbols, sources)
    for name, extent in scenario.extents.items():
        option = binding_option(model, scenario, phase, name, symbols.get(name, extent))
        _bind_symbol(name, extent, f"extent {extent:,} that the scenario gives", symbols, sources, option)
    for name, maximum in scenario.maxima.items():
        if name not in symbols:
            intervals[name] = Interval(0, maximum)
            sources[name] = f"declared maximum {maximum:,}"
        elif symbols[name] > maximum:
            option = binding_option(model, scenario, phase, name, symbols[name])
            raise ScenarioError(
                f"the maximum {maximum:,} of {name}",
                f"{sources[name]} makes it {symbols[name]:,} in the {phase.value} phase",
                f"Declare at least {symbols[name]:,}{f', or lower {option}' if option else ''}",
            )
    return PhaseBindings(
        phase,
        MappingProxyType(dict(inputs)),
        MappingProxyType(dict(outputs)),
        MappingProxyType(symbols),
        MappingProxyType(sources),
        MappingProxyType(intervals),
    )


def _bind_input(
    value: Value, shape: tuple[int, ...], symbols: dict[str, int], sources: dict[str, str]
) -> None:
    dims = value.shape
    if dims is None:
        return
    if len(dims) != len(shape):
        raise _rank_error(value, len(dims), shape)
    for axis, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
        if isinstance(dim, int):
            if extent != dim:
                raise _static_error(value, axis, dim, extent)
        elif isinstance(dim, Symbol) and extent >= 0 and symbols.get(dim.name) != extent:
            _bind_symbol(dim.name, extent, f"input {value.name}, axis {axis}", symbols, sources)


def _bind_symbol(
    name: str, extent: int, source: str, symbols: dict[str, int], sources: dict[str, str], option: str = ""
) -> None:
    first = symbols.setdefault(name, extent)
    if first != extent:
        cure = f"set it with {option}" if option else "check what these inputs are fed with"
        raise SymbolConflictError(
            what=f"symbol {name}",
            why=f"{sources[name]} makes it {first} and {source} makes it {extent}",
            remedy=f"One symbol has one extent: {cure}",
            symbol=name,
            first=first,
            second=extent,
            first_source=sources[name],
            second_source=source,
        )
    sources.setdefault(name, source)


def _static_error(value: Value, axis: int, dim: int, extent: int) -> ScenarioError:
    return ScenarioError(
        f"axis {axis} of input {value.name}",
        f"the graph fixes it to {dim} and the scenario needs {extent}",
        f"Plan with {dim} there, or export the model with a symbolic axis",
    )


def _rank_error(value: Value, rank: int, shape: tuple[int, ...]) -> ScenarioError:
    return ScenarioError(
        f"the rank of input {value.name}",
        f"the graph gives it {rank} and the scenario feeds it {list(shape)}, of rank {len(shape)}",
        f"Export the model with rank {len(shape)} there",
    )
