"""The real server with a real model: open, plan, prefill, step, capture, replay, verify, cancel, kill."""

from __future__ import annotations

import gc
import json
import time
import weakref
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from engine_process import EngineProcess, engine_process, greet

from vramscope.messages.columns import column_values
from vramscope.messages.model import ModelInfo, OpenParams
from vramscope.messages.planning import PlanInfo
from vramscope.messages.running import CaptureInfo, RunInfo, VerifyInfo
from vramscope.protocol import Answer, Failure, Notification
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.worker import open_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SAMPLE = "tiny-llama"
SCENARIO = {"batch": 1, "prompt": 8, "context": 1024, "budget": 2**30}
PROMPT = [1, 5, 9, 13]
BUSY = 2.0
"""Seconds that stand for 200 ms on a machine that runs other tests at the same time."""


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[EngineProcess]:
    with engine_process() as made:
        greet(made)
        yield made


@pytest.fixture
def engine(shared_engine: EngineProcess) -> EngineProcess:
    """A server with the sample open and planned, whatever the test before did."""
    shared_engine.call("open", sample=SAMPLE)
    shared_engine.call("plan", scenario=SCENARIO)
    shared_engine.notifications.clear()
    shared_engine.arrivals.clear()
    return shared_engine


def prefill(engine: EngineProcess, **more: object) -> RunInfo:
    return msgspec.convert(engine.call("prefill", scenario=SCENARIO, tokens=PROMPT, **more), RunInfo)


def greedy(engine: EngineProcess, method: str, count: int) -> list[int]:
    return list(engine.call(method, count=count)["new_tokens"])


def test_opening_tells_what_the_model_is(engine: EngineProcess) -> None:
    model = msgspec.convert(engine.call("open", sample=SAMPLE), ModelInfo)
    assert model.contract is not None
    assert model.contract.layers == 3
    assert model.contract.context_limit == 2048
    assert model.nodes > 30
    assert model.weights_bytes > 0
    assert model.has_tokenizer
    assert model.default_prompt
    assert model.name == SAMPLE
    by_path = engine.call("open", path=model.path)
    assert by_path["nodes"] == model.nodes


def test_an_open_model_is_left_out_of_collections_and_goes_when_the_next_one_comes() -> None:
    engine, sample = Engine(), OpenParams(sample=SAMPLE)
    try:
        open_model(engine, sample, Listener())
        first = weakref.ref(engine.planner)
        assert gc.get_freeze_count() > len(engine.model.program.steps)
        open_model(engine, sample, Listener())
        gc.unfreeze()
        gc.collect()
        assert first() is None
    finally:
        gc.unfreeze()
        engine.close()


def test_a_plan_is_answered_and_its_rows_follow(engine: EngineProcess, tmp_path: Path) -> None:
    plan = msgspec.convert(engine.call("plan", scenario=SCENARIO), PlanInfo)
    assert plan.verdict.kind == "fits"
    assert plan.kv_capacity >= plan.context == 1024
    engine.call("export", path=str(tmp_path / "plan.json"), format="json")  # its turn comes after the rows
    chunks = [chunk for chunk in engine.heard("table") if chunk.ticket == plan.ticket]
    tables = {"nodes:prefill", "nodes:decode", "arena:prefill", "arena:decode"}
    assert {chunk.table for chunk in chunks} == tables
    assert sum(chunk.rows for chunk in chunks if chunk.table.startswith("nodes:")) == plan.node_rows
    assert all(chunk.last for chunk in chunks)
    columns = {column.name: column_values(column) for column in chunks[0].columns}
    assert "com.microsoft" in columns["domain"]
    known = sum(component.figure.bytes or 0 for component in plan.components)
    assert plan.total.bytes == known


def test_a_scenario_that_cannot_be_planned_leaves_the_old_plan(engine: EngineProcess, tmp_path: Path) -> None:
    error = engine.refusal("plan", scenario={**SCENARIO, "context": 10**6})
    assert error.code == "Scenario"
    assert "2,048" in error.why or "2048" in error.why
    engine.call("export", path=str(tmp_path / "plan.json"), format="json")
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["plan"]["context"] == 1024


@pytest.mark.parametrize("kind", ["json", "csv", "html"])
def test_a_plan_is_exported(engine: EngineProcess, tmp_path: Path, kind: str) -> None:
    engine.call("export", path=str(tmp_path / f"plan.{kind}"), format=kind)
    assert "GroupQueryAttention" in (tmp_path / f"plan.{kind}").read_text(encoding="utf-8")


def test_replay_gives_exactly_the_eager_tokens(engine: EngineProcess) -> None:
    first = prefill(engine)
    eager = first.new_tokens + greedy(engine, "step", 16)
    again = prefill(engine).new_tokens + greedy(engine, "step", 2)
    capture = msgspec.convert(engine.call("capture"), CaptureInfo)
    assert capture.captured
    assert capture.nodes_captured == capture.nodes_total > 0
    assert not capture.declines
    again += capture.run.new_tokens
    again += greedy(engine, "replay", len(eager) - len(again))
    assert again == eager
    assert len(set(eager)) > 1


def test_every_token_is_told_before_the_answer_with_its_text(engine: EngineProcess) -> None:
    prefill(engine)
    identity = engine.send("step", count=5)
    reply = engine.reply(identity)
    assert isinstance(reply, Answer)
    run = msgspec.msgpack.decode(bytes(reply.result), type=RunInfo)
    tokens = engine.heard("token")[1:]
    assert [token.tokens[0] for token in tokens] == run.new_tokens
    assert "".join(token.text for token in tokens) == run.text
    assert [token.step for token in tokens] == [1, 2, 3, 4, 5]
    kinds = [item.method if isinstance(item, Notification) else "answer" for item in engine.arrivals]
    assert "token" not in kinds[kinds.index("answer", len(kinds) - 1) :]


def test_steady_state_allocates_nothing(engine: EngineProcess) -> None:
    prefill(engine)
    engine.call("step", count=3)
    engine.call("capture")
    before = engine.call("snapshot")
    engine.call("replay", count=20)
    after = engine.call("snapshot")
    assert after["allocations_last_step"] == 0
    assert [item["total_count"] for item in after["counters"]] == [
        item["total_count"] for item in before["counters"]
    ]
    assert after["steps_replayed"] - before["steps_replayed"] == 20
    engine.call("reset")
    last = [event for batch in engine.heard("events") for event in batch.events][-1]
    assert before["seconds"] <= last.seconds <= engine.call("snapshot")["seconds"]
    assert after["sequence"] > before["sequence"]
    assert after["uploads"] == before["uploads"]


def test_what_is_measured_is_what_was_planned(engine: EngineProcess) -> None:
    plan = msgspec.convert(engine.call("plan", scenario=SCENARIO), PlanInfo)
    prefill(engine)
    engine.call("step", count=1)
    measured = {item["name"]: item["figure"]["bytes"] for item in engine.call("snapshot")["measured"]}
    for component in plan.components:
        if component.figure.bytes is not None:
            assert measured[component.name] <= component.figure.bytes, component.name
    assert "device context" not in measured
    assert measured["weights"] == plan.components[0].figure.bytes
    assert measured["KV cache"] == plan.components[1].figure.bytes


def test_verify_compares_and_leaves_the_generation_where_it_was(engine: EngineProcess) -> None:
    prefill(engine)
    engine.call("step", count=2)
    engine.call("capture")
    expected = greedy(engine, "replay", 6)
    prefill(engine)
    engine.call("step", count=2)
    engine.call("capture")
    verify = msgspec.convert(engine.call("verify", count=8), VerifyInfo)
    assert verify.equal
    assert verify.steps == 8
    assert verify.first_difference is None
    assert verify.run.state == "ready"
    assert greedy(engine, "replay", 6) == expected


def test_replay_before_capture_is_refused(engine: EngineProcess) -> None:
    prefill(engine)
    assert engine.refusal("replay", count=1).code == "NeverCaptured"
    assert engine.refusal("verify", count=1).code == "NeverCaptured"
    assert greedy(engine, "step", 1)


def test_a_capture_without_an_eager_step_tells_both_tokens(engine: EngineProcess) -> None:
    eager = prefill(engine).new_tokens + greedy(engine, "step", 2)
    first = prefill(engine).new_tokens
    assert first + engine.call("capture")["run"]["new_tokens"] == eager


def test_a_seed_repeats_its_choices(engine: EngineProcess) -> None:
    def sampled(seed: int) -> list[int]:
        sampling = {"temperature": 1.0, "top_k": 50, "top_p": 0.95, "seed": seed}
        return prefill(engine, sampling=sampling).new_tokens + greedy(engine, "step", 12)

    assert sampled(1) == sampled(1)
    assert sampled(1) != sampled(2)


def test_the_context_fills_and_says_so(engine: EngineProcess) -> None:
    scenario = {**SCENARIO, "context": 12}
    run = engine.call("prefill", scenario=scenario, tokens=PROMPT)
    run = engine.call("step", count=100)
    assert run["finished"] in ("context full", "end of sequence")
    assert run["position"] <= 12
    assert run["state"] == "finished"
    assert engine.call("step", count=1)["new_tokens"] == []
    assert engine.call("reset")["position"] == 0


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"tokens": [100000]}, "100000"),
        ({"tokens": [-1]}, "-1"),
        ({}, "prompt"),
        ({"tokens": [1 + number % 500 for number in range(1399)]}, "1,399"),
    ],
)
def test_a_wrong_prompt_is_refused_by_name_and_the_session_stays(
    engine: EngineProcess, params: dict[str, Any], named: str
) -> None:
    error = engine.refusal("prefill", scenario=SCENARIO, **params)
    assert named in f"{error.what} {error.why}"
    assert prefill(engine).new_tokens


def test_a_budget_that_is_too_small_is_refused_by_bytes_and_the_session_stays(engine: EngineProcess) -> None:
    error = engine.refusal("prefill", scenario={**SCENARIO, "budget": 2**20}, tokens=PROMPT)
    assert error.code == "OutOfBudget"
    assert int(error.details["requested"]) > int(error.details["available"])
    assert prefill(engine).new_tokens


def test_cancel_stops_a_run_at_once_and_the_session_goes_on(engine: EngineProcess) -> None:
    expected = prefill(engine).new_tokens + greedy(engine, "step", 8)
    prefill(engine)
    engine.notifications.clear()
    running = engine.send("step", count=1000)
    engine.wait_for("token")
    asked = time.monotonic()
    assert engine.call("cancel", request=running) == {"found": True}
    acknowledged = time.monotonic() - asked
    reply = engine.reply(running)
    stopped = time.monotonic() - asked
    assert isinstance(reply, Failure)
    assert reply.error.code == "Cancelled"
    print(f"cancel: acknowledged after {acknowledged * 1000:.0f} ms, stopped after {stopped * 1000:.0f} ms")
    assert max(acknowledged, stopped) < BUSY
    assert engine.call("step", count=1)["new_tokens"]
    assert prefill(engine).new_tokens + greedy(engine, "step", 8) == expected


def test_a_waiting_request_is_cancelled_before_it_begins(engine: EngineProcess) -> None:
    prefill(engine)
    running = engine.send("step", count=1000)
    waiting = engine.send("step", count=1000)
    assert engine.call("cancel", request=waiting) == {"found": True}
    reply = engine.reply(waiting)
    assert isinstance(reply, Failure)
    assert reply.error.code == "Cancelled"
    engine.call("cancel", request=running)
    assert isinstance(engine.reply(running), Failure)


def test_snapshot_and_hello_are_answered_during_long_work(engine: EngineProcess) -> None:
    prefill(engine)
    engine.notifications.clear()
    running = engine.send("step", count=1000)
    engine.wait_for("snapshot")
    started = time.monotonic()
    snapshot = engine.call("snapshot")
    greet(engine)
    assert time.monotonic() - started < BUSY
    assert snapshot["position"] > len(PROMPT)
    assert running not in engine._replies
    engine.call("cancel", request=running)
    engine.reply(running)


def test_of_plans_that_wait_only_the_newest_is_made(engine: EngineProcess) -> None:
    prefill(engine)
    running = engine.send("step", count=1000)
    plans = [engine.send("plan", scenario={**SCENARIO, "context": 256 + number}) for number in range(5)]
    for stale in plans[:-1]:
        reply = engine.reply(stale)
        assert isinstance(reply, Failure)
        assert reply.error.code == "Superseded"
    engine.call("cancel", request=running)
    reply = engine.reply(plans[-1])
    assert isinstance(reply, Answer)
    assert msgspec.msgpack.decode(bytes(reply.result))["context"] == 260


def test_an_unbounded_axis_is_refused_until_it_has_a_maximum(engine: EngineProcess) -> None:
    engine.call("open", sample="unbounded-axis")
    plan = msgspec.convert(engine.call("plan", scenario={}), PlanInfo)
    assert plan.verdict.kind == "cannot be planned"
    (axis,) = [axis for axis in plan.axes if axis.refused]
    assert axis.editable
    assert axis.high is None
    assert plan.total.bytes is None
    assert [item.node for item in plan.problems if item.severity == "error"]
    error = engine.refusal("run_model", scenario={})
    assert error.code == "UnboundedAxis"
    assert error.details["symbol"] == axis.symbol
    scenario = {"maxima": {axis.symbol: 6}}
    plan = msgspec.convert(engine.call("plan", scenario=scenario), PlanInfo)
    assert plan.total.bytes
    outputs = engine.call("run_model", scenario=scenario)["outputs"]
    assert outputs[0]["shape"] == [1, 6]
    assert outputs[0]["mean"] is not None


def test_declined_nodes_are_named_and_the_rest_is_replayed(engine: EngineProcess) -> None:
    engine.call("open", sample="declines")
    scenario = {"prompt": 8, "context": 128}
    engine.call("prefill", scenario=scenario, tokens=PROMPT)
    engine.call("step", count=2)
    capture = msgspec.convert(engine.call("capture"), CaptureInfo)
    assert {item.operator for item in capture.declines} >= {"ai.onnx::If", "ai.onnx::NonZero"}
    assert all(item.reason for item in capture.declines)
    assert 0 < capture.nodes_captured < capture.nodes_total
    assert any(event.kind == "decline" for batch in engine.heard("events") for event in batch.events)
    assert engine.call("replay", count=4)["steps_replayed"] == 4


def test_growing_past_a_bucket_invalidates_with_its_cause(engine: EngineProcess) -> None:
    scenario = {"prompt": 8, "context": 128, "bucket_minimum": 16, "bucket_growing": True}
    engine.call("prefill", scenario=scenario, tokens=PROMPT)
    engine.call("step", count=2)
    engine.call("capture")
    engine.call("replay", count=30)
    events = [event for batch in engine.heard("events") for event in batch.events]
    assert [event.sequence for event in events] == list(
        range(events[0].sequence, events[0].sequence + len(events))
    )
    assert any(event.kind == "grow" for event in events)
    (invalidated, *_) = [event for event in events if event.kind == "invalidate"]
    assert invalidated.text
    slot = engine.call("snapshot")["slots"][0]
    assert slot["invalidations"] >= 1
    assert slot["last_cause"]


def test_a_model_that_cannot_be_opened_leaves_the_open_one(engine: EngineProcess, tmp_path: Path) -> None:
    prefill(engine)
    bad = tmp_path / "model.onnx"
    bad.write_bytes(b"this is no model")
    assert engine.refusal("open", path=str(bad)).code == "ModelFile"
    assert engine.call("step", count=1)["new_tokens"]


def test_the_end_of_standard_input_stops_a_long_run() -> None:
    with engine_process() as engine:
        engine.call("open", sample=SAMPLE)
        engine.call("prefill", scenario=SCENARIO, tokens=PROMPT)
        engine.send("step", count=1000)
        engine.notifications.clear()
        engine.wait_for("token")
        started = time.monotonic()
        assert engine.end() == 0
        assert time.monotonic() - started < 5


def test_a_killed_engine_is_told_by_its_streams_and_another_one_starts() -> None:
    with engine_process() as engine:
        engine.call("open", sample=SAMPLE)
        engine.call("prefill", scenario=SCENARIO, tokens=PROMPT)
        identity = engine.send("step", count=1000)
        engine.notifications.clear()
        engine.wait_for("snapshot")
        engine.process.kill()
        with pytest.raises(AssertionError, match="the engine ended"):
            engine.reply(identity)
    with engine_process() as engine:
        assert greet(engine)["process"] == engine.process.pid
