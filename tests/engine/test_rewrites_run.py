"""What a rewrite makes, written with weights and run: its run holds what was planned, and answers alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pytest
from rewritten_models import BIASED, MULTIHEAD, SCATTERED_HEADER, UNMASKED, hand_made
from written_program import filled

from vramscope.api import Planner, Scenario, make_plan, open_path
from vramscope.decode.decoder import Decoder
from vramscope.devices.host import HostDevice
from vramscope.plan.rewrites.table import KNOWN
from vramscope.plan.rewrites.types import Rewritten

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.graph.model import Model

Logits: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"

SMALL = Scenario(batch=2, prompt=6, context=32)
PROMPTS = [[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]]


def rewritten(model: Model, *ids: str) -> Model:
    """The model so exported."""
    for name in ids:
        made = KNOWN[name].apply(model)
        assert isinstance(made, Rewritten)
        model = made.model
    return model


def decoded(model: Model, device: HostDevice | None = None) -> tuple[list[tuple[int, ...]], list[Logits]]:
    """Tokens and logits of the prompt and of eight steps."""
    decoder = Decoder(model, make_plan(model, SMALL), device=device)
    decoder.load()
    tokens, logits = [tuple(decoder.prefill(PROMPTS).tokens)], [decoder.logits().astype(np.float32)]
    for _ in range(8):
        tokens.append(tuple(decoder.step().tokens))
        logits.append(decoder.logits().astype(np.float32))
    decoder.close()
    return tokens, logits


@pytest.mark.parametrize(
    "ids",
    [("last-logits",), ("fp16",), ("kv8",), ("kv4",), ("int4",), ("int4-zero-points",),
     ("fp16", "last-logits", "kv8", "int4")],
)  # fmt: skip
def test_a_run_of_the_export_holds_what_was_planned_for_it(
    shared_models: Path, tmp_path: Path, ids: tuple[str, ...]
) -> None:
    """To the byte at its peak, with a budget that allows no byte more."""
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    planned = Planner(model).plan(replace(SMALL, as_if=ids)).total.known
    exported = filled(rewritten(model, *ids), tmp_path)
    device = HostDevice(planned)
    decoded(exported, device)
    assert device.ledger.total.peak_bytes == planned


def test_the_last_position_s_logits_choose_the_same_tokens(shared_models: Path, tmp_path: Path) -> None:
    model = open_path(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    tokens, logits = decoded(model)
    again, few = decoded(filled(rewritten(model, "last-logits"), tmp_path))
    assert again == tokens
    for one, two in zip(logits, few, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("graph", "header"), [(MULTIHEAD, ""), (BIASED, ""), (UNMASKED, SCATTERED_HEADER)])
def test_a_shared_cache_answers_as_the_growing_one(tmp_path: Path, graph: str, header: str) -> None:
    planner = hand_made(tmp_path, graph, header=header) if header else hand_made(tmp_path, graph)
    plain = filled(planner.model, tmp_path / "plain")
    shared = filled(rewritten(plain, "shared-kv"), tmp_path / "shared")
    tokens, logits = decoded(plain)
    again, close = decoded(shared)
    for one, two in zip(logits, close, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    assert again == tokens
