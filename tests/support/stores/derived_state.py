"""The strongest oracle of recovery: what rows and log gave is what the log alone gives.

Rows are of different ages, and records are applied again that some of them have; whatever is wrong with that shows as
a difference.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.disk import SimulatedDisk
from tests.support.stores.simulated_store import ROOT, SimulatedStore, World


def state_of(store: SimulatedStore) -> dict[str, Any]:
    """All that is derived from the log."""
    queues, registry = store.engine.dispatcher.queues.values(), store.registry
    key_values = store.opened.key_values
    return {
        "end": store.engine.end,
        "entries": {(q.topic, q.queue_id): q.entries(q.min_offset, q.visible_offset - q.min_offset) for q in queues},
        "offsets": {(q.topic, q.queue_id): (q.min_offset, q.visible_offset, q.max_offset, q.since) for q in queues},
        "queue ids": {
            q.topic: [found.queue_id for found in store.engine.dispatcher.queues_of(q.topic)] for q in queues
        },
        "topics": [
            (t, registry.topic_since(t.name), registry.origin_of(t.name)) for _, t in sorted(registry.topics.items())
        ],
        "constrained": sorted(registry.constrained),
        "traced": registry.traced,
        "groups": [
            (g, registry.group_since(g.name), registry.group_latest_since(g.name))
            for _, g in sorted(registry.groups.items())
        ],
        "namespaces": sorted(registry.namespaces.items()),
        "key-values": key_values.scan("", "", 1 << 30),
        "keys": len(key_values),
        "progress": sorted(
            (group, topic, queue_id, window.row(0))
            for (group, topic), windows in store.opened.progress.windows.items()
            for queue_id, window in windows.items()
        ),
        "timers": list(store.engine.pending.timers.after((0, 0))),
        "halves": {
            key: (half.commit_log_offset, half.due_ms, half.checks)
            for key, half in store.engine.pending.halves.waiting.items()
        },
        "names": {topic: sorted(found.names.values()) for topic, found in store.engine.lookup.dictionaries.items()},
        "messages": store.stored(),
    }


def is_derived(path: str) -> bool:
    """Whether the file could be made again from the log."""
    return path.startswith(tuple(f"{ROOT}/{name}" for name in ("consumequeue/", "filterindex/", "index/", "state.db")))


def without_derived(disk: SimulatedDisk) -> SimulatedDisk:
    """A copy that has the log alone."""
    bare = disk.copy()
    for path in [path for path in bare.files() if is_derived(path)]:
        bare.delete(path)
    return bare


def check_derived(store: SimulatedStore) -> dict[str, Any]:
    """Hold a store that was just opened to what its log alone says; returns that."""
    expected = state_of(SimulatedStore(without_derived(store.disk), World()))
    found = state_of(store)
    names, known = expected.pop("names"), found.pop("names")
    for topic, wanted in names.items():  # names of messages that are gone may be known still
        assert set(wanted) <= set(known.get(topic, ())), ("names", topic)
    for name, value in expected.items():
        assert found[name] == value, name
    for key, windows in store.opened.progress.windows.items():
        if any(window.unsettled for window in windows.values()):
            assert key in store.opened.progress.unsettled, ("looked at for dead letters", key)
    return expected
