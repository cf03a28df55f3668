"""The package's public names: loaded lazily, all of them there, enough for a short script."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import vramscope
from vramscope.errors import InputError
from vramscope.graph.model import Weights

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, vramscope; print([m for m in ('numpy', 'onnx', 'onnx_ir', 'sympy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_listed_name_is_there() -> None:
    for name in dir(vramscope):
        assert getattr(vramscope, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = vramscope.no_such_name


def test_a_short_script_plans_and_decodes() -> None:
    model = vramscope.open_path(SAMPLE)
    plan = vramscope.make_plan(model, vramscope.Scenario(card="RTX 4090", context=64, prompt=8))
    assert plan.verdict.sentence.startswith("fits with")
    decoder = vramscope.Decoder(model, plan)
    decoder.load()
    assert len(decoder.prefill([[5, 6, 7]]).tokens) == 1
    decoder.close()


def test_a_model_built_without_weights_is_planned_and_never_run_on_zeros() -> None:
    model = replace(vramscope.open_path(SAMPLE), weights=Weights.LEFT_OUT)
    plan = vramscope.make_plan(model, vramscope.Scenario(context=64, prompt=8))
    with pytest.raises(InputError, match="left out when it was built"):
        vramscope.Decoder(model, plan).load()
    with pytest.raises(InputError, match="it can be planned, not run"):
        vramscope.run_plain(model, plan)
