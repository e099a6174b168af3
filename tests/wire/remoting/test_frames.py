"""Frames: cut out of any pieces, and nothing else gets through."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.wire.frames import HEADER, HEADER_SIZE, FrameKind, FrameReader, RemotingError, frame

LIMIT = 300
WORD = st.integers(0, 0xFFFFFFFF)
Parts = tuple[int, int, bytes, int, int]
PARTS = st.tuples(
    st.sampled_from([int(kind) for kind in FrameKind]), WORD, st.binary(max_size=LIMIT), st.integers(0, 0xFFFF), WORD
)


def bytes_of(parts: Parts) -> bytes:
    kind, id_, payload, operation, amount = parts
    return frame(kind, id_, payload, operation=operation, amount=amount)


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(PARTS, max_size=8), st.lists(st.integers(0, 5000), max_size=30))
def test_frames_are_the_same_however_they_are_split(sent: list[Parts], cuts: list[int]):
    reader = FrameReader(LIMIT)
    data = b"".join(map(bytes_of, sent))
    read = [each for piece in pieces_of(data, cuts) for each in reader.read(piece)]
    assert [(f.kind, f.id, f.payload, f.operation, f.amount) for f in read] == sent


@given(st.lists(PARTS, min_size=1, max_size=3))
def test_frames_are_read_byte_by_byte(sent: list[Parts]):
    reader = FrameReader(LIMIT)
    read = []
    for parts in sent:
        data = bytes_of(parts)
        for at in range(len(data) - 1):
            assert reader.read(data[at : at + 1]) == []
        read += reader.read(data[-1:])
    assert [f.payload for f in read] == [payload for _, _, payload, _, _ in sent]


@given(st.integers(LIMIT + 1, 0xFFFFFFFF), st.sampled_from(list(FrameKind)))
def test_a_frame_that_is_too_large_is_refused_by_its_header_alone(length: int, kind: FrameKind):
    with pytest.raises(RemotingError, match="the limit"):
        FrameReader(LIMIT).read(HEADER.pack(length, kind, 0, 1, 0))


def test_a_frame_of_just_the_limit_is_read():
    assert len(FrameReader(LIMIT).read(frame(FrameKind.ITEM, 1, bytes(LIMIT)))) == 1


@given(st.integers(0, 255).filter(lambda kind: not 1 <= kind <= 13), st.binary(max_size=20))
def test_unknown_kinds_are_refused(kind: int, payload: bytes):
    with pytest.raises(RemotingError, match="kind"):
        FrameReader(LIMIT).read(frame(kind, 1, payload))


@given(st.lists(st.binary(max_size=80), max_size=40))
def test_random_bytes_are_frames_or_refused_and_little_is_kept(pieces: list[bytes]):
    reader = FrameReader(LIMIT)
    for piece in pieces:
        try:
            reader.read(piece)
        except RemotingError:
            return
        assert len(reader._rest) < HEADER_SIZE + LIMIT


def test_an_amount_beyond_the_field_is_the_most_there_is():
    [read] = FrameReader(LIMIT).read(frame(FrameKind.CREDIT, 1, amount=1 << 40))
    assert read.amount == 0xFFFFFFFF
