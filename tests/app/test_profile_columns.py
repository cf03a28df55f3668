"""Times and launches in the node tree: shown, summed, sorted, searched, exported; unknown is no 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vramscope.messages.running import ProfileInfo
from vramscope.messages.slots import SlotsInfo
from vramscope_app.exporting import headings, table_rows
from vramscope_app.rows.columns import group_text, node_text, node_tip, time_text, view_of
from vramscope_app.rows.measured import with_profile
from vramscope_app.rows.nodes import join_chunks
from vramscope_app.rows.query import Haystack, QueryError, parse

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script

    from vramscope_app.rows.nodes import NodeTable

TIMES = {0: 12.5, 1: 250.0, 2: 0.8, 4: 99.0}


def profile(messages: ModuleType) -> ProfileInfo:
    return ProfileInfo(
        steps=4,
        step_microseconds=400.0,
        nodes=list(TIMES),
        microseconds=list(TIMES.values()),
        run=messages.run(),
    )


def table(messages: ModuleType, groups: list[list[int]] | None = None) -> NodeTable:
    return with_profile(join_chunks([messages.chunk("decode")]), profile(messages), groups or [])


def test_times_are_short_and_exact(messages: ModuleType) -> None:
    view = view_of(table(messages), grouped=True)
    shown = [node_text(view, row, "nanoseconds", short=False) for row in range(6)]
    assert shown == ["12.5", "250", "0.8", "—", "99", "—"]
    assert node_tip(view, 1, "nanoseconds") == "250.000 µs"
    assert [time_text(size) for size in (-1, 0, 1_234_567_000)] == ["—", "0", "1,234,567"]
    totals = {name: group_text(view, group, "nanoseconds") for group, name in enumerate(view.scopes.names)}
    assert totals["model"] == "362", "of a scope all its nodes together"
    assert view.share(1, "nanoseconds") == 1.0
    assert view.share(3, "nanoseconds") == 0.0


def test_nothing_is_measured_before_a_profile(messages: ModuleType) -> None:
    plain = join_chunks([messages.chunk("decode")])
    assert with_profile(plain, None, []) is plain
    view = view_of(plain, grouped=True)
    assert {node_text(view, row, "nanoseconds", short=False) for row in range(6)} == {"—"}
    assert {node_text(view, row, "launch", short=False) for row in range(6)} == {"—"}


def test_nodes_of_one_launch_share_a_number(messages: ModuleType) -> None:
    view = view_of(table(messages, [[1, 2], [3, 5]]), grouped=False)
    assert [node_text(view, row, "launch", short=False) for row in range(6)] == [
        "—", "1 · 2", "1 · 2", "2 · 2", "—", "2 · 2",
    ]  # fmt: skip
    assert node_tip(view, 1, "launch").splitlines()[1:] == [
        "/model/layers.0/attn/MatMul", "/model/layers.0/attn/GQA",
    ]  # fmt: skip


def test_times_and_launches_are_searched(messages: ModuleType) -> None:
    hay = Haystack(table(messages, [[1, 2]]))

    def found(query: str) -> list[int]:
        return [int(row) for row in hay.rows(parse(query))]

    assert found("us>100") == [1]
    assert found("us<12.6") == [0, 2]
    assert found("us=unknown") == [3, 5]
    assert found("-us=unknown us>=0.8") == [0, 1, 2, 4]
    assert found("launch:1") == [1, 2]
    for wrong in ("us>much", "us>", "us>1e999"):
        with pytest.raises(QueryError, match="no amount"):
            parse(wrong)


def test_a_profile_shows_its_column_once(
    script: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.open()
    script.plan()
    window = script.window
    assert "nanoseconds" not in window.nodes.columns.shown
    script.answer("profile", messages.OpenParams(), profile(messages))
    assert window.nodes.columns.shown[:3] == ["name", "operator", "nanoseconds"]
    assert window.run_panel._summary.text() == "✓ Profiled 4 steps: 400 µs each"
    tables: list[object] = []
    monkeypatch.setattr(window.nodes, "set_tables", tables.append)
    script.answer("slots", messages.OpenParams(), SlotsInfo())
    assert not tables, "slots without other launches leave the tree alone"
    script.answer("slots", messages.OpenParams(), SlotsInfo(groups=[[1, 2]]))
    assert len(tables) == 1


def test_times_of_one_scenario_are_not_shown_beside_the_plan_of_another(
    script: Script, messages: ModuleType
) -> None:
    script.open()
    script.plan()
    script.answer("profile", messages.OpenParams(), profile(messages))
    script.plan(ticket=2)
    assert script.controller.state.profile is not None, "the same scenario"
    script.plan(ticket=3, context=64)
    assert script.controller.state.profile is None


def test_the_table_of_times_is_exported(script: Script, messages: ModuleType) -> None:
    script.open()
    script.plan()
    script.answer("profile", messages.OpenParams(), profile(messages))
    view = script.window.nodes.view
    column = headings(view).index("µs")
    texts = {row[0][0].rsplit("/", 1)[-1]: row[column][0] for row in table_rows(view)}
    assert texts["Gather"] == "12.5"
