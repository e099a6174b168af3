"""Checks of files: message index and postings against their rows, and files that belong to nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

from entrepot.broker.inspect.findings import Findings
from entrepot.broker.inspect.log_files import LogFiles
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.index_file import IndexFile
from entrepot.broker.store.message_index import HEAD_ROW, MessageIndex
from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.postings import are_postings_of, longest_postings
from entrepot.broker.store.queue_entries import ENTRIES_PER_FILE, FILE_SIZE, topic_directory
from entrepot.broker.store.state_file import Rows
from entrepot.broker.store.store_files import NAMES
from entrepot.domain.errors import CorruptedError

_ROOT_NAMES: Final = frozenset((*NAMES, *(f"{name}.draft" for name in NAMES)))
_STATE: Final = "state.db"


def check_index(files: OpenFiles, rows: Rows, position: int, findings: Findings) -> dict[str, Any]:
    """Check every byte of the message index's files against their rows. (Recovery rebuilds all if one is missing or
    cut. Corruption within is noticed in a search.)"""
    index_rows = {key[1:].decode(): row for key, row in rows.items() if key[:1] == b"i"}
    names = sorted(name for name in index_rows if name != HEAD_ROW)
    entries, last_offset = 0, -1
    for name in names:
        try:
            file = IndexFile.from_row(files, name, index_rows[name])
            if name == names[-1]:
                file.resume()
            is_intact = file.is_intact(every_byte=True)
        except CorruptedError as error:
            findings.derived("index-file", error.message)
            continue
        entries += file.count
        if not is_intact:
            findings.derived("index-file", f"the index file {name} is missing, cut or corrupted")
        if file.first_offset < last_offset:
            findings.derived("index-file", f"the index file {name} begins before the end of the one before it")
        last_offset = file.last_offset
    until = _indexed_until(files, index_rows, findings)
    if last_offset >= position:
        findings.derived(
            "index-file", f"the message index leads to {last_offset}, after the state's position {position}"
        )
    return {"files": len(names), "entries": entries, "indexedUntil": until}


def _indexed_until(files: OpenFiles, rows: dict[str, bytes], findings: Findings) -> int:
    index = MessageIndex(files)
    try:
        index.restore({HEAD_ROW: rows[HEAD_ROW]} if HEAD_ROW in rows else {})
    except CorruptedError as error:
        findings.derived("index-file", error.message)
    return index.indexed_until


def check_postings(store: OpenedStore, root: str, findings: Findings) -> int:
    """Check postings files against their queues' files; a missing one is built in time."""
    checked = 0
    dispatcher = store.engine.dispatcher
    for (topic, queue_id), queue in sorted({**dispatcher.queues, **dispatcher.retired}.items()):
        for number in range(queue.min_offset // ENTRIES_PER_FILE, queue.flushed_entries // ENTRIES_PER_FILE):
            path = f"{root}/filterindex/{topic_directory(topic)}/{queue_id}/{number * FILE_SIZE:020d}"
            if not os.path.exists(path):
                continue
            checked += 1
            with open(path, "rb") as file:
                data = file.read(longest_postings(ENTRIES_PER_FILE) + 1)
            entries = queue.raw(number * ENTRIES_PER_FILE, ENTRIES_PER_FILE)
            if len(entries) != ENTRIES_PER_FILE * ENTRY_SIZE or not are_postings_of(data, entries):
                findings.derived("filter-index", f"the postings file {number} of {topic}/{queue_id} is corrupted")
    return checked


def check_strays(
    root: str, log: LogFiles, rows: Rows, store: OpenedStore | None, findings: Findings, *, was_unclean: bool
) -> None:
    """Find files that belong to nothing."""
    for name in sorted(os.listdir(root)):
        if name not in _ROOT_NAMES and name.partition("-")[0] != _STATE:
            findings.stray("foreign-file", f"{name} is not the store's")
    for name in log.foreign:
        findings.stray("foreign-file", f"commitlog/{name} is not a segment, and passed over")
    rest = findings.note if was_unclean else findings.stray
    for path in _files_below(root, "index"):
        name = path.rpartition("/")[2]
        if f"i{name}".encode() not in rows or path.count("/") != 1:
            if len(name) == 20 and name.isdecimal():
                rest("orphaned-file", f"{path} is in no row of the state file: it is removed at the next start")
            else:
                findings.stray("foreign-file", f"{path} is not the store's: it is removed at the next start")
    if store is not None:
        for tree in ("consumequeue", "filterindex"):
            _check_tree(root, tree, store, findings, was_unclean=was_unclean)


def _check_tree(root: str, tree: str, store: OpenedStore, findings: Findings, *, was_unclean: bool) -> None:
    dispatcher = store.engine.dispatcher
    rest = findings.note if was_unclean else findings.stray
    for path in _files_below(root, tree):
        directory, _, name = path.rpartition("/")
        owner, _, number = directory.removeprefix(f"{tree}/").rpartition("/")
        topic = owner.replace("@", "/")
        is_ours = len(name) == 20 and name.isdecimal() and number.isdecimal() and int(name) % FILE_SIZE == 0
        key = (topic, int(number)) if is_ours else ("", 0)
        queue = dispatcher.queues.get(key) or dispatcher.retired.get(key)
        if not is_ours:
            findings.stray("foreign-file", f"{path} is not the store's")
        elif queue is None:
            findings.stray("orphaned-file", f"{path} is of a queue that is not there")
        elif not _is_used(queue, int(name) // FILE_SIZE):
            rest("orphaned-file", f"{path} has no entries of its queue")


def _is_used(queue: ConsumeQueue, number: int) -> bool:
    return queue.min_offset // ENTRIES_PER_FILE <= number and number * ENTRIES_PER_FILE < queue.max_offset


def _files_below(root: str, tree: str) -> Iterator[str]:
    """Yield the paths of the files below a directory of the root, from the root on."""
    for directory, _, names in sorted(os.walk(f"{root}/{tree}")):
        for name in sorted(names):
            yield os.path.relpath(os.path.join(directory, name), root)
