"""Where the engine runs: what ssh is asked, and a window whose engine is behind a real ssh server."""

from __future__ import annotations

import getpass
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QInputDialog

from vramscope.errors import InputError
from vramscope.messages.model import OpenParams
from vramscope_app.client import EngineClient
from vramscope_app.controller import Controller
from vramscope_app.dialogs import ask_file, ask_place
from vramscope_app.main import parse
from vramscope_app.place import HERE, SSH, Place
from vramscope_app.rows.status import engine_text
from vramscope_app.settings import MemoryStore, Settings
from vramscope_app.state import AppState, Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytestqt.qtbot import QtBot
    from tests.app.conftest import Script

PATIENCE = 60_000
ROOT = Path(__file__).resolve().parents[2]


def test_this_machine_needs_no_ssh() -> None:
    assert Place.parse("  ") == HERE
    assert not HERE.remote
    assert HERE.command == (sys.executable, "-m", "vramscope", "serve")


def test_another_machine_is_asked_without_a_terminal_and_without_questions() -> None:
    place = Place.parse("me@gpu-box")
    assert place.remote
    assert place.command == (*SSH, "me@gpu-box", "vramscope serve")
    assert "BatchMode=yes" in place.command


def test_a_program_that_is_not_on_the_path_is_named_and_quoted() -> None:
    place = Place.parse("box:/opt/my tools/vramscope; reboot")
    assert shlex.split(place.command[-1]) == ["/opt/my tools/vramscope; reboot", "serve"]
    assert Place.parse(str(place)) == place


@pytest.mark.parametrize("text", ["-oProxyCommand=reboot", "two words", ":/only/a/path"])
def test_what_ssh_could_misread_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="it names no host for ssh") as refused:
        Place.parse(text)
    assert "~/.ssh/config" in refused.value.remedy


def test_the_command_line_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse(["--on", "gpu-box", "/models/a"]).on == Place("gpu-box")
    assert parse([]).on == HERE
    with pytest.raises(SystemExit):
        parse(["--on=-oProxyCommand=x"])
    assert "it names no host for ssh" in capsys.readouterr().err


def test_recent_models_are_those_of_the_engines_machine() -> None:
    settings = Settings(MemoryStore())
    settings.remember("/here/model")
    settings.machine = "gpu-box"
    assert settings.recent == []
    settings.remember("/there/model")
    assert settings.recent == ["/there/model"]
    settings.machine = ""
    assert settings.recent == ["/here/model"]


def test_the_status_bar_names_the_machine() -> None:
    state = AppState(place=Place("gpu-box"))
    assert engine_text(state) == "engine on gpu-box starting…"
    assert engine_text(AppState(place=Place("gpu-box"), engine=Engine.DEAD)) == "engine on gpu-box stopped"


def answer(text: str, *, accept: bool = True) -> None:
    """Types into the question that opens next."""

    def reply() -> None:
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QInputDialog)
        dialog.setTextValue(text)
        dialog.accept() if accept else dialog.reject()

    QTimer.singleShot(0, reply)


def test_a_path_on_another_machine_is_typed(script: Script) -> None:
    answer("/models/llama ")
    assert ask_file(script.window, Place("gpu-box")) == "/models/llama"
    answer("/models/llama", accept=False)
    assert ask_file(script.window, Place("gpu-box")) == ""


def test_the_question_for_a_machine_is_asked_again_until_it_can_be_used(script: Script) -> None:
    def wrong_then_right() -> None:
        answer("me@gpu-box")
        dialog = QApplication.activeModalWidget()
        assert isinstance(dialog, QInputDialog)
        dialog.setTextValue("two words")
        dialog.accept()

    QTimer.singleShot(0, wrong_then_right)
    assert ask_place(script.window, HERE, ["old-box"]) == Place("me@gpu-box")


def test_moving_forgets_what_was_open(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script.open()
    script.plan()
    started: list[tuple[str, ...]] = []
    monkeypatch.setattr(script.client, "start", lambda: started.append(script.client.command))
    script.controller.move(Place("gpu-box"))
    state = script.controller.state
    assert started == [Place("gpu-box").command]
    assert (state.model, state.plan, state.source, state.hello) == (None, None, None, None)
    assert state.place == Place("gpu-box")


def test_a_machine_that_is_not_there_is_told_in_the_words_of_ssh(qtbot: QtBot) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("there is no ssh on this machine")
    client = EngineClient(command=Place("no-such-host.invalid").command)
    with qtbot.waitSignal(client.died, timeout=PATIENCE) as death:
        client.start()
    assert "no-such-host.invalid" in death.args[0].reason


@pytest.fixture
def ssh_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """A real server here for one throwaway key, and an ``ssh`` that finds it by the name gpu-box."""
    server = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    client = shutil.which("ssh")
    if server is None or client is None:
        pytest.skip("an ssh server and client are needed (openssh-server)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    program = tmp_path / "vramscope"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}/engine exec {sys.executable} -m vramscope "$@"\n')
    program.chmod(0o755)
    wrapper = tmp_path / "bin" / "ssh"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\nexec {client} -F {tmp_path}/client.conf "$@"\n')
    wrapper.chmod(0o755)
    (tmp_path / "client.conf").write_text(
        f"Host gpu-box\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
        f" IdentityFile {tmp_path}/user\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {tmp_path}/known\n StrictHostKeyChecking accept-new\n"
    )
    (tmp_path / "server.conf").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {tmp_path}/host\nPidFile none\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/user.pub\nPasswordAuthentication no\n"
    )
    monkeypatch.setenv("PATH", str(wrapper.parent), prepend=":")
    Path("/run/sshd").mkdir(exist_ok=True)
    running = subprocess.Popen([server, "-D", "-e", "-f", tmp_path / "server.conf"], stderr=subprocess.PIPE)
    wait_for(port)
    yield Place("gpu-box", str(program))
    running.terminate()
    running.communicate(timeout=10)


def wait_for(port: int) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the ssh server does not listen")


def test_a_model_is_opened_and_planned_by_an_engine_behind_ssh(qtbot: QtBot, ssh_server: Place) -> None:
    controller = Controller(EngineClient(command=ssh_server.command), ssh_server)
    controller.open(OpenParams(sample="tiny-llama"))
    controller.start()
    qtbot.waitUntil(
        lambda: controller.state.plan is not None and controller.state.busy is None, timeout=PATIENCE
    )
    assert controller.state.hello is not None
    assert controller.state.hello.process != controller.client.process_id, "that is ssh, not the engine"
    assert f"on {ssh_server}" in engine_text(controller.state)
    controller.move(ssh_server)
    assert controller.state.model is None
    qtbot.waitUntil(lambda: controller.state.ready, timeout=PATIENCE)
    controller.client.stop()
