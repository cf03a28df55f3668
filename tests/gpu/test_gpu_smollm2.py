"""SmolLM2 on the CUDA device: the three recorded prompts in every precision, captured and replayed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from vramscope.api import make_plan, open_path
from vramscope.build.smollm2 import export_smollm2
from vramscope.decode.decoder import Decoder
from vramscope.errors import InputError
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from vramscope.devices.cuda.device import CudaDevice

pytestmark = pytest.mark.gpu

TOLERANCE = {"fp32": 2e-3, "fp16": 0.1, "q4": 0.05}
"""Largest difference of a recorded logit, as in the host's tests; fp16 rounds at other places here."""


@pytest.mark.parametrize("precision", TOLERANCE)
def test_greedy_tokens_equal_the_recorded_ones(shared_models: Path, cuda: CudaDevice, precision: str) -> None:
    truth = json.loads((shared_models / "groundtruth_smollm2-135m.json").read_text())
    try:
        folder = export_smollm2(None, precision)
    except InputError as error:
        pytest.skip(f"SmolLM2 cannot be had here: {error}")
    model = open_path(folder)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=40, context=128)), device=cuda)
    decoder.load()
    for case in truth:
        tokens = [decoder.prefill([case["prompt_ids"]]).tokens[0]]
        logits = decoder.logits()[0]
        for token, value in case["last_logits_top10"]:
            assert logits[token] == pytest.approx(value, abs=TOLERANCE[precision])
        while len(tokens) < len(case["new_ids"]):
            tokens.append(decoder.advance().tokens[0])
        assert tokens == case["new_ids"]
    assert decoder.snapshot().steps_replayed > 0
    report = decoder.snapshot().report
    assert report is not None
    assert report.is_single_graph
