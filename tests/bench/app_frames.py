"""Prints how fast the window starts and how evenly it draws while the engine decodes flat out."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

STARTED = time.perf_counter()
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QElapsedTimer, QEventLoop, QObject, QSettings, Qt, QTimer  # noqa: E402 - the clock runs first

from vramscope.messages.model import OpenParams  # noqa: E402 - see above
from vramscope_app.client import EngineClient  # noqa: E402 - see above
from vramscope_app.controller import Controller  # noqa: E402 - see above
from vramscope_app.journey import Journey, planned  # noqa: E402 - see above
from vramscope_app.run import make_application, make_window  # noqa: E402 - see above
from vramscope_app.settings import Settings  # noqa: E402 - see above

if TYPE_CHECKING:
    from vramscope_app.state import AppState

FRAME_MILLISECONDS = 16
SETTLE_MILLISECONDS = 100
LONG_CONTEXT = 32_768


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


def percentile(values: list[float], part: float) -> float:
    """The value below which ``part`` of the sorted values lie."""
    return values[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def report(name: str, values: list[float]) -> None:
    """One line of the measured frames."""
    print(
        f"{name:<34} p50 {percentile(values, 0.5):5.1f}  p95 {percentile(values, 0.95):5.1f}  "
        f"max {values[-1] if values else 0:5.1f} ms  ({len(values)} frames)"
    )


def wait(milliseconds: int) -> None:
    """Lets the window work for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def measure(source: OpenParams, seconds: float) -> None:
    """Starts the window, plans, decodes eagerly and by replay, and prints what was measured."""
    application = make_application("vramscope-bench")
    controller = Controller(EngineClient())
    controller.open(source)
    controller.start()
    with tempfile.TemporaryDirectory() as folder:
        store = QSettings(str(Path(folder) / "s.ini"), QSettings.Format.IniFormat)
        window = make_window(controller, Settings(store), "light")
        window.show()
        window.grab()
        application.processEvents()
        print(f"first paint after {time.perf_counter() - STARTED:.2f} s (interpreter start not counted)")
        journey = Journey(window)
        journey.plan()
        print(f"{window.windowTitle()}: planned and shown after {time.perf_counter() - STARTED:.2f} s")
        frames = FrameClock()
        frames.start()
        wait(1000)
        report("at rest", frames.stop())
        if not source.path:
            open_long(journey, Path(folder) / "endless")
        if planned(journey.state) and journey.state.decoder:
            decode(journey, frames, seconds)
        window.close()


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


def decode(journey: Journey, frames: FrameClock, seconds: float) -> None:
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
        report(f"{name} ({tokens / spent:,.0f} tokens/s)", sorted(intervals))


def main() -> int:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", default="", help="a model, not the tiny-llama sample")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each kind of decode runs")
    options = parser.parse_args()
    source = OpenParams(path=options.path) if options.path else OpenParams(sample="tiny-llama")
    measure(source, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
