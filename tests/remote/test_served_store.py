"""A broker's store over real sockets: what only shows there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.settings.store import BrokerSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValue, KeyValueChange
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.protocols.wire import store_rows as rows
from entrepot.store_client.remote import RemoteStore
from tests.support.brokers.served_broker import ServedBroker, connect
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.waiting import until


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedBroker]:
    opened = await ServedBroker.open(BrokerSettings(tmp_path / "data"), ManualClock(), 3)
    yield opened
    await opened.close()


@pytest.fixture
async def store(served: ServedBroker) -> AsyncIterator[RemoteStore]:
    connected = await connect(served, clock=ManualClock())
    yield connected
    await connected.close()


async def scanned(store: RemoteStore, limit: int) -> list[KeyValue]:
    return list(await store.key_values.scan("k", limit=limit))


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 3000])
async def test_a_scan_that_fits_no_answer_is_asked_for_in_parts(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch, size: int
):
    monkeypatch.setattr(rows, "SCAN_BYTES", 2000)
    await store.key_values.write([KeyValueChange(f"k{at}", bytes(size)) for at in range(9)])
    assert [each.key for each in await scanned(store, 100)] == [f"k{at}" for at in range(9)]
    assert [each.key for each in await scanned(store, 9)] == [f"k{at}" for at in range(9)]
    assert [each.key for each in await scanned(store, 4)] == [f"k{at}" for at in range(4)]


async def test_a_scan_of_more_than_a_frame(store: RemoteStore):
    for at in range(50):
        await store.key_values.write([KeyValueChange(f"k{at:02}", bytes(1 << 20))])
    assert [each.key for each in await scanned(store, 100)] == [f"k{at:02}" for at in range(50)]


async def test_a_deletion_of_what_a_broker_has_not_is_told_by_it(served: ServedBroker, store: RemoteStore):
    """Else who compares brokers would tell it for ever."""
    [client] = store.cluster.clients.values()
    with pytest.raises(EntrepotError) as refused:
        await client.ask(rows.DELETE_TOPIC.ask("t", 7))
    assert refused.value.code == Code.TOPIC_NOT_FOUND
    await until(lambda: client.view.deleted == {"topic/t": 7}, "it is told")


@cases(
    "fields",
    [
        {"queue_id": 9_999},
        {"queue_id": -5},
        {"qos": 255},
        {"qos": -1},
        {"qos": 1 << 63},
        {"born_time_ms": -1},
        {"born_time_ms": (1 << 64) - 1},
        {"filter_hash": (1 << 64) - 1},
        {"filter_hash": -1},
        {"message_id": bytes(70_000)},
        {"tag": "t" * 70_000},
        {"keys": ("k" * 70_000,)},
        {"keys": ("\0",)},
        {"sub_topic": "s" * 70_000},
        {"sub_topic": "elsewhere/x"},
        {"message_group": "g" * 70_000},
        {"properties": (("p" * 70_000, "x"),)},
        {"system": {"deliver_at_ms": b"\xff"}},
        {"system": {"deliver_at_ms": "9" * 5000}},
        {"system": {"priority": "x"}},
        {"system": {"": ""}},
        {"further_queues": (("t", 1 << 63),)},
        {"further_queues": (("", -1),)},
    ],
    ids=lambda fields: f"{fields!r:.40}",
)
async def test_a_message_that_no_door_would_make_harms_nobody(served: ServedBroker, store: RemoteStore, fields: dict):
    """Whatever another version or a hostile peer sends is kept or refused, and the others' go on."""
    await store.topology.put_topic(Topic("t", 1))
    await until(lambda: store.topology.topic("t"), "it is there")
    queue = {"queue_id": 30_000, **{k: v + 30_000 if k == "queue_id" else v for k, v in fields.items()}}
    confirmation = store.messages.append([Message("t", b"odd", **queue)])
    settled: list[EntrepotError | None] = []
    confirmation.when_settled(settled.append)
    await until(lambda: settled, "it is settled")
    assert settled[0] is None or settled[0].code in (Code.INTERNAL_ERROR, Code.BAD_REQUEST), settled
    confirmation = store.messages.append([Message("t", b"plain", queue_id=30_000)])
    confirmation.when_settled(settled.append)
    await until(lambda: len(settled) == 2, "the next is settled")
    assert settled[1] is None and confirmation.refusals is None
    assert (await store.messages.read("t", 30_000, 0, 100))[-1].body == b"plain"
