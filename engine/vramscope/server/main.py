"""``vramscope serve``: reads requests from standard input, answers on standard output, in frames."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from vramscope.errors import BrokenStreamError, ProtocolError, VramscopeError
from vramscope.messages.live import CancelInfo, CancelParams, Empty
from vramscope.protocol import Answer, Failure, FrameReader, Request, raw
from vramscope.server.failures import error_info
from vramscope.server.hello import hello
from vramscope.server.jobs import JobQueue, cancelled
from vramscope.server.outbox import Outbox
from vramscope.server.streams import claim_stdout, read_some
from vramscope.server.worker import Worker, parameters

if TYPE_CHECKING:
    import msgspec

    from vramscope.protocol import Message

NO_REQUEST = -1
"""The id of a failure that answers no request: the frame itself was wrong."""

STOP_TIMEOUT = 3.0
"""Seconds that running work gets to notice that the server ends."""


def serve() -> int:
    """Serves until standard input ends or a client asks to stop.

    Returns:
        0, or 2 when the stream of frames was broken and nothing after it could be trusted.
    """
    if sys.stdin.isatty():
        print("vramscope serve speaks frames to a program; stop it with Ctrl-D", file=sys.stderr)
    else:
        # A Ctrl-C meant for the window reaches its child too; the window decides when the child ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = Server(claim_stdout())
    code = server.run(0)
    if not server.ended:
        # The device thread is inside a library; tearing the interpreter down under it could crash.
        sys.stderr.flush()
        os._exit(code)
    return code


class Server:
    """The reader: hands work to the device thread and answers at once what must not wait for it."""

    def __init__(self, output: int) -> None:
        """Starts the writing thread and the device thread. ``output``: the file descriptor to answer on."""
        self._outbox = Outbox(output)
        self._jobs = JobQueue()
        self._worker = Worker(self._jobs, self._outbox)
        self._stopping = False
        self.ended = False
        """Whether the device thread has come to its end."""

    def run(self, source: int) -> int:
        """Reads frames from the file descriptor ``source`` until it ends."""
        frames = FrameReader()
        code = 0
        try:
            while not self._stopping and (data := read_some(source)):
                self._feed(frames, data)
        except BrokenStreamError as error:
            self._fail(NO_REQUEST, error, "a frame")
            code = 2
        finally:
            self._jobs.close()
            self.ended = self._worker.join(STOP_TIMEOUT)
            self._outbox.close()
        return code

    def _feed(self, frames: FrameReader, data: bytes) -> None:
        """Takes every message of ``data``; one that cannot be understood is refused and the next one read.

        Raises:
            BrokenStreamError: the stream cannot be read any further.
        """
        while True:
            try:
                for message in frames.feed(data):
                    self._take(message)
            except BrokenStreamError:
                raise
            except ProtocolError as error:
                self._fail(NO_REQUEST, error, "a message")
                data = b""
            else:
                return

    def _take(self, message: Message) -> None:
        if not isinstance(message, Request):
            error = ProtocolError(f"a {type(message).__name__.lower()}", "an engine takes requests alone")
            self._fail(NO_REQUEST, error, "a message")
            return
        try:
            self._dispatch(message)
        except Exception as error:  # Whatever goes wrong with one request, the next is read.
            self._fail(message.id, error, message.method)

    def _dispatch(self, request: Request) -> None:
        params = parameters(request)
        if request.method == "hello":
            self._reply(request, hello(params))
        elif request.method == "snapshot":
            self._reply(request, self._worker.snapshot)
        elif request.method == "cancel":
            self._cancel(request, params)
        elif request.method == "shutdown":
            self._stopping = True
            self._reply(request, Empty())
        else:
            for stale in self._jobs.put(request):
                self._fail(stale.id, SupersededError("this plan", "a newer one was asked for"), "plan")

    def _cancel(self, request: Request, params: CancelParams) -> None:
        found, waiting = self._jobs.cancel(params.request)
        self._reply(request, CancelInfo(found=found))
        if waiting is not None:
            self._fail(waiting.id, cancelled(waiting.method), waiting.method)

    def _reply(self, request: Request, result: msgspec.Struct) -> None:
        self._outbox.send(Answer(id=request.id, result=raw(result)))

    def _fail(self, identity: int, error: Exception, subject: str) -> None:
        self._outbox.send(Failure(id=identity, error=error_info(error, subject)))


class SupersededError(VramscopeError):
    """A plan that was never made because a newer one waits."""
