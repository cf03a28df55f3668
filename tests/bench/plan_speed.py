"""Time of planning: an 8B opened, planned and exported otherwise, SmolLM2's size, a chain of 20,000 nodes.

Run it from the repository with ``.venv/bin/python tests/bench/plan_speed.py``; nothing is asserted.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from collections.abc import Callable

    from vramscope.plan.types import Scenario

REPOSITORY = Path(__file__).resolve().parents[2]
SHAPE = REPOSITORY.parent / "shared" / "models" / "shape" / "mobius-llama3-8b-shape"
SPARSE_BYTES = 16_060_522_496
CHAIN = 20_000
SMOL = """{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 576,
"intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
"vocab_size": 49152, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5, "rope_theta": 100000,
"tie_word_embeddings": true, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2}"""


def main() -> None:
    """Prints every measurement, each model in a process of its own."""
    if len(sys.argv) > 1:
        _MEASURES[sys.argv[1]](Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in _MEASURES:
            subprocess.run([sys.executable, __file__, name, folder], check=False)


def _large(folder: Path) -> None:
    """Open and plan an 8B whose weights are a hole in the disk."""
    if not SHAPE.is_dir():
        print(f"8B: skipped, {SHAPE} is not there")
        return
    model_folder = folder / "8b"
    shutil.copytree(SHAPE, model_folder)
    with (model_folder / "weights.sparse").open("wb") as file:
        file.truncate(SPARSE_BYTES)
    start = time.perf_counter()
    from vramscope.api import Planner, open_path
    from vramscope.plan.types import Scenario

    imported = time.perf_counter()
    read = _read_bytes()
    model = open_path(model_folder)
    opened = time.perf_counter()
    Planner(model).plan(Scenario(context=4096, prompt=512, card="RTX 4090"))
    planned = time.perf_counter()
    print(
        f"8B, {len(model.program.steps)} steps: import {imported - start:.2f} s, "
        f"open {opened - imported:.2f} s, "
        f"plan {planned - opened:.2f} s, peak resident {_peak_megabytes():.0f} MB, "
        f"{(_read_bytes() - read) / 1e6:.1f} MB read from files"
    )


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _read_bytes() -> int:
    """Bytes this process asked of read calls; pages of mapped files are not among them."""
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("rchar:"):
            return int(line.split()[1])
    return 0


def _smol(folder: Path) -> None:
    """Re-plan a decoder of SmolLM2's size after a context change."""
    config = folder / "config.json"
    config.write_text(SMOL, encoding="utf-8")
    target = folder / "smol"
    program = str(Path(sys.executable).with_name("vramscope"))
    command = [program, "build", str(config), str(target), "--no-weights", "--precision", "fp32"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    from vramscope.api import Planner, open_path
    from vramscope.plan.types import Scenario

    model = open_path(target)
    planner = Planner(model)
    contexts = iter(range(1000, 8000, 50))
    for card, budget in (("RTX 4090", None), ("", 900 << 20), ("", None)):
        question = Scenario(prompt=64, card=card, budget=budget)
        spent = _milliseconds(
            lambda asked: planner.plan(replace(asked, context=next(contexts))), question, 20
        )
        print(f"SmolLM2's size, {len(model.program.steps)} steps, {card or budget or 'no card'}: {spent}")


def _exports(_: Path) -> None:
    """Suggestions of an 8B, whose other exports are made for them, and a re-plan of one of them."""
    if not SHAPE.is_dir():
        print(f"8B, other exports: skipped, {SHAPE} is not there")
        return
    from vramscope.api import Planner, Scenario, open_path, suggestions

    planner = Planner(open_path(SHAPE, without_weights=True))
    asked = Scenario(prompt=512, context=4096, card="RTX 3060")
    plan = planner.plan(asked)
    start = time.perf_counter()
    suggestions(planner, plan)
    made = time.perf_counter()
    suggestions(planner, plan)
    again = time.perf_counter()
    print(
        f"8B, {len(planner.model.program.steps)} steps: suggestions {(made - start) * 1000:.0f} ms "
        f"the first time, {(again - made) * 1000:.1f} ms then"
    )
    contexts = iter(range(1000, 8000, 50))
    for ids in ((), ("int4", "last-logits")):
        question = replace(asked, as_if=ids)
        spent = _milliseconds(
            lambda asked: planner.plan(replace(asked, context=next(contexts))), question, 20
        )
        print(f"8B, re-planned as if {', '.join(ids) or 'exported as it is'}: {spent}")


def _chain(folder: Path) -> None:
    """Plan a chain of 20,000 nodes over a symbolic batch, the largest batch included."""
    nodes = [
        helper.make_node(operator, [f"v{index}", weight], [f"v{index + 1}"])
        for index in range(CHAIN)
        for operator, weight in [("Add", "w1") if index % 3 else ("MatMul", "w0")]
    ]
    shape: list[str | int | None] = ["batch", "rows", 8]
    weights = [
        helper.make_tensor("w0", TensorProto.FLOAT, [8, 8], [0.0] * 64),
        helper.make_tensor("w1", TensorProto.FLOAT, [8], [0.0] * 8),
    ]
    x = helper.make_tensor_value_info("v0", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info(f"v{CHAIN}", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    path = folder / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), path)
    from vramscope.api import Planner, open_path
    from vramscope.plan.types import Scenario

    start = time.perf_counter()
    model = open_path(path)
    opened = time.perf_counter()
    planner = Planner(model)
    indexed = time.perf_counter()
    print(f"chain of {CHAIN:,}: open {opened - start:.2f} s, index {indexed - opened:.2f} s")
    rows = iter(range(100, 200))
    question = Scenario(budget=2**20)
    spent = _milliseconds(
        lambda asked: planner.plan(replace(asked, maxima={"rows": next(rows)})), question, 5
    )
    print(f"chain, re-plan with the largest batch: {spent}")


def _milliseconds(action: Callable[[Scenario], object], question: Scenario, times: int) -> str:
    walls, processors = [], []
    for _ in range(times):
        wall, processor = time.perf_counter(), time.process_time()
        action(question)
        walls.append((time.perf_counter() - wall) * 1e3)
        processors.append((time.process_time() - processor) * 1e3)
    middle = f"median {median(walls):.1f} ms wall, {median(processors):.1f} ms processor"
    return f"{middle}, worst {max(walls):.1f} ms"


_MEASURES: dict[str, Callable[[Path], None]] = {
    "8b": _large,
    "smol": _smol,
    "exports": _exports,
    "chain": _chain,
}

if __name__ == "__main__":
    main()
