"""HalfMessages: messages that wait for the end of their transaction (RocketMQ: half messages).

They lie in the commit log, as half records. For each, the offset and the time of the next check with its producer are
kept here. Each is a row of the state file: msgpack of (topic, transaction id, due, checks).

ADR 13: messages that are not in a queue yet. Invariant: one is here until a record of the log ends its transaction,
or drops its topic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.transaction import check_after_ms

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(tuple[str, str, int, int]).decode
TransactionKey = tuple[str, str]
"""Key of a transaction: (topic, transaction id)."""


@dataclass(slots=True)
class Half:
    """A waiting half message. `due_ms`: the time to ask its producer (again)."""

    key: TransactionKey
    commit_log_offset: int
    due_ms: int
    checks: int = 0
    is_changed: bool = False

    def row(self, as_of: int) -> bytes:
        """Return the row as msgpack."""
        return _encode((*self.key, self.due_ms, self.checks))


class HalfMessages:
    """Half messages by topic and transaction id, in the order they came."""

    def __init__(self, rows: ChangedRows, check_after_ms: int) -> None:
        self.waiting: dict[TransactionKey, Half] = {}
        self._rows = rows
        self._check_after_ms = check_after_ms
        self._by_offset: dict[int, Half] = {}

    # -- changes, from the log -----------------------------------------------------------------------------------

    def add(self, message: Message, commit_log_offset: int, store_time_ms: int) -> None:
        """Add the message of a half record."""
        if commit_log_offset not in self._by_offset:
            transaction_id = message.system_text(SystemProperty.TRANSACTION_ID) or ""
            due_ms = store_time_ms + check_after_ms(message, self._check_after_ms)
            half = Half((message.topic, transaction_id), commit_log_offset, due_ms)
            self._put(half)
            self._rows.mark(_row_key(commit_log_offset), half, commit_log_offset)

    def settle(self, half_offset: int, commit_log_offset: int) -> None:
        """End a transaction, as the record at `commit_log_offset` states; do nothing if it is not waiting."""
        half = self._by_offset.pop(half_offset, None)
        if half is not None:
            if self.waiting.get(half.key) is half:
                del self.waiting[half.key]
            self._rows.drop(_row_key(half_offset), commit_log_offset)

    def check(self, half_offset: int, next_due_ms: int, checks: int, commit_log_offset: int) -> None:
        """Note that its producer is being asked, and the time to ask again."""
        half = self._by_offset.get(half_offset)
        if half is not None and checks >= half.checks:
            half.due_ms, half.checks = next_due_ms, checks
            self._rows.mark(_row_key(half_offset), half, commit_log_offset)

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Forget the topic's waiting half messages, as the record at an offset dropped the topic."""
        for half in [h for h in self.waiting.values() if h.key[0] == topic]:
            if half.commit_log_offset < commit_log_offset:
                self.settle(half.commit_log_offset, commit_log_offset)

    def _put(self, half: Half) -> None:
        """Add a half message. The latest of a name waits: rows may know it while the log still has an ended one."""
        known = self.waiting.get(half.key)
        if known is None or known.commit_log_offset < half.commit_log_offset:
            self.waiting[half.key] = half
        self._by_offset[half.commit_log_offset] = half

    # -- queries -------------------------------------------------------------------------------------------------

    def due(self, now_ms: int) -> Iterable[Half]:
        """Return the half messages whose producers are to be asked now."""
        return [half for half in self.waiting.values() if half.due_ms <= now_ms]

    def at(self, commit_log_offset: int) -> Half | None:
        """Return the waiting half message recorded at an offset, or None."""
        return self._by_offset.get(commit_log_offset)

    def offsets_before(self, commit_log_offset: int) -> list[int]:
        """Return half records before an offset that are still needed."""
        return [offset for offset in self._by_offset if offset < commit_log_offset]

    # -- rows ----------------------------------------------------------------------------------------------------

    def restore(self, key: bytes, row: bytes) -> None:
        """Restore a half message from its row."""
        topic, transaction_id, due_ms, checks = _decode(row)
        self._put(Half((topic, transaction_id), int.from_bytes(key[1:], "big"), due_ms, checks))


def _row_key(commit_log_offset: int) -> bytes:
    return b"x" + commit_log_offset.to_bytes(8, "big")
