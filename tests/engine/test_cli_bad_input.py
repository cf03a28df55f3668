"""Bad input on the command line: exit code 2, a message that names the thing, and never a traceback."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from vramscope.cli.main import main
from vramscope.resources import folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TINY = str(folder() / "samples" / "tiny-llama")
FLOAT = TensorProto.FLOAT


class Told:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    def run(*words: str | Path) -> Told:
        capsys.readouterr()
        code = main([str(word) for word in words])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return Told(code, said.out, said.err)

    return run


def save(
    path: Path, nodes: list[onnx.NodeProto], **parts: list[onnx.ValueInfoProto] | list[TensorProto]
) -> Path:
    """A model of these nodes from ``x`` (2×3) to ``y``, whatever is wrong with it."""
    x = helper.make_tensor_value_info("x", FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", FLOAT, None)
    graph = helper.make_graph(
        nodes, "g", parts.get("inputs", [x]), parts.get("outputs", [y]), parts.get("weights", [])
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def relu(name: str = "relu", source: str = "x", target: str = "y") -> onnx.NodeProto:
    return helper.make_node("Relu", [source], [target], name=name)


def with_data(path: Path, location: str, *, size: int, stored: int | None) -> Path:
    """An Add of an external weight that says it is ``size`` bytes at ``location``."""
    weight = TensorProto(name="w", data_type=FLOAT, dims=[size // 4], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, "offset": "0", "length": str(size)}.items():
        weight.external_data.add(key=key, value=value)
    if stored is not None:
        (path.parent / "w.data").write_bytes(bytes(stored))
    inputs = [helper.make_tensor_value_info("x", FLOAT, [size // 4])]
    return save(
        path, [helper.make_node("Add", ["x", "w"], ["y"], name="add")], inputs=inputs, weights=[weight]
    )


def named(told: Told, *words: str) -> None:
    assert told.code == 2, told.err + told.out
    for word in words:
        assert word in told.err, (word, told.err)


def test_a_missing_file(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", tmp_path / "nowhere.onnx"), "nowhere.onnx")


def test_an_empty_folder(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("inspect", tmp_path), str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"this is no protobuf at all, not even nearly", b"\xff" * 64])
def test_a_file_that_is_no_model(tell: Callable[..., Told], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "text.onnx"
    path.write_bytes(content)
    named(tell("inspect", path), "text.onnx")


def test_a_truncated_file(tell: Callable[..., Told], tmp_path: Path) -> None:
    whole = (folder() / "samples" / "tiny-llama" / "model.onnx").read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    named(tell("inspect", path), "cut.onnx")


def test_external_data_that_is_missing(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", with_data(tmp_path / "m.onnx", "w.data", size=64, stored=None)), "w.data")


def test_external_data_that_is_too_short(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", with_data(tmp_path / "m.onnx", "w.data", size=64, stored=16)), "w.data", "64")


@pytest.mark.parametrize("location", ["../w.data", "/etc/hostname", "a/../../w.data"])
def test_external_data_outside_the_folder(tell: Callable[..., Told], tmp_path: Path, location: str) -> None:
    (tmp_path / "w.data").write_bytes(bytes(64))
    inner = tmp_path / "inner"
    inner.mkdir()
    named(tell("plan", with_data(inner / "m.onnx", location, size=64, stored=None)), location)


@pytest.mark.parametrize("command", ["inspect", "plan"])
def test_a_cache_of_links_is_refused_and_its_copy_opens(
    tell: Callable[..., Told], tmp_path: Path, command: str
) -> None:
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "0a1b"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    with_data(blobs / "first", "model.onnx.data", size=64, stored=None)
    (blobs / "second").write_bytes(bytes(64))
    (snapshot / "model.onnx").symlink_to("../../blobs/first")
    (snapshot / "model.onnx.data").symlink_to("../../blobs/second")
    told = tell(command, snapshot)
    named(told, "model.onnx.data", "symbolic link")
    remedy = told.err.partition("remedy: ")[2].strip()
    (words,) = re.findall(r"\((cp -rL .*) COPY\)", remedy)
    copy = tmp_path / "copy"
    subprocess.run([*shlex.split(words), copy], check=True)
    assert tell(command, copy).code == 0


def test_an_unknown_operator_plans_with_a_warning_and_does_not_run(
    tell: Callable[..., Told], tmp_path: Path
) -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="frob", domain="custom.maker")
    outputs = [helper.make_tensor_value_info("y", FLOAT, [2, 3])]
    path = save(tmp_path / "m.onnx", [node], outputs=outputs)
    told = tell("plan", path)
    assert told.code == 0, told.err
    assert "Frobnicate" in told.out
    named(tell("run", path), "Frobnicate", "frob")


def test_an_output_without_producer(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", save(tmp_path / "m.onnx", [relu(target="z")])), "y")


def test_a_missing_initializer(tell: Callable[..., Told], tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "gone"], ["y"], name="add")
    named(tell("plan", save(tmp_path / "m.onnx", [node])), "gone", "add")


def test_a_cycle(tell: Callable[..., Told], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        relu("second", "a", "b"),
        relu("third", "b", "y"),
    ]
    told = tell("plan", save(tmp_path / "m.onnx", nodes))
    named(told, "cycle")
    assert "first" in told.err or "second" in told.err


def test_a_wrong_declared_rank(tell: Callable[..., Told], tmp_path: Path) -> None:
    outputs = [helper.make_tensor_value_info("y", FLOAT, [2, 3, 4])]
    named(tell("plan", save(tmp_path / "m.onnx", [relu()], outputs=outputs)), "y", "rank")


@pytest.mark.parametrize("dim", [-1, "?", ""])
def test_a_dimension_that_says_nothing_is_a_symbol_to_bound(
    tell: Callable[..., Told], tmp_path: Path, dim: int | str
) -> None:
    inputs = [helper.make_tensor_value_info("x", FLOAT, [dim, 1])]
    path = save(tmp_path / "m.onnx", [relu()], inputs=inputs)
    told = tell("plan", path, "--json")
    assert told.code == 2
    plan = json.loads(told.out)["plan"]
    (axis,) = [axis for axis in plan["axes"] if axis["refused"]]
    told = tell("plan", path, "--json", "--max", f"{axis['symbol']}=8")
    assert told.code == 0, told.err
    assert json.loads(told.out)["plan"]["total"]["bytes"] >= 8 * 4


def test_two_question_marks_are_two_symbols(tell: Callable[..., Told], tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info(name, FLOAT, ["?"]) for name in ("x", "x2")]
    node = helper.make_node("Concat", ["x", "x2"], ["y"], name="concat", axis=0)
    told = tell("plan", save(tmp_path / "m.onnx", [node], inputs=inputs), "--json")
    refused = [axis["symbol"] for axis in json.loads(told.out)["plan"]["axes"] if axis["refused"]]
    assert len(refused) == len(set(refused)) >= 2


def test_duplicate_node_names(tell: Callable[..., Told], tmp_path: Path) -> None:
    nodes = [relu("same", "x", "a"), relu("same", "a", "y")]
    told = tell("plan", save(tmp_path / "m.onnx", nodes), "--json")
    assert told.code == 0, told.err
    names = [row[1] for row in json.loads(told.out)["nodes"]["run"]]
    assert len(set(names)) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--context", "1000000"), ("context", "2,048")),
        (("--budget", "0"), ("budget", "0")),
        (("--batch", "0"), ("batch", "0")),
        (("--prompt", "0"), ("prompt", "0")),
        (("--prompt", "5000"), ("prompt", "5,000")),
        (("--card", "Imaginary 9000"), ("Imaginary 9000",)),
        (("--max", "nothing_like_it=4"), ("nothing_like_it",)),
        (("--max", "batch_size=2", "--batch", "4"), ("batch_size", "or lower --batch")),
        (("--extent", "nothing_like_it=4"), ("extent of 'nothing_like_it'",)),
        (("--extent", "batch_size=4"), ("batch_size", "set it with --batch")),
    ],
)
def test_a_scenario_that_makes_no_sense(
    tell: Callable[..., Told], words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    named(tell("plan", TINY, *words), *said)


def test_a_prompt_without_a_tokenizer(tell: Callable[..., Told], tmp_path: Path) -> None:
    for item in (folder() / "samples" / "tiny-llama").iterdir():
        if "tokenizer" not in item.name:
            (tmp_path / item.name).write_bytes(item.read_bytes())
    named(tell("run", tmp_path, "--prompt", "Hello"), "tokenizer.json", "--tokens")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ("prompt",)),
        (("--tokens", "99999"), ("99999", "511")),
        (("--prompt", "x", "--chat"), ("chat",)),
        (("--tokens", "1", "--temperature", "-1"), ("temperature",)),
        (("--tokens", "1", "--top-p", "0", "--temperature", "1"), ("top-p",)),
    ],
)
def test_a_run_that_makes_no_sense(
    tell: Callable[..., Told], words: tuple[str, ...], said: tuple[str, ...]
) -> None:
    named(tell("run", TINY, *words), *said)


def test_a_prompt_for_what_is_no_decoder(tell: Callable[..., Told]) -> None:
    named(tell("run", "unbounded-axis", "--prompt", "x"), "unbounded-axis", "decoder")


def test_a_report_into_nowhere(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", TINY, "--export", tmp_path / "nowhere" / "r.html"), "r.html")


def test_a_report_of_no_format(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", TINY, "--export", tmp_path / "r.pdf"), "r.pdf", ".html")
    assert not list(tmp_path.iterdir())


def test_a_report_where_a_model_belongs(tell: Callable[..., Told], tmp_path: Path) -> None:
    named(tell("plan", tmp_path / "r.vramscope.json"), "r.vramscope.json", "saved report", "compare")


def test_an_unknown_sample(tell: Callable[..., Told]) -> None:
    named(tell("sample", "no-such-sample"), "no-such-sample", "tiny-llama")


def test_a_configuration_that_is_none(tell: Callable[..., Told], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    named(tell("build", config, tmp_path / "out"), "config.json")
    config.write_text("{}", encoding="utf-8")
    named(tell("build", config, tmp_path / "out"), "config.json")
    assert not (tmp_path / "out").exists()


def test_a_model_of_50_000_nodes_opens_and_plans(tell: Callable[..., Told], tmp_path: Path) -> None:
    nodes = [relu(f"n{number}", f"v{number}", f"v{number + 1}") for number in range(50_000)]
    nodes[0].input[0], nodes[-1].output[0] = "x", "y"
    started = time.monotonic()
    told = tell("plan", save(tmp_path / "m.onnx", nodes), "--nodes", "3")
    print(f"50,000 nodes opened and planned in {time.monotonic() - started:.1f} s")
    assert told.code == 0, told.err
    assert "needs" in told.out


def test_inputs_that_disagree_about_a_symbol_are_named(tmp_path: Path) -> None:
    from vramscope.api import Scenario, make_plan, open_path
    from vramscope.errors import SymbolConflictError
    from vramscope.run.plain import run_plain

    inputs = [helper.make_tensor_value_info(name, FLOAT, ["n"]) for name in ("x", "x2")]
    node = helper.make_node("Add", ["x", "x2"], ["y"], name="add")
    model = open_path(save(tmp_path / "m.onnx", [node], inputs=inputs))
    plan = make_plan(model, Scenario(maxima={"n": 8}))
    given = {"x": np.zeros(4, np.float32), "x2": np.zeros(5, np.float32)}
    with pytest.raises(SymbolConflictError) as caught:
        run_plain(model, plan, given)
    assert caught.value.symbol == "n"
    assert {caught.value.first, caught.value.second} == {4, 5}
