"""Messages of Raft between controllers, as bytes: sender and target, then each message with the number of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from entrepot.broker.controller.starts import DirectoryStart
from entrepot.broker.raft import messages as raft
from entrepot.domain.errors import Code, EntrepotError

_KINDS: Final[tuple[type[Any], ...]] = (
    raft.PreVote,
    raft.PreVoteAnswer,
    raft.Vote,
    raft.VoteAnswer,
    raft.Append,
    raft.AppendAnswer,
    raft.SnapshotChunk,
    raft.SnapshotAnswer,
)
"""Kinds of messages; their numbers never change."""
ANSWERS: Final = (raft.PreVoteAnswer, raft.VoteAnswer, raft.AppendAnswer, raft.SnapshotAnswer)
_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}


MAX_SNAPSHOT_BYTES: Final = 256 << 20
"""Most bytes of a register that comes as a whole."""


class Sender(NamedTuple):
    """A controller, and the start of its directory."""

    cluster: str
    controller: int
    start: DirectoryStart


Kind = Annotated[int, msgspec.Meta(ge=0, lt=len(_KINDS))]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Sender, str, list[tuple[Kind, msgspec.Raw]]]).decode
_decoders: Final = [msgspec.msgpack.Decoder(kind).decode for kind in _KINDS]


def encode_messages(sender: Sender, target: str, messages: Sequence[raft.Message]) -> bytes:
    """Return a request's payload. `target`: token of the start that answers are for; empty if none was heard."""
    return _encode((sender, target, [(_NUMBERS[type(each)], each) for each in messages]))


def decode_messages(payload: bytes) -> tuple[Sender, str, list[raft.Message]]:
    """Reverse `encode_messages`. Raises BAD_REQUEST."""
    try:
        sender, target, found = _decode(payload)
        messages = [_decoders[number](data) for number, data in found]
        for message in messages:
            _check(message)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise EntrepotError(Code.BAD_REQUEST, f"a message of a controller cannot be read: {error}") from error
    return sender, target, messages


def _check(message: raft.Message) -> None:
    """Raise ValueError for messages against the rules, which the machine does not check."""
    values = [getattr(message, name) for name in message.__struct_fields__]
    if any(isinstance(value, int) and value < 0 for value in values):
        raise ValueError("a number is below 0")
    if isinstance(message, raft.Append):
        index, term = message.previous, message.previous_term
        for entry in message.entries:
            if entry.index != index + 1 or not term <= entry.term <= message.term:
                raise ValueError(f"entry {entry.index} of term {entry.term} does not follow entry {index} of {term}")
            index, term = entry.index, entry.term
    elif isinstance(message, raft.SnapshotChunk):
        end, size = message.offset + len(message.data), message.size
        if end > size or size > MAX_SNAPSHOT_BYTES:
            raise ValueError(f"a part of a snapshot of {size} bytes, at most {MAX_SNAPSHOT_BYTES}, ends at {end}")
