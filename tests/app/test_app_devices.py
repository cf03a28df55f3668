"""Devices and what stands in the way of running: said in words, and every command that runs is off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import Qt

from vramscope.messages.model import DeviceInfo, OpenParams
from vramscope.messages.planning import SuggestionInfo
from vramscope_app.journey import runs
from vramscope_app.panels.suggestions import suggestion_text, suggestion_tip
from vramscope_app.rows.devices import device_choices, device_of, obstacle

if TYPE_CHECKING:
    from types import ModuleType

    import pytest
    from tests.app.conftest import Script

    from vramscope.messages.running import PrefillParams

GONE = DeviceInfo(name="cuda", available=False, detail="the driver finds no GPU")


def test_a_device_that_is_not_here_can_still_be_planned(messages: ModuleType) -> None:
    hello = msgspec.structs.replace(messages.hello(), devices=[*messages.hello().devices, GONE])
    labels = [choice.label for choice in device_choices(hello.devices)]
    assert labels == ["host", "cuda (plan only)", "reference (plan only)"]
    assert [device_of(runtime) for runtime in ("vramscope", "cuda", "reference")] == [
        "host",
        "cuda",
        "reference",
    ]
    assert obstacle(None, "vramscope", hello) == ""
    assert "finds no GPU" in obstacle(None, "cuda", hello)
    assert "choose another device" in obstacle(None, "reference", hello)


def test_a_model_without_weights_is_planned_and_says_why_it_does_not_run(
    script: Script, messages: ModuleType
) -> None:
    script.open()
    hollow = msgspec.structs.replace(messages.model(), has_weights=False)
    script.answer("open", OpenParams(sample="other"), hollow)
    script.plan()
    assert not script.window.actions_by_id["prefill"].isEnabled()
    assert script.window.actions_by_id["export"].isEnabled()
    assert "not here" in script.window.run_panel.output.placeholderText()
    assert not runs(script.controller.state)
    script.open()
    script.plan()
    assert script.window.actions_by_id["prefill"].isEnabled()
    assert runs(script.controller.state)


def test_the_chosen_device_is_planned_and_runs(
    script: Script, messages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = DeviceInfo(name="cuda", available=True, detail="a GPU")
    script.client.ready.emit(
        msgspec.structs.replace(messages.hello(), devices=[*messages.hello().devices, here])
    )
    script.answer("open", OpenParams(sample="tiny"), messages.model())
    box = script.window.scenario.device
    assert [box.itemText(place) for place in range(box.count())] == ["host", "cuda", "reference (plan only)"]
    assert box.itemData(1, Qt.ItemDataRole.ToolTipRole) == "a GPU"
    box.setCurrentIndex(1)
    box.activated.emit(1)
    assert script.controller.state.scenario.runtime == "cuda"
    sent: list[PrefillParams] = []
    monkeypatch.setattr(script.client, "call", lambda _method, params: sent.append(params))
    script.window.prefill()
    assert sent[0].device == "cuda"


def test_both_sliders_edit_the_scenario(script: Script) -> None:
    script.open()
    bar = script.window.scenario
    bar.batch_slider.setValue(5)
    assert script.controller.state.scenario.batch == bar.batch.value() == 8
    bar.batch.setValue(7)
    assert bar.batch_slider.value() == 4
    bar.slider.setValue(0)
    scenario = script.controller.state.scenario
    assert (scenario.context, scenario.prompt) == (16, 8), (
        "a prompt never outgrows the context while dragging"
    )


def test_a_saving_that_is_not_enough_says_so() -> None:
    item = SuggestionInfo(title="Halve it", saves=2**20, change={"context": 8}, headroom=-(2**30))
    assert suggestion_text(item) == "Lower the context to 8 · saves 1.00 MiB, still short by 1.00 GiB"
    assert "does not fit then" in suggestion_tip(item)
    enough = msgspec.structs.replace(item, headroom=5)
    assert suggestion_text(enough) == "Lower the context to 8 · saves 1.00 MiB"
    assert "fits then" in suggestion_tip(enough)


def test_the_scenario_bar_goes_on_in_another_line_and_shows_everything(script: Script) -> None:
    bar = script.window.scenario
    for width in (1500, 900, 700):
        bar.resize(width, bar.heightForWidth(width))
        layout = bar.layout()
        assert layout is not None
        layout.activate()
        for widget in (bar.card, bar.device, bar.batch, bar.context, bar.slider, bar.prompt, bar.bucket):
            corner = widget.mapTo(bar, widget.rect().bottomRight())
            assert corner.x() <= width
            assert corner.y() <= bar.height()
    assert bar.heightForWidth(700) > bar.heightForWidth(1500)
