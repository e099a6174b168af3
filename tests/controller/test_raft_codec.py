"""Messages between controllers as bytes: what was sent comes back, and nothing else does."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.controller.raft_codec import MAX_SNAPSHOT_BYTES, Sender, decode_messages, encode_messages
from entrepot.broker.controller.starts import DirectoryStart
from entrepot.broker.raft import messages as raft
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.membership import Configuration
from entrepot.domain.errors import Code, EntrepotError

NUMBERS = st.integers(0, 2**63)
CONFIGURATIONS = st.builds(Configuration, st.lists(NUMBERS, max_size=5).map(tuple), NUMBERS, NUMBERS, NUMBERS)
ENTRIES = st.tuples(st.integers(0, 9), st.sampled_from(EntryKind), st.binary(max_size=40))


def append(
    previous: int, previous_term: int, entries: list[tuple[int, EntryKind, bytes]], commit: int, read_round: int
) -> raft.Append:
    """Entries that follow each other; of each, by how much its term is later than that of the one before."""
    term, made = previous_term, []
    for place, (more, kind, data) in enumerate(entries, 1):
        term += more
        made.append(Entry(previous + place, term, kind, data))
    return raft.Append(term, previous, previous_term, tuple(made), commit, read_round)


def chunk(number: int, configuration: Configuration, offset: int, data: bytes) -> raft.SnapshotChunk:
    return raft.SnapshotChunk(number, number, number, configuration, offset + 40, 7, offset, data, number)


MESSAGES = st.one_of(
    st.builds(raft.PreVote, NUMBERS, NUMBERS, NUMBERS),
    st.builds(raft.PreVoteAnswer, NUMBERS, NUMBERS, st.booleans()),
    st.builds(raft.Vote, NUMBERS, NUMBERS, NUMBERS),
    st.builds(raft.VoteAnswer, NUMBERS, st.booleans()),
    st.builds(append, NUMBERS, NUMBERS, st.lists(ENTRIES, max_size=3), NUMBERS, NUMBERS),
    st.builds(raft.AppendAnswer, NUMBERS, st.booleans(), NUMBERS, NUMBERS, NUMBERS),
    st.builds(chunk, NUMBERS, CONFIGURATIONS, st.integers(0, MAX_SNAPSHOT_BYTES - 80), st.binary(max_size=40)),
    st.builds(raft.SnapshotAnswer, NUMBERS, NUMBERS, NUMBERS, NUMBERS),
)
STARTS = st.builds(DirectoryStart, st.text(max_size=8), NUMBERS, st.lists(st.text(max_size=8), max_size=4).map(tuple))
SENDERS = st.builds(Sender, st.text(max_size=8), NUMBERS, STARTS)
SENDER = Sender("c", 1, DirectoryStart("i", 2, ("a", "b")))


@given(SENDERS, st.text(max_size=8), st.lists(MESSAGES, max_size=4))
def test_what_was_sent_comes_back(sender: Sender, target: str, messages: list[raft.Message]) -> None:
    assert decode_messages(encode_messages(sender, target, messages)) == (sender, target, messages)


def is_refused(payload: bytes) -> None:
    with pytest.raises(EntrepotError, match="a message of a controller cannot be read") as refused:
        decode_messages(payload)
    assert refused.value.code is Code.BAD_REQUEST


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    with suppress(EntrepotError):
        decode_messages(payload)


@given(SENDERS, MESSAGES, st.data())
def test_what_was_corrupted_is_read_or_refused(sender: Sender, message: raft.Message, data: st.DataObject) -> None:
    payload = bytearray(encode_messages(sender, "t", [message]))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] = data.draw(st.integers(0, 255))
    with suppress(EntrepotError):
        decode_messages(bytes(payload))
    is_refused(bytes(payload[:place]))


@pytest.mark.parametrize("kind", [-1, -8, 8, 255, 2**63, "0", None])
def test_a_message_of_an_unknown_kind_is_refused(kind: object) -> None:
    answer = msgspec.msgpack.encode(raft.SnapshotAnswer(1, 2, 3, 4))
    is_refused(msgspec.msgpack.encode((SENDER, "t", [(kind, msgspec.Raw(answer))])))


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"term": 1},
        {"term": -1, "last_index": 0, "last_term": 0},
        {"term": 1, "last_index": -1, "last_term": 0},
        {"term": "1", "last_index": 0, "last_term": 0},
        [1, 2, 3],
    ],
)
def test_a_message_with_other_fields_is_refused(message: object) -> None:
    is_refused(msgspec.msgpack.encode((SENDER, "t", [(0, message)])))


@pytest.mark.parametrize(
    "entries",
    [
        ((5, 1), (7, 1)),
        ((5, 1), (5, 1)),
        ((4, 1),),
        ((5, 3),),
    ],
    ids=["a gap", "twice", "not behind the previous one", "of a later term than the leader's"],
)
def test_entries_that_do_not_follow_each_other_are_refused(entries: tuple[tuple[int, int], ...]) -> None:
    """Of a leader that keeps the rules no such message comes, and a log with a gap could never be mended."""
    found = tuple(Entry(index, term, EntryKind.COMMAND, b"") for index, term in entries)
    is_refused(encode_messages(SENDER, "t", [raft.Append(2, 4, 1, found, 0, 0)]))


@pytest.mark.parametrize(("size", "offset"), [(10, 9), (10, 11), (MAX_SNAPSHOT_BYTES + 1, 0)])
def test_a_part_of_a_snapshot_beyond_its_end_is_refused(size: int, offset: int) -> None:
    part = raft.SnapshotChunk(1, 1, 1, Configuration(), size, 7, offset, b"ab", 0)
    is_refused(encode_messages(SENDER, "t", [part]))


def test_a_deep_message_is_refused() -> None:
    is_refused(b"\x93" + msgspec.msgpack.encode(SENDER) + b"\xa1t\x91\x92\x00" + b"\x91" * 100_000 + b"\x00")
