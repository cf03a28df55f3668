"""What the server says, in order and at its pace; and the line of requests."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from vramscope.errors import CancelledError
from vramscope.messages.live import EMPTY_SNAPSHOT, EventInfo, Events, Progress, SnapshotInfo
from vramscope.protocol import Answer, FrameReader, Message, Notification, Request
from vramscope.server.jobs import JobQueue
from vramscope.server.outbox import BATCH, CAPACITY, INTERVAL, Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator


def event(number: int) -> EventInfo:
    return EventInfo(
        sequence=number, seconds=0.0, kind="note", step=0, subject="", text="", bytes=0, component=""
    )


def answer(identity: int) -> Answer:
    return Answer(id=identity, result=msgspec.Raw(b"\xc0"))


class Pipe:
    """An outbox and what came out of it, with the length of every read."""

    def __init__(self) -> None:
        self.source, self.sink = os.pipe()
        self.outbox = Outbox(self.sink)

    def read_all(self) -> list[Message]:
        self.outbox.close()
        os.close(self.sink)
        reader, found = FrameReader(), list[Message]()
        while data := os.read(self.source, 1 << 20):
            found += reader.feed(data)
        os.close(self.source)
        return found


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    for fd in (made.source, made.sink):
        try:
            os.close(fd)
        except OSError:
            continue


def body(message: Message) -> tuple[str, object]:
    assert isinstance(message, Notification)
    kinds = {"events": Events, "progress": Progress, "snapshot": SnapshotInfo}
    return message.method, msgspec.msgpack.decode(bytes(message.params), type=kinds[message.method])


def test_an_answer_comes_after_everything_live_before_it(pipe: Pipe) -> None:
    pipe.outbox.event(event(1))
    pipe.outbox.snapshot(EMPTY_SNAPSHOT)
    pipe.outbox.send(answer(1))
    pipe.outbox.event(event(2))
    found = pipe.read_all()
    position = next(index for index, item in enumerate(found) if isinstance(item, Answer))
    before = [body(item)[0] for item in found[:position]]
    assert before == ["events", "snapshot"]
    assert [body(item)[0] for item in found[position + 1 :]] == ["events"]


def test_events_travel_in_batches_and_a_full_buffer_counts_what_it_drops() -> None:
    source, sink = os.pipe()
    outbox = Outbox(sink)
    blocker = b"\0" * (1 << 17)  # more than a pipe holds: the writer blocks as with a stalled window
    outbox.notify("table", _blob(blocker))
    time.sleep(0.1)
    for number in range(CAPACITY + 100):
        outbox.event(event(number))
    received = bytearray()
    thread = threading.Thread(target=_drain, args=(source, received))
    thread.start()
    outbox.close()
    os.close(sink)
    thread.join(10)
    os.close(source)
    batches = [
        found
        for message in FrameReader().feed(bytes(received))
        if isinstance(message, Notification) and message.method == "events"
        for _, found in (body(message),)
        if isinstance(found, Events)
    ]
    assert max(len(batch.events) for batch in batches) <= BATCH
    assert sum(len(batch.events) for batch in batches) == CAPACITY
    assert sum(batch.dropped for batch in batches) == 100


class _Blob(msgspec.Struct, frozen=True):
    data: bytes


def _blob(data: bytes) -> _Blob:
    return _Blob(data)


def _drain(source: int, received: bytearray) -> None:
    while data := os.read(source, 1 << 20):
        received.extend(data)


def test_only_the_newest_progress_and_snapshot_are_said(pipe: Pipe) -> None:
    pipe.outbox.send(answer(0))  # the first write is immediate; what follows waits for its time
    time.sleep(0.01)
    for done in range(50):
        pipe.outbox.progress(Progress(request=1, stage="load", done=done, total=50))
    found = [body(item)[1] for item in pipe.read_all() if isinstance(item, Notification)]
    assert len(found) <= 2
    assert isinstance(found[-1], Progress)
    assert found[-1].done == 49


def test_live_notifications_are_written_at_most_thirty_times_a_second(pipe: Pipe) -> None:
    reads: list[float] = []
    started = time.monotonic()

    def count() -> None:
        while os.read(pipe.source, 1 << 20):
            reads.append(time.monotonic())

    thread = threading.Thread(target=count)
    thread.start()
    while time.monotonic() - started < 0.5:
        pipe.outbox.event(event(1))
        time.sleep(0.001)
    pipe.outbox.close()
    os.close(pipe.sink)
    thread.join(5)
    assert 2 <= len(reads) <= 0.5 / INTERVAL + 3


def test_an_answer_does_not_wait_for_the_pace(pipe: Pipe) -> None:
    for number in range(20):
        started = time.monotonic()
        pipe.outbox.send(answer(number))
        os.read(pipe.source, 1 << 20)
        assert time.monotonic() - started < 5 * INTERVAL


def test_a_reader_that_is_gone_does_not_hang_the_server() -> None:
    source, sink = os.pipe()
    outbox = Outbox(sink)
    os.close(source)
    outbox.send(answer(1))
    outbox.send(answer(2))
    outbox.close(timeout=5)
    os.close(sink)
    assert not outbox._thread.is_alive()


def request(identity: int, method: str = "step") -> Request:
    return Request(id=identity, method=method)


def test_requests_run_in_order() -> None:
    jobs = JobQueue()
    for identity in (1, 2, 3):
        jobs.put(request(identity))
    taken = [jobs.take() for _ in range(3)]
    assert [job.request.id for job in taken if job] == [1, 2, 3]


def test_only_the_newest_waiting_plan_stays_and_a_running_one_is_left_alone() -> None:
    jobs = JobQueue()
    jobs.put(request(1, "plan"))
    running = jobs.take()
    assert jobs.put(request(2, "plan")) == []
    jobs.put(request(3, "export"))
    assert [item.id for item in jobs.put(request(4, "plan"))] == [2]
    assert running is not None
    running.check()
    assert [jobs.take().request.id for _ in range(2)] == [3, 4]  # type: ignore[union-attr]  # two wait


def test_cancel_flags_the_running_one_and_removes_a_waiting_one() -> None:
    jobs = JobQueue()
    jobs.put(request(1))
    jobs.put(request(2))
    running = jobs.take()
    assert running is not None
    assert jobs.cancel(1) == (True, None)
    with pytest.raises(CancelledError, match="step"):
        running.check()
    found, waiting = jobs.cancel(2)
    assert found
    assert waiting == request(2)
    assert jobs.cancel(2) == (False, None)
    assert jobs.cancel(99) == (False, None)


def test_closing_cancels_what_runs_and_ends_the_line() -> None:
    jobs = JobQueue()
    jobs.put(request(1))
    running = jobs.take()
    jobs.put(request(2))
    jobs.close()
    assert running is not None
    with pytest.raises(CancelledError):
        running.check()
    assert jobs.take() is None
