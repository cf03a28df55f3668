"""Finding the model file and its settings from what the user names: a file or a folder of any exporter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from vramscope.errors import ModelFileError

GENAI_CONFIG = "genai_config.json"
_SETTINGS = (GENAI_CONFIG, "config.json")
_PREFERRED = ("model.onnx", "decoder_model_merged.onnx", "decoder_with_past_model.onnx", "decoder_model.onnx")
_SUFFIX = ".onnx"


@dataclass(frozen=True, slots=True)
class Located:
    """The model file, the folder that its data may not leave, and the settings found beside it."""

    file: Path
    folder: Path
    settings: Mapping[str, object] = field(default_factory=dict)
    settings_file: str = ""
    generation: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def locate(path: Path) -> Located:
    """What to open for ``path``: a ``.onnx`` file, a model folder, or a ``genai_config.json``.

    Raises:
        ModelFileError: nothing there, nothing that is a model, or several candidates.
    """
    if path.name == GENAI_CONFIG and path.is_file():
        path = path.parent
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise ModelFileError(str(path), "there is no such file or folder", "Check the path")
    notes: list[str] = []
    return _located(path, notes)


def _from_folder(folder: Path) -> Located:
    notes: list[str] = []
    config = _read_settings(folder / GENAI_CONFIG, notes)
    named = _genai_file(folder, config) if config else None
    return _located(named or _only_model(folder), notes)


def _located(file: Path, notes: list[str]) -> Located:
    places = [file.parent, *([file.parent.parent] if file.parent.name == "onnx" else [])]
    settings, name = _first_settings(places, _SETTINGS, notes)
    generation, _ = _first_settings(places, ("generation_config.json",), notes)
    return Located(file, file.parent, settings, name, generation, tuple(dict.fromkeys(notes)))


def _first_settings(
    places: list[Path], names: tuple[str, ...], notes: list[str]
) -> tuple[Mapping[str, object], str]:
    for place in places:
        for name in names:
            found = _read_settings(place / name, notes)
            if found:
                return found, name
    return {}, ""


def _read_settings(file: Path, notes: list[str]) -> Mapping[str, object]:
    if not file.is_file():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{file.name} cannot be read and is ignored: {error}")
        return {}
    if not isinstance(content, dict):
        notes.append(f"{file.name} is no JSON object and is ignored")
        return {}
    return cast("dict[str, object]", content)


def table(settings: Mapping[str, object], *names: str) -> Mapping[str, object]:
    """The nested JSON object at ``names``; empty where it is not there."""
    current: object = settings
    for name in names:
        current = current.get(name) if isinstance(current, Mapping) else None
    return cast("Mapping[str, object]", current) if isinstance(current, Mapping) else {}


def _genai_file(folder: Path, config: Mapping[str, object]) -> Path | None:
    name = table(config, "model", "decoder").get("filename")
    if not isinstance(name, str) or not name:
        return None
    what = f"{GENAI_CONFIG}: model.decoder.filename = {name!r}"
    file = folder / name
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ModelFileError(what, "it points outside the model's folder", "Name a file inside the folder")
    if not file.is_file():
        raise ModelFileError(what, "that file is not in the folder", "Copy the model file there")
    return file


def _only_model(folder: Path) -> Path:
    for place in (folder, folder / "onnx"):
        found = sorted(file for file in place.glob(f"*{_SUFFIX}") if file.is_file())
        if len(found) == 1:
            return found[0]
        preferred = [place / name for name in _PREFERRED if place / name in found]
        if preferred:
            return preferred[0]
        if found:
            names = ", ".join(file.name for file in found[:12])
            more = f" and {len(found) - 12} more" if len(found) > 12 else ""
            raise ModelFileError(str(folder), f"it holds several models: {names}{more}", "Name one of them")
    raise ModelFileError(str(folder), f"there is no *{_SUFFIX} file in it", "Name a model file or its folder")
