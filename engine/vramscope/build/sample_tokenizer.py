"""The samples' tokenizer: byte-level BPE over printable ASCII, its merges learned from a text of our own."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>", "<unk>")
"""Ids 0 to 3. What is not printable ASCII becomes ``<unk>``: random weights would else print broken UTF-8."""

SPACE, NEWLINE, TAB = "\u0120", "\u010a", "\u0109"
"""How byte-level BPE spells a blank, a line feed and a tab."""

_TEXT = """
A model has weights, and the weights must be in memory before the first token can be made. A token goes in,
a token comes out, and the cache of keys and values grows by one row in every layer. The longer the context,
the larger the cache; the larger the batch, the more of them there are. When the memory of the card is full,
the run stops, and the question is which part took the room. So plan before you run: add the weights, the
cache, the activations and the workspace, compare the total with the card, and look at what is left. If it
does not fit, choose a shorter context, a smaller batch or fewer bits for each weight. Then record one step
as a graph and replay it: the same kernels at the same addresses, with no allocation and no waiting for the
host. A graph lives as long as its buffers stay where they are. Move a buffer and the graph is no longer
valid; it has to be recorded again. The first run is slow because everything is prepared; the next runs are
fast because nothing has to be. What do you see in the window? A tree of nodes, a table of bounds, a chart
of bytes over time, and a list of events that says what happened, where and why. Hello world, once upon a
time there was a small device that could hold only so much and not one byte more. The capital of France is
Paris; the sum of two numbers is a number. An engineer opens the model, reads its layers from top to bottom
and finds the operator that asks for most of the workspace. Every attention head compares a query with all
earlier keys, weighs the values and passes the mixture on. Prefill works through the whole prompt at once;
decode adds one position after another until an end token appears. Quantised weights save bandwidth, and
bandwidth decides how quickly single tokens arrive. Unknown numbers stay unknown: nobody guesses an extent
here, because reserving too little would break at the worst possible moment.
"""


def write_tokenizer(folder: Path, vocabulary: int) -> None:
    """Writes ``tokenizer.json`` and ``tokenizer_config.json`` for ``vocabulary`` tokens into ``folder``."""
    _dump(folder / "tokenizer.json", tokenizer_document(vocabulary))
    settings = {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    _dump(folder / "tokenizer_config.json", settings)


def tokenizer_document(vocabulary: int) -> dict[str, object]:
    """A ``tokenizer.json`` as the ``tokenizers`` library reads it."""
    alphabet = [chr(code) for code in range(33, 127)] + [SPACE, NEWLINE, TAB]
    merges = learn_merges(_TEXT, vocabulary - len(SPECIAL_TOKENS) - len(alphabet))
    tokens = [*SPECIAL_TOKENS, *alphabet, *(left + right for left, right in merges)]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": "<unk>",
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {token: index for index, token in enumerate(tokens)},
        "merges": [list(pair) for pair in merges],
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(index, token) for index, token in enumerate(SPECIAL_TOKENS)],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": True,
            "use_regex": True,
        },
        "post_processor": None,
        "decoder": _byte_level(add_prefix_space=True),
        "model": model,
    }


def _byte_level(*, add_prefix_space: bool) -> dict[str, object]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }


def _added(index: int, token: str) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": index, "content": token, **flags, "special": True}


def learn_merges(text: str, count: int) -> list[tuple[str, str]]:
    """The ``count`` pairs that byte-pair encoding joins first; of equally frequent ones, the smaller."""
    words = Counter((SPACE + word) for word in text.split())
    split = {word: tuple(word) for word in words}
    merges: list[tuple[str, str]] = []
    while len(merges) < count:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in split.items():
            for pair in pairwise(parts):
                pairs[pair] += words[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        split = {word: _joined(parts, best) for word, parts in split.items()}
    return merges


def _joined(parts: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    """``parts`` with every occurrence of ``pair`` made one."""
    result: list[str] = []
    index = 0
    while index < len(parts):
        found = parts[index : index + 2] == pair
        result.append("".join(pair) if found else parts[index])
        index += 2 if found else 1
    return tuple(result)


def _dump(path: Path, document: dict[str, object]) -> None:
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
