"""Traces from the command line, the server and a CUDA stand-in, where a launch is not its work."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import twin_device
from engine_process import engine_process, greet
from plain_runs import opened
from trace_file import read_trace

from vramscope.api import make_plan, open_path
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.decode.profiling import Profiler
from vramscope.plan.types import Scenario
from vramscope.report.trace import write_trace
from vramscope.run.events import never_cancelled
from vramscope.run.trace import Tracer

if TYPE_CHECKING:
    from pathlib import Path


def test_run_writes_what_it_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    options = ["--steps", "8", "--eager", "2", "--profile", "2", "--trace", str(path)]
    assert main(["run", "tiny-llama", "--prompt", "The capital", *options]) == 0
    file = read_trace(path)
    wrote = f"wrote {path}: {file.about['records kept']} records; open it in ui.perfetto.dev"
    assert wrote in capsys.readouterr().out
    names = [item["name"] for item in file.spans("step")]
    assert names == ["loading", "prefill", *["decode"] * 4, "capture", *["replay"] * 5]
    assert file.tracks[0] == "steps, segments, nodes"
    timed = file.spans("device")
    last = file.spans("step")[5]
    assert {item["name"] for item in timed} == {item["name"] for item in file.inside(last, "node")}
    assert all("capture_status" not in item["args"] for item in timed)


def test_a_plain_models_run_is_traced_and_json_stays_one_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.json"
    model, _ = opened("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) y = Neg(a) }", tmp_path)
    assert main(["run", str(model), "--trace", str(trace), "--json"]) == 0
    assert "outputs" in json.loads(capsys.readouterr().out)
    file = read_trace(trace)
    assert [item["name"] for item in file.spans("step")] == ["loading", "run"]
    assert [item["args"]["operator"] for item in file.spans("node")] == ["ai.onnx::Relu", "ai.onnx::Neg"]


def test_a_trace_that_cannot_be_written_is_refused_before_anything_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "tiny-llama", "--tokens", "1", "--trace", str(tmp_path / "t.csv")]) == 2
    assert "End it in .json" in capsys.readouterr().err


def test_the_server_records_when_asked_and_saves_as_often_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    scenario = {"batch": 1, "prompt": 8, "context": 64}
    with engine_process() as engine:
        greet(engine)
        engine.call("open", sample="tiny-llama")
        engine.call("plan", scenario=scenario)
        failure = engine.refusal("trace", record=True, path=str(path))
        assert "nothing was recorded" in failure.why
        engine.call("prefill", scenario=scenario, tokens=[1, 5, 9])
        engine.call("step", count=2)
        assert engine.call("trace", record=True)["recording"] is True
        engine.call("step", count=1)
        said = engine.call("trace", record=True, path=str(path))
        assert said["path"] == str(path)
        assert [item["name"] for item in read_trace(path).spans("step")] == ["decode"]
        engine.call("step", count=1)
        stopped = engine.call("trace", record=False)
        assert stopped["recording"] is False
        assert stopped["records"] > said["records"]
        engine.call("step", count=1)
        assert engine.call("trace", record=False, path=str(path))["records"] == stopped["records"]
        assert [item["name"] for item in read_trace(path).spans("step")] == ["decode"] * 2


def test_a_new_session_starts_a_record_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with engine_process() as engine:
        greet(engine)
        engine.call("open", sample="tiny-llama")
        for context in (64, 128):
            scenario = {"batch": 1, "prompt": 8, "context": context}
            engine.call("trace", record=True)
            engine.call("prefill", scenario=scenario, tokens=[1, 5, 9])
        engine.call("trace", record=True, path=str(path))
    assert [item["name"] for item in read_trace(path).spans("step")] == ["loading", "prefill"]


@pytest.fixture(scope="module")
def card(shared_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a decoder on the stand-in: two eager steps, a profiled one, a capture, a replay."""
    device, _ = twin_device()
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    decoder, tracer = (
        Decoder(model, make_plan(model, Scenario(prompt=4, context=64)), device=device),
        Tracer(),
    )
    decoder.trace(tracer)
    decoder.load()
    decoder.prefill([[1, 2, 3, 4]])
    decoder.step()
    Profiler(decoder, tracer).step(never_cancelled)
    decoder.capture()
    decoder.replay()
    path = tmp_path_factory.mktemp("card") / "t.json"
    write_trace(path, tracer.trace())
    return path


def test_on_a_card_spans_are_launches_and_say_so(card: Path) -> None:
    file = read_trace(card)
    assert file.about["device"] == "cuda:0"
    assert "a launch returns before its work is done" in file.about["times"]
    assert "a launch returns before its work is done" in file.tracks[0]


def test_a_graph_of_a_card_is_one_launch_whose_nodes_have_no_times(card: Path) -> None:
    file = read_trace(card)
    steps = {item["name"]: item for item in file.spans("step")}
    recorded = file.inside(steps["capture"], "node")
    assert {item["args"]["capture_status"] for item in recorded} == {"captured"}
    (graph,) = file.inside(steps["replay"], "segment")
    assert graph["args"]["nodes"] == len(recorded)
    assert not file.inside(steps["replay"], "node")


def test_a_node_that_another_launch_does_too_names_it(card: Path) -> None:
    file = read_trace(card)
    together = [item for item in file.spans("node") if "launched_with" in item["args"]]
    names = {item["name"] for item in file.spans("node")}
    assert together
    assert all(item["args"]["launched_with"] in names for item in together)


def test_profiled_steps_have_the_cards_own_times_on_a_track_of_their_own(card: Path) -> None:
    file = read_trace(card)
    timed = file.spans("device")
    assert {item["tid"] for item in timed} != {item["tid"] for item in file.spans("node")}
    assert np.isclose([item["dur"] for item in timed if item["dur"]], 1000).all(), "a launch, a millisecond"
    assert any("laid end to end" in track for track in file.tracks)
