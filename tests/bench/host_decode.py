"""Host decode of SmolLM2 beside onnxruntime on the CPU, in one run: tokens a second, eager and replayed.

    python tests/bench/host_decode.py [fp32|fp16|q4] [steps]

Rounds of ours and theirs alternate, so that a busy machine slows both; medians and their ratio are printed.
Nothing is asserted: the figures are for a reader.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

from vramscope.api import make_plan, open_path
from vramscope.build.smollm2 import export_smollm2
from vramscope.decode.decoder import Decoder
from vramscope.plan.types import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vramscope.graph.model import Model

PROMPT = [504, 3575, 282, 4649, 314]
ROUNDS = 5


class Peer:
    """onnxruntime with a growing cache, all optimisations on."""

    def __init__(self, model: Model) -> None:
        assert model.contract is not None
        self._contract = model.contract
        self._session = onnxruntime.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
        self._kinds = {
            item.name: np.float16 if "float16" in item.type else np.float32
            for item in self._session.get_inputs()
        }
        self._state: dict[str, Any] = {}
        self._past = 0
        self._token = 0

    def prefill(self) -> None:
        """Runs the prompt on an empty cache."""
        self._state = {
            pair.input: np.zeros((1, pair.heads, 0, pair.head_size), self._kinds[pair.input])
            for pair in self._contract.kv
        }
        self._past = 0
        self._run(PROMPT)

    def step(self) -> int:
        """One greedy step."""
        self._run([self._token])
        return self._token

    def _run(self, tokens: list[int]) -> None:
        feed = dict(self._state)
        feed["input_ids"] = np.array([tokens], np.int64)
        feed["attention_mask"] = np.ones((1, self._past + len(tokens)), np.int64)
        names = [item.name for item in self._session.get_outputs()]
        results = dict(zip(names, self._session.run(None, feed), strict=True))
        self._state = {pair.input: results[pair.output] for pair in self._contract.kv}
        self._past += len(tokens)
        self._token = int(results[self._contract.logits][0, -1].argmax())


def timed(action: Callable[[], object], count: int) -> float:
    """Median seconds of one action over ``count`` of them."""
    seconds = []
    for _ in range(count):
        started = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def main() -> None:
    """Prints one line a round and the medians."""
    precision = sys.argv[1] if len(sys.argv) > 1 else "fp32"
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 24
    folder: Path = export_smollm2(None, precision)
    model = open_path(folder)
    decoder = Decoder(model, make_plan(model, Scenario(prompt=16, context=512)))
    decoder.load()
    decoder.prefill(
        [PROMPT]
    )  # the engine times its BLAS threads at first use: before the peer's threads are there
    peer = Peer(model)
    rows: list[tuple[float, float, float]] = []
    for number in range(ROUNDS):
        peer.prefill()
        theirs = timed(peer.step, steps)
        decoder.prefill([PROMPT])
        eager = timed(decoder.step, steps)
        decoder.prefill([PROMPT])  # replays begin where the eager steps and the peer's began
        decoder.capture()
        replay = timed(decoder.replay, steps)
        rows.append((1 / theirs, 1 / eager, 1 / replay))
        report(f"round {number + 1}", rows[-1])
    medians = tuple(statistics.median(column) for column in zip(*rows, strict=True))
    print(f"SmolLM2-135M {precision}: medians of {ROUNDS} rounds of {steps} steps")
    print(f"numpy {np.__version__}, onnxruntime {onnxruntime.__version__}")
    report("median", medians)
    print(f"eager {medians[1] / medians[0]:.2f} and replay {medians[2] / medians[0]:.2f} of onnxruntime")
    print(f"replay {medians[2] / medians[1]:.2f} of eager")


def report(title: str, row: tuple[float, ...]) -> None:
    """Prints tokens a second of all three."""
    theirs, eager, replay = row
    print(f"{title}: onnxruntime {theirs:.1f}  eager {eager:.1f}  replay {replay:.1f} tok/s")


if __name__ == "__main__":
    main()
