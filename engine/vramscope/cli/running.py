"""``vramscope run``: prefill, eager steps, capture, replays; or one run of a model that is no decoder."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from vramscope.cli import screen
from vramscope.cli.profiling import show_profile
from vramscope.cli.session import check_reports, make_plan, open_model, scenario, write_reports
from vramscope.cli.tracing import start_trace, write_trace
from vramscope.errors import InputError
from vramscope.messages.live import Empty, SnapshotInfo
from vramscope.messages.planning import ScenarioInfo
from vramscope.messages.reporting import DifferenceInfo
from vramscope.messages.running import (
    CaptureInfo,
    CountParams,
    InputFile,
    PrefillParams,
    ProfileInfo,
    RunInfo,
    RunModelInfo,
    RunModelParams,
    SamplingInfo,
    VerifyInfo,
)
from vramscope.report.compare import prediction
from vramscope.report.text import blocks_text, figure_text, rate_text
from vramscope.server import profiling
from vramscope.server.engine import Engine
from vramscope.server.plain import run_model
from vramscope.units import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from rich.console import Console

    from vramscope.messages.live import ExpertTraffic, StreamingInfo, TokenInfo
    from vramscope.messages.model import ModelInfo
    from vramscope.server.listener import Listener

SHOWN_DECLINES = 12
"""Declines in the table; ``--json`` has them all."""


class Steps(NamedTuple):
    """How many decode steps: eager ones, all without the profiled ones, compared and profiled ones.

    ``multi_step``: replays that may run before their tokens are read.
    """

    eager: int
    steps: int
    verified: int = 0
    profiled: int = 0
    multi_step: int = 1


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The document of ``run --json`` for a decoder."""

    model: str
    device: str
    scenario: ScenarioInfo
    tokens: list[int]
    text: str
    prefill_milliseconds: float
    """Loading the weights and the prompt's pass together."""
    prefill: RunInfo
    eager: RunInfo | None
    capture: CaptureInfo | None
    replay: RunInfo | None
    verify: VerifyInfo | None
    snapshot: SnapshotInfo
    prediction: list[DifferenceInfo]
    """Per component the bytes planned (left) and at the peak (right); the difference is the error."""
    profile: ProfileInfo | None = None


def run(arguments: argparse.Namespace) -> int:
    """Runs the model and prints what happened."""
    check_reports(arguments)
    engine, meter = Engine(), screen.Meter()
    try:
        start_trace(engine, arguments)
        info = open_model(engine, arguments.model, screen.listener(meter))
        if info.contract is None:
            _run_plain(engine, info, arguments, meter)
        else:
            _run_decoder(engine, info, arguments, meter)
    finally:
        engine.close()
    return 0


def _run_plain(engine: Engine, info: ModelInfo, arguments: argparse.Namespace, meter: screen.Meter) -> None:
    if arguments.prompt or arguments.tokens:
        raise InputError(
            f"a prompt for {info.name}",
            "the model is no decoder",
            "Leave --prompt and --tokens out: it runs on --input files, or on random inputs by --seed",
        )
    params = RunModelParams(
        scenario=scenario(arguments, info),
        seed=arguments.seed,
        inputs=[InputFile(name=name, path=str(path)) for name, path in arguments.inputs],
        save=str(arguments.save or ""),
        device=arguments.device,
    )
    make_plan(engine, params.scenario)
    result = run_model(engine, params, screen.listener(meter))
    meter.clear()
    written = [f"wrote {path}" for path in write_reports(engine, arguments)]
    written += write_trace(engine, arguments)
    if arguments.json:
        screen.print_json(result)
        return
    out = screen.console()
    show_outputs(out, result)
    for line in written:
        print(line)
    if result.streaming is not None:
        out.print(f"weights streamed: {streamed_words(result.streaming)}")
    if arguments.save:
        out.print(f"wrote {arguments.save}")


def show_outputs(out: Console, result: RunModelInfo) -> None:
    """A row per output."""
    rows = [
        (
            item.name,
            item.dtype,
            "×".join(map(str, item.shape)) or "scalar",
            *(
                "–" if number is None else f"{number:.6g}"
                for number in (item.minimum, item.maximum, item.mean)
            ),
        )
        for item in result.outputs
    ]
    headings = ("output", "type", "shape", "minimum", "maximum", "mean")
    screen.table(out, f"Ran in {result.milliseconds:.1f} ms", headings, rows, right="345")


def _run_decoder(engine: Engine, info: ModelInfo, arguments: argparse.Namespace, meter: screen.Meter) -> None:
    if arguments.inputs or arguments.save:
        option = "--input" if arguments.inputs else "--save"
        raise InputError(
            f"{option} for {info.name}", "the model is a decoder", "Give --prompt or --tokens instead"
        )
    wanted = _room_for_steps(scenario(arguments, info), info, arguments)
    quiet = arguments.json
    listener = screen.listener(meter) if quiet else screen.listener(meter, _streaming(info, meter))
    params = PrefillParams(
        scenario=wanted,
        prompt=arguments.prompt,
        tokens=arguments.tokens,
        chat=arguments.chat,
        sampling=SamplingInfo(
            temperature=arguments.temperature,
            top_k=arguments.top_k,
            top_p=arguments.top_p,
            seed=arguments.seed,
        ),
        device=arguments.device,
        watch_experts=arguments.experts,
    )
    eager = min(arguments.eager, arguments.steps) if arguments.capture else arguments.steps
    outcome = generate(
        engine,
        info,
        params,
        listener,
        Steps(eager, arguments.steps, arguments.verify, arguments.profile, arguments.multi_step),
    )
    meter.clear()
    written = [f"wrote {path}" for path in write_reports(engine, arguments)]
    written += write_trace(engine, arguments)
    if quiet:
        screen.print_json(outcome)
        return
    print()
    show_outcome(screen.console(), outcome)
    if outcome.profile is not None:
        show_profile(screen.console(), outcome.profile, engine.document())
    for line in written:
        print(line)


def _room_for_steps(wanted: ScenarioInfo, info: ModelInfo, arguments: argparse.Namespace) -> ScenarioInfo:
    """The context that was asked for, else the first one made long enough for the steps."""
    if arguments.context is not None or info.contract is None:
        return wanted
    needed = wanted.context + arguments.steps
    limit = info.contract.context_limit
    if arguments.steps <= wanted.context // 2:
        return wanted
    return msgspec.structs.replace(wanted, context=needed if limit is None else min(needed, limit))


def _streaming(info: ModelInfo, meter: screen.Meter) -> TokenPrinter:
    def show(token: TokenInfo) -> None:
        meter.clear()
        said = token.text if info.has_tokenizer else " ".join(map(str, token.tokens)) + " "
        sys.stdout.write(said)
        sys.stdout.flush()

    return show


def generate(
    engine: Engine,
    info: ModelInfo,
    params: PrefillParams,
    listener: Listener,
    wanted: Steps,
) -> Outcome:
    """Prefill, eager steps, profiled ones, and when that is not all: a capture and the rest as replays.

    Where the capture is declined the rest runs eagerly too.
    """
    make_plan(engine, params.scenario)
    started = perf_counter()
    first = engine.prefill(params, listener)
    milliseconds = (perf_counter() - started) * 1000
    said = [first]
    stepped = _steps(engine, wanted.eager, said, listener)
    profile: ProfileInfo | None = None
    if wanted.profiled and not said[-1].finished:
        profile = profiling.profile(engine, CountParams(count=wanted.profiled), listener)
        said.append(profile.run)
    captured: CaptureInfo | None = None
    replayed: RunInfo | None = None
    if wanted.steps > wanted.eager and not said[-1].finished:
        captured = engine.capture(Empty(), listener)
        said.append(captured.run)
        rest = wanted.steps - wanted.eager - 1
        if captured.captured:
            replayed = _replays(engine, rest, said, listener, wanted.multi_step)
        else:
            stepped = _steps(engine, rest, said, listener) or stepped
    verified: VerifyInfo | None = None
    if wanted.verified and captured:
        verified = engine.verify(CountParams(count=wanted.verified), listener)
    record = engine.run_record()
    return Outcome(
        model=info.path,
        device=params.device,
        scenario=params.scenario,
        tokens=[token for part in said for token in part.new_tokens],
        text="".join(part.text for part in said),
        prefill_milliseconds=milliseconds,
        prefill=first,
        eager=stepped,
        capture=captured,
        replay=replayed,
        verify=verified,
        snapshot=engine.snapshot(),
        prediction=[] if record is None else prediction(record),
        profile=profile,
    )


def _steps(engine: Engine, count: int, said: list[RunInfo], listener: Listener) -> RunInfo | None:
    if count < 1 or said[-1].finished:
        return None
    said.append(engine.step(CountParams(count=count), listener))
    return said[-1]


def _replays(
    engine: Engine, count: int, said: list[RunInfo], listener: Listener, multi_step: int
) -> RunInfo | None:
    if count < 1 or said[-1].finished:
        return None
    said.append(engine.replay(CountParams(count=count, multi_step=multi_step), listener))
    return said[-1]


def show_outcome(out: Console, outcome: Outcome) -> None:
    """What ran, how fast, and what it allocated."""
    last, snapshot = outcome.replay or outcome.eager or outcome.prefill, outcome.snapshot
    first = outcome.prefill
    rows = [
        ("device", outcome.device),
        ("prefill", f"{first.position} tokens in {outcome.prefill_milliseconds:,.0f} ms with loading"),
        ("eager steps", f"{last.steps_eager} at {rate_text(last.tokens_per_second_eager)}"),
        ("capture", _captured(outcome.capture)),
        ("replays", f"{last.steps_replayed} at {rate_text(last.tokens_per_second_replay)}"),
        ("allocations", f"{snapshot.allocations_last_step} in the last step"),
        (
            "kernel temporaries",
            f"{figure_text(snapshot.kernel_temporaries)} beside the plan, in a measured step",
        ),
        ("device memory", _now_and_peak(snapshot)),
        ("prediction", _prediction(outcome.prediction)),
        ("leased", _leased(snapshot)),
        *(() if snapshot.streaming is None else (("weights streamed", streamed_words(snapshot.streaming)),)),
        ("uploads", f"{snapshot.uploads}, {format_bytes(snapshot.upload_bytes)}"),
        ("downloads", _downloads(snapshot, len(outcome.tokens))),
        (
            "position",
            f"{last.position} of {last.capacity} tokens{f'; {last.finished}' if last.finished else ''}",
        ),
    ]
    if snapshot.blocks is not None:
        rows.append(("KV blocks", blocks_text(snapshot.blocks)))
    rows += [(f"experts, {item.phase.lower()}", _demand(item)) for item in snapshot.experts]
    if outcome.verify is not None:
        rows.append(("verify", _verified(outcome.verify)))
    screen.table(out, "", ("what", "outcome"), rows)
    if outcome.capture is not None:
        _show_declines(out, outcome.capture)


def _downloads(snapshot: SnapshotInfo, tokens: int) -> str:
    """How many, and a token where steps ran without one."""
    few = f"; {snapshot.downloads / tokens:.2f} a token" if snapshot.downloads < tokens else ""
    return f"{snapshot.downloads}, {format_bytes(snapshot.download_bytes)}{few}"


def _now_and_peak(snapshot: SnapshotInfo) -> str:
    return f"{format_bytes(snapshot.allocated_bytes)}, peak {format_bytes(snapshot.peak_bytes)}"


def streamed_words(streaming: StreamingInfo) -> str:
    """How often weights were copied from the file, how much that was, and through which window."""
    return (
        f"{streaming.page_ins:,} page-ins, {format_bytes(streaming.page_in_bytes)}: {streaming.streamed}"
        f" weights through {format_bytes(streaming.window_bytes)}; the least budget is"
        f" {format_bytes(streaming.least)}"
    )


def _demand(item: ExpertTraffic) -> str:
    """What the routes of one phase asked for, and how much of it was different experts."""
    asked = f"{format_bytes(item.logical)} routed, {format_bytes(item.unique)} of selected experts"
    return f"{asked}; {format_bytes(item.uploaded)} uploaded in whole banks, {item.page_ins} page-ins"


def _prediction(rows: Sequence[DifferenceInfo]) -> str:
    """Every component that was measured: right to the byte, or by how much not."""
    known = [row for row in rows if row.difference is not None]
    off = [_off(row.name, row.difference) for row in known if row.difference]
    return ", ".join(off) or f"0 B off in {len(known)} of {len(rows)} components"


def _off(name: str, error: int) -> str:
    return f"{name}: {error:,} B more than planned" if error > 0 else f"{name}: {-error:,} B not needed yet"


def _leased(snapshot: SnapshotInfo) -> str:
    """What the session has claimed of its limit, before a byte of it was allocated."""
    claimed = format_bytes(sum(item.bytes for item in snapshot.leases))
    if snapshot.left is None:
        return f"{claimed}; no budget is set"
    limit = f" of {format_bytes(snapshot.budget)}" if snapshot.budget is not None else ""
    return f"{claimed}{limit}, {format_bytes(snapshot.left)} left"


def _captured(capture: CaptureInfo | None) -> str:
    if capture is None:
        return "not asked for"
    graphs = sum(segment.captured for segment in capture.segments)
    nodes = f"{capture.nodes_captured} of {capture.nodes_total} nodes"
    if not capture.captured:
        return "declined"
    own = "" if capture.device_nodes is None else f", {capture.device_nodes:,} nodes of the device's graphs"
    return f"{graphs} graph{'s' if graphs != 1 else ''}, {nodes}{own}"


def _verified(verify: VerifyInfo) -> str:
    if verify.equal:
        return f"{verify.steps} replays equal their eager steps"
    return f"first differs at step {verify.first_difference} of {verify.steps}"


def _show_declines(out: Console, capture: CaptureInfo) -> None:
    rows = [
        (item.node, item.operator, item.reason, item.remedy) for item in capture.declines[:SHOWN_DECLINES]
    ]
    if rows:
        screen.table(out, "Not captured", ("node", "operator", "why", "remedy"), rows)
    if len(capture.declines) > SHOWN_DECLINES:
        out.print(f"and {len(capture.declines) - SHOWN_DECLINES} more (--json lists them)")


if TYPE_CHECKING:
    from collections.abc import Callable

    TokenPrinter = Callable[[TokenInfo], None]
