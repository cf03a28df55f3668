"""Everything the window and the engine server say to each other: versioned, and light to import.

A frame is a 4-byte little-endian length and a msgpack body. A body is one of :data:`Message`: JSON-RPC's
request, answer, error and notification. The typed parameters and results of each method stand in
:data:`METHODS`, those of notifications in :data:`NOTIFICATIONS`; the structs are in ``vramscope.messages``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from vramscope.errors import BrokenStreamError, ProtocolError
from vramscope.messages.columns import TableChunk
from vramscope.messages.headroom import HeadroomCurves, HeadroomParams
from vramscope.messages.live import CancelInfo, CancelParams, Empty, Events, Progress, SnapshotInfo, TokenInfo
from vramscope.messages.model import Hello, HelloParams, ModelInfo, OpenParams
from vramscope.messages.neighbours import NeighboursInfo, NeighboursParams
from vramscope.messages.node import NodeInfo, NodeParams
from vramscope.messages.planning import ExportParams, PlanInfo, PlanParams
from vramscope.messages.reporting import (
    BaselineParams,
    CompareInfo,
    CompareParams,
    ReportInfo,
    ReportParams,
    SideInfo,
)
from vramscope.messages.running import (
    CaptureInfo,
    CountParams,
    PrefillParams,
    ProfileInfo,
    RunInfo,
    RunModelInfo,
    RunModelParams,
    TraceInfo,
    TraceParams,
    VerifyInfo,
)
from vramscope.messages.slots import SlotsInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
"""Raised whenever a message changes its meaning; both sides must agree."""

FRAME_LIMIT = 64 * 2**20
"""No frame is larger: a table travels in chunks far below it."""


class Request(msgspec.Struct, frozen=True, kw_only=True, tag="request"):
    """Asks for ``method``; answered by exactly one :class:`Answer` or :class:`Failure` with the same id."""

    id: int
    method: str
    params: msgspec.Raw = msgspec.Raw(b"\xc0")


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag="answer"):
    """The result of a request."""

    id: int
    result: msgspec.Raw


class Failure(msgspec.Struct, frozen=True, kw_only=True, tag="failure"):
    """Why a request has no result: the fields of the engine's error."""

    id: int
    error: ErrorInfo


class Notification(msgspec.Struct, frozen=True, kw_only=True, tag="notification"):
    """Said without being asked."""

    method: str
    params: msgspec.Raw


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An engine error as data: its kind, and what, why, remedy and node as in ``vramscope.errors``."""

    code: str
    what: str
    why: str
    remedy: str = ""
    node: str = ""
    details: dict[str, str] = {}

    def text(self) -> str:
        """The error as lines: ``error: what``, then why, where and remedy, then a traceback of a defect."""
        lines = [f"error: {self.what}", f"  why:    {self.why}"]
        if self.node:
            lines.append(f"  where:  node {self.node}")
        if self.remedy:
            lines.append(f"  remedy: {self.remedy}")
        if "traceback" in self.details:
            lines.append(self.details["traceback"].rstrip())
        return "\n".join(lines)


Message: TypeAlias = Request | Answer | Failure | Notification

METHODS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "hello": (HelloParams, Hello),
    "open": (OpenParams, ModelInfo),
    "plan": (PlanParams, PlanInfo),
    "headroom": (HeadroomParams, HeadroomCurves),
    "node": (NodeParams, NodeInfo),
    "neighbours": (NeighboursParams, NeighboursInfo),
    "prefill": (PrefillParams, RunInfo),
    "step": (CountParams, RunInfo),
    "capture": (Empty, CaptureInfo),
    "replay": (CountParams, RunInfo),
    "verify": (CountParams, VerifyInfo),
    "profile": (CountParams, ProfileInfo),
    "trace": (TraceParams, TraceInfo),
    "reset": (Empty, RunInfo),
    "slots": (Empty, SlotsInfo),
    "run_model": (RunModelParams, RunModelInfo),
    "snapshot": (Empty, SnapshotInfo),
    "export": (ExportParams, Empty),
    "report": (ReportParams, ReportInfo),
    "baseline": (BaselineParams, SideInfo),
    "compare": (CompareParams, CompareInfo),
    "cancel": (CancelParams, CancelInfo),
    "shutdown": (Empty, Empty),
}
"""Every method: types of its parameters and result. ``cancel`` and ``snapshot`` are answered at once."""


NOTIFICATIONS: dict[str, type[msgspec.Struct]] = {
    "progress": Progress,
    "events": Events,
    "snapshot": SnapshotInfo,
    "token": TokenInfo,
    "table": TableChunk,
}
"""Every notification and the type of its parameters."""


def pack(message: Message) -> bytes:
    """One frame.

    Raises:
        ProtocolError: the body is larger than :data:`FRAME_LIMIT`.
    """
    body = msgspec.msgpack.encode(message)
    if len(body) > FRAME_LIMIT:
        raise ProtocolError("a message", f"its {len(body):,} bytes pass the limit of {FRAME_LIMIT:,}")
    return len(body).to_bytes(4, "little") + body


def raw(value: msgspec.Struct) -> msgspec.Raw:
    """A struct encoded for an envelope's ``params`` or ``result``."""
    return msgspec.Raw(msgspec.msgpack.encode(value))


class FrameReader:
    """Cuts a byte stream into messages; bytes may arrive in any pieces."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)

    def feed(self, data: bytes) -> Iterator[Message]:
        """Every message completed by ``data``, in order.

        After a body that is no message the next call goes on with the frame behind it.

        Raises:
            BrokenStreamError: a frame larger than the limit.
            ProtocolError: a body that is no message.
        """
        self._buffer += data
        while (size := self._next_size()) is not None:
            body = bytes(self._buffer[4 : 4 + size])
            del self._buffer[: 4 + size]
            try:
                yield self._decoder.decode(body)
            except msgspec.MsgspecError as error:
                raise ProtocolError("a frame", f"its body is no message: {error}") from error

    def _next_size(self) -> int | None:
        if len(self._buffer) < 4:
            return None
        size = int.from_bytes(self._buffer[:4], "little")
        if size > FRAME_LIMIT:
            raise BrokenStreamError("a frame", f"its length {size:,} passes the limit of {FRAME_LIMIT:,}")
        return size if len(self._buffer) >= 4 + size else None
