"""A scenario that assumes another export: the planner, the command line, the server, reports; never a run."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from rewritten_models import SMALL, as_if

from vramscope.api import Planner, Scenario, make_plan, open_path
from vramscope.cli.exit_codes import ExitCode
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.errors import InputError, ScenarioError
from vramscope.messages.model import OpenParams
from vramscope.messages.neighbours import NeighboursParams
from vramscope.messages.node import NodeParams
from vramscope.messages.planning import PlanParams, ScenarioInfo
from vramscope.messages.running import PrefillParams
from vramscope.plan.rewrites.table import REWRITES
from vramscope.report.document import PlanDocument
from vramscope.report.html_report import html_text
from vramscope.report.markdown import summary
from vramscope.run.session import ProgramSession
from vramscope.server.convert import scenario_info, scenario_of
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.looking import neighbours, node

if TYPE_CHECKING:
    from pathlib import Path

ASKED = ScenarioInfo(prompt=24, context=64, batch=2, as_if=["kv8", "last-logits"])


@pytest.fixture
def llama(shared_models: Path) -> Path:
    """The folder of a tiny decoder."""
    return shared_models / "tiny" / "tiny-llama-fp32-cpu"


@pytest.fixture
def engine(llama: Path) -> Engine:
    """An engine with the decoder open."""
    made = Engine()
    made.open(OpenParams(path=str(llama)), Listener())
    return made


def test_a_plan_says_what_it_assumes_and_what_the_file_would_take(llama: Path) -> None:
    model = open_path(llama)
    made = make_plan(model, replace(SMALL, as_if=("kv8", "last-logits", "kv8")))
    assert [(item.id, item.title) for item in made.assumes] == [
        ("last-logits", "logits of the last position alone"),
        ("kv8", "KV cache in 8 bits"),
    ]
    assert made.scenario.as_if == ("kv8", "last-logits", "kv8")
    plain = make_plan(model, SMALL)
    assert made.as_it_is == plain.total.bytes
    assert (plain.assumes, plain.as_it_is) == ((), None)


def test_rewritten_models_are_made_once(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(open_path(llama))
    first = planner.under(replace(SMALL, as_if=("int4", "kv8")))
    monkeypatch.setattr("vramscope.plan.assuming.rewritten", None)
    assert planner.under(replace(SMALL, as_if=("kv8", "int4"), batch=7)) is first
    assert planner.under(SMALL) is planner


def test_a_refusal_is_kept_as_well(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = Planner(open_path(llama))
    for _ in range(2):
        with pytest.raises(ScenarioError, match="share one buffer already"):
            as_if(planner, "shared-kv")
        monkeypatch.setattr("vramscope.plan.assuming.rewritten", None)


def test_so_many_rewritten_models_are_kept(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vramscope.plan.assuming.KEPT", 2)
    planner = Planner(open_path(llama))
    first = planner.under(replace(SMALL, as_if=("kv8",)))
    planner.under(replace(SMALL, as_if=("int4",)))
    planner.under(replace(SMALL, as_if=("fp16",)))
    assert planner.under(replace(SMALL, as_if=("kv8",))) is not first


def test_the_largest_context_is_that_of_the_assumed_model(llama: Path) -> None:
    planner = Planner(open_path(llama))
    scenario = replace(SMALL, budget=800_000)
    narrow = replace(scenario, as_if=("kv8", "last-logits"))
    assert planner.plan(scenario).verdict.largest_context is None
    found = planner.plan(narrow).verdict.largest_context
    assert found == planner.largest_context(narrow, 800_000)
    assert found is not None
    assert (planner.total_bytes(replace(narrow, context=found)) or 0) <= 800_000
    assert (planner.total_bytes(replace(narrow, context=found + 1)) or 0) > 800_000


def test_an_unknown_rewrite_is_refused_with_what_is_near(llama: Path) -> None:
    planner = Planner(open_path(llama))
    with pytest.raises(ScenarioError, match=r"no such rewrite is known. Did you mean last-logits\?"):
        as_if(planner, "last-logit")
    with pytest.raises(ScenarioError, match="There are fp16, last-logits, shared-kv, kv8, kv4, int4"):
        as_if(planner, "everything")
    assert planner.total_bytes(replace(SMALL, as_if=("everything",))) is None


# ------------------------------------------------------------------------------------ never a run


def test_nothing_runs_a_plan_of_what_the_file_is_not(llama: Path) -> None:
    model = open_path(llama)
    made = make_plan(model, replace(SMALL, as_if=("kv8", "last-logits")))
    with pytest.raises(ScenarioError) as caught:
        Decoder(model, made)
    assert caught.value.what == "a run as if exported otherwise (last-logits, kv8)"
    assert caught.value.why == "this file is not exported so: its graph and its weights are the ones it has"
    assert caught.value.remedy == "Run it without --as-if last-logits,kv8, or export it so first"
    with pytest.raises(ScenarioError, match="not exported so"):
        ProgramSession(model, made, HostDevice())


def test_the_rewritten_model_itself_has_no_weights_to_run_with(llama: Path) -> None:
    inner = Planner(open_path(llama)).under(Scenario(as_if=("last-logits",))).model
    with pytest.raises(InputError, match="it is planned as if it were exported otherwise"):
        inner.require_weights()


def test_the_server_refuses_to_run_it(engine: Engine) -> None:
    engine.plan(PlanParams(scenario=ASKED), Listener())
    with pytest.raises(ScenarioError, match="this file is not exported so"):
        engine.prefill(PrefillParams(scenario=ASKED, tokens=[1, 2, 3]), Listener())
    plain = msgspec.structs.replace(ASKED, as_if=[], batch=1)
    assert engine.prefill(PrefillParams(scenario=plain, tokens=[1, 2, 3]), Listener()).position == 3
    engine.close()


# ------------------------------------------------------------------------------------ messages and reports


def test_a_scenario_keeps_its_assumptions_on_the_way() -> None:
    assert scenario_info(scenario_of(ASKED)) == ASKED


def test_a_plan_and_every_report_of_it_say_what_is_assumed(engine: Engine) -> None:
    info = engine.plan(PlanParams(scenario=ASKED), Listener())
    assert [item.id for item in info.assumes] == ["last-logits", "kv8"]
    assert info.as_it_is == engine.planner.total_bytes(replace(scenario_of(ASKED), as_if=()))
    assert not [item for item in info.suggestions if item.change.get("as_if") in ("last-logits", "kv8")]
    offered = [item for item in info.suggestions if "as_if" in item.change]
    assert offered
    assert all(item.how for item in offered)
    document = engine.document()
    words = "Planned as if exported otherwise: logits of the last position alone, KV cache in 8 bits"
    for text in (summary(document.model, document.plan), html_text(document)):
        assert words in text
        assert "How to export it with logits of the last position alone" in text
        assert "as if with KV cache in 8 bits" in text
    again = msgspec.json.decode(msgspec.json.encode(document), type=PlanDocument)
    assert again.plan.assumes == info.assumes
    assert again.plan.scenario == ASKED


def test_every_node_of_the_assumed_model_can_be_looked_at(engine: Engine) -> None:
    engine.plan(
        PlanParams(scenario=msgspec.structs.replace(ASKED, as_if=["last-logits", "int4"])), Listener()
    )
    rows = {row.name: row for row in engine.plan_made.phases[0].nodes}
    gather = rows["/lm_head/prune/Gather"]
    found = node(engine, NodeParams(phase="prefill", step=gather.step), Listener())
    assert found.operator == "ai.onnx::Gather"
    around = neighbours(engine, NeighboursParams(phase="prefill", step=gather.step, hops=2), Listener())
    assert {"Gather", "Unsqueeze", "MatMulNBits"} <= {item.operator for item in around.nodes}
    names = {chunk.table for chunk in engine.node_tables()}
    assert {"nodes:prefill", "nodes:decode"} <= names


def test_weights_of_another_export_can_be_streamed(llama: Path) -> None:
    planner = Planner(open_path(llama))
    bare = planner.under(Scenario(as_if=("int4",))).plan(SMALL)
    made = as_if(planner, "int4", scenario=replace(SMALL, weight_budget=bare.weights.bytes - 10_000))
    assert made.weights.streaming is not None
    assert made.weights.bytes <= bare.weights.bytes - 10_000


def test_a_plan_of_the_file_as_it_is_says_nothing_of_exports(engine: Engine) -> None:
    engine.plan(PlanParams(scenario=msgspec.structs.replace(ASKED, as_if=[])), Listener())
    document = engine.document()
    assert "as if" not in summary(document.model, document.plan)
    assert "exported otherwise" not in html_text(document)


# ------------------------------------------------------------------------------------ the command line


def test_plan_prints_what_is_assumed_and_judges_it(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budget = (make_plan(open_path(llama), Scenario(prompt=24, context=64)).total.bytes or 0) - 1
    asked = ["plan", str(llama), "--context", "64", "--prompt", "24", "--budget", str(budget)]
    assert main(asked) == ExitCode.SHORT
    assert "(--as-if last-logits)" in capsys.readouterr().out
    assert main([*asked, "--as-if", "last-logits", "--as-if", "kv8"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "Planned as if exported otherwise: logits of the last position alone, KV cache in 8 bits" in out
    assert "prune_lm_head=true" in out
    assert main([*asked, "--json", "--as-if", "last-logits,kv8"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert found["plan"]["scenario"]["as_if"] == ["last-logits", "kv8"]


@pytest.mark.parametrize(
    ("ids", "words"),
    [("kv9", "Did you mean kv8?"), ("shared-kv", "planning as if shared-kv"), (",", "lists them")],
)
def test_what_cannot_be_assumed_is_bad_input(
    llama: Path, capsys: pytest.CaptureFixture[str], ids: str, words: str
) -> None:
    try:
        code = main(["plan", str(llama), "--as-if", ids])
    except SystemExit as end:
        code = int(str(end.code))
    assert code == ExitCode.BAD_INPUT
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("command", ["plan", "inspect", "compare", "run"])
def test_every_command_lists_the_rewrites(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "model", "--as-if", "help"])
    assert end.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    for rewrite in REWRITES:
        assert any(line.split()[:1] == [rewrite.id] and line.endswith(rewrite.title) for line in lines)


def test_inspect_tells_of_the_assumed_model(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(llama), "--json", "--as-if", "int4"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert {"operator": "com.microsoft::MatMulNBits", "nodes": 11} in found["operators"]
    assert "planned as if it were exported otherwise" in " ".join(found["model"]["problems"])


def test_run_refuses_by_name(llama: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(llama), "--tokens", "1,2", "--as-if", "kv8"]) == ExitCode.BAD_INPUT
    assert "this file is not exported so" in capsys.readouterr().err


def test_compare_puts_the_file_beside_what_is_assumed(
    llama: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["compare", str(llama), "--context", "64", "--as-if", "int4", "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)["comparison"]
    assert "as if with 4-bit weights in matrix products" in found["right"]["asked"]
    assert not [word for word in found["left"]["asked"] if "as if" in word]
    weights = next(item for item in found["components"] if item["name"] == "weights")
    assert weights["difference"] == 215_312 - 574_736
    report = tmp_path / "plan.vramscope.json"
    assert main(["plan", str(llama), "--export", str(report)]) == ExitCode.DONE
    assert main(["compare", str(report), "--as-if", "int4"]) == ExitCode.BAD_INPUT
    assert "it holds no model" in capsys.readouterr().err
