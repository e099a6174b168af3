"""Session: the state of one client connected to this gateway, with its durable part.

Invariants: a packet whose loss or repetition the client would notice leaves only when its record is durable
(`after_durable`). Cursors in the records never pass a message of QoS 1 or 2 that is neither finished nor in the window.
The records are written by nobody else while the epoch is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from entrepot.domain.errors import EntrepotError
from entrepot.domain.key_value import ABSENT, KeyValue, KeyValueChange
from entrepot.gateway.mqtt.sessions.cursors import CursorsTooLargeError
from entrepot.gateway.mqtt.sessions.journal import SessionJournal
from entrepot.gateway.mqtt.sessions.positions import MadeAt, Positions
from entrepot.gateway.mqtt.sessions.record import (
    RELEASED,
    SESSION_PREFIX,
    WINDOW_PREFIX,
    Cursors,
    OutgoingRecord,
    SessionRecord,
    WindowRecord,
    decode_session,
    decode_window,
    due_key,
    encode_record,
    held_key,
)
from entrepot.protocols.mqtt.delivery_window import DeliveryWindow

AllCursors = tuple[Cursors, dict[str, Cursors]]
"""Next positions of the session: by its subscriptions, and by each replay."""


class Session:
    """A connected session; `is_present` if it continues an earlier connection."""

    def __init__(
        self,
        name: str,
        record: SessionRecord,
        window: WindowRecord,
        versions: tuple[int, int],
        journal: SessionJournal,
        made_at: MadeAt,
        *,
        is_present: bool,
        is_kept: bool,
    ) -> None:
        self.name = name
        self.record = record
        self.is_present = is_present
        self.is_kept = is_kept
        """True if it has a record: a session that ends with its connection may have none."""
        self.restored = window
        self.message_ids: dict[int, bytes] = dict(window.incoming)
        """Ids of incoming QoS 2 messages that wait for PUBREL, by packet identifier."""
        self.doubtful: set[int] = set(window.incoming)
        """Those of an earlier connection, which may or may not be stored."""
        self.window: DeliveryWindow | None = None
        self.positions: Callable[[], AllCursors] = partial(_positions_in, record)
        """Unchanged until there is a reader for the session."""
        self.on_fenced: Callable[[], None] = _nothing
        self.on_refused: Callable[[EntrepotError], None] = _unheard
        """Called with the reason why the session cannot be written as it is: its connection has to end."""
        self._journal = journal
        self._record_version, self._window_version = versions
        self._held_key = held_key(record.owner, name)
        self._positions = Positions(record, window, made_at)
        self.number_of = self._positions.number_of
        self.forget_replay = self._positions.forget_replay
        self.restored_cursors = self._positions.restored
        self._at_end: Callable[[], None] | None = None
        self._moved_out: KeyValueChange | None = None
        self._held: list[Callable[[], None]] = []
        self._writing: list[Callable[[], None]] = []
        self._taken: list[KeyValueChange] = []
        self._is_record_dirty = self._is_window_dirty = self._is_fenced = self._is_ended = self._is_refused = False

    @property
    def persists(self) -> bool:
        """True if it outlives its connection."""
        return self.record.expiry_seconds > 0

    # -- changes -------------------------------------------------------------------------------------------------

    def after_durable(self, callback: Callable[[], None], *, record: bool = False, window: bool = False) -> None:
        """Call back, in order, when the session of this tick's end is durable: at once without a record, never once
        it is fenced. `record`, `window`: the parts that have changed."""
        if not self.is_kept or not self.persists:
            callback()
            return
        if self._is_fenced:
            return
        self._is_record_dirty |= record
        self._is_window_dirty |= window
        self._held.append(callback)
        self._journal.submit(self)

    def note_finished(self) -> None:
        """Note acknowledged deliveries: the record may be written a little later."""
        if self.is_kept and self.persists:
            self._is_window_dirty = True
            self._journal.submit_lazily(self)

    def moved(self, replay: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Note the next offset of a queue; the messages before it are in the window."""
        self._is_record_dirty |= self._positions.move(replay, topic, queue_id, next_offset)

    @property
    def is_fenced(self) -> bool:
        """True if another connection has it: nothing of it was, or will be, written here."""
        return self._is_fenced

    def end(self, callback: Callable[[], None], *, deletes: bool, moved: KeyValueChange | None = None) -> None:
        """End the connection, as `record` says; call back when that is durable, or was fenced. `deletes`: the session
        is over, too. `moved`: a change for the same write."""
        if not self.is_kept or self._is_fenced:
            callback()
            return
        self._is_ended = deletes
        self._at_end, self._moved_out = callback, moved
        self._is_record_dirty = True
        self._held.append(callback)
        self._journal.submit(self)

    def let_go(self) -> None:
        """Drop callbacks after the end of the connection."""
        self._at_end = None
        self.on_fenced, self.on_refused = _nothing, _unheard
        self.positions = partial(_positions_in, self.record)

    # -- for the journal -----------------------------------------------------------------------------------------

    def take_changes(self) -> list[KeyValueChange]:
        if self._is_fenced:
            return []
        self._writing += self._held
        self._held = []
        session_key, window_key = SESSION_PREFIX + self.name, WINDOW_PREFIX + self.name
        changes: list[KeyValueChange] = []
        if self._is_ended:
            if self._record_version != ABSENT:
                changes.append(KeyValueChange(session_key, None, self._record_version))
            if self._window_version != ABSENT:
                changes.append(KeyValueChange(window_key, None, self._window_version))
            changes += self._positions.deletions(self.name)
        else:
            if self._is_record_dirty:
                changes += self._record_changes()
                if self.record.due_at_ms:
                    changes.append(KeyValueChange(due_key(self.record.due_at_ms, self.name), b""))
            if self.persists and (self._is_window_dirty or self._is_record_dirty):
                changes.append(KeyValueChange(window_key, encode_record(self._window_record()), self._window_version))
        if self._moved_out is not None:
            changes.append(self._moved_out)
        if changes and not self.record.owner:
            changes.append(KeyValueChange(self._held_key, None))
        self._is_record_dirty = self._is_window_dirty = False
        self._taken = changes
        if not changes:
            self._tell()
        return changes

    def _record_changes(self) -> list[KeyValueChange]:
        """The record with its positions; with those of the last write, if they are too large now."""
        if not self._is_refused:
            try:
                return self._positions.changes(self.name, self._record_version, self.positions())
            except CursorsTooLargeError as problem:
                self._is_refused = True
                self.on_refused(problem)
        return self._positions.unchanged(self.name, self._record_version)

    def _window_record(self) -> WindowRecord:
        window = self.window
        if window is None:
            return self.restored
        outgoing = [held for held in window.held.values() if isinstance(held, OutgoingRecord)]
        incoming = self.message_ids
        kept = self._positions
        return WindowRecord(
            self.record.epoch, window.next_id, outgoing, incoming, kept.moved, kept.moved_replays, kept.made
        )

    def written(self, version: int) -> None:
        for change in self._taken:
            self._note_version(change.key, ABSENT if change.value is None else version)
            if change is self._moved_out:
                self._moved_out = None
        self._positions.written()
        self._taken = []
        self._tell()
        if self._held or self._is_record_dirty or self._is_window_dirty:
            self._journal.submit(self)

    def _note_version(self, key: str, version: int) -> None:
        if key.startswith(SESSION_PREFIX):
            self._record_version = version
        elif key.startswith(WINDOW_PREFIX):
            self._window_version = version

    def _tell(self) -> None:
        told, self._writing = self._writing, []
        for callback in told:
            callback()

    def is_own(self, found: Sequence[KeyValue | None]) -> bool:
        epoch = self.record.epoch
        for each in found:
            if each is None or each.key.startswith(SESSION_PREFIX) is each.key.startswith(WINDOW_PREFIX):
                continue
            if each.key.startswith(SESSION_PREFIX):
                record: SessionRecord | WindowRecord = decode_session(each.value)
            else:
                record = decode_window(each.value)
            if record.epoch != epoch:
                return False
        known = {change.key for change in self._taken if change.value is not None and change.expected_version}
        there = {each.key for each in found if each is not None}
        if not self._is_ended and known - there:
            return False  # an operator ended the session
        for change, each in zip(self._taken, found, strict=True):
            self._note_version(change.key, ABSENT if each is None else each.version)
        self._positions.doubt()
        self._is_record_dirty = self._is_window_dirty = True
        return True

    def fenced(self) -> None:
        self._is_fenced = True
        self._writing, self._held = [], []  # nothing that waited for its record happens
        self.on_fenced()
        if self._at_end is not None:  # but a caller waiting for the end gets it
            self._at_end()

    def refused(self, reason: EntrepotError) -> None:
        on_refused = self.on_refused
        self.on_fenced = _nothing
        self.fenced()
        on_refused(reason)


def _positions_in(record: SessionRecord) -> AllCursors:
    return record.cursors, record.replays


def _nothing() -> None: ...


def _unheard(reason: EntrepotError) -> None: ...


def released(held: OutgoingRecord) -> OutgoingRecord:
    """The message after PUBREC came for it."""
    return OutgoingRecord(
        held.packet_id,
        held.topic,
        held.queue_id,
        held.queue_offset,
        held.qos,
        RELEASED,
        held.retain,
        held.identifiers,
    )
