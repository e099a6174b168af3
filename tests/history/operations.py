"""What a history is made of: operations of clients, each with its times and its outcome, as JSON lines.

`begun` and `ended` are nanoseconds of one clock that all clients share: one operation was before another if it had
ended when the other began.  `begun_ms` and `ended_ms` are the same moments by the clock of the store, which invisible
times are counted in; the store decided somewhere between.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import msgspec


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    """It was certainly not done, and will not be."""
    UNKNOWN = "unknown"
    """It was done, is done later, or never."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """`code`: of the refusal, where there was one."""

    client: str
    begun: int
    ended: int
    begun_ms: int
    ended_ms: int
    outcome: Outcome = Outcome.OK
    code: str = ""

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK

    @property
    def may_be_done(self) -> bool:
        return self.outcome is not Outcome.FAILED

    def is_before(self, other: Operation) -> bool:
        """True where it had ended when the other began."""
        return self.ended < other.begun


class Item(msgspec.Struct, frozen=True):
    """A message at its offset.  `digest`: of its body."""

    offset: int
    message: str
    digest: str


class Hand(msgspec.Struct, frozen=True):
    """A message that a pop handed out."""

    queue: int
    item: Item
    attempt: int
    handle: str


class Publish(Operation, frozen=True, kw_only=True, tag="publish"):
    """`batch` and `place`: messages of one batch have one number, and places in their order."""

    topic: str
    queue: int
    message: str
    digest: str
    message_group: str = ""
    batch: int = 0
    place: int = 0


class Pop(Operation, frozen=True, kw_only=True, tag="pop"):
    topic: str
    group: str
    invisible_ms: int
    is_fifo: bool = False
    hands: tuple[Hand, ...] = ()


class Acknowledge(Operation, frozen=True, kw_only=True, tag="acknowledge"):
    topic: str
    group: str
    handle: str


class Change(Operation, frozen=True, kw_only=True, tag="change"):
    """A renewal, or a release (`is_release`), which may say that the delivery was no attempt (`is_suspended`)."""

    topic: str
    group: str
    handle: str
    delay_ms: int
    is_release: bool
    is_suspended: bool = False


class Read(Operation, frozen=True, kw_only=True, tag="read"):
    """`may_lag`: a slave may have answered, which knows the end later."""

    topic: str
    queue: int
    first: int
    most: int
    may_lag: bool = False
    items: tuple[Item, ...] = ()


class Tailed(Operation, frozen=True, kw_only=True, tag="tailed"):
    """A tail handed messages over; it follows the queue from `first` on."""

    topic: str
    queue: int
    tail: str
    first: int
    items: tuple[Item, ...]


class Write(Operation, frozen=True, kw_only=True, tag="write"):
    """`expected`: the version that the key must have, or None.  `version`: its new one, 0 where that is not known."""

    key: str
    value: str
    expected: int | None
    version: int = 0


class Get(Operation, frozen=True, kw_only=True, tag="get"):
    """`version` 0: the key was not there."""

    key: str
    value: str = ""
    version: int = 0


class Whole(Operation, frozen=True, kw_only=True, tag="whole"):
    """All of a queue, read when nobody published any more."""

    topic: str
    queue: int
    items: tuple[Item, ...]


class Drained(Operation, frozen=True, kw_only=True, tag="drained"):
    """The group got nothing of the topic any more, after every invisible time was over."""

    topic: str
    group: str


AnyOperation: TypeAlias = Publish | Pop | Acknowledge | Change | Read | Tailed | Write | Get | Whole | Drained
_DECODER = msgspec.json.Decoder(AnyOperation)


def encode(operation: AnyOperation) -> bytes:
    return msgspec.json.encode(operation) + b"\n"


def save(path: Path, operations: Iterable[AnyOperation]) -> None:
    with path.open("wb") as file:
        file.writelines(map(encode, operations))


def load(path: Path) -> list[AnyOperation]:
    with path.open("rb") as file:
        return [_DECODER.decode(line) for line in file]
