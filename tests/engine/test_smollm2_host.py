"""SmolLM2 on the host device.

The three prompts of the ground truth, in every precision, from a fresh export.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

from vramscope.api import make_plan, open_path
from vramscope.build.smollm2 import export_smollm2
from vramscope.decode.decoder import Decoder
from vramscope.decode.tokenizer import load_tokenizer
from vramscope.devices.host import HostDevice
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = {"fp32": 1e-3, "fp16": 0.05, "q4": 0.05}


@pytest.mark.slow
@pytest.mark.parametrize("precision", TOLERANCE)
def test_greedy_tokens_equal_the_ground_truth(
    shared_models: Path, tmp_path_factory: pytest.TempPathFactory, precision: str
) -> None:
    truth = json.loads((shared_models / "groundtruth_smollm2-135m.json").read_text())
    folder = export_smollm2(tmp_path_factory.mktemp("smollm2") / precision, precision)
    model = open_path(folder)
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    # The order of summation moves float16 logits by 0.01: the same number of threads everywhere.
    decoder = Decoder(model, make_plan(model, Scenario(prompt=40, context=128)), device=HostDevice(threads=2))
    decoder.load()
    for case in truth:
        assert tokenizer.encode(case["prompt"]) == case["prompt_ids"]
        tokens = [decoder.prefill([case["prompt_ids"]]).tokens[0]]
        logits = decoder.logits()[0]
        for token, value in case["last_logits_top10"]:
            half_step = float(np.spacing(logits[token])) / 2
            assert logits[token] == pytest.approx(value, abs=TOLERANCE[precision] + half_step)
        while len(tokens) < len(case["new_ids"]):
            tokens.append(decoder.advance().tokens[0])
        assert tokens == case["new_ids"]
    assert decoder.snapshot().steps_replayed > 0
    decoder.close()
