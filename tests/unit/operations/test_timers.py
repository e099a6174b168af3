"""Scheduled messages as their operations tell them: without HTTP."""

from __future__ import annotations

import pytest

from entrepot.domain.access.model import Action, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.names import qualified
from entrepot.domain.recall_handle import RecallHandle
from entrepot.domain.timestamp import MAX_EPOCH_MS, to_rfc3339
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.nouns.timers import TIMERS, Retime, Timers, TimersAsked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.gateway.operations.row.times import LAST_TIME, time_text
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

NOW = 1_700_000_000_000


async def schedule(store: MemoryStore, topic: str, **seconds: int) -> None:
    """Store messages with these keys, due so many seconds from now."""
    if store.topology.topic(topic) is None:
        await store.topology.put_topic(Topic(topic, queues=1))
    for key, wait in seconds.items():
        system = {SystemProperty.DELIVER_AT_MS: NOW + wait * 1000}
        store.messages.append([Message(topic, b"x", topic, keys=(key,), queue_id=0, system=system)])


async def test_the_next_one_is_first_and_pages_have_their_namespace_alone() -> None:
    store = MemoryStore(ManualClock(NOW))
    timers = Timers(store)
    await store.topology.put_namespace("plant")
    await schedule(store, "shop", a=300, b=100, c=200)
    await schedule(store, qualified("plant", "shop"), d=150)
    first = await timers.listed(asked(), TimersAsked(limit=2))
    assert [each.keys for each in first.value] == [["b"], ["c"]]
    assert first.value[0].deliver_at == to_rfc3339(NOW + 100_000)
    rest = await timers.listed(asked(), TimersAsked(limit=2, cursor=first.next))
    assert ([each.keys for each in rest.value], rest.next) == ([["a"]], None)
    below = await timers.listed(asked(namespace="plant"), TimersAsked(topic="shop"))
    assert [(each.keys, each.namespace) for each in below.value] == [(["d"], "plant")]
    with pytest.raises(MissingError, match="there is no topic 'none'"):
        await timers.listed(asked(), TimersAsked(topic="none"))
    for cursor in ("1", "1-2-3", "-1-2", "9223372036854775808-0"):
        with pytest.raises(EntrepotError, match=f"cursor: '{cursor}' is not the cursor of a listing"):
            await timers.listed(asked(), TimersAsked(cursor=cursor))


async def test_a_new_time_gives_a_new_handle_and_the_audit_log_has_both() -> None:
    store = MemoryStore(ManualClock(NOW))
    timers = Timers(store)
    await schedule(store, "shop", a=300)
    [waiting] = (await timers.listed(asked(), TimersAsked())).value
    retiming, recalling = asked(), asked()
    retimed = await timers.retime(PlainName(waiting.handle), retiming, Retime(str(NOW + 60_000)))
    assert retimed.deliver_at == to_rfc3339(NOW + 60_000)
    assert retiming.told == (("topic shop", f"message {waiting.id} to {retimed.deliver_at}"),)
    [renewed] = (await timers.listed(asked(), TimersAsked())).value
    assert (renewed.handle, renewed.deliver_at) == (retimed.handle, retimed.deliver_at)
    await timers.recall(PlainName(retimed.handle), recalling)
    assert recalling.told == (("topic shop", f"message {waiting.id}"),)
    assert (await timers.listed(asked(), TimersAsked())).value == []
    with pytest.raises(EntrepotError):
        await timers.recall(PlainName(retimed.handle), asked())
    with pytest.raises(EntrepotError, match="deliverAt: must be an RFC 3339 time"):
        await timers.retime(PlainName(retimed.handle), asked(), Retime("soon"))


def test_who_may_publish_to_the_topic_of_a_handle_may_take_it_back() -> None:
    topic = qualified("plant", "shop")
    handle = RecallHandle(topic, b"\x01" * 16, NOW).encode()
    for row in TIMERS.operations[1:]:
        request = asked()
        request.stored["handle"] = handle
        [need] = row.right.needs(None, request)
        assert (need.action, need.resource_type, need.name) == (
            Action.PUB,
            ResourceType.TOPIC,
            whole_topic(topic),
        )
        request.stored["handle"] = "x"
        with pytest.raises(EntrepotError) as refused:
            row.right.needs(None, request)
        assert refused.value.code is Code.BAD_REQUEST


def test_a_time_behind_the_calendar_is_the_last_one() -> None:
    assert time_text(MAX_EPOCH_MS) == time_text(MAX_EPOCH_MS + 1) == LAST_TIME
