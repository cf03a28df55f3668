"""Caches whose past and present are apart: a step sees all earlier rows, eager, captured, grown, undone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from rewritten_models import MULTIHEAD, SCATTERED_HEADER, UNMASKED, hand_made
from written_program import HEADER, filled

from vramscope.api import Scenario, make_plan
from vramscope.decode.decoder import Decoder
from vramscope.decode.speculative import generate_speculatively
from vramscope.graph.model import KvForm
from vramscope.plan.types import BucketPolicy

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

PROMPT = [3, 1, 4, 1, 5, 9]
SMALL = Scenario(prompt=6, context=40)


@pytest.fixture(params=[(MULTIHEAD, HEADER), (UNMASKED, SCATTERED_HEADER)], ids=["multihead", "unmasked"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    """A decoder that returns past and new rows as new tensors."""
    graph, header = request.param
    made = filled(hand_made(tmp_path, graph, header=header).model, tmp_path / "filled", seed=7)
    assert made.contract is not None
    assert {pair.form for pair in made.contract.kv} == {KvForm.GROW}
    return made


def loaded(model: Model, scenario: Scenario = SMALL) -> Decoder:
    """Ready to prefill."""
    decoder = Decoder(model, make_plan(model, scenario))
    decoder.load()
    return decoder


def without_cache(model: Model, prompt: list[int], count: int) -> list[int]:
    """Greedy tokens, each from a prefill of everything before it."""
    history = list(prompt)
    for _ in range(count):
        decoder = loaded(model, replace(SMALL, prompt=len(history)))
        history.append(decoder.prefill([history]).tokens[0])
        decoder.close()
    return history[len(prompt) :]


def test_eager_and_captured_steps_see_every_earlier_row(model: Model) -> None:
    wanted = without_cache(model, PROMPT, 12)
    eager, captured = loaded(model), loaded(model)
    found = [eager.prefill([PROMPT]).tokens[0], *(eager.step().tokens[0] for _ in range(11))]
    assert found == wanted
    found = [captured.prefill([PROMPT]).tokens[0], *(captured.advance().tokens[0] for _ in range(11))]
    assert found == wanted
    np.testing.assert_array_equal(captured.logits().astype(np.float32), eager.logits().astype(np.float32))


def test_logits_are_those_of_a_prompt_as_long(model: Model) -> None:
    decoder = loaded(model)
    history = [*PROMPT, decoder.prefill([PROMPT]).tokens[0]]
    for _ in range(6):
        history.append(decoder.step().tokens[0])
        other = loaded(model, replace(SMALL, prompt=len(history)))
        other.prefill([history[:-1]])
        np.testing.assert_allclose(
            decoder.logits().astype(np.float32), other.logits().astype(np.float32), rtol=1e-4, atol=1e-6
        )


def test_a_second_prompt_forgets_the_first(model: Model) -> None:
    decoder = loaded(model)
    decoder.prefill([PROMPT])
    for _ in range(9):
        decoder.step()
    for prompt in ([2, 7], PROMPT[::-1]):
        found = [decoder.prefill([prompt]).tokens[0], *(decoder.step().tokens[0] for _ in range(5))]
        assert found == without_cache(model, prompt, 6)


def test_a_bucket_that_grows_keeps_both_buffers(model: Model) -> None:
    decoder = loaded(model, replace(SMALL, bucket=BucketPolicy(minimum=8, growing=True)))
    found = [decoder.prefill([PROMPT]).tokens[0], *(decoder.advance().tokens[0] for _ in range(15))]
    assert found == without_cache(model, PROMPT, 16)
    assert decoder.snapshot().capacity == 32


def test_steps_that_were_taken_back_are_seen_no_more(model: Model) -> None:
    decoder = loaded(model)
    decoder.prefill([PROMPT])
    saved = decoder.save()
    first = [decoder.step().tokens[0] for _ in range(5)]
    decoder.restore(saved)
    assert [decoder.step().tokens[0] for _ in range(5)] == first


def test_drafts_that_are_verified_give_the_same_tokens(model: Model) -> None:
    prompt = [1, 2, 3, 1, 2, 3, 1, 2]
    decoder = loaded(model, replace(SMALL, prompt=8))
    found = list(generate_speculatively(decoder, decoder.speculator(3), prompt, 14))
    assert found == without_cache(model, prompt, 14)
