"""The ``profile`` request: eager steps whose nodes are timed, as a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.running import ProfileInfo, RunInfo
from vramscope.server.engine import positive

if TYPE_CHECKING:
    from vramscope.decode.profiling import StepProfile
    from vramscope.messages.running import CountParams
    from vramscope.server.engine import Engine
    from vramscope.server.listener import Listener


def profile(engine: Engine, params: CountParams, listener: Listener) -> ProfileInfo:
    """Takes ``params.count`` eager steps and times their nodes.

    Raises:
        InputError: no generation has begun, or the count is below 1.
    """
    return engine.running().profile(positive(params.count), listener)


def profile_info(found: StepProfile, run: RunInfo) -> ProfileInfo:
    """A profile as a message."""
    return ProfileInfo(
        steps=found.steps,
        step_microseconds=found.seconds * 1e6,
        nodes=[item.step for item in found.nodes],
        microseconds=[item.seconds * 1e6 for item in found.nodes],
        run=run,
    )


def joined(before: RunInfo, after: RunInfo) -> RunInfo:
    """Where a run stands after two requests, with the tokens of both."""
    return msgspec.structs.replace(
        after, new_tokens=[*before.new_tokens, *after.new_tokens], text=before.text + after.text
    )
