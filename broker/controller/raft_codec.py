"""Messages of Raft between controllers, as bytes: who sends them to whom, then each with the number of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from broker.controller.starts import DirectoryStart
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
ANSWERS: Final = (raft.PreVoteAnswer, raft.VoteAnswer, raft.AppendAnswer, raft.SnapshotAnswer)
_NUMBERS: Final = {kind: number for number, kind in enumerate(_KINDS)}


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
    """The payload of a request.  `target`: token of the start that answers are for; empty where none was heard."""
    return _encode((sender, target, [(_NUMBERS[type(each)], each) for each in messages]))


def decode_messages(payload: bytes) -> tuple[Sender, str, list[raft.Message]]:
    """The reverse.  Raises BAD_REQUEST."""
    try:
        sender, target, found = _decode(payload)
        return sender, target, [_decoders[number](data) for number, data in found]
    except msgspec.DecodeError as error:
        raise EntrepotError(Code.BAD_REQUEST, f"a message of a controller cannot be read: {error}") from error
