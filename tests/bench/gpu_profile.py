"""Where a captured decode step's time goes: each kind of launch by itself, its bytes, its share of speed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from vramscope.devices.cuda.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.devices.cuda.device import CudaDevice
    from vramscope.devices.cuda.library_form import AnyLaunch

SHOWN = ("NORM", "SKIP", "PAIR", "LANES", "SHARES", "SHARE", "STAGES", "BITS", "HEAD", "CLUSTER")
ITEM = {"float": 4, "f16": 2, "bf16": 2}
REPEATS = 20


def defines(launch: AnyLaunch) -> dict[str, str]:
    """The macros of a launch's source."""
    lines = [line.split() for line in launch.source.text.splitlines() if line.startswith("#define ")]
    return {line[1]: line[2] for line in lines if len(line) == 3}


def weight_bytes(launch: AnyLaunch) -> int:
    """Bytes of the constants that a fused product reads; 0 for other launches."""
    if not isinstance(launch, Launch) or not launch.source.name.startswith("fused_"):
        return 0
    names = defines(launch)
    numbers = struct.unpack("<13Q10qd", launch.arguments[0])[13:23]
    columns, depth, blocks, row_bytes = numbers[0], numbers[1], numbers[6], numbers[8]
    item = ITEM[names["T"]]
    row = row_bytes + blocks * item if "BITS" in names else depth * item
    return int((2 if names["PAIR"] != "0" else 1) * columns * row)


def seconds_of(device: CudaDevice, cupy: Any, work: Callable[[], object], repeats: int = REPEATS) -> float:  # noqa: ANN401 - CuPy has no types
    """Device time of one call, of several issued back to back."""
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    work()
    start.record(device.stream)
    for _ in range(repeats):
        work()
    end.record(device.stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, end)) / repeats * 1e-3


def profile(device: CudaDevice, whole: float, bandwidth: float, cupy: Any, most: int = 9) -> None:  # noqa: ANN401 - CuPy has no types
    """Prints each kind of launch recorded last: all of its launches one after the other, as a graph."""
    groups: dict[tuple[str, str, str, str], list[Any]] = {}
    for issue in tuple(device.recorded):
        names = defines(issue.launch)
        form = " ".join(f"{name}={names[name]}" for name in SHOWN if name in names)
        key = (issue.launch.source.name, issue.launch.function, str(issue.launch.grid[0]), form)
        groups.setdefault(key, []).append(issue)
    rows = []
    for key, issues in groups.items():
        if key[1] == "advance" or key[1].startswith("choose"):
            issues = issues * 4
        replay = device.record(tuple(("a launch", issue) for issue in issues))
        rows.append((seconds_of(device, cupy, replay) / len(issues), len(issues), key, issues[0].launch))
    rows.sort(key=lambda row: -row[0] * row[1])
    for seconds, count, key, launch in rows[:most]:
        speed = weight_bytes(launch) / seconds
        share = f"{speed / 1e9:5.0f} GB/s = {speed / bandwidth:4.0%}" if speed else " " * 17
        total = f"{seconds * count / whole:4.0%} {count:3d} x {seconds * 1e6:6.2f} us"
        print(f"      {total} {share} {' '.join(key)}", flush=True)
