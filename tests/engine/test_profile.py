"""Profiled steps: every node timed on the device, groups known, the run as it would have been without."""

from __future__ import annotations

import csv
import io
import json
from time import sleep
from typing import TYPE_CHECKING

import pytest
from cuda_twin import twin_device

from vramscope.api import make_plan, open_path
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.decode.profiling import Profiler
from vramscope.devices.cuda.stopwatch import EventStopwatch
from vramscope.devices.host import HostDevice
from vramscope.devices.stopwatch import HostStopwatch
from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope.messages.planning import PlanParams
from vramscope.messages.running import CountParams, PrefillParams
from vramscope.plan.types import Scenario
from vramscope.report.csv_report import csv_text
from vramscope.report.html_report import html_text
from vramscope.report.json_report import json_text
from vramscope.report.measured import launches_of, slowest
from vramscope.report.read import read_report
from vramscope.run.events import never_cancelled
from vramscope.server.engine import Engine
from vramscope.server.listener import Listener
from vramscope.server.profiling import profile

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Node
    from vramscope.ops.call import Call
    from vramscope.ops.spec import Kernel, OpSpec

SLOW = 0.02
"""Seconds that a slowed node sleeps: far above what any other node of a tiny model takes."""


class SleepyDevice(HostDevice):
    """One operator sleeps."""

    def kernel(self, node: Node, spec: OpSpec) -> Kernel:
        kernel = super().kernel(node, spec)
        if node.operator != "GroupQueryAttention":
            return kernel

        def slowed(call: Call) -> None:
            sleep(SLOW)
            kernel(call)

        return slowed


def warm(models: Path, name: str, device: HostDevice | None = None) -> Decoder:
    model = open_path(models / "tiny" / name)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=4, context=64)), device=device)
    decoder.load()
    decoder.prefill([[1, 2, 3, 4]])
    decoder.step()
    return decoder


def test_a_slow_node_is_found_and_every_node_is_timed(shared_models: Path) -> None:
    decoder = warm(shared_models, "tiny-llama-fp32-cpu", SleepyDevice())
    profiler = Profiler(decoder)
    tokens = [profiler.step(never_cancelled).tokens for _ in range(3)]
    found = profiler.profile()
    names = {step.index: step.node.operator for step in decoder.model.program.steps}
    slow = [item for item in found.nodes if item.seconds >= SLOW]
    assert {names[item.step] for item in slow} == {"GroupQueryAttention"}
    assert len(slow) == sum(name == "GroupQueryAttention" for name in names.values())
    assert found.steps == 3
    assert found.seconds == pytest.approx(sum(item.seconds for item in found.nodes))
    assert len(tokens) == 3
    assert decoder.snapshot().steps_eager == 4
    assert decoder.snapshot().steps_timed == 0, "a profiled step is no measure of the eager speed"


def test_a_profiled_step_gives_the_token_of_a_plain_one(shared_models: Path) -> None:
    plain, profiled = (warm(shared_models, "tiny-llama-fp32-cpu") for _ in range(2))
    profiler = Profiler(profiled)
    assert [plain.step().tokens for _ in range(4)] == [
        profiler.step(never_cancelled).tokens for _ in range(4)
    ]


def test_a_cuda_group_has_the_time_of_its_last_member(shared_models: Path) -> None:
    device, twin = twin_device()
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda")
    decoder = Decoder(model, make_plan(model, Scenario(prompt=4, context=64)), device=device)
    decoder.load()
    decoder.prefill([[1, 2, 3, 4]])
    decoder.step()
    profiler = Profiler(decoder)
    profiler.step(never_cancelled)
    found, groups = profiler.profile(), decoder.inspect().groups
    silent = {step for group in groups for step in group[:-1]}
    timed = {item.step: item.seconds for item in found.nodes}
    assert groups
    assert not silent & timed.keys()
    assert all(timed[group[-1]] == pytest.approx(0.001) for group in groups), "one launch, a millisecond"
    assert found.seconds == pytest.approx(sum(timed.values()))
    assert twin.events


def test_stopwatches_measure_from_mark_to_mark() -> None:
    watch = HostStopwatch()
    watch.mark()
    sleep(0.005)
    watch.mark(7)
    ((step, seconds),) = watch.take()
    assert (step, watch.take()) == (7, ())
    assert seconds >= 0.005
    _, twin = twin_device()
    events = EventStopwatch(twin, twin)
    events.mark()
    twin.issued += 3
    events.mark(1)
    events.mark()
    twin.issued += 1
    events.mark(2)
    assert events.take() == ((1, 0.003), (2, 0.001))
    events.mark()
    assert len(twin.events) == 4, "events are used again"
    del events
    assert set(twin.events) == {-2}


def prefilled(sample: str = "tiny-llama") -> Engine:
    engine = Engine()
    info = engine.open(OpenParams(sample=sample), Listener())
    engine.plan(PlanParams(scenario=info.scenario), Listener())
    engine.prefill(PrefillParams(scenario=info.scenario, prompt="The capital"), Listener())
    return engine


def test_the_engine_profiles_and_keeps_it_in_its_report(tmp_path: Path) -> None:
    engine = prefilled()
    found = profile(engine, CountParams(count=3), Listener())
    assert found.steps == 3
    assert len(found.run.new_tokens) == 4, "a cold session takes an ordinary step before"
    assert len(found.nodes) == len(found.microseconds) == len(set(found.nodes))
    assert min(found.microseconds) > 0
    document = engine.document()
    assert len(slowest(document)) == len(found.nodes)
    path = tmp_path / "run.vramscope.json"
    path.write_text(json_text(document), "utf-8")
    assert read_report(path).run == document.run
    rows = list(csv.DictReader(io.StringIO(csv_text(document))))
    page = html_text(document)
    assert f"timed nodes: {found.step_microseconds:,.0f} µs a step over 3 eager steps" in page
    assert page.count('<th class="n">µs</th>') == 2, "the slowest nodes, and those of decode; not of prefill"
    assert f'<td class="n">{max(found.microseconds):,.1f}</td>' in page
    timed = [row for row in rows if row["microseconds"]]
    assert {row["phase"] for row in timed} == {"decode"}
    assert len(timed) == len(found.nodes)
    assert not any(row["launch"] for row in rows), "the host launches every node by itself"
    engine.close()


def test_a_report_without_a_profile_has_no_such_columns() -> None:
    engine = prefilled()
    assert "microseconds" not in csv_text(engine.document()).splitlines()[0]
    assert "µs" not in html_text(engine.document())
    with pytest.raises(InputError, match="not at least 1"):
        profile(engine, CountParams(count=0), Listener())
    engine.close()


def test_nothing_is_profiled_before_a_prompt() -> None:
    with pytest.raises(InputError, match="no generation has begun"):
        profile(Engine(), CountParams(count=1), Listener())


def test_launches_are_numbered_from_one() -> None:
    assert launches_of([(3, 5), (5, 8)]) == {3: 1, 5: 1, 8: 2}


def test_the_command_line_prints_the_slowest_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "tiny-llama", "--prompt", "The capital", "--steps", "6", "--profile", "2"]) == 0
    text = capsys.readouterr().out
    assert "timed nodes" in text
    assert "over 2 eager steps" in text
    assert main(["run", "tiny-llama", "--prompt", "The", "--steps", "6", "--profile", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["profile"]
    assert told["steps"] == 2
    assert len(told["nodes"]) == len(told["microseconds"])
