"""The engine client against the real server process."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from vramscope.messages.live import Empty
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams
from vramscope.messages.running import CountParams, PrefillParams
from vramscope_app.client import EngineClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot

    from vramscope.messages.model import ModelInfo

PATIENCE = 60_000


@pytest.fixture
def client(qtbot: QtBot) -> Iterator[EngineClient]:
    made = EngineClient()
    yield made
    made.stop()


@pytest.fixture
def ready(client: EngineClient, qtbot: QtBot) -> EngineClient:
    with qtbot.waitSignal(client.ready, timeout=PATIENCE):
        client.start()
    return client


def opened(client: EngineClient, qtbot: QtBot) -> ModelInfo:
    with qtbot.waitSignal(client.answered, timeout=PATIENCE) as answer:
        client.call("open", OpenParams(sample="tiny-llama"))
    model: ModelInfo = answer.args[0].result
    return model


def prefilled(client: EngineClient, qtbot: QtBot) -> None:
    model = opened(client, qtbot)
    with qtbot.waitSignal(client.answered, timeout=PATIENCE):
        client.call("prefill", PrefillParams(scenario=model.scenario, prompt="Hello"))


def test_the_engine_greets_with_cards_samples_and_devices(client: EngineClient, qtbot: QtBot) -> None:
    with qtbot.waitSignal(client.ready, timeout=PATIENCE) as greeting:
        client.start()
    hello = greeting.args[0]
    assert hello.process == client.process_id
    assert len(hello.cards) >= 40
    assert "tiny-llama" in {sample.name for sample in hello.samples}
    assert any(device.available for device in hello.devices)
    assert client.calls == ()


def test_opening_and_planning_answer_typed_results_and_tables(ready: EngineClient, qtbot: QtBot) -> None:
    model = opened(ready, qtbot)
    assert model.contract is not None
    tables: list[tuple[str, int]] = []
    ready.table.connect(lambda chunk: tables.append((chunk.table, chunk.ticket)))
    with qtbot.waitSignal(ready.answered, timeout=PATIENCE) as answer:
        ready.call("plan", PlanParams(scenario=model.scenario))
    plan = answer.args[0].result
    qtbot.waitUntil(lambda: len(tables) == 2 * len(plan.phases), timeout=PATIENCE)
    assert tables == [
        (f"{kind}:{phase.name}", plan.ticket) for kind in ("nodes", "arena") for phase in plan.phases
    ]


def test_a_failure_carries_the_engines_fields_and_the_engine_lives_on(
    ready: EngineClient, qtbot: QtBot
) -> None:
    with qtbot.waitSignal(ready.failed, timeout=PATIENCE) as failure:
        ready.call("open", OpenParams(path="/nowhere/model.onnx"))
    assert failure.args[0].call.method == "open"
    assert "/nowhere/model.onnx" in failure.args[0].error.what
    assert opened(ready, qtbot).nodes > 0


def test_wrong_parameters_are_refused_before_anything_is_sent(ready: EngineClient) -> None:
    with pytest.raises(TypeError, match="step takes CountParams, not Empty"):
        ready.call("step", Empty())
    assert ready.calls == ()


def test_tokens_events_and_snapshots_arrive_while_it_runs(ready: EngineClient, qtbot: QtBot) -> None:
    seen: dict[str, int] = {"token": 0, "events": 0, "snapshot": 0}

    def count(name: str) -> None:
        seen[name] += 1

    ready.token.connect(lambda _token: count("token"))
    ready.events.connect(lambda _events: count("events"))
    ready.snapshot.connect(lambda _snapshot: count("snapshot"))
    prefilled(ready, qtbot)
    with qtbot.waitSignal(ready.answered, timeout=PATIENCE) as answer:
        ready.call("step", CountParams(count=5))
    assert answer.args[0].result.steps_eager >= 5
    assert seen["token"] == 6
    assert seen["events"] >= 1
    assert seen["snapshot"] >= 1


def test_a_killed_engine_tells_what_was_running_and_starts_again(ready: EngineClient, qtbot: QtBot) -> None:
    prefilled(ready, qtbot)
    with qtbot.waitSignal(ready.died, timeout=PATIENCE) as death:
        ready.call("step", CountParams(count=500))
        os.kill(ready.process_id, signal.SIGKILL)
    assert death.args[0].reason == "signal 9"
    assert [call.method for call in death.args[0].calls] == ["step"]
    assert not ready.running
    assert ready.call("step", CountParams(count=1)) == 0
    with qtbot.waitSignal(ready.ready, timeout=PATIENCE):
        ready.start()
    assert opened(ready, qtbot).nodes > 0


def test_cancel_ends_a_long_request_and_the_session_goes_on(ready: EngineClient, qtbot: QtBot) -> None:
    prefilled(ready, qtbot)
    with qtbot.waitSignal(ready.failed, timeout=PATIENCE) as failure:
        with qtbot.waitSignal(ready.token, timeout=PATIENCE):
            call = ready.call("step", CountParams(count=1500))
        ready.cancel(call)
    assert failure.args[0].error.code == "Cancelled"
    with qtbot.waitSignal(ready.answered, timeout=PATIENCE) as answer:
        ready.call("step", CountParams(count=1))
    while answer.args[0].call.method == "cancel":
        with qtbot.waitSignal(ready.answered, timeout=PATIENCE) as answer:
            pass
    assert answer.args[0].call.method == "step"


def test_a_command_that_cannot_start_is_a_death(qtbot: QtBot) -> None:
    client = EngineClient(command=(sys.executable, "-c", "import sys; sys.exit(3)"))
    with qtbot.waitSignal(client.died, timeout=PATIENCE) as death:
        client.start()
    assert death.args[0].reason == "exit code 3"
    assert [call.method for call in death.args[0].calls] == ["hello"]


def test_garbage_on_its_stdout_is_a_death_that_says_so(qtbot: QtBot) -> None:
    program = "import sys; sys.stdout.buffer.write(b'\\xff' * 64); sys.stdout.flush(); sys.stdin.read()"
    client = EngineClient(command=(sys.executable, "-c", program))
    with qtbot.waitSignal(client.died, timeout=PATIENCE) as death:
        client.start()
    assert "cannot read" in death.args[0].reason


def test_standard_error_is_logged(qtbot: QtBot) -> None:
    client = EngineClient(
        command=(sys.executable, "-c", "import sys; print('something odd', file=sys.stderr)")
    )
    with qtbot.waitSignal(client.logged, timeout=PATIENCE) as logged:
        client.start()
    assert "something odd" in logged.args[0]
    client.stop()


def test_stopping_ends_the_process(ready: EngineClient) -> None:
    process = ready.process_id
    ready.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
