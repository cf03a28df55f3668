"""A shared cache at its borders: which attentions can write in place, and what is built for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from rewritten_models import MULTIHEAD, SCATTERED_HEADER, SMALL, UNMASKED, hand_made, refusal

from vramscope.graph.dtypes import ElementType
from vramscope.plan.rewrites.table import KNOWN
from vramscope.plan.rewrites.types import Rewritten

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vramscope.api import Planner
    from vramscope.graph.model import Program

PLACES = "(query, key, value, , , , past_key_0, past_value_0)"
UNEQUAL = "its query, key and value are not all [batch, positions, heads × size], equally wide"
RESULTS = "y, present_key_0, present_value_0 ="
SCORED = ((RESULTS, "y, present_key_0, present_value_0, scores ="),
          ("] logits,", "] logits, float[B,2,S,Q] scores,"))  # fmt: skip
OTHER_FORMS = {
    "padding": (
        ((PLACES, "(query, key, value, , pad, , past_key_0, past_value_0)"),),
        "it has a bias, a padding",
    ),
    "lengths": (((PLACES, PLACES.replace("_0)", "_0, lengths)")),), "it has a bias, a padding"),
    "scores": (SCORED, "its scores are an output"),
    "axes": (
        (
            (PLACES, PLACES.replace("value,", "turned,")),
            (
                f"  {RESULTS}",
                "  form = Constant<value_ints=[0, 0, 2, 4]>()\n  wide = Reshape(value, form)\n"
                f"  turned = Transpose<perm=[0, 2, 1, 3]>(wide)\n  {RESULTS}",
            ),
        ),
        UNEQUAL,
    ),
    "narrow": (
        (
            ("[B,2,P,4] past_value", "[B,2,P,2] past_value"),
            ("[B,2,Q,4] present_value", "[B,2,Q,2] present_value"),
            ("(x, v)", "(x, narrow)"),
            ("(y, head)", "(y, low)"),
        ),
        UNEQUAL,
    ),
    "packed": (
        (
            (PLACES, "(packed, , , , , , past_key_0, past_value_0)"),
            (
                f"  {RESULTS}",
                "  form = Constant<value_ints=[0, 0, 2, 1, 4]>()\n  five = Reshape(query, form)\n"
                f"  packed = Concat<axis=3>(five, five, five)\n  {RESULTS}",
            ),
        ),
        "it lacks a query, key, value, past or present",
    ),
    "mask": (
        (("int64[B,T] attention_mask", "int64[B,1,1,T] attention_mask"),),
        "there is no attention mask to count the valid positions of",
    ),
}
"""What of :data:`MULTIHEAD` is written otherwise, and what keeps it then from being grouped."""


def changed(graph: str, lines: Iterable[tuple[str, str]]) -> str:
    """A graph with parts of its text replaced, each of which it has."""
    for old, new in lines:
        assert old in graph
        graph = graph.replace(old, new)
    return graph


def shared(planner: Planner) -> Program:
    """The program with one buffer for past and present."""
    made = KNOWN["shared-kv"].apply(planner.model)
    assert isinstance(made, Rewritten)
    return made.model.program


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_multihead_attention_of_another_form_keeps_its_growing_cache(tmp_path: Path, form: str) -> None:
    lines, why = OTHER_FORMS[form]
    graph = changed(MULTIHEAD, lines)
    graph = graph.replace("int64[B,S] input_ids", "int64[B,S] input_ids, int32[B,T] pad, int32[1] lengths")
    planner = hand_made(tmp_path, graph, {"narrow": (8, 4), "low": (4, 16)})
    assert refusal(planner, "shared-kv").why.startswith(why)


def test_grouped_attention_is_given_lengths_out_of_the_mask_and_keeps_its_scale(tmp_path: Path) -> None:
    graph = MULTIHEAD.replace("<num_heads=2,", "<num_heads=2, scale=0.5,")
    program = shared(hand_made(tmp_path, graph))
    values = program.values
    built = [
        (step.node.operator, step.node.opset, dict(step.node.attributes), values[step.outputs[0]])
        for step in program.steps
        if step.node.name.startswith("/attention/")
    ]
    assert [(*item[:3], item[3].dtype, len(item[3].shape or ())) for item in built] == [
        ("ReduceSum", 22, {"keepdims": 0}, ElementType.INT64, 1),
        ("Sub", 22, {}, ElementType.INT64, 1),
        ("Cast", 22, {"to": 6}, ElementType.INT32, 1),
        ("Shape", 22, {}, ElementType.INT64, 1),
        ("Gather", 22, {"axis": 0}, ElementType.INT64, 0),
        ("Cast", 22, {"to": 6}, ElementType.INT32, 0),
    ]
    assert built[3][3].shape == (2,)
    (attention,) = [step for step in program.steps if step.node.operator == "GroupQueryAttention"]
    assert attention.node.attributes == {"num_heads": 2, "kv_num_heads": 2, "scale": 0.5}
    assert (attention.node.domain, attention.node.opset) == ("com.microsoft", 1)
    past, present = (
        [values[item].shape for item in side] for side in (attention.inputs[3:5], attention.outputs[1:])
    )
    assert present == past
    assert attention.inputs[5:] == (built[2][3].id, built[5][3].id)
    mask = next(value for value in values if value.name == "attention_mask")
    assert [built[place][3].shape for place in (0, 1, 2)] == [(mask.shape or ())[:1]] * 3


def test_attention_whose_scores_are_read_keeps_its_growing_cache(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, changed(UNMASKED, SCORED), header=SCATTERED_HEADER)
    why = refusal(planner, "shared-kv").why
    assert why == "its scores are an output, as wide as the keys that there are"


HEADS_FIRST = (
    (
        f"  {RESULTS}",
        "  form = Constant<value_ints=[0, 0, 2, 4]>()\n"
        + "".join(
            f"  {name}_wide = Reshape({name}, form)\n"
            f"  {name}_rows = Transpose<perm=[0, 2, 1, 3]>({name}_wide)\n"
            for name in ("query", "key", "value")
        )
        + "  rows, present_key_0, present_value_0 =",
    ),
    ("(query, key, value, ,", "(query_rows, key_rows, value_rows, ,"),
    (
        "  logits =",
        "  back = Transpose<perm=[0, 2, 1, 3]>(rows)\n  flat = Constant<value_ints=[0, 0, 8]>()\n"
        "  y = Reshape(back, flat)\n  logits =",
    ),
)
"""What of :data:`UNMASKED` is written otherwise for new rows [batch, heads, positions, size]."""


@pytest.mark.parametrize("rank", [3, 4])
def test_rows_are_scattered_on_the_axis_of_positions(tmp_path: Path, rank: int) -> None:
    """New rows of rank 3 go to a cache [batch, positions, width], those of rank 4 to one with heads first."""
    graph = changed(UNMASKED, HEADS_FIRST) if rank == 4 else UNMASKED
    planner = hand_made(tmp_path, graph, header=SCATTERED_HEADER)
    program = shared(planner)
    steps = [step for step in program.steps if step.node.operator == "TensorScatter"]
    assert [dict(step.node.attributes) for step in steps] == [{"axis": rank - 2}] * 2
    assert [step.node.opset for step in steps] == [24, 24]
    past = next(value for value in planner.model.program.values if value.name == "past_key_0").shape or ()
    wanted = past if rank == 4 else (past[0], past[2], 8)
    for step in steps:
        assert [program.values[item].shape for item in (step.inputs[0], step.outputs[0])] == [wanted] * 2
    (attention,) = [step for step in program.steps if step.node.operator == "Attention"]
    names = ["" if item < 0 else program.values[item].name for item in attention.inputs]
    assert names[1:] == ["present_key_0", "present_value_0", "", "", "", "nonpad_kv_seqlen"]
    assert (attention.node.opset, len(attention.outputs)) == (24, 1)
    feeds = {program.values[item].name: program.values[item] for item in program.inputs[-2:]}
    assert [*feeds] == ["write_indices", "nonpad_kv_seqlen"]
    assert {(item.dtype, item.shape) for item in feeds.values()} == {(ElementType.INT64, past[:1])}


def test_an_older_attention_becomes_one_of_the_opset_that_has_valid_lengths(tmp_path: Path) -> None:
    planner = hand_made(tmp_path, UNMASKED, header=SCATTERED_HEADER.replace("24", "23"))
    cache = planner.plan(SMALL).kv.bytes or 0
    (attention,) = [step for step in shared(planner).steps if step.node.operator == "Attention"]
    assert attention.node.opset == 24
    assert cache == 2 * 2 * 2 * 2 * 64 * 4 * 4
