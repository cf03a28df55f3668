"""The run in words: its state, its rates, what verification and capture said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vramscope_app.text import rate_text
from vramscope_app.translation import tr

if TYPE_CHECKING:
    from vramscope.messages.live import BlocksInfo
    from vramscope.messages.running import CaptureInfo, ProfileInfo, RunInfo, VerifyInfo
    from vramscope_app.state import AppState

COMPARED_STEPS, COMPARED_SECONDS = 8, 0.25
"""So many steps, and so long, eager and replayed each, before one is told as a multiple of the other."""
_TONES = {"ready": "good", "unsupported": "warning", "armed": "info", "warm-up": "info"}


def state_chip(state: AppState) -> tuple[str, str]:
    """The run's state and its tone."""
    run = state.run
    if run.finished:
        return f"● {tr('finished')}", "info"
    return f"● {tr(run.state)}", _TONES.get(run.state, "muted")


def rates_text(state: AppState) -> str:
    """Tokens a second, eager beside replay."""
    eager, replay = state.run.tokens_per_second_eager, state.run.tokens_per_second_replay
    parts = [
        tr(
            "eager <b>{eager}</b> tok/s ({steps_eager:,})",
            eager=rate_text(eager),
            steps_eager=state.live.steps_eager,
        ),
        tr(
            "replay <b>{replay}</b> tok/s ({steps_replayed:,})",
            replay=rate_text(replay),
            steps_replayed=state.live.steps_replayed,
        ),
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
    """Why generation stopped, the last verification, capture and profile, a line each."""
    lines = []
    if state.run.finished:
        lines.append(stop_text(state.run))
    if state.verify is not None:
        lines.append(verify_text(state.verify))
    if state.capture is not None:
        lines.append(capture_text(state.capture))
    if state.profile is not None:
        lines.append(profile_text(state.profile))
    return "\n".join(lines)


def position_words(position: int, capacity: int, blocks: BlocksInfo | None) -> str:
    """How far the sequences are, and how many blocks of a paged cache that takes."""
    if not capacity:
        return tr("no prompt yet")
    words = tr("{position:,} of {capacity:,} tokens", position=position, capacity=capacity)
    if blocks is None:
        return words
    return f"{words} · {tr('{taken:,} of {all:,} blocks', taken=blocks.taken, all=blocks.blocks)}"


def blocks_words(blocks: BlocksInfo | None) -> str:
    """What of the blocks that are taken is used; empty where the cache is not paged."""
    if blocks is None:
        return ""
    return tr(
        "{taken:,} blocks of {size:,} tokens are taken: {used:,} of {held:,} held tokens are used",
        taken=blocks.taken,
        size=blocks.block_size,
        used=blocks.used,
        held=blocks.held,
    )


def profile_text(profile: ProfileInfo) -> str:
    """Profiled steps in a sentence."""
    steps = tr("{n:,} step(s)", n=profile.steps)
    return tr("✓ Profiled {steps}: {time:,.0f} µs each", steps=steps, time=profile.step_microseconds)


def stop_text(run: RunInfo) -> str:
    """Why generation stopped, and what could be done to go on."""
    means = {
        "end of sequence": tr("the model chose to end"),
        "context full": tr(
            "all {capacity:,} tokens of the context are used; plan a longer one to go on",
            capacity=run.capacity,
        ),
        "no free KV block": tr(
            "no block of the KV cache is free; plan more blocks or a smaller batch to go on"
        ),
    }
    return tr(
        "■ Stopped: {finished} – {means}",
        finished=tr(run.finished),
        means=means.get(run.finished, tr("prefill again to go on")),
    )


def verify_text(verify: VerifyInfo) -> str:
    """Replay beside eager in a sentence."""
    difference = tr(
        "largest logit difference {largest_logit_difference:.3g}",
        largest_logit_difference=verify.largest_logit_difference,
    )
    if verify.equal:
        return tr(
            "✓ Replay equals eager over {steps}; {difference}",
            steps=tr("{n:,} step(s)", n=verify.steps),
            difference=difference,
        )
    return tr(
        "✗ Replay differs from eager at step {first_difference}; {difference}",
        first_difference=verify.first_difference,
        difference=difference,
    )


def capture_text(capture: CaptureInfo) -> str:
    """A capture in a sentence."""
    nodes = tr(
        "{nodes_captured:,} of {nodes}",
        nodes_captured=capture.nodes_captured,
        nodes=tr("{n:,} node(s)", n=capture.nodes_total),
    )
    if not capture.captured:
        return tr(
            "✗ Nothing was captured: {declines}", declines=tr("{n:,} decline(s)", n=len(capture.declines))
        )
    segments = sum(segment.captured for segment in capture.segments)
    seams = len(capture.segments) - segments
    tail = f", {tr('{n:,} eager seam(s)', n=seams)}" if seams else ""
    own = capture.device_nodes
    return tr(
        "✓ Captured {nodes}: {segments}{tail}, {own}",
        nodes=nodes,
        segments=tr("{n:,} segment(s)", n=segments),
        tail=tail,
        own=tr("no device graph") if own is None else tr("{n:,} device node(s)", n=own),
    )
