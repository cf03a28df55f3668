"""Node rows: grouping, filtering, sorting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vramscope.messages.columns import TableChunk, integer_column, text_column
from vramscope.messages.running import SeamSpan, SegmentInfo
from vramscope_app.rows.columns import (
    group_text,
    group_tip,
    node_text,
    node_tip,
    share_text,
    short_name,
    sort_keys,
    view_of,
)
from vramscope_app.rows.nodes import (
    PEAK,
    NodeTable,
    Tree,
    build_tree,
    group_totals,
    join_chunks,
    paths_of,
    scopes_of,
    shares,
    with_paths,
)
from vramscope_app.rows.query import Haystack, parse

if TYPE_CHECKING:
    from types import ModuleType

    from numpy.typing import NDArray


def walk(tree: Tree, item: int = -1) -> list[int]:
    found = []
    for place in range(tree.count(item)):
        child = tree.child(item, place)
        assert tree.parents[child] == item
        assert tree.places[child] == place
        found += [child, *(walk(tree, child) if child < tree.groups else [])]
    return found


def test_chunks_are_joined_in_the_order_of_their_rows() -> None:
    def piece(start: int, names: list[str], *, last: bool) -> TableChunk:
        columns = [text_column("name", names), integer_column("step", range(start, start + len(names)))]
        return TableChunk(
            table="nodes:run", ticket=3, start=start, rows=len(names), columns=columns, last=last
        )

    table = join_chunks([piece(2, ["c"], last=True), piece(0, ["a", "b"], last=False)])
    assert (table.ticket, table.rows, list(table.column("name"))) == (3, 3, ["a", "b", "c"])
    assert table.integers("step").tolist() == [0, 1, 2]
    assert table.integers("absent").tolist() == [-1, -1, -1]
    assert table.text("absent", 0) == ""


def test_scopes_become_nested_groups_in_the_order_of_the_program(messages: ModuleType) -> None:
    table = join_chunks([messages.chunk("decode")])
    scopes = scopes_of(table.column("scope"), grouped=True)
    tree = build_tree(scopes, np.arange(table.rows))
    names = [scopes.names[i] if i < tree.groups else table.text("name", i - tree.groups) for i in walk(tree)]
    assert names == [
        "model",
        "embed",
        "/model/embed/Gather",
        "layers.0",
        "attn",
        "/model/layers.0/attn/MatMul",
        "/model/layers.0/attn/GQA",
        "mlp",
        "/model/layers.0/mlp/MatMul",
        "layers.1",
        "mlp",
        "/model/layers.1/mlp/MatMul",
        "/lm_head/MatMul",
    ]


def test_flat_has_no_groups(messages: ModuleType) -> None:
    table = join_chunks([messages.chunk("decode")])
    tree = build_tree(scopes_of(table.column("scope"), grouped=False), np.arange(table.rows))
    assert (tree.groups, tree.count(-1)) == (0, table.rows)


def test_a_filter_hides_groups_without_a_match(messages: ModuleType) -> None:
    table = join_chunks([messages.chunk("decode")])
    rows = Haystack(table).rows(parse("MATMUL layers.0"))
    assert [table.text("name", int(row)) for row in rows] == [
        "/model/layers.0/attn/MatMul",
        "/model/layers.0/mlp/MatMul",
    ]
    scopes = scopes_of(table.column("scope"), grouped=True)
    tree = build_tree(scopes, rows)
    shown = [scopes.names[item] for item in walk(tree) if item < tree.groups]
    assert shown == ["model", "layers.0", "attn", "mlp"]


def test_sorting_is_below_each_parent_and_keeps_ties_in_program_order(messages: ModuleType) -> None:
    view = view_of(join_chunks([messages.chunk("decode")]), grouped=False)
    keys = sort_keys(view, "weight_bytes")
    tree = build_tree(view.scopes, np.arange(view.table.rows), keys, descending=True)
    assert walk(tree) == [0, 1, 3, 4, 5, 2]


def test_totals_add_up_sums_or_the_largest_and_leave_unknown_out() -> None:
    scopes = scopes_of(["a/b", "a", "c", ""], grouped=True)
    values = np.array([5, 7, -1, 100])
    assert dict(zip(scopes.names, group_totals(scopes, values), strict=True)) == {"a": 12, "b": 5, "c": 0}
    largest = group_totals(scopes, values, largest=True)
    assert dict(zip(scopes.names, largest, strict=True)) == {"a": 7, "b": 5, "c": 0}


def test_a_scope_with_an_unknown_output_says_at_least(messages: ModuleType) -> None:
    view = view_of(join_chunks([messages.chunk("decode")]), grouped=True)
    model = view.scopes.names.index("model")
    assert group_text(view, model, "output_bytes") == "≥ 52.0 MiB"
    assert group_text(view, model, "operator") == "5 nodes"
    layer = view.scopes.names.index("layers.0")
    assert group_text(view, layer, "output_bytes") == "≤ 48.0 MiB"
    other = view.scopes.names.index("layers.1")
    assert group_text(view, other, "output_bytes") == "unknown"
    assert group_text(view, view.scopes.names.index("embed"), "output_bytes") == "4.00 MiB"


def test_scratch_and_live_bytes_that_nobody_knows_are_no_zeros() -> None:
    unknown = np.array([-1, 64], np.int64)
    texts = {"scope": ["a", "a"], "certainty": ["exact", "exact"]}
    view = view_of(NodeTable(1, 2, texts, {"workspace_bytes": unknown, "live_bytes": unknown}), grouped=True)
    for key in ("workspace_bytes", "live_bytes"):
        assert [node_text(view, row, key, short=True) for row in (0, 1)] == ["unknown", "64 B"]
        assert group_text(view, 0, key) == "≥ 64 B"


def test_cells_of_nodes_mark_bounds_and_unknown(messages: ModuleType) -> None:
    view = view_of(join_chunks([messages.chunk("decode")]), grouped=True)
    texts = [node_text(view, row, "output_bytes", short=True) for row in (0, 3, 4)]
    assert texts == ["4.00 MiB", "≤ 32.0 MiB", "unknown"]
    assert node_tip(view, 0, "output_bytes") == "4,194,304 bytes"
    assert "in: 1×64×576" in node_tip(view, 1, "name")
    assert view.share(0, "weight_bytes") == 1.0
    assert view.share(4, "output_bytes") == 0.0


def test_parts_of_the_peak_are_of_all_that_is_alive_then(messages: ModuleType) -> None:
    view = view_of(join_chunks([messages.chunk("decode")]), grouped=True)
    texts = [node_text(view, row, PEAK, short=True) for row in range(4)]
    assert texts == ["0%", "0%", "75.0%", "25.0%"]
    assert view.share(2, PEAK) == 0.75
    assert node_tip(view, 2, PEAK) == "31,457,280 bytes of 41,943,040 bytes alive at the peak: 75.0000%"
    parts = {name: group_text(view, group, PEAK) for group, name in enumerate(view.scopes.names)}
    assert (parts["layers.0"], parts["layers.1"], parts["embed"]) == ("100.0%", "0%", "0%")
    assert group_tip(view, view.scopes.names.index("attn"), PEAK).endswith(": 75.0000%")
    assert [share_text(part, 10_000) for part in (1, 5, 10)] == ["<0.1%", "<0.1%", "0.1%"]


@pytest.mark.parametrize("numbers", [{}, {PEAK: np.array([-1, -1])}, {PEAK: np.array([0, 0])}])
def test_a_part_of_a_peak_that_nobody_knows_is_no_0(numbers: dict[str, NDArray[np.int64]]) -> None:
    view = view_of(NodeTable(1, 2, {"scope": ["a", "a"]}, numbers), grouped=True)
    assert [node_text(view, 0, PEAK, short=True), node_tip(view, 0, PEAK)] == ["—", "—"]
    assert [group_text(view, 0, PEAK), group_tip(view, 0, PEAK)] == ["—", "—"]
    assert shares(view.table).tolist() == [-1, -1]
    assert view.share(0, PEAK) == 0.0


@pytest.mark.parametrize(
    ("name", "scope", "short"),
    [
        ("/model/attn/MatMul", "model/attn", "MatMul"),
        ("model.attn.q.MatMul", "model/attn", "q.MatMul"),
        ("model/attn/", "model/attn", "model/attn/"),
        ("other", "model", "other"),
        ("other", "", "other"),
    ],
)
def test_short_names_leave_out_the_scope(name: str, scope: str, short: str) -> None:
    assert short_name(name, scope) == short


def test_paths_come_from_the_capture(messages: ModuleType) -> None:
    table = join_chunks([messages.chunk("decode")])
    assert with_paths(table, None) is table
    found = with_paths(table, messages.capture(declined=True)).column("path")
    assert list(found) == ["captured", "captured", "host seam · HostControlFlowOrSequence", *["captured"] * 3]


def test_a_path_is_found_by_the_program_s_step_not_by_the_launch() -> None:
    """Steps 0 and 3 launch nothing: one is constant, the output of the other is its input's bytes."""
    seam = SeamSpan(start=1, end=2, reason="UnresolvedOutputShape")
    segments = [
        SegmentInfo(start=0, end=1, captured=True, steps=[1]),
        SegmentInfo(start=1, end=2, captured=False, steps=[2], seams=[seam]),
        SegmentInfo(start=2, end=3, captured=True, steps=[4]),
        SegmentInfo(start=3, end=4, captured=False, steps=[5]),
    ]
    assert paths_of(segments) == {
        1: "captured", 2: "device seam · UnresolvedOutputShape", 4: "captured", 5: "eager",
    }  # fmt: skip


scope_texts = st.lists(st.sampled_from(["", "a", "a/b", "a/b/c", "d", "d/e", "f"]), max_size=40)


@settings(max_examples=60, deadline=None)
@given(scope_texts, st.data())
def test_every_shown_row_is_reached_exactly_once(paths: list[str], data: st.DataObject) -> None:
    scopes = scopes_of(paths, grouped=True)
    kept = data.draw(st.sets(st.integers(0, max(len(paths) - 1, 0)))) if paths else set()
    rows = np.array(sorted(kept), np.int64)
    tree = build_tree(scopes, rows)
    items = walk(tree)
    assert sorted(item - tree.groups for item in items if item >= tree.groups) == rows.tolist()
    assert len(items) == len(set(items))
