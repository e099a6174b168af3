"""The refusals of all listeners in one vocabulary.  A refusal is a value: inside a batch it stands in the result at its
message's place, so that acknowledgements stay in order.  Only a refusal of a whole call is raised.  Each protocol has
one complete table from `Code` to its own codes (`protocols/*/errors.py`).

A raised refusal refers to the frames that it passed, and they may hold it: a circle that only the garbage collector
ends, while everybody waits.  So a raised refusal that is kept or answered loses its traceback
(`with_traceback(None)`), and a returned one goes into `raise_if` without getting a name."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Code(IntEnum):
    """Outcome codes, with names and numbers of RocketMQ 5's gRPC `Code` where one exists."""

    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    ILLEGAL_OFFSET = 40019
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    OFFSET_NOT_FOUND = 40404
    REQUEST_TIMEOUT = 40800
    MESSAGE_BODY_TOO_LARGE = 41301
    PRECONDITION_FAILED = 42800
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_ERROR = 50000
    UNAVAILABLE = 50003  # ours: the store is stopping or has stopped
    OUTCOME_UNKNOWN = 50004  # ours: the answer was lost; the operation may or may not have happened
    UNSUPPORTED = 50500  # the store behind cannot do this at all: a retry changes nothing
    STORAGE_FULL = 50700  # ours: no room to keep a message; consuming goes on
    MESSAGE_CORRUPTED = 50701  # ours: a stored record fails its checksum
    COLD_CORRUPTED = 50702  # ours: an object of the tier is lost or corrupted; restoring it brings its messages back


NOT_THERE: Final = frozenset({Code.TOPIC_NOT_FOUND, Code.CONSUMER_GROUP_NOT_FOUND})
"""Refusals because a topic or a group does not exist (any more)."""
UNANSWERED: Final = frozenset({Code.REQUEST_TIMEOUT, Code.OUTCOME_UNKNOWN})
"""Refusals that leave open whether a request was carried out."""
AWAY: Final = UNANSWERED | {Code.UNAVAILABLE}
"""Refusals that may pass soon: a broker is away, or its answer was lost."""
PASSING: Final = AWAY | {Code.TOO_MANY_REQUESTS, Code.STORAGE_FULL}
"""Refusals that may pass: also of a broker that has no room, or too much to do."""


class EntrepotError(Exception):
    """A refusal: its code and a sentence for the reader."""

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code.name}, {self.message!r})"


class LaterError(EntrepotError):
    """A refusal that ends by itself, after `seconds`."""

    def __init__(self, code: Code, message: str, seconds: int) -> None:
        super().__init__(code, message)
        self.seconds = seconds


def raise_if(error: BaseException | None) -> None:
    """Raise an error that was returned, if there is one, and leave no name that refers to it."""
    if error is not None:
        try:
            raise error
        finally:
            del error


class FieldError(EntrepotError):
    """A refusal of a field's value in a definition.  A listener may spell the field its own way."""

    def __init__(self, field: str, sentence: str) -> None:
        """`sentence`: the requirement on the field, without its name."""
        super().__init__(Code.BAD_REQUEST, f"{field} {sentence}")
        self.field = field
        self.sentence = sentence


class StoreFailedError(EntrepotError):
    """A failure of the store: a write or sync failed, or its own files are corrupted.  It confirms nothing any more."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.UNAVAILABLE, message)

    def in_doubt(self) -> StoreFailedError:
        """Return the failure for operations under way: they may be on the disk, or on a replica's."""
        told = StoreFailedError(f"{self.message}: the outcome is unknown")
        told.code = Code.OUTCOME_UNKNOWN
        return told


class StorageFullError(EntrepotError):
    """The refusal of a message for lack of room.  Publishing may be retried; consuming is not affected."""

    def __init__(self, message: str = "the store has no room for more messages") -> None:
        super().__init__(Code.STORAGE_FULL, message)


class CorruptedError(EntrepotError):
    """Stored bytes that fail their check.  They are never served.  `commit_log_offset`: offset of their record."""

    def __init__(self, message: str, commit_log_offset: int | None = None) -> None:
        super().__init__(Code.MESSAGE_CORRUPTED, message)
        self.commit_log_offset = commit_log_offset
