"""Two plans side by side, a plan beside its run, and the command that fails a job when memory grew."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from engine_process import EngineProcess, engine_process

from vramscope.cli.main import main
from vramscope.errors import InputError
from vramscope.messages.columns import column_values
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams
from vramscope.messages.running import CountParams, PrefillParams
from vramscope.report.compare import ABSENT, compare_plans, compare_run, node_tables
from vramscope.report.markdown import comparison
from vramscope.report.text import difference_text, percent_text
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vramscope.report.document import PlanDocument


def plan_of(sample: str = "tiny-llama", **fields: Any) -> PlanDocument:  # noqa: ANN401 - fields of a scenario
    engine = Engine()
    info = engine.open(OpenParams(sample=sample), Listener())
    engine.plan(PlanParams(scenario=msgspec.structs.replace(info.scenario, **fields)), Listener())
    return engine.document()


def test_the_same_plan_differs_nowhere() -> None:
    found = compare_plans(plan_of(), plan_of())
    assert found.info.total.difference == 0
    assert {item.difference for item in found.info.components} <= {0, None}
    assert (found.info.changed, found.info.only_left, found.info.only_right) == (0, 0, 0)
    assert found.info.matched == len(found.nodes)
    assert found.info.left.identity == found.info.right.identity


def test_a_wider_batch_shows_where_it_grows_largest_first() -> None:
    one, four = plan_of(batch=1), plan_of(batch=4)
    found = compare_plans(one, four)
    sizes = [{item.name: item.figure.bytes for item in side.plan.components} for side in (one, four)]
    assert {item.name: item.difference for item in found.info.components} == {
        name: None if size is None else (sizes[1][name] or 0) - size for name, size in sizes[0].items()
    }
    assert found.info.components[0].name == "KV cache"
    assert found.info.total.difference == (four.plan.total.bytes or 0) - (one.plan.total.bytes or 0)
    differences = [abs(item.difference or 0) for item in found.nodes]
    assert differences == sorted(differences, reverse=True)
    assert differences[0] > 0
    layers = [abs(item.difference or 0) for item in found.info.layers]
    assert layers == sorted(layers, reverse=True)


def test_nodes_of_other_graphs_stand_alone() -> None:
    left, right = plan_of("tiny-llama"), plan_of("cannot-fit")
    found = compare_plans(left, right)
    names = [
        {(phase, row[1]) for phase, rows in side.nodes.items() for row in rows} for side in (left, right)
    ]
    assert found.info.matched == len(names[0] & names[1])
    assert found.info.only_left == len(names[0] - names[1])
    assert found.info.only_right == len(names[1] - names[0])
    columns = {column.name: column_values(column) for chunk in node_tables(found) for column in chunk.columns}
    alone = [size for size in columns["left_weight_bytes"] if size == ABSENT]
    assert len(alone) == found.info.only_right


def test_what_is_unknown_has_no_difference() -> None:
    refused = plan_of("unbounded-axis")
    found = compare_plans(refused, refused)
    assert found.info.total.difference is None
    assert "–" in comparison(found.info)


def test_differences_as_text() -> None:
    sizes = [difference_text(size) for size in (1024, -1024, 0, None)]
    assert sizes == ["+1.00 KiB", "−1.00 KiB", "0 B", "–"]
    parts = [percent_text(size, 200) for size in (5, -5, 2000, None)]
    assert parts == ["+2.5 %", "−2.5 %", "×11", "–"]
    assert percent_text(1, 0) == "–"


def test_a_run_beside_its_plan() -> None:
    engine = Engine()
    info = engine.open(OpenParams(sample="tiny-llama"), Listener())
    engine.plan(PlanParams(scenario=info.scenario), Listener())
    with pytest.raises(InputError, match="nothing was measured"):
        compare_run(engine.document())
    engine.prefill(PrefillParams(scenario=info.scenario, tokens=[1, 2, 3]), Listener())
    engine.step(CountParams(count=2), Listener())
    wider = msgspec.structs.replace(info.scenario, batch=4)
    engine.plan(PlanParams(scenario=wider), Listener())
    found = compare_run(engine.document()).info
    engine.close()
    assert (found.left.kind, found.right.kind) == ("plan", "run")
    assert found.left.asked[0] == "batch 1"  # the run's own plan, not the newer one
    known = {item.name: item for item in found.components}
    assert known["weights"].difference == known["KV cache"].difference == 0
    assert known["device context"].difference is None
    assert found.total.right is not None
    assert found.total.right.certainty == "measured"
    assert found.total.difference is not None
    assert found.total.difference <= 0


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*words: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_compare_reads_reports_and_models_and_judges_growth(
    told: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    before = tmp_path / "before.vramscope.json"
    told("plan", "tiny-llama", "--batch", "1", "--export", before)
    words = ("compare", before, "tiny-llama", "--batch", "4")
    code, text, _ = told(*words)
    assert code == 0
    assert "KV cache" in text
    assert "B takes" in text
    grown = json.loads(told(*words, "--json")[1])["comparison"]["total"]["difference"]
    assert grown > 0
    whole = json.loads(before.read_text(encoding="utf-8"))["plan"]["total"]["bytes"]
    percent = 100 * grown / whole
    for allowed, wanted in (
        (str(grown), 0),
        (str(grown - 1), 1),
        ("0", 1),
        (f"{percent + 0.01:.2f}%", 0),
        (f"{percent - 0.01:.2f}%", 1),
    ):
        code, _, said = told(*words, "--fail-if-larger", allowed)
        assert code == wanted, allowed
        assert ("grew by" in said) == bool(wanted)
    code, text, _ = told("compare", "tiny-llama", before, "--batch", "4", "--fail-if-larger", "0")
    assert code == 0  # B takes less


def test_compare_cannot_judge_what_is_unknown(told: Callable[..., tuple[int, str, str]]) -> None:
    code, _, said = told("compare", "unbounded-axis", "unbounded-axis", "--fail-if-larger", "0")
    assert code == 2
    assert "unknown" in said


def test_compare_tells_a_run_beside_its_plan(
    told: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    path = tmp_path / "run.vramscope.json"
    assert told("run", "tiny-llama", "--tokens", "1,2", "--steps", "3", "--export", path)[0] == 0
    code, text, _ = told("compare", path, "--export", tmp_path / "run.md")
    assert code == 0
    assert "(run): on host" in text
    assert "| weights | " in (tmp_path / "run.md").read_text(encoding="utf-8")
    code, _, said = told("compare", "tiny-llama")
    assert code == 2
    assert "nothing was measured" in said


def test_compare_s_document_has_every_node(told: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    found = json.loads(told("compare", "tiny-llama", "tiny-llama", "--json")[1])
    assert len(found["nodes"]) == found["comparison"]["matched"] == 84
    assert found["node_columns"][:3] == ["phase", "name", "operator"]
    assert (found["limit"], found["grown"]) == (None, False)


@pytest.mark.parametrize(
    ("text", "said"), [("x%", "no growth"), ("much", "no size"), ("1.2345%", "no growth")]
)
def test_a_growth_that_is_none(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "a", "b", "--fail-if-larger", text])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def table_rows(engine: EngineProcess, table: str, ticket: int) -> int:
    """Rows of a table; it follows its answer, so the next answer comes after it."""
    engine.call("baseline")
    return sum(
        chunk.rows for chunk in engine.heard("table") if (chunk.table, chunk.ticket) == (table, ticket)
    )


def test_the_server_keeps_a_baseline_compares_and_shows_a_report(tmp_path: Path) -> None:
    with engine_process() as engine:
        scenario = engine.call("open", sample="tiny-llama")["scenario"]
        engine.call("plan", scenario=scenario)
        assert "nothing is kept" in engine.refusal("compare").why
        kept = engine.call("baseline")
        assert kept["name"] == "tiny-llama"
        wider = {**scenario, "batch": 2}
        made = engine.call("plan", scenario=wider)
        found = engine.call("compare")
        assert found["left"]["total"] == kept["total"]
        assert found["right"]["total"] == made["total"]
        assert table_rows(engine, "compare:nodes", found["ticket"]) == found["matched"]
        other = engine.call("baseline", sample="declines")
        assert (other["name"], other["asked"][0]) == ("declines", "batch 2")
        engine.call("prefill", scenario=wider, tokens=[1, 2])
        assert engine.call("compare", run=True)["right"]["kind"] == "run"
        path = str(tmp_path / "x.vramscope.json")
        engine.call("export", path=path)
        shown = engine.call("report", path=path)
        assert shown["plan"]["ticket"] > made["ticket"]
        assert shown["run"]["scenario"]["batch"] == 2
        assert table_rows(engine, "nodes:decode", shown["plan"]["ticket"]) == 42
        assert "no model is open" in engine.refusal("plan", scenario=scenario).why
