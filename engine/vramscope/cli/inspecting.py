"""``vramscope inspect``: what a model is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from vramscope.cli import screen
from vramscope.cli.session import open_model
from vramscope.messages.model import ModelInfo
from vramscope.plan.types import Scenario
from vramscope.server.convert import model_info, programs_of, stored_weights
from vramscope.server.engine import Engine
from vramscope.units import format_bytes

if TYPE_CHECKING:
    import argparse

    from rich.console import Console

    from vramscope.graph.model import Model


class OperatorCount(msgspec.Struct, frozen=True):
    """How many nodes use one operator."""

    operator: str
    nodes: int


class WeightSum(msgspec.Struct, frozen=True):
    """Stored weights of one element type."""

    dtype: str
    tensors: int
    bytes: int


class Inspection(msgspec.Struct, frozen=True):
    """The document of ``inspect --json``."""

    model: ModelInfo
    opsets: dict[str, int]
    operators: list[OperatorCount]
    weights: list[WeightSum]


def inspect(arguments: argparse.Namespace) -> int:
    """Prints what the model is."""
    engine, meter = Engine(), screen.Meter()
    info = open_model(
        engine, arguments.model, screen.listener(meter), without_weights=arguments.without_weights
    )
    model = engine.model
    if arguments.as_if:
        model = engine.planner.under(Scenario(as_if=tuple(arguments.as_if))).model
        info = model_info(model, info.name)
    meter.clear()
    found = inspection(model, info)
    if arguments.json:
        screen.print_json(found)
    else:
        _show(screen.console(), found)
    return 0


def inspection(model: Model, info: ModelInfo) -> Inspection:
    """Counts operators and sums weights, over control-flow bodies too."""
    operators = Counter(
        step.node.qualified for program in programs_of(model.program) for step in program.steps
    )
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for weight in stored_weights(model):
        tensors[weight.dtype.name] += 1
        sizes[weight.dtype.name] += weight.size
    return Inspection(
        model=info,
        opsets={domain or "ai.onnx": opset for domain, opset in model.opsets.items()},
        operators=[OperatorCount(operator, nodes) for operator, nodes in operators.most_common()],
        weights=[WeightSum(dtype, tensors[dtype], size) for dtype, size in sizes.most_common()],
    )


def _show(out: Console, found: Inspection) -> None:
    info = found.model
    opsets = ", ".join(f"{domain} {opset}" for domain, opset in found.opsets.items())
    out.print(f"{info.name}: {info.nodes:,} nodes, {format_bytes(info.weights_bytes)} of weights")
    out.print(f"  path      {info.path}")
    out.print(f"  producer  {info.producer or 'not given'}")
    out.print(f"  opsets    {opsets}")
    _show_contract(out, info)
    rows = [(item.name, item.dtype, "×".join(item.dims) or "scalar") for item in info.inputs]
    screen.table(out, "Inputs", ("name", "type", "shape"), rows)
    screen.table(
        out,
        "Operators",
        ("operator", "nodes"),
        [(i.operator, f"{i.nodes:,}") for i in found.operators],
        right="1",
    )
    sums = [(i.dtype, f"{i.tensors:,}", format_bytes(i.bytes)) for i in found.weights]
    screen.table(out, "Stored weights", ("type", "tensors", "bytes"), sums, right="12")
    for problem in info.problems:
        out.print(f"problem: {problem}")


def _show_contract(out: Console, info: ModelInfo) -> None:
    contract = info.contract
    if contract is None:
        out.print("  contract  none: not a decoder, so it runs on named inputs")
        return
    limit = "unknown" if contract.context_limit is None else f"{contract.context_limit:,}"
    source = f" ({contract.context_source})" if contract.context_source else ""
    out.print(f"  contract  decoder of the {contract.dialect} dialect, {contract.layers} layers")
    out.print(f"  context   at most {limit} tokens{source}; vocabulary {contract.vocabulary:,}")
    out.print(f"  feeds     {', '.join(f'{name} = {feed}' for name, feed in contract.feeds.items())}")
    forms = Counter((pair.form, pair.reason) for pair in contract.kv)
    blocks = (
        f", blocks of {contract.block_size:,} tokens ({contract.block_source})" if contract.block_size else ""
    )
    for (form, reason), pairs in forms.items():
        out.print(f"  KV cache  {pairs} buffers, {form}{f': {reason}' if reason else ''}{blocks}")
    out.print(f"  tokenizer {'yes' if info.has_tokenizer else 'no: prompts are token ids'}")
    for note in contract.notes:
        out.print(f"  note      {note}")
