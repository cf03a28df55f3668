"""The engine in a child process: requests out, answers and notifications in, its death told with what ran."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import msgspec
from PySide6.QtCore import QObject, QProcess, Signal

from vramscope import protocol
from vramscope.errors import ProtocolError
from vramscope.messages.live import CancelParams, Empty
from vramscope.messages.model import HelloParams
from vramscope_app.place import HERE
from vramscope_app.translation import tr

KILL_MILLISECONDS = 1000
IMMEDIATE = frozenset({"cancel", "snapshot"})
"""Methods that the server answers at once, whatever else runs."""
QUIET = frozenset({"headroom", "node", "compare", "slots", "neighbours"})
"""Methods that nobody waits for: any other request cancels them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that has no answer yet."""

    id: int
    method: str
    params: msgspec.Struct
    sent: float
    """Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer and the call it belongs to."""

    call: Call
    result: Any
    seconds: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """An engine error and the call it belongs to."""

    call: Call
    error: protocol.ErrorInfo


@dataclass(frozen=True, slots=True)
class Death:
    """How the engine ended, and every call that was running or waiting, oldest first."""

    reason: str
    calls: tuple[Call, ...]


class EngineClient(QObject):
    """Talks to one engine process at a time; a dead one can be started again."""

    ready = Signal(object)
    """:class:`vramscope.messages.model.Hello`."""
    answered = Signal(object)
    """:class:`Reply`, for everything but the greeting."""
    failed = Signal(object)
    """:class:`Refusal`."""
    sent = Signal(object)
    """:class:`Call`."""
    progress = Signal(object)
    events = Signal(object)
    snapshot = Signal(object)
    token = Signal(object)
    table = Signal(object)
    died = Signal(object)
    """:class:`Death`; never after :meth:`stop`."""
    logged = Signal(str)
    """Text of the child's standard error."""

    def __init__(self, parent: QObject | None = None, command: tuple[str, ...] = ()) -> None:
        """``command``: program and arguments of the engine; left out, VRAMScope's own on this machine."""
        super().__init__(parent)
        self.command = command or HERE.command
        self._said = ""
        """The last line of the child's standard error."""
        self._process: QProcess | None = None
        self._reader = protocol.FrameReader()
        self._calls: dict[int, Call] = {}
        self._next = 0
        self._notify = {name: getattr(self, name) for name in protocol.NOTIFICATIONS}

    @property
    def running(self) -> bool:
        """Whether there is a process to talk to."""
        return self._process is not None

    @property
    def process_id(self) -> int:
        """The child's process id; 0 when there is none."""
        return int(self._process.processId()) if self._process is not None else 0

    @property
    def calls(self) -> tuple[Call, ...]:
        """Calls without an answer, oldest first."""
        return tuple(self._calls.values())

    def start(self) -> None:
        """Starts the engine and greets it; :attr:`ready` or :attr:`died` follows."""
        self._reader = protocol.FrameReader()
        self._calls = {}
        process = QProcess(self)
        process.readyReadStandardOutput.connect(self._read_frames)
        process.readyReadStandardError.connect(self._read_log)
        process.finished.connect(self._finished)
        process.errorOccurred.connect(self._broken)
        self._process = process
        self._said = ""
        process.start(self.command[0], list(self.command[1:]))
        self.call("hello", HelloParams(version=protocol.VERSION))

    def call(self, method: str, params: msgspec.Struct | None = None) -> int:
        """Sends a request.

        Returns:
            Its id, or 0 when there is no engine.

        Raises:
            TypeError: ``params`` is not of the type that ``METHODS`` gives.
        """
        given = params if params is not None else Empty()
        wanted = protocol.METHODS[method][0]
        if not isinstance(given, wanted):
            raise TypeError(f"{method} takes {wanted.__name__}, not {type(given).__name__}")
        if self._process is None:
            return 0
        self._next += 1
        call = Call(self._next, method, given, time.monotonic())
        self._calls[call.id] = call
        request = protocol.Request(id=call.id, method=method, params=protocol.raw(given))
        self._process.write(protocol.pack(request))
        self.sent.emit(call)
        return call.id

    def cancel(self, call: int) -> None:
        """Asks the engine to stop one request."""
        self.call("cancel", CancelParams(request=call))

    def kill(self) -> None:
        """Ends the engine at once; :attr:`died` follows."""
        if self._process is not None:
            self._process.kill()

    def stop(self, wait_milliseconds: int = 1500) -> None:
        """Asks the engine to end and waits a little; kills it when it does not. Nothing is signalled."""
        process, self._process = self._process, None
        self._calls = {}
        if process is None:
            return
        self._silence(process)
        self._next += 1
        ending = protocol.Request(id=self._next, method="shutdown", params=protocol.raw(Empty()))
        process.write(protocol.pack(ending))
        process.closeWriteChannel()
        ended = process.state() is QProcess.ProcessState.NotRunning
        if not ended and not process.waitForFinished(wait_milliseconds):
            process.kill()
            process.waitForFinished(KILL_MILLISECONDS)
        process.deleteLater()

    def _silence(self, process: QProcess) -> None:
        """Nothing of a process that is given up reaches this client any more."""
        process.readyReadStandardOutput.disconnect(self._read_frames)
        process.readyReadStandardError.disconnect(self._read_log)
        process.finished.disconnect(self._finished)
        process.errorOccurred.disconnect(self._broken)

    def _read_frames(self) -> None:
        if self._process is None:
            return
        data = bytes(self._process.readAllStandardOutput().data())
        try:
            for message in self._reader.feed(data):
                self._take(message)
        except (ProtocolError, msgspec.MsgspecError) as error:
            self._end(tr("it sent what the window cannot read: {error}", error=error))

    def _take(self, message: protocol.Message) -> None:
        if isinstance(message, protocol.Notification):
            wanted = protocol.NOTIFICATIONS.get(message.method)
            if wanted is not None:
                self._notify[message.method].emit(msgspec.msgpack.decode(message.params, type=wanted))
        elif isinstance(message, protocol.Answer | protocol.Failure):
            call = self._calls.pop(message.id, None)
            if call is not None:
                self._settle(call, message)

    def _settle(self, call: Call, message: protocol.Answer | protocol.Failure) -> None:
        if isinstance(message, protocol.Failure):
            self.failed.emit(Refusal(call, message.error))
            return
        result = msgspec.msgpack.decode(message.result, type=protocol.METHODS[call.method][1])
        if call.method == "hello":
            self.ready.emit(result)
        else:
            self.answered.emit(Reply(call, result, time.monotonic() - call.sent))

    def _read_log(self) -> None:
        if self._process is not None:
            text = bytes(self._process.readAllStandardError().data()).decode("utf-8", "replace")
            self._said = next((line for line in reversed(text.splitlines()) if line.strip()), self._said)
            self.logged.emit(text)

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._process is None:
            return
        self._read_log()
        self._read_frames()
        crashed = status is QProcess.ExitStatus.CrashExit
        ended = tr("signal {code}", code=code) if crashed else tr("exit code {code}", code=code)
        self._end(f"{ended}: {self._said.strip()}" if self._said and code else ended)

    def _broken(self, error: QProcess.ProcessError) -> None:
        if error is QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(tr("it could not be started: {problem}", problem=self._process.errorString()))

    def _end(self, reason: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._silence(process)
        if process.state() is not QProcess.ProcessState.NotRunning:
            process.kill()
            process.waitForFinished(KILL_MILLISECONDS)
        process.deleteLater()
        calls = tuple(call for call in self._calls.values() if call.method not in IMMEDIATE)
        self._calls = {}
        self.died.emit(Death(reason, calls))
