"""What a program's index says of memory: which outputs overwrite an input, which are views, who is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from small_models import opened

from vramscope.api import make_plan, open_path
from vramscope.graph.model import ABSENT
from vramscope.plan.index import _comparable, _scratch, _strided_inputs, build_index
from vramscope.plan.types import REFERENCE_RUNTIME, Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

BOTH = ["a", "b"]


def overwritten(model: Model) -> dict[str, list[str]]:
    """Each owner by name, with the owners that it may overwrite."""
    names = [value.name for value in model.program.values]
    return {names[item.value]: [names[one] for one in item.reuses] for item in build_index(model).owners}


@pytest.mark.parametrize(
    ("body", "reuses"),
    [
        ("a = Relu(x) b = Relu(a) y = Relu(b)", {"a": [], "b": ["a"]}),
        ("a = Relu(x) b = Add(a, a) y = Relu(b)", {"a": [], "b": []}),
        ("a = Relu(x) b = Relu(a) c = Add(a, b) y = Relu(c)", {"a": [], "b": [], "c": ["a", "b"]}),
        ("a = Relu(x) b = Relu(w) c = Add(a, b) y = Relu(c)", {"a": [], "b": [], "c": ["b"]}),
        ("a = Relu(w) b = Relu(x) c = Add(a, b) y = Relu(c)", {"a": [], "b": [], "c": ["a"]}),
        ("a = Relu(x) f = Flatten(a) b = Relu(f) y = Relu(b)", {"a": [], "b": ["a"]}),
        ("a = Relu(x) f = Flatten(a) b = Relu(f) c = Add(a, b) y = Relu(c)", {"a": [], "b": [], "c": BOTH}),
        ("a = Relu(x) b = Cast <to = 6> (a) y = Cast <to = 1> (b)", {"a": [], "b": ["a"]}),
        ("a = Relu(x) b = Cast <to = 11> (a) c = Cast <to = 1> (b) y = Relu(c)", {"a": [], "b": [], "c": []}),
        ("a = Relu(x) b = Transpose <perm = [1, 0]> (a) y = Relu(b)", {"a": [], "b": []}),
    ],
)
def test_an_output_overwrites_an_input_of_its_size_that_dies_there(
    body: str, reuses: dict[str, list[str]]
) -> None:
    rows = "2,4" if "perm" in body or "w" in body else "1,4"
    out = "4,2" if "perm" in body else "2,4" if "w" in body else "1,4"
    left = "1,4" if "w" in body else rows
    model = opened(f"g (float[{left}] x, float[2,4] w) => (float[{out}] y) {{ {body} }}")
    assert overwritten(model) == reuses


def test_the_transpose_of_an_input_is_no_view_even_as_the_first_step() -> None:
    model = opened("g (float[2,4] x) => (float[4,2] y) { a = Transpose <perm = [1, 0]> (x) y = Relu(a) }")
    index = build_index(model)
    (owner,) = index.owners
    assert model.program.values[owner.value].name == "a"
    assert make_plan(model, Scenario()).phases[0].arena.naive == 32


def test_only_caches_whose_length_moves_are_shown_as_a_prefix(shared_models: Path) -> None:
    for name, moving in (("torchexp-tiny-llama", True), ("tiny-llama-fp32-cpu", False)):
        model = open_path(shared_models / "tiny" / name)
        assert model.contract is not None
        names = {model.program.values[item].name for item in _strided_inputs(model)}
        assert names == ({pair.input for pair in model.contract.kv} if moving else set())


def test_a_sequence_owns_no_memory_and_a_single_operand_is_overwritten() -> None:
    sequence = """g (float[4] x) => (float[4] y) <int64 i = {0}>
    { s = SequenceConstruct(x) a = SequenceAt(s, i) y = Relu(a) }"""
    assert overwritten(opened(sequence)) == {"a": []}
    alone = opened("g (float[1,4] x) => (float[1,4] y) { a = Relu(x) b = Max(a) y = Relu(b) }")
    assert overwritten(alone) == {"a": [], "b": ["a"]}


def test_the_reference_runtime_is_asked_of_operators_that_need_nothing_here() -> None:
    model = opened("g (float[4,64] x, float[64,32] w) => (float[4,32] y) { y = MatMul(x, w) }")
    own, other = (make_plan(model, Scenario(runtime=name)) for name in ("vramscope", REFERENCE_RUNTIME))
    assert own.phases[0].workspace.total == 0
    assert other.phases[0].workspace.total == 2**25
    sums = "g (float[2,4096] x) => (float[2] y) <int64[1] a = {1}> { y = ReduceSum <keepdims = 0> (x, a) }"
    plan = make_plan(opened(sums), Scenario(runtime=REFERENCE_RUNTIME))
    assert plan.phases[0].workspace.total == 2**25, "the plan's bytes are cuDNN's to say: a ceiling"


def test_what_has_an_array_among_its_attributes_is_compared_with_nothing() -> None:
    array = np.zeros(1, np.float32)
    assert _comparable({"value": array, "axis": 1}) is None
    assert _comparable({"axis": 1, "value": array}) is None
    assert _comparable({"b": 1, "a": 2}) == (("", ""), ("a", 2), ("b", 1))
    assert _comparable({}) == (("", ""),)


def test_only_results_of_constant_steps_are_constants() -> None:
    text = """g (float[2,4] x) => (float[2,4] y) <float[4] a = {1, 2, 3, 4}, float[1] b = {2}>
    { c = Mul(a, b) d = Neg(c) e = Add(x, a) y = Add(e, d) }"""
    model = opened(text)
    index = build_index(model)
    assert {model.program.values[value].name for value in index.constants} == {"d"}


def test_a_question_about_scratch_names_the_bound_inputs_it_reads(shared_models: Path) -> None:
    index = build_index(open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu"))
    program = index.program
    assert index.scratch
    outside = {*program.inputs, *program.outputs}
    for question in index.scratch:
        inputs = program.steps[question.step].inputs
        assert question.bound == tuple(value for value in inputs if value in outside)
    assert len({question.group for question in index.scratch}) < len(index.scratch), "layers ask alike"
    assert any(question.bound for question in index.scratch)
    assert any(len(question.bound) < len(program.steps[question.step].inputs) for question in index.scratch)


@pytest.mark.parametrize(
    ("body", "first"),
    [("a = Relu(z) b = Relu(x) y = Add(a, b)", "Relu_b"), ("y = Add(x, z)", "Add_y")],
)
def test_a_symbol_names_the_first_node_that_reads_it(body: str, first: str) -> None:
    model = opened(f"g (float[K,4] x, float[1,4] z) => (float[K,4] y) {{ {body} }}")
    (mention,) = build_index(model).mentions.values()
    assert (mention.uses, mention.first_node) == (3 if "b =" in body else 2, first)


def test_every_byte_of_the_weights_is_read_by_some_node(shared_models: Path) -> None:
    """Those that constant steps made too: a fused projection's joined weights are among what fills a card."""
    for folder in sorted((shared_models / "tiny").iterdir()):
        plan = make_plan(open_path(folder), Scenario(prompt=8, context=64))
        read = sum(row.weight_bytes or 0 for row in plan.phases[-1].nodes)
        assert read >= plan.weights.bytes, folder.name


def test_weights_that_each_have_one_reader_are_counted_to_the_byte(shared_models: Path) -> None:
    model = open_path(shared_models / "tiny" / "mobius-tiny-llama-fp32-static")
    plan = make_plan(model, Scenario(prompt=8, context=64))
    assert sum(row.weight_bytes or 0 for row in plan.phases[-1].nodes) == plan.weights.bytes == 574_720


def test_a_missing_input_is_like_no_shape() -> None:
    text = "g (float[4,4] a, float[4,4] b) => (float[4,4] y) { p = MatMul(a, b) %s }"
    index = build_index(opened(text % "q = MatMul(p, b) y = MatMul(q, b)"))
    inputs = ((0, ABSENT), (0, 1), (0, 0))
    steps = [replace(step, inputs=read) for step, read in zip(index.main_steps, inputs, strict=True)]
    classes = [0, 1, *[0] * len(index.program.values)]
    asked = list(_scratch(steps, index.specs, classes, frozenset(), index.wanted))
    assert [question.group for question in asked] == [0, 1, 2]


def test_a_node_without_inputs_or_without_outputs_shows_no_bytes_under_another_name() -> None:
    """A file may hold the first; the second is left out of a program unless a caller keeps it."""
    text = "g (float[4,4] x) => (float[4,4] y) { a = Flatten(%s) y = Relu(a) }"
    assert build_index(opened(text % "")).view_edges() == {}
    model = opened(text % "x")
    assert build_index(model).view_edges() == {1: 0}
    flatten, relu = model.program.steps
    silent = replace(model.program, steps=(replace(flatten, outputs=()), relu))
    assert build_index(replace(model, program=silent)).view_edges() == {}
