"""The run in words: its state, its rates, what verification and capture said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.text import plural, rate_text

if TYPE_CHECKING:
    from vramscope.messages.running import CaptureInfo, RunInfo, VerifyInfo
    from vramscope_app.state import AppState

COMPARED_STEPS, COMPARED_SECONDS = 8, 0.25
"""So many steps, and so long, eager and replayed each, before one is told as a multiple of the other."""
_TONES = {"ready": "good", "unsupported": "warning", "armed": "info", "warm-up": "info"}


def state_chip(state: AppState) -> tuple[str, str]:
    """The run's state and its tone."""
    run = state.run
    if run.finished:
        return "● finished", "info"
    return f"● {run.state}", _TONES.get(run.state, "muted")


def rates_text(state: AppState) -> str:
    """Tokens a second, eager beside replay."""
    eager, replay = state.run.tokens_per_second_eager, state.run.tokens_per_second_replay
    parts = [
        f"eager <b>{rate_text(eager)}</b> tok/s ({state.live.steps_eager:,})",
        f"replay <b>{rate_text(replay)}</b> tok/s ({state.live.steps_replayed:,})",
    ]
    if eager and replay and _comparable(eager, state.live.steps_eager, replay, state.live.steps_replayed):
        parts.append(f"<b>×{replay / eager:.2f}</b>")
    return " &nbsp;·&nbsp; ".join(parts)


def _comparable(eager: float, eager_steps: int, replay: float, replayed_steps: int) -> bool:
    """Whether both were timed long enough for their ratio to mean something.

    A tiny model's step takes less than the machine's own hiccups: a ratio over a few of them is noise.
    """
    steps = min(eager_steps, replayed_steps)
    return steps >= COMPARED_STEPS and min(eager_steps / eager, replayed_steps / replay) >= COMPARED_SECONDS


def run_summary(state: AppState) -> str:
    """Why generation stopped, the last verification and the last capture, a line each."""
    lines = []
    if state.run.finished:
        lines.append(stop_text(state.run))
    if state.verify is not None:
        lines.append(verify_text(state.verify))
    if state.capture is not None:
        lines.append(capture_text(state.capture))
    return "\n".join(lines)


def stop_text(run: RunInfo) -> str:
    """Why generation stopped, and what could be done to go on."""
    means = {
        "end of sequence": "the model chose to end",
        "context full": f"all {run.capacity:,} tokens of the context are used; plan a longer one to go on",
    }
    return f"■ Stopped: {run.finished} – {means.get(run.finished, 'prefill again to go on')}"


def verify_text(verify: VerifyInfo) -> str:
    """Replay beside eager in a sentence."""
    difference = f"largest logit difference {verify.largest_logit_difference:.3g}"
    if verify.equal:
        return f"✓ Replay equals eager over {plural(verify.steps, 'step')}; {difference}"
    return f"✗ Replay differs from eager at step {verify.first_difference}; {difference}"


def capture_text(capture: CaptureInfo) -> str:
    """A capture in a sentence."""
    nodes = f"{capture.nodes_captured:,} of {plural(capture.nodes_total, 'node')}"
    if not capture.captured:
        return f"✗ Nothing was captured: {plural(len(capture.declines), 'decline')}"
    segments = sum(segment.captured for segment in capture.segments)
    seams = len(capture.segments) - segments
    tail = f", {plural(seams, 'eager seam')}" if seams else ""
    return f"✓ Captured {nodes}: {plural(segments, 'segment')}{tail}"
