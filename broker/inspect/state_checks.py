"""Checks of windows, timers and half messages against their queues and records.

All derived state is compared with the state derived from the log alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from entrepot.broker.inspect.findings import Findings
from entrepot.broker.opening.opened_store import OpenedStore
from entrepot.broker.store.record import RecordKind
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.names import is_retry_topic, retried_topic, retry_group


def check_windows(store: OpenedStore, findings: Findings) -> list[dict[str, Any]]:
    """Check that each window is on an existing queue, of an existing group; return them in numbers."""
    told = []
    for (group, topic), windows in sorted(store.progress.windows.items()):
        if group not in store.registry.groups:
            findings.derived("window", f"the group {group} has windows on {topic}, and is not there")
        for queue_id, window in sorted(windows.items()):
            name = f"the window of {group} on {topic}/{queue_id}"
            queue = store.engine.dispatcher.queues.get((topic, queue_id))
            if queue is None:
                findings.derived("window", f"{name} is of a queue that is not there")
            elif not window.base <= window.frontier <= queue.max_offset:
                findings.derived(
                    "window",
                    f"{name} reaches from {window.base} to {window.frontier}; the queue ends at {queue.max_offset}",
                )
            told.append(
                {
                    "group": group,
                    "topic": topic,
                    "queue": queue_id,
                    "base": window.base,
                    "frontier": window.frontier,
                    "unsettled": window.unsettled,
                    "maxOffset": None if queue is None else queue.max_offset,
                }
            )
    return told


def check_retries(store: OpenedStore, findings: Findings) -> None:
    """Check that retry topics are of an existing group and topic."""
    for name in sorted(store.registry.topics):
        if is_retry_topic(name):
            if retry_group(name) not in store.registry.groups:
                findings.derived("retry-topic", f"the topic {name} is of a group that is not there")
            if retried_topic(name) not in store.registry.topics:
                findings.derived("retry-topic", f"the topic {name} is of a topic that is not there")


def check_timers(store: OpenedStore, findings: Findings) -> int:
    """Check that each timer leads to a timed record that waits for that time."""
    count = 0
    for deliver_at_ms, offset in store.engine.pending.timers.after((0, -1)):
        count += 1
        message = _kept(store, offset, RecordKind.TIMED, f"the timer of {deliver_at_ms}", findings)
        if message is not None and message.time_ms(SystemProperty.DELIVER_AT_MS) != deliver_at_ms:
            findings.derived("timer", f"the timed record at {offset} waits for another time than {deliver_at_ms}")
    if count != store.engine.pending.timers.count:
        findings.derived("timer", f"{store.engine.pending.timers.count} timers are counted, {count} are there")
    return count


def check_halves(store: OpenedStore, findings: Findings) -> int:
    """Check that each half message leads to a half record of that transaction."""
    waiting = store.engine.pending.halves.waiting
    for key, half in waiting.items():
        message = _kept(store, half.commit_log_offset, RecordKind.HALF, f"the half message {key[1]!r}", findings)
        if message is not None and (message.topic, message.system_text(SystemProperty.TRANSACTION_ID)) != key:
            findings.derived("half-message", f"the half record at {half.commit_log_offset} is of another transaction")
    return len(waiting)


def _kept(store: OpenedStore, offset: int, kind: RecordKind, name: str, findings: Findings) -> StoredMessage | None:
    word = "timer" if kind == RecordKind.TIMED else "half-message"
    try:
        message = store.engine.commit_log.message_at(offset, frozenset((kind,)))
    except CorruptedError as error:
        findings.damage(word, f"{name} waits for a record that is corrupted: {error.message}")
        return None
    if message is None:
        findings.derived(word, f"{name} leads to {offset}, where no such record is")
    return message


def compare(found: OpenedStore, derived: OpenedStore, findings: Findings) -> None:
    """Compare the state from the state file and the rest of the log with the state from the log alone."""
    for name, there, wanted in _pairs(found, derived):
        for key in sorted(there.keys() | wanted.keys(), key=str):
            if there.get(key) != wanted.get(key):
                told = "not there" if key not in there else "not in the log" if key not in wanted else "another"
                findings.derived(
                    "state", f"the state's {name} {_text(key)} is {told}, says the log read from its start"
                )


def _pairs(found: OpenedStore, derived: OpenedStore) -> Iterator[tuple[str, dict[Any, Any], dict[Any, Any]]]:
    for name, facts in (
        ("namespace", lambda s: dict.fromkeys(s.registry.namespaces)),
        ("topic", lambda s: {n: (t, s.registry.topic_since(n)) for n, t in s.registry.topics.items()}),
        (
            "group",
            lambda s: {n: (msgspec.to_builtins(g), s.registry.group_since(n)) for n, g in s.registry.groups.items()},
        ),
        ("queue", _queues),
        ("window", _windows),
        ("key-value", _key_values),
        ("timer", lambda s: dict.fromkeys(s.engine.pending.timers.after((0, -1)))),
        (
            "half message",
            lambda s: {k: (h.commit_log_offset, h.checks) for k, h in s.engine.pending.halves.waiting.items()},
        ),
        ("names of the topic", lambda s: {t: d.names for t, d in s.engine.lookup.dictionaries.items() if len(d)}),
    ):
        yield name, facts(found), facts(derived)


def _queues(store: OpenedStore) -> dict[Any, Any]:
    dispatcher = store.engine.dispatcher
    return {key: (q.min_offset, q.max_offset) for key, q in {**dispatcher.queues, **dispatcher.retired}.items()}


def _windows(store: OpenedStore) -> dict[Any, Any]:
    return {
        (*key, queue_id): window.row(0)
        for key, windows in store.progress.windows.items()
        for queue_id, window in windows.items()
    }


def _key_values(store: OpenedStore) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    after = ""
    while page := store.key_values.scan("", after, 1000):
        found |= {item.key: (item.value, item.version) for item in page}
        after = page[-1].key
    return found


def _text(key: object) -> str:
    return "/".join(map(str, key)) if isinstance(key, tuple) else str(key)
