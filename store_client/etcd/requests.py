"""Requests of the port as etcd's messages, and answers as the port's values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange, conflict
from entrepot.protocols.etcd import kv_pb2 as kv
from entrepot.protocols.etcd import rpc_pb2 as pb

MAX_REQUEST_BYTES: Final = 9_000_000
"""Largest request, keys included: etcd runs with `--max-request-bytes 9437184`, and more than 10 MiB is unsafe."""
LARGE_REQUEST_BYTES: Final = 2 << 20
"""Size of a request from which on etcd is not told to read the conflicting versions."""
BYTES_PER_SECOND: Final = 1 << 20
CHANGES_PER_SECOND: Final = 1_500
LONGEST_SECONDS: Final = 12.0
"""Time that large writes get beside that of ordinary ones."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The port's keys behind the root, as etcd's bytes.  The empty prefix is the root: never all that etcd has."""

    root: str

    def stored(self, key: str) -> bytes:
        return (self.root + key).encode("utf-8", "surrogatepass")

    def plain(self, key: bytes) -> str:
        return key.decode("utf-8", "surrogatepass")[len(self.root) :]

    def value(self, found: kv.KeyValue) -> KeyValue:
        return KeyValue(self.plain(found.key), found.value, found.mod_revision)


def end_of(prefix: bytes) -> bytes:
    """Return the first key behind all that have a prefix.  UTF-8 has no byte 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def reads(keys: Iterable[bytes], revision: int = 0, *, keys_only: bool = False) -> pb.TxnRequest:
    """Return one transaction that reads keys; revision 0: the newest."""
    return pb.TxnRequest(success=[_read(key, revision, keys_only) for key in keys])


def _read(key: bytes, revision: int, keys_only: bool) -> pb.RequestOp:
    return pb.RequestOp(request_range=pb.RangeRequest(key=key, revision=revision, keys_only=keys_only))


def found_in(responses: Iterable[pb.ResponseOp]) -> list[kv.KeyValue | None]:
    """Return the key-value of each read."""
    answers = [each.response_range.kvs for each in responses]
    return [kvs[0] if kvs else None for kvs in answers]


def transaction(changes: Sequence[KeyValueChange], keys: Keys) -> pb.TxnRequest:
    """Return the write of changes.  A small one reads the versions where a condition does not hold.  Raises
    BAD_REQUEST for a request that is too large."""
    conditions = conditions_of(changes)
    question = pb.TxnRequest(
        compare=[
            pb.Compare(
                key=keys.stored(change.key),
                target=pb.Compare.MOD,
                result=pb.Compare.EQUAL,
                mod_revision=change.expected_version or ABSENT,
            )
            for change in conditions
        ],
        success=[_change(change, keys.stored(change.key)) for change in changes],
    )
    size = question.ByteSize()
    if size > MAX_REQUEST_BYTES:
        raise EntrepotError(
            Code.BAD_REQUEST,
            f"the keys and values of one write are {size} bytes for etcd, not up to {MAX_REQUEST_BYTES}",
        )
    if size <= LARGE_REQUEST_BYTES:
        question.failure.extend(_read(keys.stored(change.key), 0, True) for change in conditions)
    return question


def _change(change: KeyValueChange, key: bytes) -> pb.RequestOp:
    if change.value is None:
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=change.value))


def conditions_of(changes: Sequence[KeyValueChange]) -> list[KeyValueChange]:
    """Return the changes with a condition."""
    return [change for change in changes if change.expected_version is not None]


def first_conflict(conditions: Sequence[KeyValueChange], found: Iterable[kv.KeyValue | None]) -> EntrepotError:
    """Return the refusal that names the first condition that does not hold."""
    for change, kept in zip(conditions, found, strict=True):
        version = ABSENT if kept is None else kept.mod_revision
        if version != change.expected_version:
            return conflict(change.key, change.expected_version or ABSENT, version)
    return EntrepotError(Code.PRECONDITION_FAILED, "a condition of the write does not hold")


def write_seconds(question: pb.TxnRequest, ordinary: float) -> float:
    """Return the time for a write: members copy and sync large ones for longer."""
    more = question.ByteSize() / BYTES_PER_SECOND + _changes_in(question) / CHANGES_PER_SECOND
    return min(ordinary + more, max(ordinary, LONGEST_SECONDS))


def _changes_in(question: pb.TxnRequest) -> int:
    return sum(_changes_in(each.request_txn) if each.HasField("request_txn") else 1 for each in question.success)
