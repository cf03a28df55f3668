"""Weights and activations in 16 bits: every float32 tensor of a model becomes float16.

What an operator has in float32 whatever its other types are stays: a quantised cache's scales, a norm's
statistics, the scales of a Resize.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from onnx import defs

from vramscope.graph.dtypes import ElementType
from vramscope.graph.edit import ProgramEdit
from vramscope.graph.model import ABSENT, WeightSource
from vramscope.plan.rewrites.types import Impossible, Rewritten, rebuilt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vramscope.graph.model import AttributeValue, Model, Node, Program, Step

HALF = "tensor(float16)"

NORM_STATISTICS = ((), (1, 2))
FIXED: Mapping[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]] = MappingProxyType(
    {
        ("", "SimplifiedLayerNormalization"): NORM_STATISTICS,
        ("com.microsoft", "SkipSimplifiedLayerNormalization"): NORM_STATISTICS,
        ("com.microsoft", "SkipLayerNormalization"): NORM_STATISTICS,
        ("com.microsoft", "GroupQueryAttention"): ((12, 13), ()),
        **{
            ("com.microsoft", name): ((), ())
            for name in (
                *(
                    "MultiHeadAttention",
                    "Attention",
                    "RotaryEmbedding",
                    "MatMulNBits",
                    "GatherBlockQuantized",
                ),
                *("FusedMatMul", "FusedMatMulBias", "FusedGemm", "Gelu", "FastGelu", "QuickGelu", "BiasGelu"),
                *("SparseAttention", "MoE", "QMoE"),
            )
        },
    }
)
"""Operators without an ONNX schema that take float16: inputs and outputs that are float32 all the same."""

TYPE_ATTRIBUTES = frozenset({"to", "dtype", "output_dtype"})
"""Attributes that name the type of a result."""


def half_floats(model: Model) -> Rewritten | Impossible:
    """``model`` in float16."""
    program = model.program
    if not any(source.dtype is ElementType.FLOAT for source in program.weights.values()):
        return Impossible("none of its weights is in 32 bits")
    fixed: dict[int, str] = {}
    free: dict[int, str] = {}
    for step in program.steps:
        if step.bodies:
            return Impossible(f"{step.node.operator} has bodies, which are not rewritten", step.node.name)
        slots = _fixed_slots(step.node)
        if slots is None:
            return Impossible(f"no float16 form of {step.node.qualified} is known", step.node.name)
        for value, is_fixed in _floats(program, step, slots):
            (fixed if is_fixed else free).setdefault(value, step.node.name)
    mixed = next(iter(fixed.keys() & free.keys()), None)
    if mixed is not None:
        name, where = program.values[mixed].name, f"and {free[mixed]} in any type"
        return Impossible(f"{fixed[mixed]} has {name!r} in float32, {where}", fixed[mixed])
    return rebuilt(model, _halved(program, frozenset(fixed)))


def _floats(
    program: Program, step: Step, slots: tuple[frozenset[int], frozenset[int]]
) -> Iterator[tuple[int, bool]]:
    """The float32 values of a step, and whether it fixes their type."""
    for values, places in zip((step.inputs, step.outputs), slots, strict=True):
        for place, value in enumerate(values):
            if value != ABSENT and program.values[value].dtype is ElementType.FLOAT:
                yield value, place in places


def _fixed_slots(node: Node) -> tuple[frozenset[int], frozenset[int]] | None:
    """Inputs and outputs that a node has in float32 whatever its other types are; None where unknown."""
    known = FIXED.get((node.domain, node.operator))
    if known is not None:
        return frozenset(known[0]), frozenset(known[1])
    if not node.domain and node.operator == "Cast":
        return frozenset(), frozenset()
    if node.domain or not defs.has(node.operator, node.opset, ""):
        return None
    schema = defs.get_schema(node.operator, node.opset, "")
    allowed = {item.type_param_str: item.allowed_type_strs for item in schema.type_constraints}
    fixed = [
        frozenset(
            place
            for place, formal in enumerate(formals)
            if HALF not in allowed.get(formal.type_str, [formal.type_str])
        )
        for formals in (schema.inputs, schema.outputs)
    ]
    return fixed[0], fixed[1]


def _halved(program: Program, fixed: frozenset[int]) -> Program:
    edit = ProgramEdit(program)
    for value in program.values:
        if value.dtype is not ElementType.FLOAT or value.id in fixed:
            continue
        source = program.weights.get(value.id)
        if source is not None:
            edit.source(value.id, _half_source(source))
        edit.reshape(value.id, ElementType.FLOAT16, value.shape)
    for step in program.steps:
        if any(edit.values[value].dtype is ElementType.FLOAT16 for value in step.outputs if value != ABSENT):
            edit.change(step, replace(step.node, attributes=_half_attributes(step.node)), step.inputs)
    return edit.finish()


def _half_source(source: WeightSource) -> WeightSource:
    """The weight in float16; equal ones stay equal, and what it holds is not known any more."""
    name = f"{source.identity}:float16"
    digest = f"{source.digest}:float16" if source.digest else ""
    return WeightSource(
        ElementType.FLOAT16, source.shape, source.size // 2, name, digest=digest, present=False
    )


def _half_attributes(node: Node) -> Mapping[str, AttributeValue]:
    found = {name: _half_attribute(name, value) for name, value in node.attributes.items()}
    if node.operator == "ConstantOfShape":
        found.setdefault("value", np.zeros(1, np.float16))
    return MappingProxyType(found)


def _half_attribute(name: str, value: AttributeValue) -> AttributeValue:
    if name in TYPE_ATTRIBUTES and value == int(ElementType.FLOAT):
        return int(ElementType.FLOAT16)
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(np.float16)
    return value
