"""Questions whether a message is stored, while it is written and not confirmed: the answer waits.

"Not there" would have it stored a second time, and both are confirmed then: a client of MQTT sends its QoS 2 message
again through another gateway while the replicas of its master are away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from entrepot.broker.broker import Broker
from entrepot.domain.confirmation import append_at
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.topic import Topic
from tests.support.clock import ManualClock
from tests.support.stores.steps import bodies, settled
from tests.unit.broker.test_backup import settings

ID = b"0123456789abcdef"
LATER_MS = 60_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Broker]:
    found = await Broker.open(settings(tmp_path / "data"), ManualClock())
    await found.topology.put_topic(Topic("t", queues=1))
    yield found
    await found.close()


def message(store: Broker, message_id: bytes = ID, *, is_later: bool = False) -> Message:
    system = {SystemProperty.DELIVER_AT_MS: store.core.now_ms() + LATER_MS} if is_later else {}
    return Message("t", message_id, queue_id=0, message_id=message_id, born_time_ms=1, system=system)


async def turns() -> None:
    """Let all that is ready happen."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_answer_waits_for_what_may_be_that_message(store: Broker) -> None:
    store.core.commit.hold()
    store.messages.append([message(store)])
    asked = asyncio.ensure_future(store.finder.messages_by_id(ID, everywhere=True))
    other = await store.finder.messages_by_id(b"another one 16 b")
    assert other == [], "who asks for another one waits for nothing"
    await turns()
    assert not asked.done()
    store.core.commit.go_on()
    assert bodies(await asked) == [ID.decode()]
    assert not store.finder.is_unconfirmed(ID)


@pytest.mark.parametrize("is_later", [False, True])
async def test_what_is_in_doubt_is_not_stored_beside_itself(store: Broker, is_later: bool) -> None:
    store.core.commit.hold()
    first = store.messages.append([message(store, is_later=is_later)])
    again = store.missing.append([message(store, is_later=is_later), message(store, b"a new one 16 byt")])
    await turns()
    assert not again.settled
    store.core.commit.go_on()
    assert (await settled(first), await settled(again), again.refusals) == (None, None, None)
    timed = [each.message.body for each in await store.timers.timed_messages("t")]
    assert timed == ([ID] if is_later else [])
    assert bodies(await store.messages.read("t", 0, 0, 9)) == ([] if is_later else [ID.decode()]) + ["a new one 16 byt"]


async def test_a_delay_of_what_is_not_confirmed_is_changed(store: Broker) -> None:
    store.core.commit.hold()
    store.messages.append([message(store, is_later=True)])
    at_ms = store.core.now_ms() + LATER_MS
    asked = asyncio.ensure_future(store.timers.retime("t", ID, at_ms, at_ms + 5))
    await turns()
    assert not asked.done()
    store.core.commit.go_on()
    await asked
    assert [each.deliver_at_ms for each in await store.timers.timed_messages("t")] == [at_ms + 5]


async def test_refusals_of_others_stay_where_they_are(store: Broker) -> None:
    """A broker refuses some of a batch, and has to wait for the rest."""
    store.core.commit.hold()
    store.messages.append([message(store)])
    elsewhere, full = (EntrepotError(Code.TOPIC_NOT_FOUND, text) for text in ("elsewhere", "full"))
    batch = [message(store, b"placed elsewhere"), message(store), message(store, b"a new one 16 byt")]
    found = append_at([1, 2], batch, [elsewhere, None, None], lambda asked: store.missing.append(asked, full))
    store.core.commit.go_on()
    assert await settled(found) is None
    assert found.refusals == [elsewhere, None, full]


async def test_a_store_that_fails_meanwhile_says_so(store: Broker) -> None:
    store.core.commit.hold()
    store.messages.append([message(store)])
    asked = asyncio.ensure_future(store.finder.messages_by_id(ID))
    again = store.missing.append([message(store)])
    await turns()
    store.engine.fail(OSError("the disk is gone"))
    store.core.commit.go_on()
    with pytest.raises(EntrepotError, match="the disk is gone"):
        await asked
    assert "the disk is gone" in str(await settled(again))
