"""A saved report answers for its nodes, their neighbours and the headroom as the open model did."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope.messages.neighbours import NeighboursParams
from vramscope.messages.node import NodeParams
from vramscope.messages.planning import ExportParams, PlanParams
from vramscope.messages.reporting import ReportParams
from vramscope.report import details
from vramscope.report.document import MINOR
from vramscope.report.read import ReportFileError, read_report
from vramscope.server import looking, reporting
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener

if TYPE_CHECKING:
    from pathlib import Path

SAMPLES = ("tiny-llama", "declines", "unbounded-axis")


def planned(sample: str) -> Engine:
    engine = Engine()
    info = engine.open(OpenParams(sample=sample), Listener())
    engine.plan(PlanParams(scenario=info.scenario), Listener())
    return engine


def saved(engine: Engine, path: Path) -> Path:
    reporting.export(engine, ExportParams(path=str(path)), Listener())
    return path


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return saved(planned("tiny-llama"), tmp_path / "tiny-llama.vramscope.json")


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_report_answers_for_every_node_as_its_model_did(sample: str, tmp_path: Path) -> None:
    live, shown = planned(sample), Engine()
    path = saved(live, tmp_path / "kept.vramscope.json")
    info = reporting.report(shown, ReportParams(path=str(path)), Listener())
    assert info.detailed
    for phase in live.plan_made.phases:
        for row in phase.nodes:
            asked = NodeParams(phase=phase.phase.value, step=row.step)
            ours, theirs = (looking.node(engine, asked, Listener()) for engine in (live, shown))
            assert theirs == msgspec.structs.replace(ours, ticket=theirs.ticket)
            around = NeighboursParams(phase=phase.phase.value, step=row.step, hops=2)
            ours2, theirs2 = (looking.neighbours(engine, around, Listener()) for engine in (live, shown))
            assert theirs2 == msgspec.structs.replace(ours2, ticket=theirs2.ticket)


def test_a_report_has_the_curves_of_its_decoder(report: Path) -> None:
    shown = reporting.report(Engine(), ReportParams(path=str(report)), Listener())
    curves = shown.headroom
    assert curves is not None
    assert curves.scenario == shown.plan.scenario
    assert curves.lines[0].batch == shown.plan.scenario.batch
    assert len(curves.lines[0].totals) == len(curves.contexts) > 2


def test_what_is_no_decoder_or_refused_has_no_curves(tmp_path: Path) -> None:
    path = saved(planned("unbounded-axis"), tmp_path / "refused.vramscope.json")
    assert reporting.report(Engine(), ReportParams(path=str(path)), Listener()).headroom is None


def changed(path: Path, **fields: Any) -> Path:  # noqa: ANN401 - of JSON
    told = json.loads(path.read_text("utf-8"))
    for name, value in fields.items():
        if value is None:
            told.pop(name, None)
        else:
            told[name] = value
    path.write_text(json.dumps(told), "utf-8")
    return path


def test_a_report_of_an_older_version_still_opens_and_says_what_it_lacks(report: Path) -> None:
    assert read_report(report).minor == MINOR
    old = changed(report, minor=None, curves=None, details=None)
    engine = Engine()
    shown = reporting.report(engine, ReportParams(path=str(old)), Listener())
    assert (shown.headroom, shown.detailed, read_report(old).minor) == (None, False, 0)
    for ask in (
        lambda: looking.node(engine, NodeParams(phase="decode", step=1), Listener()),
        lambda: looking.neighbours(engine, NeighboursParams(phase="decode", step=1, hops=1), Listener()),
    ):
        with pytest.raises(InputError, match="saved without their details"):
            ask()


def test_a_later_minor_version_opens_and_its_new_fields_are_passed_over(report: Path) -> None:
    assert read_report(changed(report, minor=MINOR + 5, novelty=[1, 2])).details


def test_steps_that_a_report_lacks_are_refused(report: Path) -> None:
    engine = Engine()
    reporting.report(engine, ReportParams(path=str(report)), Listener())
    with pytest.raises(InputError, match="no such node"):
        looking.node(engine, NodeParams(phase="decode", step=10**6), Listener())
    with pytest.raises(InputError, match="details"):
        looking.node(engine, NodeParams(phase="nowhere", step=1), Listener())


def test_a_plan_of_very_many_nodes_is_saved_without_details(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(details, "MOST_NODES", 10)
    document = read_report(saved(planned("tiny-llama"), tmp_path / "large.vramscope.json"))
    assert document.details == {}
    assert document.curves is not None


def node_of(told: dict[str, Any]) -> Any:  # noqa: ANN401 - of JSON
    return told["details"]["decode"]["nodes"][3]


DAMAGES = {
    "place": lambda told: node_of(told).update(inputs=[10**6]),
    "negative": lambda told: node_of(told).update(outputs=[-1]),
    "twice": lambda told: node_of(told).update(step=told["details"]["decode"]["nodes"][2]["step"]),
    "alignment": lambda told: node_of(told).update(alignment=-5),
    "many": lambda told: node_of(told).update(attributes=["a"] * 5000),
    "size": lambda told: told["details"]["decode"]["values"][0].update(bytes=-2),
    "long": lambda told: told["details"]["decode"]["values"][0].update(name="x" * 70_000),
    "phase": lambda told: told["details"].update(elsewhere=told["details"]["decode"]),
    "contexts": lambda told: told["curves"].update(contexts=[8, 4]),
    "short": lambda told: told["curves"]["lines"][0].update(totals=[1]),
    "lines": lambda told: told["curves"].update(lines=[]),
    "batch": lambda told: told["curves"]["lines"][0].update(batch=0),
    "edges": lambda told: told["curves"]["lines"][0].update(largest_contexts=[1] * 9),
}
"""What an attacker, or a broken disk, could write."""


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_report_is_refused(name: str, report: Path) -> None:
    told = json.loads(report.read_text("utf-8"))
    DAMAGES[name](told)
    report.write_text(json.dumps(told), "utf-8")
    with pytest.raises(ReportFileError, match="damaged"):
        read_report(report)
