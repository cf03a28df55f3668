"""A real engine server in a child process, spoken to as a window would."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from queue import Empty as QueueEmpty
from queue import Queue
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from vramscope.protocol import (
    NOTIFICATIONS,
    VERSION,
    Answer,
    Failure,
    FrameReader,
    Notification,
    Request,
    pack,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vramscope.protocol import Message

Params = TypeVar("Params", bound=msgspec.Struct)

SERVE = ("-m", "vramscope", "serve")
TIMEOUT = 60.0


class EngineProcess:
    """Sends requests and sorts what comes back: answers and failures by id, notifications by method."""

    def __init__(self, command: tuple[str, ...] = SERVE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.notifications: list[tuple[float, str, Any]] = []
        self.arrivals: list[Message] = []
        self._incoming: Queue[Message | None] = Queue()
        self._replies: dict[int, Answer | Failure] = {}
        self._next = 1
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.errors = b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _read(self) -> None:
        frames = FrameReader()
        assert self.process.stdout is not None
        while data := self.process.stdout.read(1 << 16):
            for message in frames.feed(data):
                if isinstance(message, Notification):
                    body = msgspec.msgpack.decode(bytes(message.params), type=NOTIFICATIONS[message.method])
                    self.notifications.append((time.monotonic(), message.method, body))
                self._incoming.put(message)
        self._incoming.put(None)

    def _listen(self) -> None:
        assert self.process.stderr is not None
        while data := self.process.stderr.read(1 << 16):
            self.errors += data

    def write(self, data: bytes) -> None:
        """Raw bytes to the server."""
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) or 0 :]

    def send(self, method: str, **params: object) -> int:
        """A request; its id."""
        identity = self._next
        self._next += 1
        body = msgspec.Raw(msgspec.msgpack.encode(params))
        self.write(pack(Request(id=identity, method=method, params=body)))
        return identity

    def reply(self, identity: int, timeout: float = TIMEOUT) -> Answer | Failure:
        """The answer or failure of a request, waiting for it."""
        deadline = time.monotonic() + timeout
        while identity not in self._replies:
            try:
                message = self._incoming.get(timeout=max(deadline - time.monotonic(), 0.001))
            except QueueEmpty:
                raise AssertionError(f"no reply to request {identity} in {timeout} s") from None
            if message is None:
                raise AssertionError(f"the engine ended: {self.errors.decode(errors='replace')}")
            self.arrivals.append(message)
            if isinstance(message, Answer | Failure):
                self._replies[message.id] = message
        return self._replies.pop(identity)

    def call(self, method: str, **params: object) -> Any:  # noqa: ANN401  # each method has its own
        """A request's result as plain data; a failure fails the test."""
        reply = self.reply(self.send(method, **params))
        assert isinstance(reply, Answer), reply
        return msgspec.msgpack.decode(bytes(reply.result))

    def refusal(self, method: str, **params: object) -> Any:  # noqa: ANN401  # each method has its own
        """The error of a request that must fail."""
        reply = self.reply(self.send(method, **params))
        assert isinstance(reply, Failure), reply
        return reply.error

    def heard(self, method: str) -> list[Any]:
        """Every notification of one method so far."""
        return [body for _, name, body in self.notifications if name == method]

    def wait_for(self, method: str, timeout: float = TIMEOUT) -> Any:  # noqa: ANN401  # each method has its own
        """The first notification of one method, waiting for it."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if found := self.heard(method):
                return found[0]
            time.sleep(0.005)
        raise AssertionError(f"no {method} in {timeout} s")

    def end(self) -> int:
        """Closes standard input and waits; the exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=TIMEOUT)
        self._reader.join(TIMEOUT)
        self._listener.join(TIMEOUT)
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


@contextmanager
def engine_process(command: tuple[str, ...] = SERVE) -> Iterator[EngineProcess]:
    """A server that is gone at the end, whatever happened."""
    engine = EngineProcess(command)
    try:
        yield engine
    finally:
        if engine.process.poll() is None:
            engine.process.kill()
        if engine.process.stdin is not None and not engine.process.stdin.closed:
            engine.end()


def greet(engine: EngineProcess) -> Any:  # noqa: ANN401  # each method has its own
    """The greeting."""
    return engine.call("hello", version=VERSION)
