"""The server as a process: greeting, wrong requests, broken frames, stray prints, an orderly end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import pytest
from engine_process import EngineProcess, engine_process, greet

from vramscope.messages.model import Hello
from vramscope.protocol import FRAME_LIMIT, VERSION, Answer, Failure, Request, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

NOISY = (
    "-c",
    "import os, sys\n"
    "from vramscope.server import hello\n"
    "kept = hello.cards\n"
    "def cards():\n"
    "    print('a stray print')\n"
    "    os.write(1, b'bytes written to file 1')\n"
    "    sys.stdout.flush()\n"
    "    return kept()\n"
    "hello.cards = cards\n"
    "from vramscope.cli.main import main\n"
    "sys.exit(main(['serve']))\n",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineProcess]:
    """One process for every test that leaves it running."""
    with engine_process() as made:
        yield made


@pytest.fixture
def mortal() -> Iterator[EngineProcess]:
    """A process of its own for a test that ends it."""
    with engine_process() as made:
        yield made


def test_the_greeting_says_who_answers(mortal: EngineProcess) -> None:
    hello = msgspec.convert(greet(mortal), Hello)
    assert hello.version == VERSION
    assert hello.process == mortal.process.pid
    assert hello.devices[0].name == "host"
    assert len(hello.cards) >= 40
    assert "tiny-llama" in [sample.name for sample in hello.samples]
    assert mortal.end() == 0


def test_another_version_is_refused_by_name(engine: EngineProcess) -> None:
    error = engine.refusal("hello", version=VERSION + 1)
    assert error.code == "Protocol"
    assert str(VERSION + 1) in error.what
    assert error.remedy


def test_an_unknown_method_is_refused_and_the_next_request_answered(engine: EngineProcess) -> None:
    error = engine.refusal("dance")
    assert error.code == "Protocol"
    assert "dance" in error.what
    assert "hello" in error.remedy
    greet(engine)


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("hello", {"version": "one"}, "version"),
        ("plan", {"scenario": {"batch": "many"}}, "batch"),
        ("plan", {}, "scenario"),
        ("step", {"count": 1.5}, "count"),
        ("cancel", {}, "request"),
    ],
)
def test_wrong_parameters_are_refused_by_name(
    engine: EngineProcess, method: str, params: dict[str, object], named: str
) -> None:
    error = engine.refusal(method, **params)
    assert error.code == "Protocol"
    assert method in error.what
    assert named in error.why


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("plan", {"scenario": {}}),
        ("step", {}),
        ("capture", {}),
        ("replay", {}),
        ("verify", {}),
        ("reset", {}),
        ("prefill", {"scenario": {}, "tokens": [1]}),
        ("run_model", {"scenario": {}}),
        ("export", {"path": "x", "format": "json"}),
    ],
)
def test_requests_before_their_time_are_refused_with_a_remedy(
    engine: EngineProcess, method: str, params: dict[str, object]
) -> None:
    error = engine.refusal(method, **params)
    assert error.code == "Input", error
    assert error.remedy


def test_a_request_without_parameters_gets_the_defaults(engine: EngineProcess) -> None:
    engine.write(pack(Request(id=500, method="snapshot")))
    reply = engine.reply(500)
    assert isinstance(reply, Answer)
    assert msgspec.msgpack.decode(bytes(reply.result))["state"] == "idle"


def test_a_message_that_is_no_request_is_refused_and_the_next_one_answered(engine: EngineProcess) -> None:
    engine.write(pack(Answer(id=1, result=msgspec.Raw(b"\xc0"))))
    reply = engine.reply(-1)
    assert isinstance(reply, Failure)
    assert "requests alone" in reply.error.why
    greet(engine)


def test_a_body_that_is_no_message_is_refused_and_the_next_one_answered(engine: EngineProcess) -> None:
    engine.write(b"\x03\x00\x00\x00abc")
    reply = engine.reply(-1)
    assert isinstance(reply, Failure)
    assert reply.error.code == "Protocol"
    greet(engine)


def test_a_frame_beyond_the_limit_ends_the_stream_with_its_reason(mortal: EngineProcess) -> None:
    mortal.write((FRAME_LIMIT + 1).to_bytes(4, "little") + b"x")
    reply = mortal.reply(-1)
    assert isinstance(reply, Failure)
    assert "limit" in reply.error.why
    assert mortal.end() == 2


def test_a_stray_print_lands_on_standard_error() -> None:
    with engine_process(NOISY) as engine:
        assert len(greet(engine)["cards"]) >= 40
        greet(engine)
        assert engine.end() == 0
        assert b"a stray print" in engine.errors
        assert b"bytes written to file 1" in engine.errors


def test_cancelling_nothing_says_so(engine: EngineProcess) -> None:
    assert engine.call("cancel", request=99) == {"found": False}


def test_shutdown_is_answered_and_ends_the_process(mortal: EngineProcess) -> None:
    assert mortal.call("shutdown") == {}
    assert mortal.process.wait(timeout=10) == 0


def test_the_end_of_standard_input_ends_the_process(mortal: EngineProcess) -> None:
    greet(mortal)
    started = time.monotonic()
    assert mortal.end() == 0
    assert time.monotonic() - started < 5


def test_missing_files_are_failures_and_the_server_stays(engine: EngineProcess) -> None:
    error = engine.refusal("open", path="/nowhere/model.onnx")
    assert error.code == "ModelFile"
    assert "/nowhere/model.onnx" in error.what
    assert engine.refusal("open").code == "ModelFile"
    assert engine.refusal("open", path="a", sample="b").code == "ModelFile"
    greet(engine)
