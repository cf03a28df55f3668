"""The node search's language: what each term finds, what is refused and why, and the columns one sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vramscope_app.panels.node_columns import FIRST
from vramscope_app.rows.nodes import join_chunks
from vramscope_app.rows.query import Haystack, QueryError, parse

if TYPE_CHECKING:
    from types import ModuleType

    from tests.app.conftest import Script

EVERY = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", EVERY),
        ("matmul layers.0", [1, 3]),
        ("op:matmul", [1, 3, 4, 5]),
        ("op:=matmul attn", [1]),
        ("op:Group*", [2]),
        ("-op:matmul", [0, 2]),
        ("scope:layers.0", [1, 2, 3]),
        ("scope:layers.*/mlp", [3, 4]),
        ("scope:layers", []),
        ("kernel:reference", [5]),
        ("known:bound", [3]),
        ("weights>=512M weights<1GiB", [1, 3, 4, 5]),
        ("weights=0", [2]),
        ("output=unknown", [4]),
        ("-output=unknown output>4MiB", [1, 2, 3]),
        ("output<1T", [0, 1, 2, 3, 5]),
        ("bytes>520M", [0, 3]),
        ("step<2", [0, 1]),
        ("share>5%", [2, 3]),
        ("share>=75", [2]),
        ("share=25%", [3]),
        ("share=0", [0, 1, 4, 5]),
        ("share=unknown", []),
        ("step=4", [4]),
        ('"layers.0/attn"', [1, 2]),
        ("name:lm_head", [5]),
        ("out:≤64", EVERY),
        ("-", []),
    ],
)
def test_a_query_finds(messages: ModuleType, query: str, found: list[int]) -> None:
    table = join_chunks([messages.chunk("decode")])
    assert Haystack(table).rows(parse(query)).tolist() == found


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("shape:64", "There is no shape:; use one of op:, name:"),
        ("bytes>1Q", "1Q is no amount such as 4096"),
        ("bytes>", "nothing is no amount"),
        ("share>1M", "share>1M: 1M is no amount such as 5%"),
        ("share:5%", "share is compared with an amount"),
        ("bytes:1M", "bytes is compared with an amount: bytes>1M"),
        ("op>1M", "op is a text: op:1M"),
        ("size>1M", "There is no size to compare; use one of bytes"),
    ],
)
def test_a_query_that_means_nothing_says_why_and_what_would(query: str, said: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(query)
    assert said in str(caught.value)


def test_names_with_colons_and_slashes_are_plain_words(messages: ModuleType) -> None:
    assert parse("com.microsoft::Gelu")[0].key == ""
    assert parse("/model/layers.0:1")[0].key == ""


def test_a_bad_query_is_told_and_what_is_shown_stays(script: Script) -> None:
    script.open()
    script.plan()
    nodes = script.window.nodes
    nodes.search.setText("op:matmul")
    nodes._filter()
    assert nodes.model.shown == 4
    nodes.search.setText("op:matmul bytes>x")
    nodes._filter()
    assert nodes._wrong.isVisible()
    assert "x is no amount" in nodes._wrong.text()
    assert nodes.model.shown == 4
    nodes.search.setText("")
    nodes._filter()
    assert not nodes._wrong.isVisible()
    assert nodes.model.shown == 6


def test_columns_are_chosen_moved_and_remembered(script: Script) -> None:
    columns = script.window.nodes.columns
    assert columns.shown == list(FIRST)
    domain = next(action for action in columns.actions() if action.data() == "domain")
    domain.trigger()
    workspace = next(action for action in columns.actions() if action.data() == "workspace_bytes")
    workspace.trigger()
    assert "domain" in columns.shown
    assert "workspace_bytes" not in columns.shown
    header = script.window.nodes.view.header()
    header.moveSection(header.visualIndex(7), 1)
    assert script.window._settings.columns == columns.shown
    assert columns.shown[:2] == ["name", "certainty"]
    columns.show_columns(["output_shapes", "no such column", "operator"])
    assert columns.shown == ["name", "output_shapes", "operator"]
    columns.show_columns(script.window._settings.columns)
    assert columns.shown[:2] == ["name", "certainty"]
    columns.actions()[-1].trigger()
    assert columns.shown == list(FIRST)
