"""Prints how fast the window starts, and how much of a frame it works while it is used hard.

A frame is 16 ms. Its *work* is everything that the window does in it: the user's move, engine messages,
timers, layout and painting. While the engine decodes flat out, the *intervals* of a 16 ms timer are told too.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

STARTED = time.perf_counter()
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import msgspec  # noqa: E402 - the clock runs first
from PySide6.QtCore import QElapsedTimer, QEventLoop, QObject, QSettings, Qt, QTimer  # noqa: E402 - the clock runs first
from PySide6.QtWidgets import QApplication  # noqa: E402 - see above

from vramscope.messages.model import OpenParams  # noqa: E402 - see above
from vramscope_app.client import EngineClient  # noqa: E402 - see above
from vramscope_app.controller import Controller  # noqa: E402 - see above
from vramscope_app.journey import Journey, planned  # noqa: E402 - see above
from vramscope_app.run import make_application, make_window  # noqa: E402 - see above
from vramscope_app.settings import Settings  # noqa: E402 - see above

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope_app.client import Reply
    from vramscope_app.state import AppState
    from vramscope_app.window import MainWindow

FRAME_MILLISECONDS = 16
SETTLE_MILLISECONDS = 100
LONG_CONTEXT = 32_768
NODES, BLOCKS, EVENTS = 100_000, 20_000, 250_000
EVENTS_A_FRAME = 1000
"""62,500 events a second: a quarter of a million in four seconds."""
STEPS_A_FRAME, STEPS_A_SNAPSHOT = 40, 1000
ROW_PIXELS, WHEEL_ROWS = 18, 3
SPARSE_BYTES = 16_060_522_496
"""Of the 8B shape's weights, which are a hole in the disk: see the file's name below."""
IDLE = 0.0002
"""Seconds below which a pass of the event loop found nothing to do."""


class FrameClock(QObject):
    """A precise 16 ms timer whose real intervals are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.intervals: list[float] = []
        self._elapsed = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setInterval(FRAME_MILLISECONDS)
        self._timer.timeout.connect(self._tick)

    def start(self) -> None:
        """Begins to measure."""
        self.intervals = []
        self._elapsed.start()
        self._timer.start()

    def stop(self) -> list[float]:
        """Ends; the intervals in milliseconds, sorted."""
        self._timer.stop()
        return sorted(self.intervals)

    def _tick(self) -> None:
        self.intervals.append(self._elapsed.nsecsElapsed() / 1e6)
        self._elapsed.restart()


@dataclass(frozen=True, slots=True)
class Work:
    """Milliseconds of each frame, sorted: as the clock on the wall and as the thread's own clock saw them.

    They differ where other processes took the processor away.
    """

    wall: list[float]
    own: list[float]


def frame_work(action: Callable[[int], None], count: int) -> Work:
    """The work of ``count`` frames; each begins with ``action``."""
    wall, own = [], []
    for number in range(count):
        began, mine = time.perf_counter(), time.thread_time()
        action(number)
        QApplication.processEvents()
        work = time.perf_counter() - began
        while time.perf_counter() - began < FRAME_MILLISECONDS / 1000:
            passed = time.perf_counter()
            QApplication.processEvents()
            spent = time.perf_counter() - passed
            work += spent if spent > IDLE else 0.0
            time.sleep(0.0005)
        wall.append(work * 1000)
        own.append((time.thread_time() - mine) * 1000)
    return Work(sorted(wall), sorted(own))


def report_work(name: str, work: Work) -> None:
    """A line for each clock."""
    report(name, work.wall, "work")
    report("", work.own, "own time")


def percentile(values: list[float], part: float) -> float:
    """The value below which ``part`` of the sorted values lie."""
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def report(name: str, values: list[float], what: str) -> None:
    """One line of the measured frames."""
    print(
        f"{name:<44} {what:<8} p50 {percentile(values, 0.5):5.1f}  p95 {percentile(values, 0.95):5.1f}  "
        f"max {values[-1] if values else 0:6.1f} ms  ({len(values)})",
        flush=True,
    )


def wait(milliseconds: int) -> None:
    """Lets the window work for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def memory() -> str:
    """The window process's memory now and at its peak; unknown where the system does not say."""
    status = Path("/proc/self/status")
    if not status.is_file():
        return "unknown"
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    now, peak = (int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return f"{now:,.0f} MiB, peak {peak:,.0f} MiB"


def measure(source: OpenParams, shape: str, seconds: float) -> None:
    """Starts the window, plans, and uses it hard; prints what was measured."""
    application = make_application("vramscope-bench")
    controller = Controller(EngineClient())
    controller.open(source)
    controller.start()
    with tempfile.TemporaryDirectory() as folder:
        store = QSettings(str(Path(folder) / "s.ini"), QSettings.Format.IniFormat)
        window = make_window(controller, Settings(store), "light")
        gc.freeze()  # as the window's own start does
        window.show()
        window.grab()
        application.processEvents()
        spent = f"{time.process_time():.2f} s of processor time"
        print(f"first paint after {time.perf_counter() - STARTED:.2f} s ({spent}, start included)")
        journey = Journey(window)
        journey.plan()
        print(f"{window.windowTitle()}: planned and shown after {time.perf_counter() - STARTED:.2f} s")
        report_work("at rest", frame_work(lambda _: None, 60))
        if not source.path:
            open_long(journey, Path(folder) / "endless")
        if planned(journey.state) and journey.state.decoder:
            decode(journey, FrameClock(), seconds)
            fill_log(window)
            decode(journey, FrameClock(), seconds, f"{EVENTS:,} events logged, ")
        if shape:
            drag_context(journey, with_weights(Path(shape), Path(folder) / "shape"))
        scroll_nodes(window)
        pan_arena(window)
        follow_events(window)
        print(f"memory of the window's process: {memory()}")
        window.close()


def with_weights(shape: Path, folder: Path) -> str:
    """The model, or a copy whose missing weights are a hole in the disk: it is only planned."""
    if not (shape / "model.onnx.data").is_file() or (shape / "weights.sparse").is_file():
        return str(shape)
    shutil.copytree(shape, folder)
    folder.chmod(0o700)
    with (folder / "weights.sparse").open("wb") as stream:
        stream.truncate(SPARSE_BYTES)
    return str(folder)


def drag_context(journey: Journey, shape: str) -> None:
    """The context slider from one end to the other on a large model."""
    controller, window = journey.window.controller, journey.window
    began = time.perf_counter()
    controller.open(OpenParams(path=shape))
    journey.wait("opening", lambda state: state.busy is None and state.opened == OpenParams(path=shape))
    journey.wait("planning", planned)
    print(f"{window.windowTitle()}: opened, planned and shown in {time.perf_counter() - began:.2f} s")
    slider, plans, waits = window.scenario.slider, [], []
    low, size = slider.minimum(), slider.maximum() - slider.minimum()

    def shown(old: AppState, new: AppState) -> None:
        if new.plan is not old.plan:
            plans.append(new.plan)

    def answered(reply: Reply) -> None:
        if reply.call.method == "plan":
            waits.append(reply.seconds * 1000)

    controller.changed.connect(shown)
    controller.client.answered.connect(answered)
    slider.setSliderDown(True)
    found = frame_work(lambda number: slider.setValue(low + size * abs(150 - number) // 150), 300)
    slider.setSliderDown(False)
    controller.changed.disconnect(shown)
    controller.client.answered.disconnect(answered)
    report_work(f"dragging the context ({len(plans):,} plans shown)", found)
    report("", sorted(waits), "re-plan")
    journey.wait("planning", planned)


def scroll_nodes(window: MainWindow) -> None:
    """Scrolls through many nodes: three rows a frame, then more than a page by the scroll bar."""
    from tests.bench.gui_tables import node_table

    began = time.perf_counter()
    window.nodes.set_tables({"decode": node_table(NODES)})
    window.nodes.view.expandAll()
    QApplication.processEvents()
    print(f"{NODES:,} nodes made, shown and unfolded in {time.perf_counter() - began:.2f} s")
    bar = window.nodes.view.verticalScrollBar()
    found = frame_work(lambda number: bar.setValue(number * WHEEL_ROWS * ROW_PIXELS), 200)
    report_work(f"scrolling {NODES:,} rows by the wheel", found)
    found = frame_work(lambda number: bar.setValue(number * bar.maximum() // 300), 300)
    report_work(f"dragging the bar through {NODES:,} rows", found)


def pan_arena(window: MainWindow) -> None:
    """Moves the memory map sideways, close and far."""
    from tests.bench.gui_tables import arena_table, node_table

    window.docks["arena"].raise_()
    nodes = node_table(BLOCKS)
    window.arena.set_tables({"decode": arena_table(BLOCKS)}, {"decode": nodes})
    wait(SETTLE_MILLISECONDS)
    box = window.arena.plot.getViewBox()
    for part in (2, 20):
        width = BLOCKS / part

        def pan(number: int, width: float = width) -> None:
            left = (BLOCKS - width) * number / 150
            box.setXRange(left, left + width, padding=0)

        report_work(f"panning {BLOCKS:,} blocks, 1/{part} in view", frame_work(pan, 150))


def follow_events(window: MainWindow) -> None:
    """A stream of events, steps and snapshots, as fast as an engine could send them."""
    from tests.bench.gui_tables import events, snapshot, token

    from vramscope.messages.live import Events
    from vramscope.protocol import raw

    window.docks["events"].raise_()
    client = window.controller.client
    batches, steps = range(EVENTS // EVENTS_A_FRAME), range(STEPS_A_FRAME)
    with tempfile.TemporaryFile() as stored:  # not held in memory, which is measured too
        sizes = [stored.write(raw(events(place * EVENTS_A_FRAME, EVENTS_A_FRAME))) for place in batches]
        stored.seek(0)

        def feed(number: int) -> None:
            client.events.emit(msgspec.msgpack.decode(stored.read(sizes[number]), type=Events))
            first = number * STEPS_A_FRAME
            for step in steps:
                client.token.emit(token(first + step))
            if number % 2:  # the engine sends 30 a second
                client.snapshot.emit(snapshot(number, number * FRAME_MILLISECONDS / 1000, first + steps[-1]))

        window.live.clear()
        report_work(f"following {EVENTS:,} events", frame_work(feed, len(batches)))
    more = 4 * len(batches)
    for step in range(len(batches) * STEPS_A_FRAME, EVENTS):
        window.live.add_token(token(step))
        if step % STEPS_A_SNAPSHOT == STEPS_A_SNAPSHOT - 1:  # as an engine would: tokens wait for theirs
            window.live.add_snapshot(snapshot(more, step * 60 / EVENTS, step + 1))
    window.live.by_step.setChecked(True)

    def step_on(number: int) -> None:
        client.token.emit(token(EVENTS + number))
        if number % 2:
            client.snapshot.emit(snapshot(more + number, 60.0 + number / 60, EVENTS + number))

    report_work(f"following with {len(window.live.series.steps):,} steps drawn", frame_work(step_on, 120))


def idle(state: AppState) -> bool:
    """Whether nothing runs."""
    return state.busy is None


def begin(journey: Journey) -> None:
    """A prompt and a capture, and what they changed drawn: the frames to be counted are of decoding alone."""
    journey.window.prefill()
    journey.wait("prefill", idle)
    journey.window.capture()
    journey.wait("capture", idle)
    wait(SETTLE_MILLISECONDS)


def open_long(journey: Journey, folder: Path) -> None:
    """The sample's decoder with a context that it does not fill, and no token that ends it."""
    from vramscope.build.config_reader import parse_config  # a start-up without these was measured
    from vramscope.build.decoder import build_decoder
    from vramscope.build.sample_models import TINY_LLAMA, VOCABULARY
    from vramscope.build.sample_tokenizer import write_tokenizer

    config = {**TINY_LLAMA, "max_position_embeddings": LONG_CONTEXT, "eos_token_id": None}
    build_decoder(parse_config(config), folder, precision="fp32")
    write_tokenizer(folder, VOCABULARY)
    controller = journey.window.controller
    controller.wish(context=LONG_CONTEXT)
    controller.open(OpenParams(path=str(folder)))
    journey.wait("opening", lambda state: state.busy is None and state.opened is not None)
    journey.wait("planning", lambda state: planned(state) and state.opened == OpenParams(path=str(folder)))


def fill_log(window: MainWindow) -> None:
    """Sends a long log at once; the engine's own events come behind it and are followed."""
    from tests.bench.gui_tables import events

    window.docks["events"].raise_()
    for first in range(0, EVENTS, EVENTS_A_FRAME):
        window.controller.client.events.emit(events(first, EVENTS_A_FRAME))
    wait(SETTLE_MILLISECONDS)


def decode(journey: Journey, frames: FrameClock, seconds: float, where: str = "") -> None:
    """Eager steps, then replays, each until the time is over; begins again when generation ends early."""
    window = journey.window
    window.run_panel.count.setValue(100_000)
    for name, command in (("eager decode", window.steps), ("replayed decode", window.replay)):
        tokens, intervals, spent = 0, [], 0.0
        while spent < seconds:
            begin(journey)
            before, started = journey.state.live.position, time.perf_counter()
            frames.start()
            command()
            QTimer.singleShot(max(round((seconds - spent) * 1000), 1), window.cancel)
            journey.wait(name, idle)
            intervals += frames.stop()
            spent += time.perf_counter() - started
            tokens += journey.state.live.position - before
        report(f"{where}{name} ({tokens / spent:,.0f} tokens/s)", sorted(intervals), "interval")


def main() -> int:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", default="", help="a model, not the tiny-llama sample")
    parser.add_argument("--shape", default="", help="a large model on which the context slider is dragged")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each kind of decode runs")
    options = parser.parse_args()
    source = OpenParams(path=options.path) if options.path else OpenParams(sample="tiny-llama")
    measure(source, options.shape, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
