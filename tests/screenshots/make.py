"""Makes pictures of every panel in every state that matters, through the real window and the real engine.

``make.py`` writes into ``tests/screenshots/out`` (which git ignores); ``--keep`` also renews the small set
beside this file. Every state is driven in both themes at 1280×800, and again at 2560×1440 with two pixels
a point.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np
from PySide6.QtCore import QSettings, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from vramscope.messages.model import OpenParams
from vramscope_app.client import EngineClient
from vramscope_app.controller import Controller
from vramscope_app.docks import BOTTOM, DOCKS
from vramscope_app.journey import Journey, JourneyError, planned
from vramscope_app.look import Look
from vramscope_app.run import make_application, make_window
from vramscope_app.settings import Settings
from vramscope_app.theme import DARK, LIGHT
from vramscope_app.translation import install

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope_app.state import AppState

HERE = Path(__file__).resolve().parent
SIZES = {1: (1280, 800), 2: (1280, 720)}
"""Points of the window by pixels a point."""
SMALL = (900, 600)
"""Points of the smallest window that is promised."""
COLOURS = 256
APART = 15
"""How far apart two colours of a picture are at least, summed over red, green and blue."""
SPARSE_BYTES = 16_060_522_496
KEPT = (
    "1x-light-empty", "1x-light-planned-axes", "1x-dark-planned-headroom", "1x-light-planned-arena",
    "1x-light-planned-inspector", "1x-dark-planned-graph", "1x-light-captured-capture",
    "1x-dark-captured-counters",
    "1x-dark-segmented-capture", "1x-light-invalidated-signature", "1x-dark-invalidated-events",
    "1x-light-verified-capture", "1x-light-refused-problems", "1x-dark-refused-axes", "1x-light-dead-log",
    "1x-light-compared-compare", "1x-light-assumed-compare",
    "1x-light-palette", "1x-light-german-capture", "1x-dark-small-axes", "1x-light-profiled-inspector",
    "1x-dark-report-headroom", "1x-dark-8b-icicle",
    "1x-light-8b-headroom", "1x-dark-8b-arena", "2x-light-captured-capture", "2x-dark-8b-headroom",
)  # fmt: skip
"""Pictures that are kept in the repository: one of every panel and of every state."""


@dataclass
class Studio:
    """One window, its engine, and where its pictures go."""

    journey: Journey
    folder: Path
    scale: int

    def open(self, source: OpenParams) -> None:
        """Opens a model and waits until its plan is shown."""
        control = self.journey.window.controller
        control.open(source)
        if not control.client.running:
            control.start()
        self.journey.wait("opening", lambda state: state.opened == source and planned(state))

    def do(self, command: str, count: int = 0) -> None:
        """Triggers a command and waits for its answer and for what is asked after it."""
        window = self.journey.window
        if count:
            window.run_panel.count.setValue(count)
        window.actions_by_id[command].trigger()
        self.journey.wait(command, self.at_rest)

    def at_rest(self, state: AppState) -> bool:
        """Whether nothing is asked any more."""
        return state.busy is None and not self.journey.window.controller.client.calls

    def plan_with(self, **changes: object) -> None:
        """Edits the scenario and waits for its plan."""
        import msgspec

        control = self.journey.window.controller
        before = control.state.plan
        control.edit(msgspec.structs.replace(control.state.scenario, **changes))
        self.journey.wait("planning", lambda state: state.plan is not before and state.busy is None)

    def show(self, panel: str) -> None:
        """Brings a dock to the front and waits for what it asks."""
        self.journey.window.docks[panel].raise_()
        self.journey.settle()
        self.journey.wait(panel, self.at_rest)

    def shoot(self, state: str, *panels: str) -> None:
        """A picture of each panel in both themes; every bottom panel when none is named."""
        window = self.journey.window
        for theme in (LIGHT, DARK):
            window.set_look(Look.of(theme))
            for panel in panels or tuple(place.id for place in DOCKS if place.area is BOTTOM):
                self.show(panel)
                self.save(f"{self.scale}x-{theme.name}-{state}-{panel}")

    def save(self, name: str, *, focused: bool = False) -> None:
        """One picture; without the cursor, unless what is shown would go with the focus."""
        window = self.journey.window
        if window.focusWidget() is not None and not focused:
            window.focusWidget().clearFocus()
        image = window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
        few_colours(image).save(str(self.folder / f"{name}.png"), None, 0)


def few_colours(image: QImage) -> QImage:
    """The picture in 256 colours that lie apart, the commonest first: a third of the bytes, the same look."""
    pixels = np.frombuffer(image.constBits(), np.uint32).reshape(image.height(), image.bytesPerLine() // 4)
    found, places, counts = np.unique(pixels[:, : image.width()], return_inverse=True, return_counts=True)
    parts = np.column_stack([(found >> shift) & 255 for shift in (0, 8, 16)]).astype(np.int32)
    nearest, chosen = np.full(len(found), 1000), np.zeros(len(found), np.uint8)
    kept: list[int] = []
    for place in np.argsort(counts)[::-1]:
        if nearest[place] > APART and len(kept) < COLOURS:
            distance = np.abs(parts - parts[place]).sum(axis=1)
            chosen[distance < nearest] = len(kept)
            nearest = np.minimum(nearest, distance)
            kept.append(int(found[place]) | 0xFF000000)
    indexed = chosen[places].reshape(image.height(), image.width())
    rows = np.ascontiguousarray(np.pad(indexed, ((0, 0), (0, -image.width() % 4))))
    made = QImage(rows.data, image.width(), image.height(), rows.shape[1], QImage.Format.Format_Indexed8)
    made.setColorTable(kept)
    return made.copy()


def empty(studio: Studio) -> None:
    """Before anything is open, while the engine starts."""
    window = studio.journey.window
    for theme in (LIGHT, DARK):
        window.set_look(Look.of(theme))
        QApplication.processEvents()
        studio.save(f"{studio.scale}x-{theme.name}-empty")


def small(studio: Studio) -> None:
    """The small decoder: planned, captured, verified, its graph lost."""
    studio.open(OpenParams(sample="tiny-llama"))
    studio.plan_with(card="GeForce RTX 4060")
    window = studio.journey.window
    node = next(name for name in studio.journey.state.nodes["decode"].column("name") if "Query" in name)
    window.jump(node)
    studio.shoot("planned")
    studio.do("prefill")
    studio.do("steps", 4)
    studio.do("capture")
    studio.do("replay", 40)
    studio.shoot("captured", "capture", "counters", "events")
    studio.do("profile", 8)
    studio.shoot("profiled", "inspector")
    studio.do("verify", 8)
    window.live.by_step.setChecked(True)
    window.live.chart.setCurrentIndex(1)
    studio.shoot("verified", "capture")
    studio.plan_with(prompt=8, bucket_minimum=16, bucket_growing=True)
    studio.do("prefill")
    studio.do("steps", 4)
    studio.do("capture")
    studio.do("replay", 13)
    window.live.chart.setCurrentIndex(2)
    studio.shoot("invalidated", "events", "counters", "capture")
    window.capture_panel.show_page("Signature")
    for theme in (LIGHT, DARK):
        window.set_look(Look.of(theme))
        studio.show("capture")
        studio.save(f"{studio.scale}x-{theme.name}-invalidated-signature")


def german(studio: Studio) -> None:
    """A run in the other language; on a small screen too."""
    captured(studio)
    studio.shoot("german", "capture", "axes", "inspector", "headroom", "counters", "compare")
    studio.journey.window.resize(*SMALL)
    studio.shoot("german-small", "axes", "capture")
    studio.journey.window.resize(*SIZES[studio.scale])


def small_window(studio: Studio) -> None:
    """A run on a small screen, and the command palette over it."""
    captured(studio)
    studio.journey.window.show_palette()
    studio.journey.settle()
    studio.save(f"{studio.scale}x-light-palette", focused=True)
    studio.journey.window.palette_box.end()
    studio.journey.window.resize(*SMALL)
    studio.shoot("small", "axes", "capture", "headroom")
    studio.journey.window.resize(*SIZES[studio.scale])


def captured(studio: Studio) -> None:
    """The small decoder, planned, captured and replayed."""
    studio.open(OpenParams(sample="tiny-llama"))
    studio.plan_with(card="GeForce RTX 4060")
    studio.do("prefill")
    studio.do("steps", 4)
    studio.do("capture")
    studio.do("replay", 40)
    studio.journey.window.jump(studio.journey.state.nodes["decode"].column("name")[20])


def segmented(studio: Studio) -> None:
    """A decoder of which some nodes decline."""
    studio.open(OpenParams(sample="declines"))
    state = studio.journey.state
    maxima = {axis.symbol: 64 for axis in state.plan.axes if axis.refused} if state.plan else {}
    if maxima:
        studio.plan_with(maxima=maxima)
    studio.do("prefill")
    studio.do("steps", 2)
    studio.do("capture")
    studio.do("replay", 8)
    studio.shoot("segmented", "capture", "problems")


def refused(studio: Studio) -> None:
    """An axis that nothing bounds, and a card that is too small."""
    studio.open(OpenParams(sample="unbounded-axis"))
    studio.shoot("refused", "problems", "axes", "arena", "capture")
    studio.open(OpenParams(sample="tiny-llama"))
    studio.plan_with(card="", budget=3 * 2**20)
    studio.shoot("short", "headroom", "problems")


def compared(studio: Studio) -> None:
    """A plan beside a wider one, and a saved report with its run."""
    studio.open(OpenParams(sample="tiny-llama"))
    window = studio.journey.window
    studio.do("keep_baseline")
    studio.plan_with(batch=4, card="GeForce RTX 4060")
    studio.show("compare")
    studio.journey.wait("the comparison", lambda _state: window.comparing.state.found is not None)
    studio.shoot("compared", "compare")
    studio.do("prefill")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny-llama.vramscope.json"
        window.controller.export(str(path))
        studio.journey.wait("saving", studio.at_rest)
        studio.open(OpenParams(path=str(path)))
    window.jump(next(name for name in studio.journey.state.nodes["decode"].column("name") if "Query" in name))
    studio.shoot("report", "arena", "headroom", "inspector")


def assumed(studio: Studio) -> None:
    """A plan that does not fit, other exports of its model, and one of them beside the file as it is."""
    studio.open(OpenParams(sample="tiny-llama"))
    studio.plan_with(card="", budget=3 * 2**20, prompt=256, context=512)
    studio.shoot("offered", "problems")
    studio.plan_with(as_if=["last-logits", "kv8", "int4"])
    studio.shoot("assumed", "headroom")
    window = studio.journey.window
    studio.do("compare_as_it_is")
    studio.show("compare")
    studio.journey.wait("the comparison", lambda _state: window.comparing.state.found is not None)
    studio.shoot("assumed", "compare")


def dead(studio: Studio) -> None:
    """The engine's process was killed under a run."""
    studio.open(OpenParams(sample="tiny-llama"))
    studio.do("prefill")
    studio.do("capture")
    window = studio.journey.window
    window.run_panel.count.setValue(1500)
    window.actions_by_id["replay"].trigger()
    os.kill(window.controller.client.process_id, signal.SIGKILL)
    with suppress(JourneyError):
        studio.journey.wait("the end", lambda _: False)
    for theme in (LIGHT, DARK):
        window.set_look(Look.of(theme))
        window.docks["log"].raise_()
        studio.journey.settle()
        studio.save(f"{studio.scale}x-{theme.name}-dead-log")


def large(studio: Studio, shape: Path, folder: Path) -> None:
    """An 8B model, whose weights are a hole in the disk: only planned."""
    import shutil

    model = folder / shape.name
    shutil.copytree(shape, model)
    model.chmod(0o700)
    with (model / "weights.sparse").open("wb") as stream:
        stream.truncate(SPARSE_BYTES)
    studio.open(OpenParams(path=str(model)))
    studio.plan_with(card="GeForce RTX 4090", context=8192, prompt=2048)
    studio.journey.window.jump(next(iter(studio.journey.state.nodes["decode"].column("name")[40:])))
    studio.shoot("8b", "headroom", "arena", "icicle", "inspector", "axes")


def scenes(shape: Path | None, folder: Path) -> dict[str, Callable[[Studio], None]]:
    """What is driven, by name."""
    found: dict[str, Callable[[Studio], None]] = {
        "empty": empty,
        "small": small,
        "german": german,
        "window": small_window,
        "segmented": segmented,
        "refused": refused,
        "compared": compared,
        "assumed": assumed,
        "dead": dead,
    }
    if shape is not None:
        found["8b"] = lambda studio: large(studio, shape, folder)
    return found


def drive(names: list[str], scale: int, out: Path, shape: Path | None) -> None:
    """Every scene in a window of its own."""
    application = make_application("vramscope-pictures")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, scene in scenes(shape, Path(folder)).items():
            if names and name not in names:
                continue
            store = QSettings(str(Path(folder) / f"{name}.ini"), QSettings.Format.IniFormat)
            spoken = install(application, "de" if name == "german" else "en")
            window = make_window(Controller(EngineClient()), Settings(store), "light")
            window.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
            window.resize(*SIZES[scale])
            window.show()
            application.processEvents()
            scene(Studio(Journey(window), out, scale))
            size = window.size()
            if (size.width(), size.height()) != SIZES[scale]:
                print(f"{name}: the window is {size.width()}×{size.height()}, not {SIZES[scale]}")
            window.close()
            application.processEvents()
            for translator in spoken:
                application.removeTranslator(translator)


def main() -> int:
    """Reads the arguments; a process for each scale, since Qt takes it once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "scene",
        nargs="*",
        help="empty, small, german, window, segmented, refused, compared, dead or 8b; else all",
    )
    parser.add_argument("--scale", type=int, choices=tuple(SIZES), help="only this one")
    parser.add_argument("--shape", type=Path, help="the folder of an 8B model's graph")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--keep", action="store_true", help="renew the pictures beside this file")
    options = parser.parse_args()
    if options.scale and os.environ.get("QT_SCALE_FACTOR") == str(options.scale):
        drive(options.scene, options.scale, options.out, options.shape)
        return 0
    for scale in (options.scale,) if options.scale else SIZES:
        arguments = [*options.scene, "--scale", str(scale), "--out", str(options.out)]
        arguments += ["--shape", str(options.shape)] if options.shape else []
        environment = {**os.environ, "QT_SCALE_FACTOR": str(scale), "QT_FONT_DPI": "96"}
        subprocess.run([sys.executable, __file__, *arguments], env=environment, check=True)
    if options.keep:
        for name in KEPT:
            source = options.out / f"{name}.png"
            if source.is_file():
                (HERE / source.name).write_bytes(source.read_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(main())
