"""Every third-party model opens: a shape for every value, the contract of its dialect, no weight read."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from vramscope.graph.expr import free_symbols
from vramscope.graph.load import open_model
from vramscope.graph.model import Feed, KvForm, Limit, Model, Program, ValueKind

NATIVE = frozenset({("com.microsoft", "SkipSimplifiedLayerNormalization"), ("com.microsoft", "MatMulNBits")})


@dataclass(frozen=True)
class Expected:
    dialect: str
    form: KvForm
    limit: int
    source: str
    feeds: frozenset[Feed]
    eos: tuple[int, ...] = ()
    layers: int = 2
    heads: int = 2


IDS_MASK = frozenset({Feed.TOKENS, Feed.MASK})
POSITIONED = IDS_MASK | {Feed.POSITIONS}
STATIC = frozenset({Feed.TOKENS, Feed.POSITIONS, Feed.WRITE_INDICES, Feed.VALID_LENGTH})
GENAI = Expected("genai", KvForm.CAPACITY, 256, "genai_config.json, model.context_length", IDS_MASK, eos=(2,))
COS = "rows of 'model.rotary_emb.cos_cache'"
EXPECTED = {
    "mobius-tiny-llama-fp16-cuda": Expected("mobius-gqa", KvForm.CAPACITY, 256, COS, IDS_MASK, eos=(2,)),
    "mobius-tiny-llama-fp32-default": Expected("mobius-attention", KvForm.MASKED, 256, COS, POSITIONED),
    "mobius-tiny-llama-fp32-static": Expected(
        "mobius-static", KvForm.SCATTER, 64, "extent of the static cache 'key_cache.0'", STATIC
    ),
    "mobius-tiny-llama-std": Expected("mobius-attention", KvForm.MASKED, 256, COS, POSITIONED),
    "optimum-tiny-gpt2": Expected(
        "optimum", KvForm.APPEND, 256, "config.json, n_positions", POSITIONED, eos=(2,), heads=4
    ),
    "tiny-gemma3-fp32-cpu": Expected(
        "genai-sliding", KvForm.CAPACITY, 256, GENAI.source, IDS_MASK, eos=(2,), layers=6
    ),
    "tiny-llama-bf16-cuda": GENAI,
    "tiny-llama-fp16-cuda": GENAI,
    "tiny-llama-fp16-cuda-paged": Expected(
        "genai-paged",
        KvForm.PAGED,
        256,
        GENAI.source,
        frozenset(
            {Feed.TOKENS, Feed.BLOCK_TABLE, Feed.SEQUENCE_STARTS, Feed.PAST_LENGTHS, Feed.LENGTH_BOUNDS}
        ),
        eos=(2,),
    ),
    "tiny-llama-fp32-cpu": GENAI,
    "tiny-llama-fp32-cpu-prune": GENAI,
    "tiny-llama-int4-cpu": GENAI,
    "tiny-llama-int4-cpu-qdq": GENAI,
    "tiny-llama-int4-cuda": GENAI,
    "tiny-llama-int8-cpu": GENAI,
    "tiny-llama-tied-fp32-cpu": GENAI,
    "tiny-qwen3-fp32-cpu": GENAI,
    "torchexp-tiny-llama": Expected("torch", KvForm.APPEND, 0, "", POSITIONED),
}


def opened(folder: Path) -> Model:
    return open_model(folder, native=NATIVE)


def input_symbols(program: Program) -> frozenset[str]:
    shapes = [program.values[item].shape or () for item in program.inputs]
    return frozenset().union(*(free_symbols(dim) for shape in shapes for dim in shape))


def test_no_folder_is_forgotten(shared_models: Path) -> None:
    assert {folder.name for folder in (shared_models / "tiny").iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_value_has_a_shape_over_the_symbols_of_the_inputs(shared_models: Path, name: str) -> None:
    program = opened(shared_models / "tiny" / name).program
    known = input_symbols(program)
    for value in program.values:
        assert value.shape is not None, value.name
        assert frozenset().union(*(free_symbols(dim) for dim in value.shape)) <= known, value.name
    assert not program.minted


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_contract_is_that_of_the_dialect(shared_models: Path, name: str) -> None:
    expected = EXPECTED[name]
    contract = opened(shared_models / "tiny" / name).contract
    assert contract is not None
    assert contract.dialect == expected.dialect
    assert {pair.form for pair in contract.kv} == {expected.form}
    assert len(contract.kv) == 2 * expected.layers
    assert contract.layers == expected.layers
    assert {(pair.heads, pair.head_size) for pair in contract.kv} == {(expected.heads, 16)}
    assert frozenset(contract.feeds.values()) == expected.feeds
    assert contract.eos_tokens == expected.eos
    assert contract.vocabulary == 512
    limit = contract.context_limit
    assert (limit.value, limit.source) == (expected.limit, expected.source) if limit else expected.limit == 0


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_steps_come_after_what_they_read_and_names_are_unique(shared_models: Path, name: str) -> None:
    program = opened(shared_models / "tiny" / name).program
    ready = set(program.inputs) | set(program.weights) | {-1}
    for step in program.steps:
        assert set(step.inputs) <= ready, step.node.name
        ready.update(step.outputs)
    names = [step.node.name for step in program.steps]
    assert len(set(names)) == len(names)
    assert set(program.outputs) <= ready


def test_pairs_are_ordered_by_layer_with_the_key_first(shared_models: Path) -> None:
    contract = opened(shared_models / "tiny" / "tiny-llama-fp32-cpu").contract
    assert contract is not None
    assert [(pair.layer, pair.role, pair.output) for pair in contract.kv] == [
        (0, "key", "present.0.key"),
        (0, "value", "present.0.value"),
        (1, "key", "present.1.key"),
        (1, "value", "present.1.value"),
    ]


def test_five_gemma_layers_slide_and_the_sixth_does_not(shared_models: Path) -> None:
    contract = opened(shared_models / "tiny" / "tiny-gemma3-fp32-cpu").contract
    assert contract is not None
    assert [pair.window for pair in contract.kv if pair.role == "key"] == [32, 32, 32, 32, 32, 0]


def test_the_symbolic_head_size_becomes_the_number_its_node_computes_with(shared_models: Path) -> None:
    program = opened(shared_models / "tiny" / "tiny-qwen3-fp32-cpu").program
    past = program.value_named("past_key_values.0.key")
    assert past is not None
    assert past.shape is not None
    assert past.shape[3] == 16
    assert "kv_cache_dim" not in input_symbols(program)


def test_three_spellings_of_one_length_do_not_confuse_mobius(shared_models: Path) -> None:
    program = opened(shared_models / "tiny" / "mobius-tiny-llama-fp32-default").program
    present = program.value_named("present.0.key")
    mask = program.value_named("attention_mask")
    assert present is not None
    assert present.shape is not None
    assert free_symbols(present.shape[2]) == {"past_sequence_len", "sequence_len"}
    assert mask is not None
    assert mask.shape is not None
    assert free_symbols(mask.shape[1]) == {"past_seq_len + seq_len"}


def test_torch_spells_keys_and_values_differently_and_they_agree(shared_models: Path) -> None:
    program = opened(shared_models / "tiny" / "torchexp-tiny-llama").program
    key, value = program.value_named("present.0.key"), program.value_named("present.0.value")
    assert key is not None
    assert value is not None
    assert key.shape == value.shape


def test_a_tied_embedding_is_one_weight_behind_a_constant_transpose(shared_models: Path) -> None:
    program = opened(shared_models / "tiny" / "tiny-llama-tied-fp32-cpu").program
    assert program.constant_steps == 1
    assert program.steps[0].node.operator == "Transpose"
    assert program.steps[0].inputs[0] in program.weights


def test_weights_of_one_model_have_their_exact_sizes(shared_models: Path) -> None:
    program = opened(shared_models / "tiny" / "tiny-llama-fp32-cpu").program
    table = next(
        program.weights[value.id] for value in program.values if value.name == "model.embed_tokens.weight"
    )
    assert table.shape == (512, 64)
    assert table.size == 512 * 64 * 4
    assert table.file is not None


def test_scopes_are_the_modules_of_the_network(shared_models: Path) -> None:
    names = {
        "tiny-llama-fp32-cpu": ("model", "layers.0", "attn"),
        "mobius-tiny-llama-std": ("model", "layers.0", "self_attn"),
        "optimum-tiny-gpt2": ("transformer", "h.0", "attn"),
    }
    for name, scope in names.items():
        program = opened(shared_models / "tiny" / name).program
        assert any(step.node.scope == scope for step in program.steps), name


def test_a_paged_cache_is_a_pool_and_its_lengths_are_fed(shared_models: Path) -> None:
    contract = opened(shared_models / "tiny" / "tiny-llama-fp16-cuda-paged").contract
    assert contract is not None
    assert contract.paged
    assert contract.notes == ()
    assert contract.block_size == Limit(256, "genai_config.json, engine.dynamic_batching.block_size")
    assert contract.feeds == {
        "input_ids": Feed.TOKENS,
        "block_table": Feed.BLOCK_TABLE,
        "cumulative_sequence_lengths": Feed.SEQUENCE_STARTS,
        "past_sequence_lengths": Feed.PAST_LENGTHS,
        "attention_metadata": Feed.LENGTH_BOUNDS,
    }
    other = opened(shared_models / "tiny" / "tiny-llama-fp16-cuda").contract
    assert other is not None
    assert (other.paged, other.block_size) == (False, None)


def test_without_native_kernels_the_functions_of_the_file_are_inlined(shared_models: Path) -> None:
    folder = shared_models / "tiny" / "mobius-tiny-llama-fp32-default"
    inlined = open_model(folder).program
    assert all(step.node.operator != "SkipSimplifiedLayerNormalization" for step in inlined.steps)
    assert all(value.shape is not None for value in inlined.values)
    assert len(inlined.steps) > len(opened(folder).program.steps)


SPARSE = 16_060_522_496


@pytest.fixture(params=["mobius-llama3-8b-shape", "mobius-llama3-8b-shape-static"])
def eight_billion(request: pytest.FixtureRequest, shared_models: Path, tmp_path: Path) -> Path:
    folder = tmp_path / str(request.param)
    folder.mkdir()
    for file in (shared_models / "shape" / str(request.param)).iterdir():
        shutil.copyfile(file, folder / file.name)
    with (folder / "weights.sparse").open("wb") as stream:
        stream.truncate(SPARSE)
    return folder


def bytes_read() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split(":")[1])


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="reads are counted in /proc")
def test_fifteen_gibibytes_of_weights_are_opened_without_reading_one(eight_billion: Path) -> None:
    opened(eight_billion)
    resident = resident_bytes()
    before = bytes_read()
    model = opened(eight_billion)
    graph = (eight_billion / "model.onnx").stat().st_size
    assert bytes_read() - before < graph + 200_000
    assert resident_bytes() - resident < 100 * 2**20
    assert sum(source.size for source in model.program.weights.values()) > 16 * 10**9
    assert model.contract is not None
    assert len(model.contract.kv) == 64
    assert {(pair.heads, pair.head_size) for pair in model.contract.kv} == {(8, 128)}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_hole_in_the_disk_that_was_not_made_is_named(shared_models: Path) -> None:
    from vramscope.errors import ModelFileError

    with pytest.raises(ModelFileError, match=r"weights\.sparse.*no such file"):
        opened(shared_models / "shape" / "mobius-llama3-8b-shape")


def test_weight_concats_and_transposes_are_constant_steps(eight_billion: Path) -> None:
    program = opened(eight_billion).program
    ahead = program.steps[: program.constant_steps]
    assert {step.node.operator for step in ahead} <= {"Transpose", "Concat"}
    assert len(ahead) >= 193
    kinds = {program.values[value].kind for step in ahead for value in step.inputs}
    assert kinds <= {ValueKind.WEIGHT, ValueKind.ACTIVATION}
