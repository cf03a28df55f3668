"""Several replays between two downloads: the tokens, what is transferred, and steps that were surplus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from cuda_twin import twin_device

from vramscope.api import make_plan, open_path
from vramscope.cli.main import main
from vramscope.decode.decoder import Decoder
from vramscope.decode.types import DecodeState
from vramscope.devices.sampling import GREEDY, Sampling
from vramscope.errors import CancelledError, NeverCapturedError
from vramscope.plan.types import KEPT_TOKENS, BucketPolicy, Scenario

if TYPE_CHECKING:
    from vramscope.devices.base import Device
    from vramscope.graph.model import Model

TINY = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"
PROMPTS = {1: [[5, 9, 11, 200, 7]], 3: [[5, 9, 11, 200, 7], [8, 3], [1, 2, 3, 4]]}
FIXED = BucketPolicy()
DRAWN = Sampling(1.0, top_k=40, top_p=0.95, seed=7)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return open_path(TINY)


def ready(
    model: Model,
    batch: int = 1,
    sampling: Sampling = GREEDY,
    device: Device | None = None,
    context: int = 120,
    bucket: BucketPolicy = FIXED,
) -> Decoder:
    """A decoder whose step is captured."""
    plan = make_plan(model, Scenario(batch=batch, prompt=8, context=context, bucket=bucket))
    decoder = Decoder(model, plan, device=device, sampling=sampling)
    decoder.load()
    decoder.prefill(PROMPTS[batch])
    decoder.step()
    decoder.capture()
    return decoder


def bursts(decoder: Decoder, count: int, width: int) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    while len(found) < count:
        found += [item.tokens for item in decoder.replays(min(width, count - len(found)))]
    return found


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("width", [2, 5, KEPT_TOKENS])
def test_bursts_give_the_tokens_of_single_replays(
    tiny: Model, batch: int, width: int, sampling: Sampling
) -> None:
    single, several = ready(tiny, batch, sampling), ready(tiny, batch, sampling)
    expected = [single.replay().tokens for _ in range(71)]
    assert bursts(several, 71, width) == expected
    assert np.array_equal(single.logits(), several.logits())
    assert (single.snapshot().position, single.snapshot().steps_replayed) == (
        several.snapshot().position,
        several.snapshot().steps_replayed,
    )
    assert single.replay().tokens == several.replay().tokens


def test_a_burst_uploads_nothing_downloads_once_and_allocates_nothing(tiny: Model) -> None:
    decoder = ready(tiny)
    before = decoder.snapshot().transfers
    results = decoder.replays(8)
    after = decoder.snapshot().transfers
    assert len(results) == 8
    assert {(item.replayed, item.allocations) for item in results} == {(True, 0)}
    assert [item.position for item in results] == list(range(8, 16))
    assert (after.uploads, after.upload_bytes) == (before.uploads, before.upload_bytes)
    assert after.downloads - before.downloads == 1
    assert after.download_bytes - before.download_bytes == 8 * (2 + KEPT_TOKENS)


def test_a_card_sees_one_copy_a_burst_and_one_launch_a_step(shared_models: Path) -> None:
    device, twin = twin_device()
    decoder = ready(open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda"), device=device)
    before = (twin.uploads, twin.downloads, twin.issued, twin.mallocs, twin.replays)
    taken = decoder._multi.replay(16, lambda: None)
    assert len(taken) == 16
    after = (twin.uploads, twin.downloads, twin.issued, twin.mallocs, twin.replays)
    assert [now - then for now, then in zip(after, before, strict=True)] == [0, 1, 0, 0, 16]


def test_the_bucket_and_the_context_end_a_burst(tiny: Model) -> None:
    growing = BucketPolicy(minimum=32, growing=True)
    decoder, plain = (ready(tiny, context=90, bucket=growing) for _ in range(2))
    expected = [plain.advance().tokens for _ in range(83)]
    sizes: list[int] = []
    found: list[tuple[int, ...]] = []
    while decoder.snapshot().position < 90:
        taken = decoder.replays(20) if decoder.state is DecodeState.READY else [decoder.advance()]
        sizes.append(len(taken))
        found += [item.tokens for item in taken]
    assert found == expected
    assert sizes[:3] == [20, 5, 1], "7 + 20 + 5 fill 32 tokens; the step that grows is an eager one"
    assert decoder.snapshot().slots[0].invalidations == 2
    assert taken[-1].finished == "context full"


@pytest.mark.parametrize("batch", [1, 3])
def test_the_blocks_of_a_paged_cache_end_a_burst(shared_models: Path, batch: int) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp16-cuda-paged")
    scenario = Scenario(batch=batch, prompt=8, context=64, block_size=16)
    decoder, plain = (Decoder(model, make_plan(model, scenario)) for _ in range(2))
    for item in (decoder, plain):
        item.load()
        item.prefill(PROMPTS[batch])
        item.step()
        item.capture()
    expected = [plain.replay().tokens for _ in range(30)]
    sizes: list[int] = []
    found: list[tuple[int, ...]] = []
    while len(found) < 30:
        taken = [item.tokens for item in decoder.replays(30 - len(found))]
        sizes.append(len(taken))
        found += taken
    assert found == expected
    assert sizes == ([9, 16, 5] if batch == 1 else [9, 1, 2, 13, 1, 2, 2])
    assert decoder.snapshot().blocks == plain.snapshot().blocks
    assert np.array_equal(decoder.logits(), plain.logits())


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("place", [0, 1, 6])
def test_steps_behind_an_end_of_sequence_leave_no_trace(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, batch: int, place: int
) -> None:
    single, several = ready(tiny, batch, DRAWN), ready(tiny, batch, DRAWN)
    expected = [single.replay() for _ in range(place + 1)]
    ends = frozenset(expected[-1].tokens)
    first = next(n for n, item in enumerate(expected) if ends.issuperset(item.tokens))
    assert first == place, "the seed's tokens do not end before"
    monkeypatch.setattr(several._accounts, "_ends", ends)
    found = several.replays(8)
    assert [item.tokens for item in found] == [item.tokens for item in expected]
    assert [item.finished for item in found] == [""] * place + ["end of sequence"]
    assert np.array_equal(single.logits(), several.logits())
    kept, other = single.save(), several.save()
    assert (kept.position, kept.tokens) == (other.position, other.tokens)
    for name in kept.contents.keys() - {"decode state"}:
        assert np.array_equal(kept.contents[name], other.contents[name]), name
    one, two = single._worker.state, several._worker.state
    assert np.array_equal(one.token, two.token)
    assert np.array_equal(one.length, two.length)
    assert single.snapshot().steps_replayed == several.snapshot().steps_replayed
    monkeypatch.undo()
    assert [single.replay().tokens for _ in range(20)] == bursts(several, 20, 7)


def test_a_caches_length_that_is_a_shape_and_a_sliding_cache_take_single_steps(shared_models: Path) -> None:
    for name in ("torchexp-tiny-llama", "tiny-gemma3-fp32-cpu"):
        decoder = ready(open_path(shared_models / "tiny" / name), context=40)
        assert len(decoder.replays(8)) == 1, name


def test_a_cancel_between_two_replays_keeps_those_that_ran(tiny: Model) -> None:
    decoder, plain = ready(tiny), ready(tiny)
    asked = iter([False, False, False, True])

    def cancel() -> None:
        if next(asked):
            raise CancelledError("a burst", "the user asked")

    assert [item.tokens for item in decoder.replays(8, cancel)] == [plain.replay().tokens for _ in range(3)]
    with pytest.raises(CancelledError):
        decoder.replays(8, lambda: (_ for _ in ()).throw(CancelledError("a burst", "the user asked")))
    assert decoder.replay().tokens == plain.replay().tokens


def test_replays_before_a_capture_are_refused(tiny: Model) -> None:
    decoder = Decoder(tiny, make_plan(tiny, Scenario(prompt=8, context=64)))
    decoder.load()
    decoder.prefill(PROMPTS[1])
    with pytest.raises(NeverCapturedError):
        decoder.replays(4)


def test_a_restored_session_knows_its_last_tokens(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, plain = ready(tiny, sampling=DRAWN), ready(tiny, sampling=DRAWN)
    saved = decoder.save()
    decoder.replays(6)
    decoder.restore(saved)
    expected = plain.replay()
    monkeypatch.setattr(decoder._accounts, "_ends", frozenset(expected.tokens))
    assert [item.tokens for item in decoder.replays(6)] == [expected.tokens]
    monkeypatch.undo()
    assert decoder.replay().tokens == plain.replay().tokens


def test_the_command_line_downloads_less_often(capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for options in ([], ["--multi-step", "8"]):
        assert main(["run", str(TINY), "--tokens", "5,9,11", "--steps", "20", *options]) == 0
        shown.append(capsys.readouterr().out)
    plain, several = shown
    assert plain.splitlines()[0] == several.splitlines()[0]
    assert "21, 168 B" in plain
    assert "7, 584 B; 0.33 a token" in several, several


def test_a_scenario_of_a_larger_batch_keeps_more_tokens(tiny: Model) -> None:
    one, four = (
        next(
            row
            for row in make_plan(tiny, replace(Scenario(), batch=batch)).bindings
            if row.direction == "state"
        )
        for batch in (1, 4)
    )
    assert four.figure.known == 4 * one.figure.known == 4 * 8 * (2 + KEPT_TOKENS)
