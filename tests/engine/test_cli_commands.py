"""Every command on a bundled sample: what it prints, its one document, its exit code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vramscope.build.decoder_graph import PRECISIONS
from vramscope.cli.main import main
from vramscope.cli.parser import RUNTIMES
from vramscope.plan.types import CUDA_RUNTIME, OWN_RUNTIME, REFERENCE_RUNTIME

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
}


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command that must end with ``code`` and gives its standard output."""

    def run(*words: str | Path, code: int = 0) -> str:
        capsys.readouterr()
        assert main([str(word) for word in words]) == code
        return capsys.readouterr().out

    return run


@pytest.fixture
def document(said: Callable[..., str]) -> Callable[..., Any]:
    """The one JSON document of a command."""

    def run(*words: str | Path, code: int = 0) -> Any:  # noqa: ANN401  # each command has its own
        return json.loads(said(*words, "--json", code=code))

    return run


def test_inspect_says_what_a_model_is(said: Callable[..., str], document: Callable[..., Any]) -> None:
    text = said("inspect", "tiny-llama")
    for word in ("genai", "3 layers", "GroupQueryAttention", "input_ids", "attention_mask", "2,048"):
        assert word in text
    found = document("inspect", "tiny-llama")
    assert found["model"]["contract"]["layers"] == 3
    assert sum(item["nodes"] for item in found["operators"]) == found["model"]["nodes"]
    assert sum(item["bytes"] for item in found["weights"]) == found["model"]["weights_bytes"]


def test_a_model_without_a_cache_shows_none_but_in_the_document(
    said: Callable[..., str], document: Callable[..., Any], tmp_path: Path
) -> None:
    pages = [tmp_path / "plan.html", tmp_path / "plan.md"]
    words = ("plan", "unbounded-axis", "--max", "passage_count=8", "--card", "3060")
    text = said(*words, "--export", pages[0], "--export", pages[1])
    for shown in (text, *(page.read_text(encoding="utf-8") for page in pages)):
        assert "inputs and outputs" in shown
        assert "KV cache" not in shown
        assert "on GeForce RTX 3060 12GB at batch 1" in " ".join(shown.split())
    components = {item["name"]: item["figure"] for item in document(*words)["plan"]["components"]}
    assert components["KV cache"] == {"bytes": 0, "certainty": "exact"}


def test_plan_prints_the_same_verdict_as_its_document(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    words = ("plan", "tiny-llama", "--card", "RTX 4090", "--context", "512", "--batch", "2")
    plan = document(*words)["plan"]
    text = " ".join(said(*words).split())
    assert plan["verdict"]["kind"] == "fits"
    assert plan["verdict"]["sentence"] in text
    assert plan["scenario"]["batch"] == 2
    assert plan["context"] == 512
    assert [item["name"] for item in plan["components"]] == [
        "weights",
        "KV cache",
        "activations",
        "workspace",
        "inputs and outputs",
        "device context",
    ]
    assert plan["components"][-1]["figure"] == {"bytes": None, "certainty": "unknown"}
    assert "unknown" in text


def test_plan_exits_with_1_when_it_does_not_fit_and_says_what_would(document: Callable[..., Any]) -> None:
    short = document("plan", "tiny-llama", "--budget", "3MiB", code=1)["plan"]
    verdict = short["verdict"]
    assert verdict["kind"] == "does not fit"
    assert verdict["headroom"] == 3 * 2**20 - short["total"]["bytes"] < 0
    assert short["suggestions"]
    largest = verdict["largest_context"]
    words = ("plan", "tiny-llama", "--budget", "3MiB", "--context")
    assert document(*words, str(largest))["plan"]["verdict"]["kind"] == "fits"
    assert document(*words, str(largest + 1), code=1)["plan"]["verdict"]["kind"] == "does not fit"


def test_plan_exits_with_2_when_it_is_refused_and_0_once_bounded(document: Callable[..., Any]) -> None:
    refused = document("plan", "unbounded-axis", code=2)["plan"]
    (axis,) = [axis for axis in refused["axes"] if axis["refused"]]
    assert refused["total"] == {"bytes": None, "certainty": "unknown"}
    bounded = document("plan", "unbounded-axis", "--max", f"{axis['symbol']}=32")["plan"]
    assert bounded["total"]["bytes"] > 0


def test_an_extent_is_exact_where_a_maximum_only_bounds(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    bounded = document("plan", "unbounded-axis", "--max", "passage_count=32")["plan"]
    exact = document("plan", "unbounded-axis", "--extent", "passage_count=32")["plan"]
    assert bounded["total"]["certainty"] == "bound"
    assert exact["total"] == {"bytes": bounded["total"]["bytes"], "certainty": "exact"}
    assert exact["scenario"]["extents"] == {"passage_count": 32}
    assert "passage_count = 32" in said("plan", "unbounded-axis", "--extent", "passage_count=32")


@pytest.mark.parametrize("runtime", ["cuda", "reference"])
def test_another_runtimes_scratch_is_planned_and_named(
    said: Callable[..., str], document: Callable[..., Any], runtime: str, tmp_path: Path
) -> None:
    own = document("plan", "tiny-llama")["plan"]
    other = document("plan", "tiny-llama", "--runtime", runtime)["plan"]
    assert (own["scenario"]["runtime"], other["scenario"]["runtime"]) == ("vramscope", runtime)
    changed = [
        (mine["name"], theirs["detail"])
        for mine, theirs in zip(own["components"], other["components"], strict=True)
        if mine["figure"] != theirs["figure"]
    ]
    assert [name for name, _ in changed] == ["workspace"]
    assert "CUDA kernels" in changed[0][1]
    page = tmp_path / "plan.html"
    text = said("plan", "tiny-llama", "--runtime", runtime, "--export", page)
    assert f"{runtime} runtime" in text
    assert f"{runtime} runtime" in page.read_text(encoding="utf-8")
    assert "runtime;" not in said("plan", "tiny-llama")


def test_the_grammar_knows_the_runtimes_of_the_planner() -> None:
    assert RUNTIMES == (OWN_RUNTIME, CUDA_RUNTIME, REFERENCE_RUNTIME)


def test_headroom_is_what_plans_of_each_context_and_batch_say(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    words = ("plan", "tiny-llama", "--budget", "6MiB")
    room = {(cell["context"], cell["batch"]): cell for cell in document(*words, "--headroom")["headroom"]}
    assert sorted(room) == [(c, b) for c in (256, 512, 1024, 2048) for b in (1, 2, 4, 8)]
    for context, batch in ((256, 8), (2048, 1), (2048, 8)):
        cell = room[context, batch]
        code = 0 if cell["fits"] else 1
        there = document(*words, "--context", str(context), "--batch", str(batch), code=code)["plan"]
        assert cell["bytes"] == there["total"]["bytes"]
        assert cell["fits"] is (cell["bytes"] <= 6 * 2**20)
    text = said(*words, "--headroom")
    fitting = sum(cell["fits"] for cell in room.values())
    assert 0 < fitting < 16
    assert (text.count("✓"), text.count("✗")) == (fitting, 16 - fitting)
    assert "Total at other contexts and batches in 6.00 MiB" in text
    assert document(*words)["headroom"] == []


def test_headroom_of_what_has_no_context_or_cannot_be_planned(document: Callable[..., Any]) -> None:
    words = ("plan", "unbounded-axis", "--headroom")
    assert document(*words, code=2)["headroom"] == [{"context": 0, "batch": 1, "bytes": None, "fits": None}]
    bounded = document(*words, "--max", "passage_count=9")
    assert bounded["headroom"][0]["bytes"] == bounded["plan"]["total"]["bytes"]


def test_the_largest_nodes_are_shown(said: Callable[..., str]) -> None:
    text = said("plan", "tiny-llama", "--nodes", "2")
    assert "Largest nodes of prefill" in text
    assert "Largest nodes of decode" in text
    assert "Largest nodes" not in said("plan", "tiny-llama")


def test_run_streams_text_and_tells_what_happened(said: Callable[..., str]) -> None:
    text = said("run", "tiny-llama", "--prompt", "The capital", "--steps", "12", "--verify", "3")
    for word in ("prefill", "eager steps", "1 graph", "allocations", "0 in the last step", "uploads"):
        assert word in text
    assert "3 replays equal their eager steps" in text


def test_replays_give_the_tokens_of_eager_steps(document: Callable[..., Any]) -> None:
    words = ("run", "tiny-llama", "--tokens", "1,5,9,13", "--steps", "20")
    replayed, eager = document(*words), document(*words, "--no-capture")
    assert replayed["tokens"] == eager["tokens"]
    assert len(replayed["tokens"]) == 21
    assert replayed["text"] == eager["text"] != ""
    assert replayed["capture"]["captured"]
    assert replayed["replay"]["steps_replayed"] == 16
    assert eager["capture"] is None
    assert replayed["snapshot"]["allocations_last_step"] == 0


def test_a_seed_decides_what_is_sampled(document: Callable[..., Any]) -> None:
    words = ("run", "tiny-llama", "--tokens", "1,5", "--steps", "8", "--temperature", "1", "--seed")
    assert document(*words, "1")["tokens"] == document(*words, "1")["tokens"]
    assert document(*words, "1")["tokens"] != document(*words, "2")["tokens"]


def test_declines_are_shown_with_reason_and_remedy(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    words = ("run", "declines", "--tokens", "1,5,9", "--steps", "8")
    text = " ".join(said(*words).split())
    assert "Not captured" in text
    assert "ai.onnx::If" in text
    declines = document(*words)["capture"]["declines"]
    assert {item["seam"] for item in declines} >= {"HostControlFlowOrSequence"}
    assert all(item["reason"] and item["remedy"] for item in declines)


def test_a_run_over_its_budget_ends_like_a_plan_that_does_not_fit(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    plan = document("plan", "tiny-llama", "--prompt", "8", "--context", "64")["plan"]
    need = plan["total"]["bytes"]
    words = (
        "run",
        "tiny-llama",
        "--tokens",
        "5,9",
        "--prompt-tokens",
        "8",
        "--context",
        "64",
        "--steps",
        "4",
    )
    error = document(*words, "--budget", str(need - 1), code=1)["error"]
    assert (error["details"]["requested"], error["details"]["available"]) == (str(need), str(need - 1))
    assert "would fit" in error["remedy"]
    told = document(*words, "--budget", str(need))["snapshot"]
    assert (told["left"], sum(item["bytes"] for item in told["leases"])) == (0, need)
    assert {item["bytes"] for item in told["phase_peaks"]} == {need}
    assert "left" in said(*words, "--budget", "1GiB")


def test_a_run_under_a_weight_budget_streams_and_says_the_same(
    said: Callable[..., str], document: Callable[..., Any]
) -> None:
    words = ("run", "tiny-llama", "--tokens", "5,9,11", "--steps", "6", "--context", "64")
    plain = document(*words)
    assert plain["snapshot"]["streaming"] is None
    streamed = document(*words, "--weight-budget", "300KiB")
    assert streamed["tokens"] == plain["tokens"]
    told = streamed["snapshot"]["streaming"]
    assert told["page_ins"] > 0
    assert told["page_in_bytes"] > told["window_bytes"]
    weights = next(item for item in streamed["snapshot"]["measured"] if item["name"] == "weights")
    assert weights["figure"]["bytes"] <= told["budget"] == 300 * 1024
    assert "page-ins" in said(*words, "--weight-budget", "300KiB")
    error = document(*words, "--weight-budget", str(told["least"] - 1), code=2)["error"]
    assert f"{told['least']:,}" in error["remedy"]


def test_a_model_that_is_no_decoder_runs_on_seeded_inputs(document: Callable[..., Any]) -> None:
    words = ("run", "unbounded-axis", "--max", "passage_count=5", "--seed")
    first, same, other = document(*words, "1"), document(*words, "1"), document(*words, "2")
    assert first["outputs"] == same["outputs"] != other["outputs"]
    (relevance, *_) = first["outputs"]
    assert relevance["shape"] == [1, 5]
    assert relevance["mean"] == pytest.approx(1 / 5)


def test_demo_makes_the_whole_journey(said: Callable[..., str], document: Callable[..., Any]) -> None:
    text = said("demo", "--steps", "16")
    for word in ("fits", "prompt:", "answer:", "1 graph", "replays", "equal their eager steps"):
        assert word in text
    assert document("demo", "--steps", "16")["verify"]["equal"]


@pytest.mark.parametrize("sample", ["unbounded-axis", "cannot-fit", "declines"])
def test_demo_of_every_sample_ends_well(
    said: Callable[..., str], sample: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vramscope.build.fetch.default_cache", lambda: tmp_path)
    assert sample in said("demo", sample, "--steps", "8")


def test_samples_are_listed_and_found(said: Callable[..., str], document: Callable[..., Any]) -> None:
    names = [item["name"] for item in document("samples")]
    assert names[0] == "tiny-llama"
    assert "smollm2" in names
    path = Path(said("sample", "tiny-llama").strip())
    assert (path / "model.onnx").is_file()
    assert document("sample", "tiny-llama") == {"path": str(path)}


def test_what_is_built_runs(document: Callable[..., Any], tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    out = tmp_path / "model"
    assert document("build", config, out, "--precision", "fp32", "--seed", "4") == {"path": str(out)}
    assert document("inspect", out)["model"]["contract"]["vocabulary"] == 128
    assert len(document("run", out, "--tokens", "1,2", "--steps", "6")["tokens"]) == 7


@pytest.mark.parametrize("precision", PRECISIONS)
def test_every_precision_can_be_built_and_planned(
    document: Callable[..., Any], tmp_path: Path, precision: str
) -> None:
    config, out = tmp_path / "config.json", tmp_path / "model"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    document("build", config, out, "--precision", precision, "--no-weights")
    assert document("plan", out)["plan"]["verdict"]["kind"] == "no card or budget given"


def test_what_was_built_without_weights_says_so_and_only_plans(
    said: Callable[..., str], document: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, out = tmp_path / "config.json", tmp_path / "model"
    config.write_text(json.dumps(CONFIG), encoding="utf-8")
    said("build", config, out, "--no-weights")
    model = document("inspect", out)["model"]
    assert not model["has_weights"]
    assert [text for text in model["problems"] if "weights were left out" in text]
    assert "warning: Its weights were left out" in said("plan", out)
    assert main(["run", str(out), "--tokens", "1,2"]) == 2
    told = capsys.readouterr().err
    assert "weights were left out" in told
    assert "--no-weights" in told.partition("remedy:")[2]
    said("build", config, tmp_path / "full")
    model = document("inspect", tmp_path / "full")["model"]
    assert model["has_weights"]
    assert not [text for text in model["problems"] if "weights" in text]


def test_the_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vramscope", "samples", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)[0]["name"] == "tiny-llama"
    assert done.stderr == ""
