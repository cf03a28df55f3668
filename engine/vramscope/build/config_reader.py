"""Reads a Hugging Face ``config.json`` of a known decoder family into a :class:`DecoderConfig`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vramscope.build.config import Activation, DecoderConfig, Rope, RopeKind
from vramscope.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

_ACTIVATIONS = {
    "silu": Activation.SILU,
    "swish": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
    "gelu_new": Activation.GELU_TANH,
    "gelu": Activation.GELU,
}

_GEMMA3_DEFAULTS: Mapping[str, object] = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "sliding_window": 4096,
    "sliding_window_pattern": 6,
    "query_pre_attn_scalar": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "tie_word_embeddings": True,
    "bos_token_id": 2,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


@dataclass(frozen=True, slots=True)
class _Family:
    """What a ``model_type`` fixes whatever its file says, and what it means when the file is silent."""

    qkv_bias: bool | None = None
    """None: the file's ``attention_bias`` decides, for the output projection too."""
    qk_norm: bool = False
    packed_gate_up: bool = False
    gemma: bool = False
    default_head_size: int = 0
    """0: hidden_size / num_attention_heads."""
    defaults: Mapping[str, object] | None = None


_FAMILIES: Mapping[str, _Family] = {
    "llama": _Family(),
    "mistral": _Family(qkv_bias=False),
    "qwen2": _Family(qkv_bias=True),
    "qwen3": _Family(qk_norm=True, default_head_size=128),
    "phi3": _Family(qkv_bias=False, packed_gate_up=True),
    "gemma3_text": _Family(qk_norm=True, gemma=True, default_head_size=256, defaults=_GEMMA3_DEFAULTS),
}


@dataclass(frozen=True, slots=True)
class _Fields:
    """The parsed JSON object with typed access; every refusal names the field and the file."""

    values: Mapping[str, object]
    source: str

    def refuse(self, name: str, why: str, remedy: str) -> InputError:
        return InputError(what=f"{name} in {self.source}", why=why, remedy=remedy)

    def get(self, name: str) -> object:
        return self.values.get(name)

    def whole(self, name: str, default: int | None = None) -> int:
        """A positive integer; ``default`` None makes the field required."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.refuse(name, "the field is missing", f'Add "{name}": a positive whole number')
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise self.refuse(name, f"it is {value!r}", "Give a positive whole number")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite positive number; ``default`` None makes the field required."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.refuse(name, "the field is missing", f'Add "{name}": a positive number')
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self.refuse(name, f"it is {value!r}", "Give a positive number")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, f"it is {value!r}", "Give true or false")
        return value

    def tokens(self, name: str) -> tuple[int, ...]:
        """A token id or a list of them; nothing when the field is absent."""
        value = self.get(name)
        listed = value if isinstance(value, list) else [] if value is None else [value]
        ids = tuple(item for item in listed if isinstance(item, int) and not isinstance(item, bool))
        if len(ids) != len(listed) or any(item < 0 for item in ids):
            raise self.refuse(name, f"it is {value!r}", "Give a token id or a list of token ids")
        return ids


def read_config(path: Path) -> DecoderConfig:
    """The decoder that the ``config.json`` at ``path`` describes.

    Raises:
        InputError: not a readable JSON object, an unknown architecture, or a field that is missing or wrong.
    """
    try:
        loaded: object = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(what=str(path), why="there is no such file", remedy="Check the path") from error
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(
            what=str(path),
            why=f"it cannot be read as JSON: {error}",
            remedy="Give a Hugging Face config.json",
        ) from error
    return parse_config(loaded, str(path))


def parse_config(loaded: object, source: str = "the configuration") -> DecoderConfig:
    """The decoder that a parsed ``config.json`` describes; ``source`` names it in errors.

    Raises:
        InputError: an unknown architecture, or a field that is missing or wrong.
    """
    if not isinstance(loaded, Mapping):
        raise InputError(
            what=source,
            why="it is not a JSON object",
            remedy="Give a Hugging Face config.json with a model_type",
        )
    architecture, values = _family_name(loaded, source)
    family = _FAMILIES[architecture]
    given = {key: value for key, value in values.items() if value is not None}
    fields = _Fields({**(family.defaults or {}), **given}, source)
    config = _assemble(architecture, family, fields)
    _check(config, fields)
    return config


def _family_name(loaded: Mapping[str, object], source: str) -> tuple[str, Mapping[str, object]]:
    """The ``model_type`` and the object that holds its fields (a multimodal file nests the text model)."""
    nested = loaded.get("text_config")
    values = nested if isinstance(nested, Mapping) else loaded
    name = values.get("model_type", loaded.get("model_type"))
    if name == "gemma3":
        name = "gemma3_text"
    if isinstance(name, str) and name in _FAMILIES:
        return name, values
    raise InputError(
        what=f"model_type in {source}",
        why="the field is missing" if name is None else f"{name!r} is not an architecture that can be built",
        remedy=f"Use a config.json whose model_type is one of {', '.join(sorted(_FAMILIES))}",
    )


def _assemble(architecture: str, family: _Family, fields: _Fields) -> DecoderConfig:
    hidden, heads = fields.whole("hidden_size"), fields.whole("num_attention_heads")
    layers, positions = fields.whole("num_hidden_layers"), fields.whole("max_position_embeddings")
    head_size = fields.whole("head_dim", family.default_head_size or max(1, hidden // heads))
    rope, sliding_rope = _ropes(family, fields, positions)
    bias = fields.flag("attention_bias")
    scalar = fields.number("query_pre_attn_scalar", float(head_size)) if family.gemma else float(head_size)
    bos, pad = fields.tokens("bos_token_id"), fields.tokens("pad_token_id")
    return DecoderConfig(
        architecture=architecture,
        hidden_size=hidden,
        layers=layers,
        heads=heads,
        kv_heads=fields.whole("num_key_value_heads", heads),
        head_size=head_size,
        intermediate_size=fields.whole("intermediate_size"),
        vocabulary=fields.whole("vocab_size"),
        max_positions=positions,
        windows=_windows(architecture, layers, fields),
        rope=rope,
        sliding_rope=sliding_rope,
        rotary_size=int(head_size * _rope_number(fields, "partial_rotary_factor", 1.0)),
        attention_scale=scalar**-0.5,
        norm_epsilon=fields.number("rms_norm_eps", 1e-6),
        activation=_activation(fields),
        tie_embeddings=fields.flag("tie_word_embeddings"),
        qkv_bias=bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=bias if family.qkv_bias is None else False,
        mlp_bias=fields.flag("mlp_bias"),
        qk_norm=family.qk_norm,
        packed_gate_up=family.packed_gate_up,
        sandwich_norms=family.gemma,
        embedding_scale=math.sqrt(hidden) if family.gemma else 1.0,
        attention_softcap=fields.number("attn_logit_softcapping", 0.0),
        logits_softcap=fields.number("final_logit_softcapping", 0.0),
        bos_token=bos[0] if bos else None,
        eos_tokens=fields.tokens("eos_token_id"),
        pad_token=pad[0] if pad else None,
        initializer_range=fields.number("initializer_range", 0.02),
    )


def _activation(fields: _Fields) -> Activation:
    name = fields.get("hidden_activation") or fields.get("hidden_act") or "silu"
    if isinstance(name, str) and name in _ACTIVATIONS:
        return _ACTIVATIONS[name]
    raise fields.refuse(
        "hidden_act", f"{name!r} is not known", f"Use one of {', '.join(sorted(_ACTIVATIONS))}"
    )


def _windows(architecture: str, layers: int, fields: _Fields) -> tuple[int, ...]:
    """Keys that each layer sees (0: all), by the family's own rule for which layers slide."""
    if fields.get("sliding_window") is None:
        return (0,) * layers
    window = fields.whole("sliding_window")
    return tuple(window if slides else 0 for slides in _sliding_layers(architecture, layers, fields))


def _sliding_layers(architecture: str, layers: int, fields: _Fields) -> list[bool]:
    if architecture in ("qwen2", "qwen3") and not fields.flag("use_sliding_window"):
        return [False] * layers
    listed = fields.get("layer_types")
    if listed is not None:
        return _listed_layers(listed, layers, fields)
    if architecture == "gemma3_text":
        pattern = fields.whole("sliding_window_pattern")
        return [(index + 1) % pattern != 0 for index in range(layers)]
    if architecture in ("qwen2", "qwen3"):
        first = fields.whole("max_window_layers", 28)
        return [index >= first for index in range(layers)]
    return [architecture in ("mistral", "phi3")] * layers


def _listed_layers(listed: object, layers: int, fields: _Fields) -> list[bool]:
    known = ("full_attention", "sliding_attention")
    if not isinstance(listed, list) or len(listed) != layers or any(item not in known for item in listed):
        raise fields.refuse(
            "layer_types",
            f"it is not a list of {layers} names out of {' and '.join(known)}",
            "Give one name a layer, or leave the field out",
        )
    return [item == "sliding_attention" for item in listed]


def _rope_object(fields: _Fields) -> Mapping[str, object]:
    """``rope_parameters`` (newer files) or ``rope_scaling``; empty when there is neither."""
    for name in ("rope_parameters", "rope_scaling"):
        value = fields.get(name)
        if isinstance(value, Mapping):
            return value
        if value is not None:
            raise fields.refuse(name, "it is not a JSON object", "Give an object with a rope_type, or null")
    return {}


def _rope_number(fields: _Fields, name: str, default: float) -> float:
    """A rotary number from the rope object, else from the file's top level."""
    return _Fields(_rope_object(fields), fields.source).number(name, fields.number(name, default))


def _ropes(family: _Family, fields: _Fields, positions: int) -> tuple[Rope, Rope]:
    """The rotary facts of full-attention layers and of sliding ones."""
    scaling = _rope_object(fields)
    theta = fields.number("rope_theta", 10000.0)
    full, sliding = scaling.get("full_attention"), scaling.get("sliding_attention")
    if isinstance(full, Mapping) and isinstance(sliding, Mapping):
        local = fields.number("rope_local_base_freq", 10000.0)
        return (_rope(full, theta, positions, fields), _rope(sliding, local, positions, fields))
    rope = _rope(scaling, theta, positions, fields)
    local_theta = fields.number("rope_local_base_freq", 10000.0)
    return rope, Rope(theta=local_theta) if family.gemma else rope


def _rope(scaling: Mapping[str, object], theta: float, positions: int, fields: _Fields) -> Rope:
    values = _Fields(scaling, f"the rotary settings of {fields.source}")
    name = scaling.get("rope_type", scaling.get("type", "default"))
    kinds = {kind.value: kind for kind in RopeKind}
    if not isinstance(name, str) or name not in kinds:
        raise values.refuse(
            "rope_type", f"{name!r} is not supported", f"Use one of {', '.join(sorted(kinds))}"
        )
    kind, theta = kinds[name], values.number("rope_theta", theta)
    if kind is RopeKind.DEFAULT:
        return Rope(theta=theta)
    if kind is RopeKind.LINEAR:
        return Rope(theta=theta, kind=kind, factor=values.number("factor"))
    return Rope(
        theta=theta,
        kind=kind,
        factor=values.number("factor"),
        low_frequency_factor=values.number("low_freq_factor"),
        high_frequency_factor=values.number("high_freq_factor"),
        original_positions=values.whole("original_max_position_embeddings", positions),
    )


def _check(config: DecoderConfig, fields: _Fields) -> None:
    """Refuses extents that no attention can use."""
    if config.heads % config.kv_heads:
        raise fields.refuse(
            "num_key_value_heads",
            f"{config.heads} query heads cannot share {config.kv_heads} KV heads evenly",
            "Give a divisor of num_attention_heads",
        )
    if config.head_size % 2 or config.rotary_size % 2 or not 0 < config.rotary_size <= config.head_size:
        raise fields.refuse(
            "head_dim",
            f"rotary embedding turns channel pairs, {config.rotary_size} of {config.head_size} are no pairs",
            "Give an even head size and an even rotary width within it",
        )
    rope = config.rope
    if rope.kind is RopeKind.LLAMA3 and rope.high_frequency_factor <= rope.low_frequency_factor:
        raise fields.refuse(
            "high_freq_factor", "it is not above low_freq_factor", "Give low_freq_factor < high_freq_factor"
        )
    for name, token in (("bos_token_id", config.bos_token), ("pad_token_id", config.pad_token)):
        if token is not None and token >= config.vocabulary:
            raise fields.refuse(
                name, f"{token} is not in a vocabulary of {config.vocabulary}", "Lower the id"
            )
