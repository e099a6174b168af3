"""Messages of Raft between controllers, as bytes: who sends them, then each with the number of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from broker.raft import messages as raft
from domain.errors import Code, EntrepotError

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
"""Their numbers are for ever."""
_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}


class Sender(NamedTuple):
    """A controller and its directory.  `run`: number of its start."""

    cluster: str
    controller: int
    incarnation: str
    run: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[Sender, list[tuple[int, msgspec.Raw]]]).decode
_decoders: Final = [msgspec.msgpack.Decoder(kind).decode for kind in _KINDS]


def encode_messages(sender: Sender, messages: Sequence[raft.Message]) -> bytes:
    """The payload of a request."""
    return _encode((sender, [(_NUMBERS[type(each)], each) for each in messages]))


def decode_messages(payload: bytes) -> tuple[Sender, list[raft.Message]]:
    """The reverse.  Raises BAD_REQUEST."""
    try:
        sender, found = _decode(payload)
        return sender, [_decoders[number](data) for number, data in found]
    except (msgspec.DecodeError, IndexError) as error:
        raise EntrepotError(Code.BAD_REQUEST, f"a message of a controller cannot be read: {error}") from error
