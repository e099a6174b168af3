"""Frames of RocketMQ's remoting protocol: in any pieces, in both ways of headers, and what is none."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.rocketmq.remoting.frames import (
    MAX_FIELDS,
    MAX_FRAME_BYTES,
    Frame,
    FrameError,
    FrameReader,
    encode,
)
from tests.support.cases import cases

NUMBERS = st.integers(-(1 << 31), (1 << 31) - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FRAMES = st.builds(
    Frame, NUMBERS, NUMBERS, st.dictionaries(TEXTS, TEXTS, max_size=5), st.binary(max_size=200), st.booleans(),
    st.booleans(), TEXTS, NUMBERS
)  # fmt: skip


@given(st.lists(FRAMES, max_size=4), st.lists(st.integers(0, 3000), max_size=6))
def test_frames_come_back_from_any_pieces(frames: list[Frame], cuts: list[int]) -> None:
    data = b"".join(map(encode, frames))
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    reader, found = FrameReader(), []
    for start, end in pairwise(places):
        found += reader.receive(data[start:end])
    assert found == frames and reader.held == 0


@given(st.binary(max_size=300))
def test_any_bytes_are_frames_or_none(data: bytes) -> None:
    try:
        FrameReader().receive(data)
    except FrameError:
        return


def binary(code: int, fields: dict[bytes, bytes], remark: bytes = b"", body: bytes = b"") -> bytes:
    """A frame with the binary header, written from the layout (RocketMQSerializable)."""
    packed = b"".join(struct.pack(">H", len(k)) + k + struct.pack(">I", len(v)) + v for k, v in fields.items())
    header = struct.pack(">hBhiiI", code, 0, 513, 9, 1, len(remark)) + remark + struct.pack(">I", len(packed)) + packed
    return struct.pack(">II", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def test_the_binary_header_is_read() -> None:
    [found] = FrameReader().receive(binary(17, {b"topic": "tö".encode(), b"n": b""}, b"no such topic", b"body"))
    expected = Frame(17, 9, {"topic": "tö", "n": ""}, b"body", True, False, "no such topic", 513, "JAVA")
    assert found == expected


def json_frame(header: bytes, body: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), len(header)) + header + body


def test_an_answer_of_java_is_read() -> None:
    """As RocketMQ 5.5.0 answers a send; a null, numbers and truth values are no texts."""
    header = (
        b'{"code":0,"extFields":{"queueId":"0","TRACE_ON":true,"queueOffset":12,"x":null},"flag":1,"language":"JAVA",'
        b'"opaque":4,"remark":null,"serializeTypeCurrentRPC":"JSON","version":513,"more":[1]}'
    )
    [found] = FrameReader().receive(json_frame(header))
    assert (found.is_answer, found.is_one_way, found.remark, found.number) == (True, False, "", 4)
    assert found.fields == {"queueId": "0", "TRACE_ON": "true", "queueOffset": "12"}


@cases(
    "data",
    [
        struct.pack(">II", MAX_FRAME_BYTES, 2),
        struct.pack(">II", 10, 20),
        json_frame(b"[]"),
        json_frame(b"{}"),
        json_frame(b'{"code":"0","opaque":1}'),
        json_frame(b'{"code":99999999999,"opaque":1}'),
        json_frame(b'{"code":1,"opaque":1,"extFields":[1]}'),
        json_frame(
            b'{"code":1,"opaque":1,"extFields":{' + b",".join(b'"%d":""' % i for i in range(MAX_FIELDS + 1)) + b"}}"
        ),
        struct.pack(">II", 6, 2 << 24 | 2) + b"{}",
        struct.pack(">II", 9, 1 << 24 | 5) + b"12345",
    ],
)
def test_what_is_no_frame_ends_the_connection(data: bytes) -> None:
    with pytest.raises(FrameError):
        FrameReader().receive(data)


def test_a_frame_that_is_too_long_is_not_sent() -> None:
    with pytest.raises(FrameError, match="at most"):
        encode(Frame(310, body=bytes(MAX_FRAME_BYTES)))


def held_by(data: Any) -> int:
    reader = FrameReader()
    reader.receive(data)
    return reader.held


def test_the_rest_of_a_frame_is_waited_for() -> None:
    whole = encode(Frame(310, 1, {"a": "b"}, b"body"))
    assert [held_by(whole[:size]) for size in (0, 3, 8, len(whole) - 1, len(whole))] == [0, 3, 8, len(whole) - 1, 0]
