"""Models that are no decoders: the ones that two wheels carry, planned to the byte and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from plain_runs import Arrays, compare

from vramscope.api import make_plan, open_path
from vramscope.build.fetch import Wheel, default_cache, fetch_files
from vramscope.errors import BindingError, InputError, VramscopeError
from vramscope.plan.types import Certainty, Scenario
from vramscope.run.inputs import scenario_of
from vramscope.run.plain import run_plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vramscope.graph.model import Model

SILERO = Wheel("silero-vad==6.2.3", "silero_vad-6.2.3-py3-none-any.whl", 0, ".onnx")
RAPID = Wheel("rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime-1.4.4-py3-none-any.whl", 0, ".onnx")

STATE = {"input": (1, 576), "state": (2, 1, 128), "sr": ()}
SHAPES: tuple[tuple[Wheel, str, Mapping[str, tuple[int, ...]]], ...] = (
    (SILERO, "silero_vad", STATE),
    (SILERO, "silero_vad_half", STATE),
    (SILERO, "silero_vad_16k_op15", STATE),
    (SILERO, "silero_vad_openvino_16k", STATE),
    (SILERO, "silero_vad_op18_ifless", {"input": (3, 576), "state": (2, 3, 128), "sr": ()}),
    (SILERO, "silero_vad_16k_sequence", {"input": (5, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    (RAPID, "ch_PP-OCRv4_det_infer", {"x": (1, 3, 64, 96)}),
    (RAPID, "ch_PP-OCRv4_rec_infer", {"x": (1, 3, 48, 96)}),
    (RAPID, "ch_ppocr_mobile_v2.0_cls_infer", {"x": (2, 3, 48, 192)}),
)
RATE = 16_000


@pytest.fixture(scope="session")
def wheels() -> Mapping[str, Path]:
    """The models' folders by requirement; skipped where no package index serves them."""
    try:
        return {
            wheel.requirement: fetch_files(wheel, default_cache() / "wheels") for wheel in (SILERO, RAPID)
        }
    except InputError as error:
        pytest.skip(f"no package index serves the wheels: {error}")


def feed(model: Model, shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Seeded inputs; the sampling rate is the only integer."""
    generator = np.random.default_rng(7)
    found: Arrays = {}
    for item in model.program.inputs:
        name = model.program.values[item].name
        whole = name == "sr"
        found[name] = (
            np.array(RATE, np.int64) if whole else generator.standard_normal(shapes[name]).astype(np.float32)
        )
    return found


@pytest.mark.parametrize(("wheel", "name", "shapes"), SHAPES, ids=[name for _, name, _ in SHAPES])
def test_a_real_model_is_planned_to_the_byte_and_right(
    wheels: Mapping[str, Path], wheel: Wheel, name: str, shapes: Mapping[str, tuple[int, ...]]
) -> None:
    path = wheels[wheel.requirement] / f"{name}.onnx"
    model = open_path(path)
    assert model.contract is None
    inputs = feed(model, shapes)
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert not plan.refusals
    assert plan.total.certainty is Certainty.EXACT
    tolerance = 2e-2 if name.endswith("half") else 1e-4
    device = compare(path, model, plan, inputs, tolerance)
    assert device.ledger.total.peak_bytes == plan.total.bytes
    assert device.ledger.total.current_bytes == 0


def test_maxima_are_taken_as_extents_where_branches_depend_on_them(wheels: Mapping[str, Path]) -> None:
    path = wheels[SILERO.requirement] / "silero_vad_half.onnx"
    model = open_path(path)
    plan = make_plan(model, Scenario(maxima={"batch": 1, "sequence": 576}))
    assert not plan.refusals
    assert any("exactly" in note and "maxima of batch, sequence" in note for note in plan.notes)
    assert {row.symbol for row in plan.axes} == {"batch", "sequence"}
    inputs = feed(model, STATE)
    compare(path, model, plan, inputs)
    with pytest.raises(BindingError, match="the plan is for exactly"):
        run_plain(model, plan, {**inputs, "input": np.zeros((1, 320), np.float32)})


def test_a_branch_that_the_extents_contradict_is_left_out_and_told(wheels: Mapping[str, Path]) -> None:
    model = open_path(wheels[SILERO.requirement] / "silero_vad.onnx")
    inputs = feed(model, STATE)
    plan = make_plan(model, scenario_of(model, Scenario(), inputs))
    assert any("else_branch of If_0 cannot run" in note for note in plan.notes)
    with pytest.raises(VramscopeError, match="else_branch of ai") as caught:
        run_plain(model, plan, {**inputs, "sr": np.array(8_000, np.int64)})
    assert caught.value.node == "If_0"
