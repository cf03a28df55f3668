"""Plans as messages, tables and report files: nothing lost, unknown stays unknown, names are only text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_plan import HOSTILE, REFUSED, SUGGESTIONS, made_model, made_plan
from planned_models import planner_of

from vramscope.errors import InputError
from vramscope.messages.columns import CHUNK_ROWS, TableChunk, column_values
from vramscope.messages.planning import BytesFigure, PlanInfo, ScenarioInfo
from vramscope.plan.types import (
    OWN_RUNTIME,
    REFERENCE_RUNTIME,
    Certainty,
    Exact,
    Phase,
    Scenario,
    VerdictKind,
)
from vramscope.report import rows
from vramscope.report.arena import arena_blocks, arena_tables
from vramscope.report.document import FORMAT, VERSION, PlanDocument, document
from vramscope.report.text import figure_text, range_text, rate_text
from vramscope.report.write import write_report
from vramscope.server.convert import model_info, plan_info, scenario_info, scenario_of

if TYPE_CHECKING:
    from vramscope.messages.model import ModelInfo


def infos(kind: VerdictKind = VerdictKind.SHORT) -> tuple[ModelInfo, PlanInfo]:
    model = made_model(Path("/models/<b>"))
    return model_info(model), plan_info(
        made_plan(kind), model.problems, SUGGESTIONS, ticket=7, milliseconds=1.5
    )


def made(verdict: VerdictKind = VerdictKind.SHORT) -> PlanDocument:
    return document(*infos(verdict), made_plan(verdict))


def write(tmp_path: Path, kind: str, verdict: VerdictKind = VerdictKind.SHORT) -> str:
    path = tmp_path / f"report.{kind}"
    write_report(path, kind, made(verdict))
    assert [item.name for item in tmp_path.iterdir()] == [path.name]
    return path.read_text(encoding="utf-8")


def table(chunks: list[TableChunk]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for chunk in chunks:
        for column in chunk.columns:
            found.setdefault(column.name, []).extend(column_values(column))
    return found


def test_node_tables_carry_every_row_of_every_phase() -> None:
    chunks = list(rows.node_tables(made_plan(VerdictKind.REFUSED), ticket=7))
    assert [(chunk.table, chunk.rows, chunk.last) for chunk in chunks] == [
        ("nodes:prefill", 3, True),
        ("nodes:decode", 1, True),
    ]
    assert {chunk.ticket for chunk in chunks} == {7}
    found = table(chunks[:1])
    assert tuple(found) == rows.COLUMNS
    assert found["name"] == [HOSTILE, "b", "c"]
    assert found["output_bytes"] == [24, 1024, -1]
    assert found["certainty"] == ["exact", "bound", "unknown"]
    assert found["output_shapes"] == ["2×3", "2×≤256", "?(n)"]
    assert found["workspace_bytes"] == [0, 64, 0]
    assert found["live_bytes"] == [-1, -1, -1]
    assert table(chunks[1:])["live_bytes"] == [40]
    assert found["peak_bytes"] == [-1, -1, -1]
    assert table(chunks[1:])["peak_bytes"] == [16]
    assert found["scope"] == ["model/layers.0"] * 3


def test_a_long_table_travels_in_chunks_and_an_empty_one_is_closed_too() -> None:
    phase = made_plan().phases[0]
    long = replace(phase, nodes=phase.nodes[:1] * (CHUNK_ROWS + 5))
    many = list(rows._chunks(long, ticket=1))
    assert [(chunk.start, chunk.rows, chunk.last) for chunk in many] == [
        (0, CHUNK_ROWS, False),
        (CHUNK_ROWS, 5, True),
    ]
    assert len(table(many)["step"]) == CHUNK_ROWS + 5
    (empty,) = rows._chunks(replace(phase, nodes=()), ticket=1)
    assert empty.last
    assert empty.rows == 0


def test_scratch_is_unknown_where_an_operator_that_plans_some_reads_a_refused_shape() -> None:
    row = made_plan().phases[0].nodes[0]
    attention = row._replace(operator="GroupQueryAttention", domain="com.microsoft", inputs=(REFUSED,))
    assert rows.workspace_bytes(attention) == -1
    assert rows.workspace_bytes(attention._replace(inputs=row.inputs)) == 0
    assert rows.workspace_bytes(row._replace(operator="Add", inputs=(REFUSED,))) == 0
    assert rows.bytes_text(-1) == "unknown"


def test_shapes_as_text() -> None:
    assert rows.shape_text(Exact((2, 3))) == "2×3"
    assert rows.shape_text(Exact(())) == "scalar"


def test_the_plan_becomes_a_message() -> None:
    model, info = infos(VerdictKind.REFUSED)
    assert info.ticket == 7
    assert info.node_rows == 4
    assert info.verdict.kind == "cannot be planned"
    assert next(item.name for item in info.components) == "weights"
    assert info.components[-1].figure == BytesFigure(bytes=None, certainty="unknown")
    assert [(phase.arena_bytes, phase.peak_node) for phase in info.phases] == [(-1, ""), (512, "")]
    assert [phase.peak_node for phase in infos()[1].phases] == ["b", ""]
    assert info.suggestions[0].change == {"context": 128}
    severities = [(item.severity, item.node) for item in info.problems]
    assert severities == [("error", HOSTILE), ("warning", ""), ("note", "")]
    assert info.problems[0].remedy == "Give n a maximum"
    assert model.weights_bytes == 2**20  # two values, one stored weight
    assert [(item.name, item.dims) for item in model.inputs] == [("x", ["batch", "3"])]
    assert not model.has_tokenizer
    assert model.default_prompt == ""


@given(
    st.builds(
        ScenarioInfo,
        batch=st.integers(1, 64),
        prompt=st.integers(1, 4096),
        context=st.integers(0, 10**6),
        card=st.text(max_size=8),
        budget=st.none() | st.integers(0, 2**50),
        maxima=st.dictionaries(st.text(max_size=5), st.integers(0, 2**40), max_size=3),
        bucket_minimum=st.integers(1, 4096),
        bucket_growing=st.booleans(),
        extents=st.dictionaries(st.text(max_size=5), st.integers(0, 2**40), max_size=3),
        runtime=st.sampled_from([OWN_RUNTIME, REFERENCE_RUNTIME]),
    )
)
def test_a_scenario_comes_back(info: ScenarioInfo) -> None:
    assert scenario_info(scenario_of(info)) == info


def test_the_json_report_reads_back_as_it_was(tmp_path: Path) -> None:
    text = write(tmp_path, "json", VerdictKind.REFUSED)
    found = msgspec.json.decode(text, type=PlanDocument)
    assert (found.format, found.version) == (FORMAT, VERSION)
    model, info = infos(VerdictKind.REFUSED)
    assert found.model == model
    assert found.plan == info
    prefill = [dict(zip(found.node_columns, row, strict=True)) for row in found.nodes["prefill"]]
    assert [row["output_bytes"] for row in prefill] == [24, 1024, None]
    assert found.weights[0].users == 2
    assert found.kv[0].shared
    assert json.loads(text)["bindings"][0]["figure"] == {"bytes": 24, "certainty": "exact"}


def test_the_csv_report_has_a_row_per_node_and_phase(tmp_path: Path) -> None:
    found = list(csv.DictReader(io.StringIO(write(tmp_path, "csv", VerdictKind.REFUSED))))
    assert [(row["phase"], row["step"]) for row in found] == [
        ("prefill", "0"),
        ("prefill", "1"),
        ("prefill", "2"),
        ("decode", "0"),
    ]
    assert found[2]["output_bytes"] == ""  # unknown, never 0
    assert found[0]["workspace_bytes"] == "0"


def test_no_csv_cell_is_a_formula(tmp_path: Path) -> None:
    found = list(csv.DictReader(io.StringIO(write(tmp_path, "csv"))))
    assert found[0]["name"] == f"'{HOSTILE}"


class Page(HTMLParser):
    """Tags, text and attributes of a page; complains of tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta",):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("kind", list(VerdictKind))
def test_the_html_report_is_one_well_formed_page_without_script(tmp_path: Path, kind: VerdictKind) -> None:
    page = Page(write(tmp_path, "html", kind))
    assert "script" not in page.tags
    assert "svg" in page.tags
    assert page.links == []
    said = "".join(page.text)
    assert HOSTILE in said
    assert "unknown" in said
    for wanted in ("KV cache", "Halve the context", "nothing bounds n", "2×≤256", "prefill", "decode"):
        assert wanted in said, wanted


def test_an_unknown_format_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="pdf"):
        write_report(tmp_path / "x", "pdf", made())


def test_a_report_that_cannot_be_written_names_the_file_and_keeps_the_old_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        write_report(tmp_path / "nowhere" / "x.json", "json", made())
    taken = tmp_path / "folder"
    taken.mkdir()
    with pytest.raises(InputError, match="folder"):
        write_report(taken, "json", made())
    assert [item.name for item in tmp_path.iterdir()] == ["folder"]


def test_numbers_as_text() -> None:
    assert figure_text(BytesFigure(bytes=None, certainty="unknown")) == "unknown"
    assert figure_text(BytesFigure(bytes=1536, certainty=Certainty.BOUND.value)) == "≤ 1.50 KiB"
    assert figure_text(BytesFigure(bytes=0, certainty="exact")) == "0 B"
    assert range_text(1, None) == "1 to ∞"
    assert range_text(4, 4) == "4"
    assert rate_text(None) == "–"
    assert rate_text(1234.56) == "1,234.6 tok/s"


def test_every_phase_has_a_table_name() -> None:
    assert {phase.value for phase in Phase} == {"prefill", "decode", "run"}


def test_arena_tables_tell_every_block_and_none_where_an_axis_is_refused(tmp_path: Path) -> None:
    graph = "g (float[1,8] x) => (float[1,8] y) { a = Relu(x) b = Exp(a) y = Add(a, b) }"
    planner = planner_of(tmp_path, graph)
    plan = planner.plan(Scenario())
    (chunk,) = arena_tables(arena_blocks(plan, planner.model), ticket=3)
    assert (chunk.table, chunk.ticket, chunk.last) == ("arena:run", 3, True)
    found = table([chunk])
    assert found["value"] == ["a", "b"]
    blocks = plan.phases[0].arena.placements.values()
    assert found["offset"] == [item.offset for item in blocks]
    assert list(zip(found["first"], found["last"], strict=True)) == [(0, 2), (1, 2)]
    assert found["size"] == [32, 32]
    refused = list(arena_tables(arena_blocks(made_plan(VerdictKind.REFUSED), made_model(tmp_path)), ticket=3))
    assert [(item.table, item.rows, item.last) for item in refused] == [
        ("arena:prefill", 0, True),
        ("arena:decode", 0, True),
    ]
