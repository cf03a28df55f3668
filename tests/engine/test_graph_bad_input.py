"""Bad model files: every refusal names the thing, the reason and the remedy; what is merely odd opens."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from onnx import TensorProto, helper

from vramscope.errors import CancelledError, InputError, ModelFileError, ModelGraphError
from vramscope.graph.load import open_model

if TYPE_CHECKING:
    from pathlib import Path

FLOAT = TensorProto.FLOAT


def floats(name: str, *dims: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, list(dims))


def weight(name: str = "w", *dims: int) -> onnx.TensorProto:
    shape = dims or (4,)
    count = 1
    for extent in shape:
        count *= extent
    return helper.make_tensor(name, FLOAT, shape, [0.5] * count)


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    weights: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "g", inputs or [floats("x", "n", 4)], outputs or [floats("y", "n", 4)], weights or [weight()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def adding() -> onnx.ModelProto:
    return model([helper.make_node("Add", ["x", "w"], ["y"], name="add")])


def saved(proto: onnx.ModelProto, folder: Path) -> Path:
    file = folder / "model.onnx"
    file.write_bytes(proto.SerializeToString())
    return file


def refusal(path: Path, kind: type[InputError] = ModelFileError) -> InputError:
    with pytest.raises(kind) as caught:
        open_model(path)
    assert caught.value.what
    assert caught.value.why
    assert caught.value.remedy
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    assert "nothing.onnx" in refusal(tmp_path / "nothing.onnx").what


def test_an_empty_file(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"")
    assert "empty" in refusal(file).why


def test_not_protobuf(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"This is a poem, not a model. " * 40)
    assert "model.onnx" in refusal(file).what


def test_another_protobuf_message(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(helper.make_tensor("t", FLOAT, [2], [1.0, 2.0]).SerializeToString())
    refusal(file)


def test_a_git_lfs_pointer(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    assert "git lfs pull" in refusal(file).remedy


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_a_truncated_file(tmp_path: Path, share: float) -> None:
    content = adding().SerializeToString()
    file = tmp_path / "model.onnx"
    file.write_bytes(content[: int(len(content) * share)])
    refusal(file, InputError)


def test_every_cut_of_a_file_is_refused_in_our_words(tmp_path: Path) -> None:
    content = adding().SerializeToString()
    file = tmp_path / "model.onnx"
    for length in range(len(content)):
        file.write_bytes(content[:length])
        with pytest.raises(InputError):
            open_model(file)


def external(folder: Path, location: str, **entries: str) -> Path:
    proto = adding()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return saved(proto, folder)


def test_external_data_missing(tmp_path: Path) -> None:
    error = refusal(external(tmp_path, "w.bin", offset="0", length="16"))
    assert "'w'" in error.what
    assert "w.bin" in error.what


def test_external_data_too_short(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 20)
    error = refusal(external(tmp_path, "w.bin", offset="8", length="16"))
    assert "8 to 24" in error.why
    assert "20" in error.why


@pytest.mark.parametrize(
    "location",
    [
        "/etc/passwd",
        "../w.bin",
        "sub/../../w.bin",
        "C:\\w.bin",
        "..\\w.bin",
        "\\\\host\\share\\w.bin",
        "",
        "a\0b",
    ],
)  # fmt: skip
def test_external_data_outside_the_folder(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    assert "'w'" in refusal(external(folder, location, offset="0", length="16")).what


def test_external_data_behind_a_link_that_leaves_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"\0" * 64)
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    assert "symbolic link" in refusal(external(folder, "w.bin", offset="0", length="16")).why


def test_external_data_behind_a_linked_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    (folder / "sub").symlink_to(tmp_path, target_is_directory=True)
    refusal(external(folder, "sub/w.bin", offset="0", length="16"))


def test_a_link_inside_the_folder_and_a_hard_link_are_fine(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(b"\0" * 64)
    (tmp_path / "w.bin").symlink_to(tmp_path / "real.bin")
    os.link(tmp_path / "real.bin", tmp_path / "second.bin")
    assert open_model(external(tmp_path, "w.bin", offset="0", length="16")).program.weights


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "-4", "length": "16"},
        {"offset": "0", "length": "-16"},
        {"offset": "0", "length": "12"},
        {"offset": "9223372036854775800", "length": "16"},
        {"offset": "many", "length": "16"},
    ],
)
def test_external_offsets_and_lengths_that_make_no_sense(tmp_path: Path, entries: dict[str, str]) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 64)
    refusal(external(tmp_path, "w.bin", **entries), InputError)


def test_inline_data_of_the_wrong_length(tmp_path: Path) -> None:
    proto = adding()
    proto.graph.initializer[0].ClearField("float_data")
    proto.graph.initializer[0].raw_data = b"\0" * 12
    assert "'w'" in refusal(saved(proto, tmp_path), InputError).what


def test_a_weight_too_large_to_address(tmp_path: Path) -> None:
    from vramscope.errors import ShapeOverflowError

    proto = adding()
    del proto.graph.initializer[0].dims[:]
    proto.graph.initializer[0].dims.extend([2**40, 2**40])
    with pytest.raises(ShapeOverflowError):
        open_model(saved(proto, tmp_path))


def test_an_output_that_no_node_produces(tmp_path: Path) -> None:
    proto = adding()
    proto.graph.output.append(floats("present.0.key", "n", 4))
    error = refusal(saved(proto, tmp_path), ModelGraphError)
    assert "present.0.key" in error.what


def test_an_initializer_that_is_missing(tmp_path: Path) -> None:
    name = "lm_head.MatMul.weight_Q8G32"
    proto = model([helper.make_node("Add", ["x", name], ["y"], name="head")])
    error = refusal(saved(proto, tmp_path), ModelGraphError)
    assert name in error.what
    assert error.node == "head"
    assert "input 1" in error.why


def test_a_cycle(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["y"], name="third"),
    ]
    error = refusal(saved(model(nodes), tmp_path), ModelGraphError)
    assert "cycle" in error.what
    assert "first" in error.why
    assert "second" in error.why


def test_two_producers_of_one_value(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"], name="one"),
        helper.make_node("Neg", ["x"], ["y"], name="two"),
    ]
    error = refusal(saved(model(nodes), tmp_path), ModelGraphError)
    assert "one" in error.why
    assert "two" in error.why


def test_a_wrong_declared_rank(tmp_path: Path) -> None:
    proto = model([helper.make_node("Add", ["x", "w"], ["y"], name="add")], outputs=[floats("y", "n")])
    error = refusal(saved(proto, tmp_path), ModelGraphError)
    assert "'y'" in error.what
    assert "rank 1" in error.why
    assert "rank 2" in error.why


def test_weights_that_do_not_fit_their_node(tmp_path: Path) -> None:
    proto = model([helper.make_node("MatMul", ["x", "w"], ["y"], name="proj")], weights=[weight("w", 5, 4)])
    error = refusal(saved(proto, tmp_path), ModelGraphError)
    assert error.node == "proj"


def test_an_unknown_operator_opens_and_is_reported(tmp_path: Path) -> None:
    node = helper.make_node("Frobnicate", ["x"], ["y"], name="frob", domain="acme")
    opened = open_model(saved(model([node]), tmp_path))
    assert any("acme::Frobnicate" in problem and "frob" in problem for problem in opened.problems)


def test_duplicate_node_names_are_numbered_and_reported(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="same"),
        helper.make_node("Relu", ["a"], ["b"], name="same"),
        helper.make_node("Relu", ["b"], ["y"], name="same"),
    ]
    opened = open_model(saved(model(nodes), tmp_path))
    assert [step.node.name for step in opened.program.steps] == ["same", "same_2", "same_3"]
    assert any("'same'" in problem for problem in opened.problems)


def test_nodes_out_of_order_are_sorted(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["a"], ["y"], name="b"),
        helper.make_node("Neg", ["x"], ["a"], name="a"),
    ]
    opened = open_model(saved(model(nodes), tmp_path))
    assert [step.node.operator for step in opened.program.steps] == ["Neg", "Relu"]
    assert any("order" in problem for problem in opened.problems)


def shapes_of(tmp_path: Path, *inputs: onnx.ValueInfoProto) -> dict[str, list[str]]:
    names = [info.name for info in inputs]
    nodes = [helper.make_node("Identity", [name], [f"o_{name}"]) for name in names]
    outputs = [helper.make_tensor_value_info(f"o_{name}", FLOAT, None) for name in names]
    program = open_model(saved(model(nodes, list(inputs), outputs), tmp_path)).program
    return {
        program.values[item].name: [str(dim) for dim in program.values[item].shape or ()]
        for item in program.inputs
    }


def test_meaningless_dimension_names_never_unify(tmp_path: Path) -> None:
    shapes = shapes_of(tmp_path, floats("a", "?", "?"), floats("b", "1", -1), floats("c", None, "", "unk__7"))
    names = [name for shape in shapes.values() for name in shape]
    assert len(set(names)) == len(names) == 7
    assert shapes["a"] == ["a.axis0", "a.axis1"]


def test_real_names_do_unify_and_odd_spellings_stay_whole(tmp_path: Path) -> None:
    shapes = shapes_of(tmp_path, floats("a", "batch size", "N-ary"), floats("b", "batch size", "s0"))
    assert shapes == {"a": ["batch size", "N-ary"], "b": ["batch size", "s0"]}


def test_a_sum_is_a_sum_only_when_its_parts_can_be_known(tmp_path: Path) -> None:
    known = shapes_of(tmp_path, floats("a", "p", "q"), floats("b", "q + p"), floats("c", "x + y"))
    assert known["b"] == ["p + q"]
    assert known["c"] == ["x + y"]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    content = model([helper.make_node("Relu", ["x"], ["y"], name="QQQQ")]).SerializeToString()
    file.write_bytes(content.replace(b"QQQQ", b"Q\xff\xfeQ"))
    assert "UTF-8" in refusal(file, InputError).why


def test_external_entries_of_unknown_kinds_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(b"\0" * 16)
    file = external(tmp_path, "w.bin", offset="0", length="16", prepacked="yes")
    assert open_model(file).program.weights


def test_an_ambiguous_folder_lists_its_candidates(tmp_path: Path) -> None:
    for name in ("encoder.onnx", "vocoder.onnx"):
        (tmp_path / name).write_bytes(adding().SerializeToString())
    error = refusal(tmp_path)
    assert "encoder.onnx" in error.why
    assert "vocoder.onnx" in error.why


@pytest.mark.parametrize("name", ["model.onnx", "decoder_model_merged.onnx"])
def test_a_folder_with_a_main_model_opens_it(tmp_path: Path, name: str) -> None:
    for file in (name, "encoder_model.onnx"):
        (tmp_path / file).write_bytes(adding().SerializeToString())
    assert open_model(tmp_path).path.name == name


def test_an_empty_folder(tmp_path: Path) -> None:
    assert str(tmp_path) in refusal(tmp_path).what


@pytest.mark.parametrize("name", ["../model.onnx", "/etc/passwd", "absent.onnx"])
def test_a_genai_config_that_names_no_file_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "genai_config.json").write_text(f'{{"model": {{"decoder": {{"filename": "{name}"}}}}}}')
    assert name in refusal(tmp_path).what


@pytest.mark.parametrize("content", ["{", "[1, 2]", "\xff"])
def test_a_damaged_config_is_reported_and_ignored(tmp_path: Path, content: str) -> None:
    saved(adding(), tmp_path)
    (tmp_path / "config.json").write_bytes(content.encode("latin-1"))
    assert any("config.json" in problem for problem in open_model(tmp_path).problems)


def test_a_model_of_50_000_nodes(tmp_path: Path) -> None:
    count = 50_000
    nodes = [
        helper.make_node(
            "Add", [f"v{index}", "w"], [f"v{index + 1}"], name=f"/m/layers.{index // 100}/n{index}"
        )
        for index in range(count)
    ]
    proto = model(nodes, [floats("v0", "n", 4)], [floats(f"v{count}", "n", 4)])
    opened = open_model(saved(proto, tmp_path))
    assert len(opened.program.steps) == count
    assert opened.program.values[opened.program.outputs[0]].shape == opened.program.values[0].shape


def test_opening_reports_its_stages_and_can_be_cancelled(tmp_path: Path) -> None:
    file = saved(adding(), tmp_path)
    stages: list[Any] = []
    open_model(file, progress=lambda stage, done, total: stages.append(stage))
    assert list(dict.fromkeys(stages))[:2] == ["read", "check"]

    def cancel() -> None:
        raise CancelledError("opening", "cancelled")

    with pytest.raises(CancelledError):
        open_model(file, cancel=cancel)
