"""A small decoder's decode step, eager, captured and replayed: what a memory checker watches.

compute-sanitizer --tool memcheck|racecheck|initcheck --error-exitcode 9 python tests/gpu/decode_step.py

With ``--own`` behind it, products of many rows run on kernels of ours and not through cuBLASLt.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from vramscope.api import make_plan, open_path
from vramscope.build.config_reader import read_config
from vramscope.build.decoder import build_decoder
from vramscope.decode.decoder import Decoder
from vramscope.devices.cuda.device import CudaDevice
from vramscope.devices.sampling import GREEDY, Sampling
from vramscope.plan.types import Scenario

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "float16",
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
"""Heads of 64, so that the matrix units attend; random weights."""
PROMPT = 150
"""Tokens of the prompt: more than one block of queries."""


def run(folder: Path, precision: str, sampling: Sampling = GREEDY) -> list[int]:
    """The tokens of a prefill, three eager steps, a capture and four replays."""
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    if not (folder / precision).exists():
        build_decoder(read_config(folder / "config.json"), folder / precision, precision=precision)
    model = open_path(folder / precision)
    device = CudaDevice()
    decoder = Decoder(
        model, make_plan(model, Scenario(prompt=PROMPT, context=256)), device=device, sampling=sampling
    )
    decoder.load()
    tokens = [decoder.prefill([[token % 1000 + 5 for token in range(PROMPT)]]).tokens[0]]
    tokens += [decoder.step().tokens[0] for _ in range(3)]
    tokens.append(decoder.capture()[1].tokens[0])
    tokens += [decoder.replay().tokens[0] for _ in range(4)]
    decoder.close()
    device.close()
    return tokens


def main() -> None:
    """Dense weights, then 4-bit ones with an 8-bit head; greedy, then drawn."""
    if "--own" in sys.argv[1:]:
        setattr(CudaDevice, "library", property(lambda _device: False))  # noqa: B010 - a property is no field
    with tempfile.TemporaryDirectory() as folder:
        for precision in ("fp16", "q4f16"):
            print(precision, run(Path(folder), precision))
        print("drawn", run(Path(folder), "fp16", Sampling(0.8, top_k=50, top_p=0.9, seed=1)))


if __name__ == "__main__":
    main()
