"""The model folder's tokenizer: text both ways, streaming, chat templates in a sandbox, damaged files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vramscope.decode.tokenizer import load_tokenizer
from vramscope.decode.tokenizer_files import has_chat_template
from vramscope.errors import InputError, ModelFileError

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "samples" / "tiny-llama"
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copy(SAMPLE / "tokenizer.json", tmp_path / "tokenizer.json")
    return tmp_path


def test_a_folder_without_one_has_none(tmp_path: Path) -> None:
    assert load_tokenizer(tmp_path) is None


def test_text_comes_back_as_it_went_in(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    text = "Hello world, 42 times."
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_stream_gives_the_same_text_in_pieces(shared_models: Path) -> None:
    tokenizer = load_tokenizer(shared_models / "tiny" / "tiny-llama-fp32-cpu")
    assert tokenizer is not None
    text = "naïve — 日本 ✓"
    tokens = tokenizer.encode(text)
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in tokens]
    assert "".join(pieces) == tokenizer.decode(tokens)
    assert "" in pieces, "a character of several tokens is held back until it is whole"
    assert not any("�" in piece for piece in pieces)


def test_the_chat_template_is_rendered_with_the_generation_prompt(folder: Path) -> None:
    settings = {"chat_template": TEMPLATE, "bos_token": {"content": "<s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    assert tokenizer.has_chat_template
    assert tokenizer.chat([{"role": "user", "content": "Hi"}]) == "<s>[user] Hi\n[assistant]"


def test_a_template_file_of_its_own_is_found(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    assert tokenizer.chat([{"role": "user", "content": "Hi"}]).endswith("[assistant]")


def test_whether_there_is_a_template_is_known_without_the_tokenizer(folder: Path) -> None:
    assert not has_chat_template(folder)
    (folder / "tokenizer_config.json").write_text("{")
    assert not has_chat_template(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))
    assert has_chat_template(folder)
    (folder / "tokenizer.json").unlink()
    assert not has_chat_template(folder)


def test_chat_without_a_template_is_refused(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    with pytest.raises(InputError, match="no chat template"):
        tokenizer.chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{% for x in range(10**12) %}x{% endfor %}",
        "{{ unclosed",
    ],
)
def test_a_hostile_or_broken_template_is_refused(folder: Path, template: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    with pytest.raises(InputError, match="chat template"):
        tokenizer.chat([{"role": "user", "content": "Hi"}])


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"version": "1.0"}'])
def test_a_damaged_tokenizer_is_named(folder: Path, content: str) -> None:
    (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
        load_tokenizer(folder)


def test_a_damaged_configuration_is_named(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json"):
        load_tokenizer(folder)
