"""A paged decoder in the window: its pool is planned, smaller blocks are a click, a run tells its blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from vramscope.messages.model import OpenParams

if TYPE_CHECKING:
    from pathlib import Path

    from tests.story.conftest import Story


def test_blocks_are_planned_suggested_and_told_while_it_runs(story: Story, shared_models: Path) -> None:
    story.open_source(OpenParams(path=str(shared_models / "tiny" / "tiny-llama-fp16-cuda-paged")))
    first = story.state.plan
    assert first is not None
    window = story.window
    window.controller.edit(msgspec.structs.replace(first.scenario, batch=3, context=130, prompt=20))
    story.journey.wait("planning", lambda state: state.plan is not first and state.busy is None)
    plan = story.state.plan
    assert plan is not None
    kv = next(item for item in plan.components if item.name == "KV cache")
    assert "3 blocks of 256 tokens, 390 of 768 held tokens used" in kv.detail
    (smaller,) = [item for item in plan.suggestions if item.change == {"block_size": 16}]
    window.overview.suggested.emit(dict(smaller.change))
    story.journey.wait("planning", lambda state: state.plan is not plan and state.busy is None)
    after = story.state.plan
    assert after is not None
    assert after.total.bytes == (plan.total.bytes or 0) - smaller.saves
    bar = window.scenario
    assert bar.block_size.isVisible()
    assert not bar.growing.isVisible()
    assert (bar.block_size.text(), bar.kv_blocks.text()) == ("of 16", "as many as needed")
    bar.kv_blocks.setValue(30)
    story.journey.wait("planning", lambda state: state.plan is not after and state.busy is None)
    more = story.state.plan
    assert more is not None
    assert more.total.bytes == (after.total.bytes or 0) + 3 * 16 * 256  # three blocks more
    story.do("undo")
    assert bar.kv_blocks.value() == 0
    story.do("prefill")
    story.do("steps", count=4)
    story.do("capture")
    story.do("replay", count=40)
    live = story.state.live
    blocks = live.blocks
    assert blocks is not None
    assert live.slots[0].replays == 40
    each = -(-live.position // 16)
    assert each > 3
    assert (blocks.block_size, blocks.blocks, blocks.taken, blocks.held) == (16, 27, 3 * each, 48 * each)
    assert blocks.used == 3 * live.position
    story.picture("paged-run")
    gauge = window.run_panel._position
    assert f"{3 * each} of 27 blocks" in gauge.accessibleDescription()
    assert f"{3 * each} blocks of 16 tokens are taken: {3 * live.position} of {48 * each}" in gauge.toolTip()
