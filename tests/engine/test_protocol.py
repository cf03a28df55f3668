"""Frames, messages and columns: what goes in comes out, however the bytes are cut."""

from __future__ import annotations

import itertools
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vramscope import protocol
from vramscope.errors import ProtocolError
from vramscope.messages.columns import column_values, float_column, integer_column, text_column
from vramscope.protocol import Answer, ErrorInfo, Failure, FrameReader, Message, Notification, Request, pack

RAW = st.binary(max_size=40).map(lambda body: msgspec.Raw(msgspec.msgpack.encode(body)))
IDS = st.integers(-(2**31), 2**31)
MESSAGES = st.one_of(
    st.builds(Request, id=IDS, method=st.text(max_size=20), params=RAW),
    st.builds(Answer, id=IDS, result=RAW),
    st.builds(
        Failure,
        id=IDS,
        error=st.builds(
            ErrorInfo, code=st.text(max_size=9), what=st.text(max_size=9), why=st.text(max_size=9)
        ),
    ),
    st.builds(Notification, method=st.text(max_size=20), params=RAW),
)


@given(st.lists(MESSAGES, max_size=8), st.lists(st.integers(0, 400), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_messages(messages: list[Message], cuts: list[int]) -> None:
    stream = b"".join(map(pack, messages))
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader, found = FrameReader(), list[Message]()
    for start, end in itertools.pairwise(edges):
        found += reader.feed(stream[start:end])
    assert found == messages


def test_one_byte_at_a_time() -> None:
    message = Request(id=1, method="hello")
    reader = FrameReader()
    found = [item for byte in pack(message) for item in reader.feed(bytes([byte]))]
    assert found == [message]


def test_a_frame_is_a_little_endian_length_and_a_body() -> None:
    frame = pack(Request(id=7, method="plan"))
    assert int.from_bytes(frame[:4], "little") == len(frame) - 4
    assert msgspec.msgpack.decode(frame[4:])["method"] == "plan"


def test_a_length_beyond_the_limit_is_refused_before_its_body_arrives() -> None:
    with pytest.raises(ProtocolError, match="passes the limit"):
        list(FrameReader().feed((protocol.FRAME_LIMIT + 1).to_bytes(4, "little")))


def test_a_message_beyond_the_limit_is_not_packed() -> None:
    body = msgspec.Raw(msgspec.msgpack.encode(b"\0" * (protocol.FRAME_LIMIT + 1)))
    with pytest.raises(ProtocolError, match="pass the limit"):
        pack(Answer(id=1, result=body))


def test_a_body_that_is_no_message_is_refused_and_the_next_one_read() -> None:
    good = Request(id=1, method="hello")
    bad = b"\x03\x00\x00\x00abc"
    reader = FrameReader()
    with pytest.raises(ProtocolError, match="no message"):
        list(reader.feed(bad + pack(good)))
    assert list(reader.feed(b"")) == [good]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integer_columns_come_back(values: list[int]) -> None:
    assert column_values(integer_column("a", values)) == values


@given(st.lists(st.floats(allow_nan=False)))
def test_float_columns_come_back(values: list[float]) -> None:
    assert column_values(float_column("a", values)) == values


def test_a_float_column_keeps_nan() -> None:
    (value,) = column_values(float_column("a", [math.nan]))
    assert isinstance(value, float)
    assert math.isnan(value)


@given(st.lists(st.text()))
def test_text_columns_come_back(values: list[str]) -> None:
    assert column_values(text_column("a", values)) == values


def test_columns_are_little_endian() -> None:
    assert integer_column("a", [1]).data == b"\1" + b"\0" * 7
    assert text_column("a", ["ab", "c"]).offsets == b"".join(n.to_bytes(8, "little") for n in (0, 2, 3))


def test_an_unknown_kind_of_column_is_refused() -> None:
    column = msgspec.structs.replace(integer_column("a", [1]), kind="complex")
    with pytest.raises(ProtocolError, match="complex"):
        column_values(column)


KINDS = sorted(
    {
        *protocol.NOTIFICATIONS.values(),
        *(k for pair in protocol.METHODS.values() for k in pair),
    },
    key=lambda kind: kind.__name__,
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_message_can_be_described_and_is_frozen(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    (schema,), _ = msgspec.json.schema_components([kind])
    assert schema


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_newer_fields_do_not_stop_an_older_reader(kind: type[msgspec.Struct]) -> None:
    assert not kind.__struct_config__.forbid_unknown_fields
