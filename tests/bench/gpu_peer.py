"""onnxruntime-genai on a folder, in a process of its own: tokens a second, its device memory, its tokens.

Run as a script it is that process: FOLDER GRAPH CONTEXT BATCH; it prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROMPT, SKIPPED, WINDOW, WINDOWS, LONG, REPEATS = 16, 8, 128, 3, 2048, 5


@dataclass(frozen=True)
class Peer:
    """Tokens a second and sequence, MiB, seconds, and the first sequence's tokens.

    ``prefill``: of a length run before; ``fresh``: of one that was not.
    """

    speed: float
    mib: float
    prefill: float
    fresh: float
    first: float
    tokens: tuple[int, ...]


def run(packages: str, folder: Path, context: int, batch: int, *, graph: bool) -> Peer | str:
    """The peer's figures, or why there are none."""
    libraries = [str(path) for root in site.getsitepackages() for path in Path(root).glob("nvidia/*/lib")]
    known = {**os.environ, "PYTHONPATH": packages}
    known["LD_LIBRARY_PATH"] = ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])
    command = [sys.executable, __file__, str(folder), str(int(graph)), str(context), str(batch)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=known, timeout=150, check=False)
    except subprocess.TimeoutExpired:
        return "it took longer than 150 s"
    line = (done.stdout.strip().splitlines() or [""])[-1]
    if not line.startswith("{"):
        return (done.stderr or done.stdout)[-400:]
    found = json.loads(line)
    return Peer(**{**found, "tokens": tuple(found["tokens"])})


def used() -> int:
    """MiB of the card in use, by whoever."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def _main(folder: str, graph: str, context: str, batch: str) -> None:
    import numpy as np
    import onnxruntime_genai as og  # type: ignore[import-not-found, unused-ignore] # on the bench machine

    before, started = used(), time.perf_counter()
    config = og.Config(folder)
    config.clear_providers()
    config.append_provider("cuda")
    config.set_provider_option("cuda", "enable_cuda_graph", graph)
    model = og.Model(config)
    params = og.GeneratorParams(model)
    length = int(context)
    params.set_search_options(max_length=length, min_length=length, do_sample=False, batch_size=int(batch))

    def generator(prompt: list[int]) -> Any:  # noqa: ANN401 - genai has no types
        made = og.Generator(model, params)
        made.append_tokens(np.tile(np.array(prompt, np.int32), (int(batch), 1)))
        return made

    short = list(range(3, 3 + PROMPT))
    first = generator(short)
    first.generate_next_token()
    opened = time.perf_counter() - started
    del first
    times, tokens = [], []
    for count in (PROMPT, *(WINDOW,) * WINDOWS):
        made = generator(short)
        for _ in range(SKIPPED):
            made.generate_next_token()
        started = time.perf_counter()
        for _ in range(count):
            made.generate_next_token()
        times.append((time.perf_counter() - started) / count)
        tokens = [int(item) for item in made.get_sequence(0)[PROMPT:]]
        del made
    speed = 1 / sorted(times[1:])[WINDOWS // 2]
    mib = used() - before
    longer = og.GeneratorParams(model)
    longer.set_search_options(max_length=LONG + 16, do_sample=False, batch_size=int(batch))

    def prefill(count: int) -> float:
        started = time.perf_counter()
        made = og.Generator(model, longer)
        made.append_tokens(np.tile(np.arange(count, dtype=np.int32) % 1000 + 3, (int(batch), 1)))
        made.generate_next_token()
        return time.perf_counter() - started

    prefill(LONG)
    fresh = sorted(prefill(LONG - more) for more in range(1, 1 + REPEATS))[REPEATS // 2]
    again = sorted(prefill(LONG) for _ in range(1 + REPEATS))[REPEATS // 2]
    numbers = {"speed": speed, "mib": mib, "prefill": again, "fresh": fresh, "first": opened}
    found = {**numbers, "tokens": tokens}
    print(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
