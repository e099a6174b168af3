"""Half messages as their operation tells them: without HTTP."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.names import qualified
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.nouns.transactions import Transactions, TransactionsAsked
from entrepot.gateway.operations.row.problem import MissingError
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore


async def prepare(store: MemoryStore, topic: str, *names: str) -> None:
    if store.topology.topic(topic) is None:
        await store.topology.put_topic(Topic(topic, queues=1))
    for name in names:
        system = {SystemProperty.TRANSACTION_ID: name, SystemProperty.BORN_HOST: "10.0.0.7"}
        store.transactions.append_half([Message(topic, name.encode(), topic, queue_id=0, system=system)])


async def test_pages_have_those_of_their_namespace_alone() -> None:
    clock = ManualClock()
    store = MemoryStore(clock)
    transactions = Transactions(store, clock)
    below = qualified("plant", "shop")
    await store.topology.put_namespace("plant")
    for number in range(3):
        await prepare(store, below, f"p{number}")
        await prepare(store, "shop", f"d{number}")
    clock.advance(90_000)
    first = await transactions.listed(asked(), TransactionsAsked(limit=2))
    assert [each.transaction_id for each in first.value] == ["d0", "d1"]
    assert first.next == str(first.value[-1].commit_log_offset)
    rest = await transactions.listed(asked(), TransactionsAsked(limit=2, cursor=first.next))
    assert ([each.transaction_id for each in rest.value], rest.next) == (["d2"], None)
    [shown, *_] = (await transactions.listed(asked(namespace="plant"), TransactionsAsked(topic="shop"))).value
    assert (shown.transaction_id, shown.namespace, shown.topic) == ("p0", "plant", "shop")
    assert (shown.age_seconds, shown.checks, shown.producer, shown.size) == (90.0, 0, "10.0.0.7", 2)


async def test_what_is_no_topic_and_no_cursor_is_refused() -> None:
    clock = ManualClock()
    transactions = Transactions(MemoryStore(clock), clock)
    with pytest.raises(MissingError, match="there is no topic 'none'"):
        await transactions.listed(asked(), TransactionsAsked(topic="none"))
    for cursor in ("", "x", "-1", "9" * 20):
        with pytest.raises(EntrepotError, match=f"cursor: '{cursor}' is not the cursor of a listing"):
            await transactions.listed(asked(), TransactionsAsked(cursor=cursor))
