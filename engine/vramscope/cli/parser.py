"""The grammar of the command line: every command, its options, and examples that teach it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vramscope.cli.assuming import add_as_if
from vramscope.cli.values import count, extent, growth, input_file, maximum, positive, size, tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTION = """\
Does this ONNX model fit this GPU, what fills it, what would make it fit, and what happens
when its decode step is captured and replayed?

Planning needs no GPU and reads no weight bytes. Running uses the host device, or a GPU where one is named."""

EXAMPLES = """\
examples:
  vramscope demo                                  the whole journey with a bundled sample
  vramscope plan MODEL --card "RTX 4090" --context 8192
  vramscope run MODEL --prompt "The capital of France is" --steps 32
  vramscope compare before.vramscope.json MODEL --fail-if-larger 2%
  vramscope gui MODEL

MODEL is a .onnx file, a folder with one (genai, mobius, optimum), or a sample's name.
Exit codes: 0 done or fits, 1 does not fit or grew, 2 bad input or cannot be planned, 130 cancelled."""

RUNTIMES = ("vramscope", "cuda", "reference")
"""What ``Scenario.runtime`` may be; spelled here so that the grammar imports nothing heavy."""

_Subparsers = argparse._SubParsersAction  # noqa: SLF001  # argparse has no public name for this type


class _Precisions:
    """What ``build`` can make, asked only when its own words are read: the builder is slow to import."""

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def __iter__(self) -> Iterator[str]:
        from vramscope.build.decoder_graph import PRECISIONS

        return iter(PRECISIONS)


def build_parser() -> argparse.ArgumentParser:
    """The parser of ``vramscope``."""
    parser = argparse.ArgumentParser(
        prog="vramscope",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for add in (_gui, _inspect, _plan, _compare, _run, _demo, _sample, _samples, _build, _serve, _doctor):
        add(commands)
    return parser


def _command(
    commands: _Subparsers[argparse.ArgumentParser],
    name: str,
    summary: str,
    examples: str,
    *,
    json: bool = True,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if json:
        parser.add_argument("--json", action="store_true", help="print exactly one JSON document")
    return parser


def _model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a .onnx file, a model folder, or a sample")


def _without_weights(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--without-weights", action="store_true",
        help="the .onnx file is enough: its data files may be missing, for nothing will run",
    )  # fmt: skip


def _scenario(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scenario")
    group.add_argument(
        "--card", metavar="NAME", default="", help="judge against this card, such as 'RTX 4090'"
    )
    group.add_argument(
        "--budget",
        metavar="SIZE",
        type=size,
        help="judge against this much memory, and run within it: 8GiB, 24GB, bytes",
    )
    group.add_argument(
        "--weight-budget", metavar="SIZE", type=size,
        help="let weights take this much and stream the rest from the model's file (host device)",
    )  # fmt: skip
    group.add_argument("--batch", metavar="N", type=count, help="sequences decoded together (1)")
    group.add_argument("--prompt-tokens", metavar="N", type=count, help="tokens of the prompt (64)")
    group.add_argument(
        "--prefill-chunk", metavar="N", type=count,
        help="take the prompt in passes of at most N tokens: fewer shapes, a smaller arena (one pass)",
    )  # fmt: skip
    group.add_argument(
        "--context", metavar="N", type=count,
        help="prompt and generated tokens together (2048 or the model's limit; 0: the model's limit)",
    )  # fmt: skip
    group.add_argument(
        "--max", metavar="SYMBOL=N", type=maximum, action="append", default=[],
        help="the maximum of a symbolic axis that nothing else bounds; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--extent", metavar="SYMBOL=N", type=extent, action="append", default=[],
        help="what a symbolic axis is exactly, where --max only bounds it; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--block-size", metavar="N", type=count, help="tokens of one block of a paged KV cache (the model's)"
    )
    group.add_argument(
        "--kv-blocks", metavar="N", type=count,
        help="blocks of a paged KV cache's pool (as many as every sequence needs to become full)",
    )  # fmt: skip
    add_as_if(group, "plan the model")
    group.add_argument("--bucket-minimum", metavar="N", type=positive, help="smallest KV capacity (256)")
    group.add_argument(
        "--growing",
        action="store_true",
        help="let the KV cache start at a bucket and grow by powers of two; a bucket that the budget does "
        "not hold is refused when it is reached",
    )


def _runtime(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runtime",
        choices=RUNTIMES,
        default=RUNTIMES[0],
        help="whose scratch: VRAMScope's own kernels on the host or cuda, or the reference runtime's",
    )


def _export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--export", metavar="FILE", type=Path, action="append", default=[],
        help="also write a report, its format by its ending: .vramscope.json (to open and compare), .html, "
        ".csv, .md, .netron.json (an attachment for Netron) or .explorer.json (node data for Model "
        "Explorer); may be repeated",
    )  # fmt: skip


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", metavar="NAME", default="host",
        help="run on the host, on cuda (the first GPU) or on cuda:N (host)",
    )  # fmt: skip


def _gui(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands,
        "gui",
        "open the window",
        "  vramscope gui\n  vramscope gui ./my-model\n  vramscope gui --on gpu-box /models/llama",
        json=False,
    )
    parser.add_argument(
        "model", metavar="PATH", nargs="?", default="", help="a model, or a saved report, to open at once"
    )
    parser.add_argument("--sample", metavar="NAME", default="", help="a bundled sample to open at once")
    parser.add_argument("--theme", choices=("light", "dark", "system"), default="", help="colours")
    parser.add_argument(
        "--picture", metavar="FILE.png", default="", help="make the journey off-screen and save a picture"
    )
    parser.add_argument(
        "--card", metavar="NAME", default="", help="judge against this card, or an amount such as 6GiB"
    )
    parser.add_argument("--context", metavar="N", type=positive, help="prompt and generated tokens together")
    parser.add_argument("--batch", metavar="N", type=positive, help="sequences decoded together")
    parser.add_argument(
        "--on", metavar="HOST", default="",
        help="run the engine on another machine, reached by ssh without a password: HOST, USER@HOST, or "
        "HOST:/path/to/vramscope; PATH is then one of that machine",
    )  # fmt: skip


def _inspect(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "inspect", "say what a model is: contract, inputs, operators, weights, problems",
        "  vramscope inspect tiny-llama\n  vramscope inspect model.onnx --json",
    )  # fmt: skip
    _model(parser)
    _without_weights(parser)
    add_as_if(parser, "tell of the model")


def _plan(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "plan", "say what memory a model needs, and whether a card holds it",
        '  vramscope plan MODEL --card "RTX 4090" --context 8192 --batch 4\n'
        "  vramscope plan MODEL --budget 8GiB --nodes 10\n"
        "  vramscope plan MODEL --card L4 --headroom\n"
        "  vramscope plan MODEL --card L4 --as-if last-logits,kv8      before exporting it so\n"
        "  vramscope plan model.onnx --without-weights --card H100    before downloading its data\n"
        "  vramscope plan MODEL --max num_blocks=4096 --export report.html\n"
        "  vramscope plan detector.onnx --extent height=640 --extent width=640 --runtime reference\n"
        "  vramscope plan MODEL --card H100 --json | jq .verdict\n\n"
        "exit code: 0 it fits or no card was given, 1 it does not fit, 2 bad input or refused",
    )  # fmt: skip
    _model(parser)
    _without_weights(parser)
    _scenario(parser)
    parser.add_argument(
        "--prompt", dest="prompt_tokens", metavar="N", type=count, help="same as --prompt-tokens"
    )
    _runtime(parser)
    parser.add_argument(
        "--headroom", action="store_true", help="show the total at other contexts and batches"
    )
    parser.add_argument(
        "--nodes", metavar="N", type=count, default=0, help="show the N largest nodes of a phase"
    )
    _export(parser)


def _compare(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "compare", "say what differs between two plans, or between a plan and its run",
        "  vramscope compare before.vramscope.json MODEL --context 8192 --fail-if-larger 2%\n"
        "  vramscope compare model-fp16 model-int4 --card \"RTX 4090\" --nodes 20\n"
        "  vramscope compare run.vramscope.json        its plan and what its run took (run --export)\n"
        "  vramscope compare MODEL --as-if int4        as it is, and as if exported with 4-bit weights\n"
        "  vramscope compare A B --json | jq .comparison.total.difference\n\n"
        "exit code: 0 compared, 1 B is larger than allowed, 2 bad input or a total is unknown",
    )  # fmt: skip
    what = "a .onnx file, a model folder, a sample, or a saved report (.vramscope.json)"
    parser.add_argument("left", metavar="A", help=what)
    parser.add_argument(
        "right", metavar="B", nargs="?", default=None,
        help="what is compared with A, with --as-if assumed; without it, A so assumed, or a report's run",
    )  # fmt: skip
    _without_weights(parser)
    _scenario(parser)
    _runtime(parser)
    parser.add_argument(
        "--fail-if-larger", metavar="GROWTH", type=growth,
        help="exit with 1 when B takes more than this beyond A: 64MiB, 0, or a part of A such as 2.5%%",
    )  # fmt: skip
    parser.add_argument(
        "--nodes", metavar="N", type=count, default=10, help="show the N nodes that differ most"
    )
    parser.add_argument(
        "--export", metavar="FILE.md", type=Path, help="also write the comparison as Markdown"
    )


def _run(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "run", "run a model: prefill, eager steps, capture, replays",
        '  vramscope run smollm2 --prompt "The capital of France is"     fetched the first time\n'
        '  vramscope run MODEL --prompt "Once upon a time" --steps 64\n'
        "  vramscope run MODEL --tokens 1,2,3 --steps 16 --no-capture\n"
        "  vramscope run MODEL --prompt Hello --device cuda\n"
        "  vramscope run MODEL --chat --prompt Hello --temperature 0.7 --top-p 0.9 --seed 1\n"
        "  vramscope run detector.onnx --seed 1        a model that is no decoder, on random inputs\n"
        "  vramscope run detector.onnx --input image=image.npy --save outputs.npz",
    )  # fmt: skip
    _model(parser)
    _scenario(parser)
    _device(parser)
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--prompt", metavar="TEXT", default="", help="the prompt (needs a tokenizer.json)")
    given.add_argument(
        "--tokens", metavar="IDS", type=tokens, default=[], help="the prompt as token ids: 1,2,3"
    )
    given.add_argument(
        "--input", dest="inputs", metavar="NAME=FILE", type=input_file, action="append", default=[],
        help="an input of a model that is no decoder: a .npy or .npz file, or without NAME= every "
        "array of a .npz by its own name; may be repeated",
    )  # fmt: skip
    parser.add_argument("--save", metavar="FILE.npz", type=Path, help="write such a model's outputs here")
    parser.add_argument("--chat", action="store_true", help="put the prompt into the model's chat template")
    parser.add_argument(
        "--steps", metavar="N", type=count, default=32, help="decode steps after prefill (32)"
    )
    parser.add_argument(
        "--eager", metavar="N", type=count, default=3, help="of these, eager before capture (3)"
    )
    capture = parser.add_mutually_exclusive_group()
    capture.add_argument(
        "--replay", dest="capture", action="store_true", default=True, help="capture and replay (default)"
    )
    capture.add_argument("--no-capture", dest="capture", action="store_false", help="run every step eagerly")
    parser.add_argument(
        "--multi-step", metavar="N", type=positive, default=1,
        help="replay up to N steps before their tokens are read from the device (1: every token at once)",
    )  # fmt: skip
    parser.add_argument(
        "--verify", metavar="N", type=count, default=0, help="then compare N replays with eager"
    )
    parser.add_argument(
        "--profile", metavar="N", type=count, default=0, help="time every node over N more eager steps"
    )
    parser.add_argument(
        "--trace", metavar="FILE.json", type=Path,
        help="write what ran, step by step and node by node, for ui.perfetto.dev or chrome://tracing",
    )  # fmt: skip
    parser.add_argument(
        "--experts", action="store_true", help="count what mixtures of experts ask of memory, by phase"
    )
    _export(parser)
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--temperature", metavar="T", type=float, default=0.0, help="0 is greedy (0)")
    sampling.add_argument("--top-k", metavar="K", type=count, default=0, help="keep the K likeliest (0: all)")
    sampling.add_argument("--top-p", metavar="P", type=float, default=1.0, help="keep this much mass (1)")
    sampling.add_argument(
        "--seed", metavar="N", type=count, default=0, help="of the choice, or of random inputs"
    )


def _demo(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "demo", "plan, prefill, decode, capture and replay a bundled sample",
        "  vramscope demo\n  vramscope demo tiny-llama --card 'RTX 3060'",
    )  # fmt: skip
    parser.add_argument("model", metavar="SAMPLE", nargs="?", default="", help="a sample's name, or a model")
    parser.add_argument(
        "--card", metavar="NAME", default="GeForce RTX 4090", help="the card to judge against"
    )
    parser.add_argument("--steps", metavar="N", type=positive, default=48, help="decode steps in all (48)")
    _device(parser)


def _sample(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "sample", "put a sample model on disk and say where it is",
        "  vramscope sample tiny-llama\n"
        "  vramscope sample smollm2                    a real model of 135 million parameters\n"
        "  vramscope sample smollm2 --precision q4 --out ./smollm2-q4",
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", help="a bundled sample (see: vramscope samples), or smollm2")
    parser.add_argument(
        "--precision", choices=("fp32", "fp16", "q4"), default="fp32", help="of smollm2 (fp32)"
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="where to put it (the user's cache)")


def _samples(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    _command(commands, "samples", "list the sample models", "  vramscope samples")


def _build(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    parser = _command(
        commands, "build", "make a decoder from a Hugging Face config.json",
        "  vramscope build config.json ./model --no-weights      plan a 70B in seconds\n"
        "  vramscope build config.json ./model --precision q4 --seed 1",
    )  # fmt: skip
    parser.add_argument("config", metavar="CONFIG", type=Path, help="config.json of a Llama-like decoder")
    parser.add_argument("out", metavar="OUT", type=Path, help="the folder to write")
    parser.add_argument(
        "--precision", metavar="P", choices=_Precisions(), default="fp16",
        help="%(choices)s: the activations' type, or the weights' bits (fp16)",
    )  # fmt: skip
    weights = parser.add_mutually_exclusive_group()
    weights.add_argument("--seed", metavar="N", type=count, default=0, help="of the random weights (0)")
    weights.add_argument("--no-weights", action="store_true", help="a hole in the disk: for planning alone")


def _serve(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    _command(
        commands, "serve", "serve the engine to a window over standard input and output",
        "  vramscope serve                             started by the window, or by ssh HOST vramscope serve",
        json=False,
    )  # fmt: skip


def _doctor(commands: _Subparsers[argparse.ArgumentParser]) -> None:
    _command(
        commands, "doctor", "say what is installed, which devices answer, and what is missing",
        "  vramscope doctor",
    )  # fmt: skip
