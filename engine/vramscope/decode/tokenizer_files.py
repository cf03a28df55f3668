"""What lies beside ``tokenizer.json``: its settings and the chat template, read without the tokenizer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vramscope.errors import ModelFileError

if TYPE_CHECKING:
    from pathlib import Path

SIZE_LIMIT = 256 * 2**20
"""A larger tokenizer file is refused: model folders are not trusted."""


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json with the chat template, which newer folders keep in a file of its own.

    Raises:
        ModelFileError: the file is not JSON.
    """
    settings: dict[str, Any] = {}
    path = folder / "tokenizer_config.json"
    if path.is_file() and path.stat().st_size <= SIZE_LIMIT:
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelFileError(str(path), f"it is not JSON: {error}", "Mend it or take it away") from error
        settings = read if isinstance(read, dict) else {}
    template = folder / "chat_template.jinja"
    if template.is_file() and template.stat().st_size <= SIZE_LIMIT:
        settings["chat_template"] = template.read_text(encoding="utf-8")
    return settings


def has_chat_template(folder: Path) -> bool:
    """Whether a chat prompt can be made of the folder's files; a folder that cannot be read has none."""
    if not (folder / "tokenizer.json").is_file():
        return False
    try:
        return isinstance(tokenizer_settings(folder).get("chat_template"), str)
    except (ModelFileError, OSError, UnicodeDecodeError):
        return False
