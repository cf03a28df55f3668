"""A model that is no decoder keeps what its run took: live, in reports, beside its plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from vramscope.cli.main import main
from vramscope.errors import InputError
from vramscope.messages.live import EMPTY_SNAPSHOT, SnapshotInfo
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import ExportParams, PlanParams
from vramscope.messages.reporting import CompareParams, ReportParams
from vramscope.messages.running import RunModelParams
from vramscope.report.read import read_report
from vramscope.server import reporting
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.plain import run_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAXIMUM = {"passage_count": 9}


def ran(listener: Listener | None = None) -> Engine:
    engine = Engine()
    info = engine.open(OpenParams(sample="unbounded-axis"), Listener())
    scenario = msgspec.structs.replace(info.scenario, maxima=MAXIMUM)
    engine.plan(PlanParams(scenario=scenario), Listener())
    run_model(engine, RunModelParams(scenario=scenario), listener or Listener())
    return engine


def test_the_record_has_what_was_planned_and_what_it_took() -> None:
    engine = ran()
    record = engine.run_record()
    assert record is not None
    assert record.scenario.maxima == MAXIMUM
    assert record.total == engine.document().plan.total
    assert record.snapshot.state == "finished"
    assert record.snapshot.peak_bytes > 0
    planned = {item.name: item.figure.bytes for item in record.components}
    peaks = {item.component: item.peak_bytes for item in record.snapshot.counters}
    assert peaks["weights"] == planned["weights"]
    assert all(peaks[name] <= (planned[name] or 0) for name in peaks), "never more than was planned"
    assert engine.snapshot() == record.snapshot


def test_the_run_is_told_live() -> None:
    told: list[SnapshotInfo] = []

    def take(build: Callable[[], SnapshotInfo], *, final: bool) -> None:
        if final:
            told.append(build())

    engine = ran(Listener(snapshot=take))
    assert [item.measured for item in told] == [engine.snapshot().measured]
    assert told[0].measured


def test_a_plan_is_compared_with_its_plain_run_live_and_from_a_report(tmp_path: Path) -> None:
    engine, shown = ran(), Engine()
    live = reporting.compare(engine, CompareParams(run=True), Listener())
    path = tmp_path / "plain.vramscope.json"
    reporting.export(engine, ExportParams(path=str(path)), Listener())
    info = reporting.report(shown, ReportParams(path=str(path)), Listener())
    assert info.run == engine.run_record()
    found = reporting.compare(shown, CompareParams(run=True), Listener())
    assert msgspec.structs.replace(found, ticket=live.ticket) == live
    assert live.right.asked == ["on host", "one run"]
    assert live.left.asked == ["batch 1"]
    assert {item.name for item in live.components} >= {"weights", "activations"}


def test_another_model_takes_the_record_away() -> None:
    engine = ran()
    engine.open(OpenParams(sample="tiny-llama"), Listener())
    assert engine.run_record() is None
    assert engine.snapshot() == EMPTY_SNAPSHOT


def test_a_run_that_fails_leaves_the_last_record() -> None:
    engine = ran()
    before = engine.run_record()
    bad = RunModelParams(scenario=engine.document().plan.scenario, save="/nowhere/at/all.npz")
    with pytest.raises(InputError):
        run_model(engine, bad, Listener())
    assert engine.run_record() == before


def test_the_command_line_writes_the_run_into_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plain.vramscope.json"
    words = ["run", "unbounded-axis", "--max", "passage_count=9", "--export", str(path)]
    assert main(words) == 0
    assert f"wrote {path}" in capsys.readouterr().out
    kept = read_report(path).run
    assert kept is not None
    assert kept.snapshot.measured
    assert main(["compare", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["comparison"]["right"]["asked"] == ["on host", "one run"]
