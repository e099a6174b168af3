"""The table of a topic: kept with its row, through changes of the definition, and of this incarnation alone."""

from __future__ import annotations

from entrepot.broker.metadata import registry as changes
from entrepot.broker.metadata.origin import Starts, TopicOrigin
from entrepot.broker.metadata.registry import Registry
from entrepot.broker.rows.changed_rows import ChangedRows
from entrepot.domain.topic import Topic

TOPIC = Topic("t", queues=2, tier_seconds=60)
ORIGIN = TopicOrigin("t/lost-1", "s3://theirs/x", 7, "https://store", "eu", allow_http=True)
KEY = b"tt"


def registry() -> tuple[Registry, list[tuple[str, Starts, int]]]:
    made = Registry(ChangedRows())
    begun: list[tuple[str, Starts, int]] = []
    made.on_begun = lambda name, starts, offset: begun.append((name, starts, offset))
    return made, begun


def test_it_is_kept_until_the_topic_goes():
    found, begun = registry()
    found.apply(changes.begin_topic(TOPIC, ORIGIN, [(0, 5), (1, 0)]), 100, 0)
    assert found.topics == {"t": TOPIC} and begun == [("t", [(0, 5), (1, 0)], 100)]
    found.apply(changes.put_topic(Topic("t", queues=3)), 200, 0)
    assert found.origin_of("t") == ORIGIN, "whoever changes the definition does not know of it"
    [(_, row)] = found.stale_rows(1000, 300)
    again, _ = registry()
    again.restate(KEY, row, 400)
    assert again.origin_of("t") == ORIGIN and again.topics["t"].queues == 3
    found.apply(changes.drop_topic("t"), 500, 0)
    assert found.origin_of("t") is None
    found.apply(changes.put_topic(TOPIC), 600, 0)
    assert found.origin_of("t") is None


def test_a_later_topic_of_its_name_has_none():
    """Rows may know it already when the record is read once more."""
    later, _ = registry()
    later.apply(changes.put_topic(TOPIC), 500, 0)
    [(_, row)] = later.stale_rows(1000, 600)
    found, begun = registry()
    found.restore_topic(KEY, row)
    found.apply(changes.begin_topic(TOPIC, ORIGIN, [(0, 5)]), 100, 0)
    assert (found.origin_of("t"), begun, found.topic_since("t")) == (None, [], 500)


def test_a_row_of_before_is_read():
    found, _ = registry()
    found.restore_topic(KEY, b'[{"name": "t", "queues": 1}, 7, 0, 9]')
    assert (found.origin_of("t"), found.topic_since("t")) == (None, 7)
