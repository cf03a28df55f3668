"""Text to tokens and back through the folder's ``tokenizer.json``, and its chat template if it has one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import Tokenizer as FastTokenizer

from vramscope.decode.tokenizer_files import SIZE_LIMIT, tokenizer_settings
from vramscope.errors import InputError, ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

_PROMPT_LIMIT = 4 * 2**20
"""Characters after which a chat template is stopped."""


class TextStream:
    """Turns tokens into text as they come, holding back bytes that are not a whole character yet."""

    def __init__(self, tokenizer: FastTokenizer) -> None:
        """Starts empty."""
        self._tokenizer = tokenizer
        self._context: list[int] = []
        self._waiting: list[int] = []

    def push(self, token: int) -> str:
        """The text that ``token`` completes; empty while a character is unfinished."""
        self._waiting.append(token)
        before = self._text(self._context)
        text = self._text(self._context + self._waiting)
        if text.endswith("�"):
            return ""
        # The last shown tokens stay as context: a token's text can depend on its neighbour (leading spaces).
        self._context, self._waiting = self._waiting, []
        return text[len(before) :]

    def _text(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=False))


class Tokenizer:
    """One model's tokenizer."""

    def __init__(self, tokenizer: FastTokenizer, settings: Mapping[str, Any]) -> None:
        """``settings``: tokenizer_config.json as read."""
        self._tokenizer = tokenizer
        self._settings = settings

    @property
    def has_chat_template(self) -> bool:
        """Whether :meth:`chat` works."""
        return isinstance(self._settings.get("chat_template"), str)

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``; special tokens written in it are recognised, none are added."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of ``tokens``, special ones included."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=False))

    def stream(self) -> TextStream:
        """A decoder for tokens that come one by one."""
        return TextStream(self._tokenizer)

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt text of a conversation, rendered in a sandbox.

        Args:
            messages: ``{"role": …, "content": …}`` in order.

        Raises:
            InputError: there is no template, or it fails.
        """
        template = self._settings.get("chat_template")
        if not isinstance(template, str):
            raise InputError(
                "a chat prompt", "this model's folder has no chat template", "Prompt without chat"
            )
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        values = {
            "messages": list(messages),
            "add_generation_prompt": True,
            "bos_token": _token_text(self._settings.get("bos_token")),
            "eos_token": _token_text(self._settings.get("eos_token")),
        }
        try:
            return _limited(environment.from_string(template).generate(values))
        except Exception as error:  # a template is a program from the model's folder: it can raise anything
            raise InputError(
                "the chat template", f"it cannot be rendered: {error}", "Prompt without chat"
            ) from error


def _limited(pieces: Iterator[str]) -> str:
    """The pieces joined; a template that writes without end is stopped."""
    text: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _PROMPT_LIMIT:
            raise ValueError(f"it writes more than {_PROMPT_LIMIT:,} characters")
        text.append(piece)
    return "".join(text)


def _token_text(value: object) -> str:
    if isinstance(value, Mapping):
        return str(value.get("content", ""))
    return value if isinstance(value, str) else ""


def load_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of a model folder; None when it has no ``tokenizer.json``.

    Raises:
        ModelFileError: the file is not a tokenizer, or is absurdly large.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        return None
    if path.stat().st_size > SIZE_LIMIT:
        raise ModelFileError(
            str(path), f"it is larger than {SIZE_LIMIT:,} bytes", "Check where it comes from"
        )
    try:
        tokenizer = FastTokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise ModelFileError(
            str(path), f"it is not a tokenizer: {error}", "Take the one of this model"
        ) from error
    return Tokenizer(tokenizer, tokenizer_settings(folder))
