"""Saved reports read back as they were, and nothing that is none gets further than its refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vramscope.errors import InputError
from vramscope.messages.live import Empty
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import ExportParams, PlanParams, ScenarioInfo
from vramscope.messages.running import CountParams, PrefillParams
from vramscope.report import read
from vramscope.report.arena import arena_tables
from vramscope.report.entries import OUTSIDE, entries, layer_of, layers
from vramscope.report.markdown import summary, table
from vramscope.report.read import ReportFileError, is_report, read_report
from vramscope.report.tables import document_tables
from vramscope.report.viewers import explorer_text, netron_text
from vramscope.report.write import FORMATS, format_of
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.reporting import export

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vramscope.report.document import PlanDocument


def planned(sample: str = "tiny-llama", *, ran: bool = False, **fields: Any) -> Engine:  # noqa: ANN401 - fields of a scenario
    engine = Engine()
    info = engine.open(OpenParams(sample=sample), Listener())
    scenario = msgspec.structs.replace(info.scenario, **fields)
    engine.plan(PlanParams(scenario=scenario), Listener())
    if ran:
        engine.prefill(PrefillParams(scenario=scenario, tokens=[1, 2, 3]), Listener())
        engine.step(CountParams(count=2), Listener())
        engine.capture(Empty(), Listener())
    return engine


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PlanDocument]:
    """A report of a plan with its run, and the document that was written."""
    engine = planned(ran=True, card="GeForce RTX 4090")
    path = tmp_path_factory.mktemp("reports") / "tiny.vramscope.json"
    export(engine, ExportParams(path=str(path)), Listener())
    made = engine.document(whole=True)
    engine.close()
    return path, made


def spoiled(tmp_path: Path, saved: tuple[Path, PlanDocument], spoil: Callable[[Any], None]) -> Path:
    content = json.loads(saved[0].read_text(encoding="utf-8"))
    spoil(content)
    path = tmp_path / "spoiled.vramscope.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_report_reads_back_as_it_was_written(saved: tuple[Path, PlanDocument]) -> None:
    found = read_report(saved[0])
    assert found == saved[1]
    assert found.run is not None
    assert found.run.snapshot.steps_eager == 2 + 1
    assert found.run.device == "host"
    assert len(found.identity) == 64
    assert {cell.batch for cell in found.headroom} >= {1, 2}


def test_the_identity_is_that_of_the_graph_not_of_the_scenario(saved: tuple[Path, PlanDocument]) -> None:
    assert planned(batch=4, context=128).document().identity == saved[1].identity
    assert planned("declines").document().identity != saved[1].identity


def test_its_tables_are_those_of_the_plan(saved: tuple[Path, PlanDocument]) -> None:
    engine = planned(card="GeForce RTX 4090")
    from_plan = list(engine.node_tables())
    found, ticket = read_report(saved[0]), from_plan[0].ticket
    assert [*document_tables(found, ticket), *arena_tables(found.arenas, ticket)] == from_plan
    assert found.arenas["decode"]


def test_a_report_of_an_older_version_does_not_know_parts_of_the_peak(
    tmp_path: Path, saved: tuple[Path, PlanDocument]
) -> None:
    def older(content: Any) -> None:  # noqa: ANN401 - JSON
        assert content["node_columns"].pop() == "peak_bytes"
        for rows in content["nodes"].values():
            for row in rows:
                del row[-1]

    found = read_report(spoiled(tmp_path, saved, older))
    assert {row.peak_bytes for row in entries(found, "decode")} == {None}
    assert entries(found, "decode") == [row._replace(peak_bytes=None) for row in entries(saved[1], "decode")]
    for form in FORMATS.values():
        assert form.text(found)


def delete(*keys: str) -> Callable[[Any], None]:
    def spoil(content: Any) -> None:  # noqa: ANN401 - JSON
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]

    return spoil


def put(value: object, *keys: str | int) -> Callable[[Any], None]:
    def spoil(content: Any) -> None:  # noqa: ANN401 - JSON
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return spoil


def twice(content: Any) -> None:  # noqa: ANN401 - JSON
    content["plan"]["components"] *= 2


def many(content: Any) -> None:  # noqa: ANN401 - JSON
    content["plan"]["components"] = content["plan"]["components"][:1] * 1000


@pytest.mark.parametrize(
    ("spoil", "word"),
    [
        (delete("format"), "no VRAMScope report"),
        (put("something", "format"), "no VRAMScope report"),
        (put(99, "version"), "version 99"),
        (delete("plan"), "damaged"),
        (put("many", "plan", "context"), "damaged"),
        (put(2**70, "plan", "total", "bytes"), "cannot be"),
        (put("\ud800", "model", "name"), "malformed"),
        (twice, "twice"),
        (many, "more components"),
        (put([], "node_columns"), "column name"),
        (put([1], "nodes", "decode", 0), "cells"),
        (put(-5, "nodes", "decode", 0, 9), "number that cannot be"),
        (put("many", "nodes", "decode", 0, -1), "number that cannot be"),
        (put(2**63, "nodes", "decode", 0, 9), "number that cannot be"),
        (put(None, "nodes", "decode", 0, 0), "number that cannot be"),
        (put(7, "nodes", "decode", 0, 1), "no text"),
        (put("x" * (17 * 2**20), "model", "producer"), "all but its rows"),
        (put(-1, "arenas", "decode", 0, 1), "block of an arena"),
        (put(2**40, "arenas", "decode", 0, 4), "block of an arena"),
        (put({}, "nodes"), "not those of its rows"),
        (put("x" * 70_000, "model", "producer"), "text of 70,000 characters"),
        (put("x" * 70_000, "nodes", "decode", 0, 1), "too long"),
    ],
)
def test_a_spoiled_report_is_refused_and_says_why(
    tmp_path: Path, saved: tuple[Path, PlanDocument], spoil: Callable[[Any], None], word: str
) -> None:
    path = spoiled(tmp_path, saved, spoil)
    with pytest.raises(ReportFileError, match=word) as error:
        read_report(path)
    assert str(path) in error.value.what
    assert error.value.remedy


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"format":' + b"[" * 100_000, b"\x08\x01model"]
)
def test_what_is_no_report_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ReportFileError, match="no report"):
        read_report(path)


def test_a_report_that_is_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ReportFileError, match="no such file"):
        read_report(tmp_path / "nowhere.vramscope.json")
    with pytest.raises(ReportFileError, match="not a file"):
        read_report(tmp_path)
    monkeypatch.setattr(read, "LARGEST_FILE", 10)
    path = tmp_path / "x.json"
    path.write_bytes(b" " * 11)
    with pytest.raises(ReportFileError, match="larger than 10 bytes"):
        read_report(path)
    assert is_report(path)
    assert not is_report(tmp_path / "model.onnx")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_cut_or_changed_byte_gets_further_than_a_refusal(
    data: st.DataObject, saved: tuple[Path, PlanDocument], tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = bytearray(msgspec.json.encode(msgspec.structs.replace(saved[1], weights=[])))
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.mktemp("fuzz") / "x.vramscope.json"
    path.write_bytes(content[:cut] if cut % 2 else content)
    try:
        found = read_report(path)
    except ReportFileError:
        return
    for form in FORMATS.values():
        assert isinstance(form.text(found), str)


def test_the_ending_says_the_format(tmp_path: Path) -> None:
    endings = {
        "a.vramscope.json": "json",
        "a.json": "json",
        "a.netron.json": "netron",
        "a.explorer.json": "explorer",
        "a.CSV": "csv",
        "a.htm": "html",
        "a.md": "markdown",
    }
    assert {name: format_of(tmp_path / name) for name in endings} == endings
    with pytest.raises(InputError, match="names no format"):
        format_of(tmp_path / "a.pdf")


def test_netron_finds_every_known_number_at_its_node(saved: tuple[Path, PlanDocument]) -> None:
    found = json.loads(netron_text(saved[1]))
    assert found["signature"] == "netron:attachment"
    numbers = {(item["kind"], item["target"], item["name"]): item["value"] for item in found["metrics"]}
    row = max(entries(saved[1], "decode"), key=lambda item: item.weight_bytes or 0)
    assert numbers["node", row.name, "decode: weights, bytes"] == row.weight_bytes
    assert numbers["model", "", "total, bytes"] == saved[1].plan.total.bytes
    assert all(isinstance(value, int) for value in numbers.values())
    assert found["metadata"][0]["value"] == saved[1].plan.verdict.sentence


def test_what_is_unknown_is_left_out_for_viewers_and_not_0() -> None:
    document = planned("unbounded-axis").document()
    unknown = [row.name for row in entries(document, "run") if row.output_bytes is None]
    assert unknown
    named = [(item["target"], item["name"]) for item in json.loads(netron_text(document))["metrics"]]
    assert (unknown[0], "run: outputs, bytes") not in named
    assert unknown[0] not in json.loads(explorer_text(document))["results"]


def test_model_explorer_gets_one_number_a_node(saved: tuple[Path, PlanDocument]) -> None:
    found = json.loads(explorer_text(saved[1]))
    rows = entries(saved[1], "prefill")
    decode = {row.name: row.own_bytes or 0 for row in entries(saved[1], "decode")}
    assert found["results"] == {
        row.name: {"value": max(row.own_bytes or 0, decode[row.name])} for row in rows
    }
    assert [item["stop"] for item in found["gradient"]] == [0, 0.5, 1]


def test_viewers_are_given_what_their_own_parsers_read(saved: tuple[Path, PlanDocument]) -> None:
    """Seen in Netron 9.3 and Model Explorer 0.1.34: the first drops an item without these keys and keeps the
    last of one name at one target; the second wants a number a node and colours at both ends of the scale."""
    attachment = json.loads(netron_text(saved[1]))
    items = [*attachment["metadata"], *attachment["metrics"]]
    assert all(item["kind"] in {"model", "node"} and item.keys() >= {"target", "value"} for item in items)
    places = [(item["kind"], item["target"], item["name"]) for item in items]
    assert len(set(places)) == len(places)
    data = json.loads(explorer_text(saved[1]))
    assert data.keys() == {"results", "gradient"}
    assert all(type(item["value"]) is int and item.keys() == {"value"} for item in data["results"].values())
    assert {0, 1} <= {stop["stop"] for stop in data["gradient"]}
    assert all(stop.keys() <= {"stop", "bgColor", "textColor"} for stop in data["gradient"])


def test_layers_end_at_their_number() -> None:
    assert layer_of("model/layers.0/attn/q_proj") == "model/layers.0"
    assert layer_of("transformer/h.11/mlp") == "transformer/h.11"
    assert layer_of("encoder/layer/3/output") == "encoder/layer/3"
    assert layer_of("model/embed_tokens") == "model"
    assert layer_of("") == OUTSIDE


def test_layers_add_up_to_their_nodes(saved: tuple[Path, PlanDocument]) -> None:
    rows = entries(saved[1], "decode")
    found = layers(rows)
    assert sum(item.nodes for item in found) == len(rows)
    assert sum(item.weight_bytes or 0 for item in found) == sum(row.weight_bytes or 0 for row in rows)
    first = next(item for item in found if item.layer == "model/layers.0")
    inside = [row for row in rows if row.scope.startswith("model/layers.0")]
    assert first.workspace_bytes == max(row.workspace_bytes or 0 for row in inside)


def test_markdown_tells_the_verdict_and_no_name_breaks_its_table(saved: tuple[Path, PlanDocument]) -> None:
    text = summary(saved[1].model, saved[1].plan)
    assert text.startswith("### tiny-llama: fits")
    assert "| weights | " in text
    assert "| **total** | **" in text
    assert "| device context | unknown |" in text
    assert table(("a|b",), [("x | `y`\nz",)]) == "| a\\|b |\n| --- |\n| x \\| \\`y\\` z |"


def test_a_report_in_the_place_of_a_model(saved: tuple[Path, PlanDocument], tmp_path: Path) -> None:
    from vramscope.messages.reporting import ReportParams
    from vramscope.server.reporting import report

    engine = planned("declines")
    before = engine.plan_made
    shown = report(engine, ReportParams(path=str(saved[0])), Listener())
    assert shown.model.name == "tiny-llama"
    assert shown.run == saved[1].run
    assert {chunk.ticket for chunk in engine.node_tables()} == {shown.plan.ticket}
    with pytest.raises(InputError, match="no model is open"):
        engine.plan(PlanParams(scenario=ScenarioInfo()), Listener())
    export(engine, ExportParams(path=str(tmp_path / "again.html")), Listener())
    assert "tiny-llama" in (tmp_path / "again.html").read_text(encoding="utf-8")
    engine.open(OpenParams(sample="declines"), Listener())
    engine.plan(PlanParams(scenario=ScenarioInfo()), Listener())
    assert engine.document().model.name == "declines"
    assert before.total is not None


def test_a_report_that_is_refused_leaves_the_model_open(tmp_path: Path) -> None:
    from vramscope.messages.reporting import ReportParams
    from vramscope.server.reporting import report

    engine = planned()
    with pytest.raises(ReportFileError):
        report(engine, ReportParams(path=str(tmp_path / "none.vramscope.json")), Listener())
    assert engine.document().model.name == "tiny-llama"
