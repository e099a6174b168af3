"""Lookup: finds messages without reading the log: by key and id (`message_index.py`), and by sub-topic.

A sub-topic is found by the names of each topic (`sub_topics.py`) and the postings of each queue's full files
(`filter_index.py`). All of it is derived: noted when a record is appended, and again when it is dispatched in recovery.
Names are kept as rows; the message index keeps its own files and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from entrepot.broker.rows.changed_rows import Change, ChangedRows
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.filter_index import FilterIndex
from entrepot.broker.store.hash_scan import HashSet
from entrepot.broker.store.index_file import IndexLayout
from entrepot.broker.store.message_index import MessageIndex
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.queue_entries import ENTRIES_PER_FILE
from entrepot.broker.store.sub_topics import SubTopicDictionary
from entrepot.domain.errors import CorruptedError
from entrepot.domain.expression.filter import ALTERNATIVES
from entrepot.domain.filter_hash import TAG_BITS

ID, KEY = b"i", b"k"
_INCOMPLETE: Final = b"!"
SCAN_BUDGET: Final = 4_000_000
"""Entries that one question may scan before others get their turn."""


class _Name:
    """A sub-topic's name, as a row."""

    __slots__ = ("is_changed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_changed = False

    def row(self, as_of: int) -> bytes:
        return self.name.encode()


class Lookup:
    """The message index and the sub-topic indexes of one store."""

    def __init__(self, files: OpenFiles, rows: ChangedRows, layout: IndexLayout) -> None:
        self.index = MessageIndex(files, layout)
        self.dictionaries: dict[str, SubTopicDictionary] = {}
        self._files = files
        self._rows = rows
        self._to_build: dict[ConsumeQueue, None] = {}
        self._are_index_rows_unsaved = False

    # -- additions by records ------------------------------------------------------------------------------------

    def note(
        self, topic: str, message_id: bytes, keys: Iterable[bytes], commit_log_offset: int, store_time_ms: int
    ) -> None:
        """Index a message by its id and keys."""
        put = self.index.put
        if message_id:
            put(ID + message_id, commit_log_offset, store_time_ms)
        for key in keys:
            put(message_key(topic, key), commit_log_offset, store_time_ms)

    def dictionary(self, topic: str) -> SubTopicDictionary:
        """Return the topic's sub-topic names."""
        found = self.dictionaries.get(topic)
        if found is None:
            found = self.dictionaries[topic] = SubTopicDictionary()
        return found

    def see(self, queue: ConsumeQueue, filter_hash: int, sub_topic: str, commit_log_offset: int) -> None:
        """Index a queue's messages by their sub-topic: a new name is remembered."""
        if sub_topic and queue.names.get(filter_hash >> TAG_BITS) != sub_topic:
            self._learn(queue.topic, filter_hash, sub_topic, commit_log_offset)

    def _learn(self, topic: str, filter_hash: int, sub_topic: str, commit_log_offset: int) -> None:
        dictionary = self.dictionary(topic)
        hash48 = filter_hash >> TAG_BITS
        was_complete = dictionary.is_complete
        if dictionary.learn(hash48, sub_topic):
            dictionary.take_new()
            twins = len(dictionary.twins.get(hash48, ()))
            key = _names_prefix(topic) + hash48.to_bytes(6, "big") + bytes((min(twins, 255),))
            self._rows.mark(key, _Name(sub_topic), commit_log_offset)
        elif was_complete and not dictionary.is_complete:
            self._rows.mark(_names_prefix(topic) + _INCOMPLETE, _Name(""), commit_log_offset)

    def drop_topic(self, topic: str, commit_log_offset: int) -> None:
        """Forget a topic's names."""
        dictionary = self.dictionaries.pop(topic, None)
        if dictionary is None:
            return
        prefix = _names_prefix(topic)
        for hash48 in dictionary.names:
            for twin in range(1 + len(dictionary.twins.get(hash48, ()))):
                self._rows.drop(prefix + hash48.to_bytes(6, "big") + bytes((min(twin, 255),)), commit_log_offset)
        if not dictionary.is_complete:
            self._rows.drop(prefix + _INCOMPLETE, commit_log_offset)

    # -- questions -----------------------------------------------------------------------------------------------

    def records_with_id(self, message_id: bytes) -> Iterator[int]:
        """Yield commit-log offsets of records that may have an id, newest first; to be confirmed."""
        return self.index.find(ID + message_id)

    def is_id_unconfirmed(self, message_id: bytes) -> bool:
        """Return True if a record that is not confirmed yet may have an id."""
        return self.index.is_unconfirmed(ID + message_id)

    def records_with_key(
        self, topic: str, key: str, from_ms: int | None, to_ms: int | None, before_offset: int | None
    ) -> Iterator[int]:
        """Yield commit-log offsets of records that may have a key, newest first; to be confirmed."""
        return self.index.find(message_key(topic, key.encode()), from_ms or 0, to_ms, before_offset)

    def matching_offsets(
        self, queue: ConsumeQueue, topic_filter: str, from_offset: int, limit: int
    ) -> tuple[list[int], int]:
        """Return queue offsets that may match an MQTT topic filter (or several, by `ALTERNATIVES`), and the scan's end.
        They ascend, and are to be confirmed on the records."""
        dictionary = self.dictionary(queue.topic)
        first, *others = topic_filter.split(ALTERNATIVES)
        wanted = dictionary.hashes_matching(first)
        for other in others:
            wanted = wanted.extended(dictionary.hashes_matching(other).hashes)
        is_wildcard = "+" in topic_filter or "#" in topic_filter
        # a message without a sub-topic has the topic's own name as its sub-topic
        wanted = wanted.extended([0])
        known: HashSet | None = dictionary.known_hashes() if is_wildcard else None
        index = self._filter_index(queue)
        return index.matching_offsets(wanted, from_offset, limit, known=known, budget=SCAN_BUDGET)

    def _filter_index(self, queue: ConsumeQueue) -> FilterIndex:
        if queue.filter_index is None:
            queue.filter_index = FilterIndex(self._files, queue, ENTRIES_PER_FILE)
        assert isinstance(queue.filter_index, FilterIndex)
        return queue.filter_index

    # -- background work -----------------------------------------------------------------------------------------

    def want_built(self, queue: ConsumeQueue) -> None:
        """Note a saved queue that may have a full file without postings."""
        if queue.flushed_entries >= ENTRIES_PER_FILE:
            self._to_build[queue] = None

    def build_next(self) -> bool:
        """Build one missing postings file (some 10 ms); True if there was one."""
        while self._to_build:
            queue = next(iter(self._to_build))
            if queue.max_offset and self._filter_index(queue).build_next():
                return True
            del self._to_build[queue]
        return False

    # -- the state file ------------------------------------------------------------------------------------------

    def take_rows(self, durable_offset: int) -> tuple[list[Change], list[str], int | None]:
        """Return a checkpoint's changes, its files to sync, and the first record not in the files. Raises OSError."""
        index = self.index
        index.flush(durable_offset)
        changed = index.changed_rows()
        if self._are_index_rows_unsaved:
            changed |= index.rows()
            self._are_index_rows_unsaved = False
        paths = sorted(index.dirty_files)
        index.dirty_files.clear()
        return [(b"i" + name.encode(), row) for name, row in changed.items()], paths, index.first_pending

    def put_back_rows(self) -> None:
        """Mark the rows taken last as unsaved."""
        self._are_index_rows_unsaved = True

    def restore_name(self, key: bytes, row: bytes) -> None:
        """Restore a sub-topic name from its row."""
        topic, _, rest = key[1:].partition(b"\0")
        if rest == _INCOMPLETE:
            self.dictionary(topic.decode()).restore((), is_complete=False)
        else:
            self.dictionary(topic.decode()).restore((row.decode(),))

    def restore_index(self, rows: dict[str, bytes], log_min_offset: int) -> bool:
        """Restore the index from its rows; True if it is whole. If not, all of the log is to be noted again."""
        try:
            self.index.restore(rows)
            self.index.drop_before(log_min_offset)
            is_whole = bool(rows) and self.index.is_intact()
        except CorruptedError:
            is_whole = False
        if not is_whole:
            self.index.reset()
        return is_whole


def message_key(topic: str, key: bytes) -> bytes:
    """Return the index key of a topic's message key."""
    return KEY + topic.encode() + b"\0" + key


def _names_prefix(topic: str) -> bytes:
    return b"s" + topic.encode() + b"\0"
