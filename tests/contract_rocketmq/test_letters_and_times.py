"""Dead letters that go to their group again, timed messages that are asked after, long listings: at the model and at
Apache RocketMQ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind, compile_filter
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.ports import PopRequest
from entrepot.domain.query import MessageQuery
from entrepot.domain.topic import Topic
from entrepot.protocols.rocketmq.remoting import codes as asked_for
from entrepot.store_client.rocketmq import finding
from tests.contract_rocketmq.operated import SettledStore, full_message
from tests.support.rocketmq.server import RocketMqServer
from tests.support.stores.steps import (
    append,
    append_all,
    bodies,
    codes,
    eventually,
    handles,
    message,
    pop,
    refusal_of,
)

LEASE_MS = 60_000


async def taken(store: SettledStore, topic: str = "t", group: str = "g") -> Delivery:
    """The next delivery: a broker may need some polls for it."""
    [found] = await eventually(lambda: pop(store, topic, group, 1, wait_ms=1_000, invisible_ms=LEASE_MS))
    return found


async def dead(store: SettledStore, *sent: str) -> list[StoredMessage]:
    """Send messages, and move each to the dead letters; what lies there."""
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", *sent)
    for _ in sent:
        assert codes(await store.consumption.reject("t", "g", handles([await taken(store)]))) == [None]
    return await letters(store, len(sent))


async def letters(store: SettledStore, count: int) -> list[StoredMessage]:
    async def all_letters() -> list[StoredMessage]:
        await store._catalog.look()
        if store.topology.topic("%DLQ%g") is None:
            return []
        for bounds in await store.messages.bounds("%DLQ%g"):
            if bounds.max_offset >= count:
                return await store.messages.read("%DLQ%g", bounds.queue_id, 0, count)
        return []

    return await eventually(all_letters)


async def test_a_dead_letter_goes_to_its_group_again_and_to_no_other(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    sent = full_message()
    assert await append_all(store, sent) == [None]
    assert (await taken(store, group="other")).message.body == sent.body
    assert codes(await store.consumption.reject("t", "g", handles([await taken(store)]))) == [None]
    [letter] = await letters(store, 1)
    resend = store.consumption.resend_dead_letters
    assert codes(await resend("g", [letter.queue_offset] * 2, letter.queue_id)) == [None, None]
    again = await taken(store)
    assert again.attempt == 1
    for name in ("topic", "body", "sub_topic", "qos", "tag", "keys", "message_id", "born_time_ms", "properties"):
        assert getattr(again.message, name) == getattr(sent, name), name
    assert again.message.system_text(SystemProperty.CONTENT_TYPE) == "text/plain"
    assert not [name for name in again.message.system if name.startswith("dead_letter")], "it lives"
    assert codes(await store.consumption.acknowledge("t", "g", handles([again]))) == [None]
    assert bodies(await pop(store, "t")) == [], "one dead letter is one message, however often it is named"
    assert bodies(await pop(store, "t", "other")) == []
    await store._catalog.look()
    assert [group.name for group in store.topology.groups() if group.name.startswith("g")] == ["g"]


async def test_a_dead_letter_that_came_again_dies_and_comes_again(store: SettledStore):
    [letter] = await dead(store, "bad")
    assert codes(await store.consumption.resend_dead_letters("g", [letter.queue_offset], letter.queue_id)) == [None]
    assert codes(await store.consumption.reject("t", "g", handles([await taken(store)]))) == [None]
    _, second = await letters(store, 2)
    assert second.system_text(SystemProperty.DEAD_LETTER_TOPIC) == "t"
    assert codes(await store.consumption.resend_dead_letters("g", [second.queue_offset], second.queue_id)) == [None]
    assert (await taken(store)).message.body == b"bad"


async def test_what_is_no_dead_letter_cannot_go_again(store: SettledStore):
    resend = store.consumption.resend_dead_letters
    assert await refusal_of(resend("nobody", [0])) == Code.CONSUMER_GROUP_NOT_FOUND
    await store.topology.put_group(ConsumerGroup("g"))
    assert codes(await resend("g", [0, -1])) == [Code.ILLEGAL_OFFSET] * 2, "there are none yet"
    assert await resend("g", []) == []
    [letter] = await dead(store, "bad")
    assert codes(await resend("g", [7, -1], letter.queue_id)) == [Code.ILLEGAL_OFFSET] * 2
    await store.topology.put_group(ConsumerGroup("ordered", fifo=True))
    assert await refusal_of(resend("ordered", [0])) == Code.UNSUPPORTED
    await store.topology.delete_topic("t")
    assert codes(await resend("g", [letter.queue_offset], letter.queue_id)) == [Code.TOPIC_NOT_FOUND]


async def test_a_timed_message_is_asked_after(store: SettledStore):
    """An MQTT session asks so whether its message is stored already, before it sends it again."""
    await store.topology.put_topic(Topic("t", queues=1))
    at = store._cluster.clock.now_ms() + 3_600_000
    waiting, recalled = (
        replace(message("t", body), message_id=body.encode() * 16, system={SystemProperty.DELIVER_AT_MS: at})
        for body in "wr"
    )
    assert await append_all(store, waiting, recalled) == [None, None]
    retime = store.timers.retime

    async def is_known() -> bool:
        return await refusal_of_or_none(retime("t", recalled.message_id, at, at)) is None

    assert await eventually(is_known), "a broker's index is a moment late"
    await store.timers.recall("t", recalled.message_id, at)

    async def is_recalled() -> bool:
        return await refusal_of_or_none(retime("t", recalled.message_id, at, at)) is Code.OFFSET_NOT_FOUND

    assert await eventually(is_recalled)
    await retime("t", waiting.message_id, at, at)
    assert await refusal_of(retime("t", b"?" * 16, at, at)) == Code.OFFSET_NOT_FOUND
    assert await refusal_of(retime("t", waiting.message_id, 1, 1)) == Code.OFFSET_NOT_FOUND
    assert await refusal_of(retime("t", waiting.message_id, at, at + 1)) == Code.UNSUPPORTED
    assert await refusal_of(retime("no", waiting.message_id, at, at)) == Code.TOPIC_NOT_FOUND


async def refusal_of_or_none(call: object) -> Code | None:
    try:
        await call  # type: ignore[misc]
    except Exception as error:
        return error.code  # type: ignore[attr-defined, no-any-return]
    return None


async def test_a_long_listing_is_bounded_in_bytes_and_leaves_nothing_out(
    store: SettledStore, monkeypatch: pytest.MonkeyPatch, engine: str, request: pytest.FixtureRequest
):
    monkeypatch.setattr(finding, "MAX_LISTED_BYTES", 300)
    monkeypatch.setattr(finding, "MOST_AT_ONCE", 4)
    await store.topology.put_topic(Topic("t", queues=2))
    for i in range(30):
        await append(store, "t", f"{i:02}" * 20, queue_id=(await queue_ids(store))[i % 3 == 0])
        if engine == "model":
            request.getfixturevalue("clock").advance(i % 2)
    found: list[StoredMessage] = []
    page = await store.finder.query(MessageQuery("t", limit=100))
    assert 0 < len(page.messages) < 30
    while True:
        found += page.messages
        if page.next is None:
            break
        page = await store.finder.query(MessageQuery("t", limit=100, cursor=page.next))
    assert sorted(bodies(found)) == [f"{i:02}" * 20 for i in range(30)]
    times = [each.store_time_ms for each in found]
    assert times == sorted(times, reverse=True)


async def queue_ids(store: SettledStore) -> list[int]:
    return sorted(each.queue_id for each in await store.messages.bounds("t"))


async def test_a_retry_topic_is_made_where_there_is_none(store_at_model: SettledStore, cluster: RocketMqServer):
    """The model knows no group by a retry topic's name, as a broker that makes none by itself."""
    [letter] = await dead(store_at_model, "bad")
    resend = store_at_model.consumption.resend_dead_letters
    assert codes(await resend("g", [letter.queue_offset], letter.queue_id)) == [None]
    [broker] = cluster.at.values()
    assert broker.retry_topics == {"%DLQ%g", "%RETRY%g_t"}
    assert broker.groups_made == set()


async def test_a_message_without_an_attempt_left_is_a_dead_letter(store: SettledStore):
    """Brokers deliver it for ever: who receives moves it there."""
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("g", max_attempts=2))
    await append(store, "t", "poison")
    for attempt in (1, 2):
        delivery = await taken(store)
        assert delivery.attempt == attempt
        change = store.consumption.change_invisible_duration
        assert codes(await change("t", "g", handles([delivery]), 0, release=True)) == [None]

    async def is_dead() -> bool:
        assert bodies(await pop(store, "t", wait_ms=500)) == []
        await store._catalog.look()
        return store.topology.topic("%DLQ%g") is not None

    assert await eventually(is_dead)
    [letter] = await letters(store, 1)
    assert letter.body == b"poison"
    assert letter.system_text(SystemProperty.DEAD_LETTER_TOPIC) == "t"
    assert letter.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) == "2"


async def test_groups_may_have_a_tilde_in_their_names(store: SettledStore):
    """Shares with a filter and webhooks have such groups, and RocketMQ knows no such names."""
    await store.topology.put_topic(Topic("t", queues=1))
    await store.topology.put_group(ConsumerGroup("share~0af3", fifo=False))
    await append(store, "t", "a")
    delivery = await taken(store, group="share~0af3")
    assert codes(await store.consumption.reject("t", "share~0af3", handles([delivery]))) == [None]
    await store._catalog.look()
    assert store.topology.topic("%DLQ%share~0af3") is not None
    assert "share~0af3" in [group.name for group in store.topology.groups()]


async def test_a_filter_finds_tags_that_rocketmq_cannot_say(store: SettledStore):
    """A broker splits a filter at `|`: it would pass over such messages, and count them as settled."""
    await store.topology.put_topic(Topic("t", queues=1))
    assert await append_all(store, *(message("t", tag, tag=tag) for tag in ("one|two", "one", " three"))) == [None] * 3
    for number, text in enumerate(("one||two", "one", " three", "one|two")):
        wanted = FilterExpression(FilterKind.TAG, text)
        expected = [
            tag for tag in ("one|two", "one", " three") if compile_filter(wanted).matches(message("t", "", tag=tag))
        ]
        asked = PopRequest("t", f"g{number}", 8, 2_000, LEASE_MS, wanted)
        found = await eventually(lambda asked=asked: store.consumption.pop(asked)) if expected else []  # type: ignore[misc]
        assert bodies(found) == expected, text
        pulled = await store.messages.pull("t", (await queue_ids(store))[0], 0, 8, wanted)
        assert bodies(pulled.messages) == expected, text


async def test_the_topic_of_dead_letters_is_known_with_the_first(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "bad")
    delivery = await taken(store)
    assert codes(await store.consumption.reject("t", "g", handles([delivery]))) == [None]
    assert store.topology.topic("%DLQ%g") is not None


async def test_queues_with_messages_that_nobody_has_read_do_not_go(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=2))
    last = (await queue_ids(store))[1]
    await append(store, "t", "a", queue_id=last)
    fewer = Topic("t", queues=1)
    assert await refusal_of(store.topology.put_topic(fewer)) is Code.PRECONDITION_FAILED
    assert codes(await store.consumption.acknowledge("t", "g", handles([await taken(store)]))) == [None]

    async def has_fewer() -> bool:
        return await refusal_of_or_none(store.topology.put_topic(fewer)) is None

    assert await eventually(has_fewer), "brokers commit a moment later"


@pytest.mark.parametrize(
    ("reason", "told"),
    [("HTTP 413", "HTTP 413"), ("a\0b\nc\udc00" + "x" * 2000, "a b c " + "x" * 994), ("", None)],
    ids=["plain", "odd", "none"],
)
async def test_a_dead_letter_tells_why_and_when(store: SettledStore, reason: str, told: str | None):
    await store.topology.put_topic(Topic("t", queues=1))
    sent = full_message()
    assert await append_all(store, sent) == [None]
    before = store._cluster.clock.now_ms()
    assert codes(await store.consumption.reject("t", "g", handles([await taken(store)]), reason)) == [None]
    [letter] = await letters(store, 1)
    assert letter.system_text(SystemProperty.DEAD_LETTER_REASON) == told
    assert before <= (letter.time_ms(SystemProperty.DEAD_LETTER_TIME_MS) or 0) <= store._cluster.clock.now_ms()
    assert letter.system_text(SystemProperty.DEAD_LETTER_ATTEMPTS) == "1"
    for name in ("body", "tag", "keys", "message_id", "born_time_ms", "properties"):
        assert getattr(letter, name) == getattr(sent, name), name


async def test_where_it_may_not_write_dead_letters_the_broker_does(
    store_at_model: SettledStore, cluster: RocketMqServer
):
    await store_at_model.topology.put_topic(Topic("t", queues=1))
    await append(store_at_model, "t", "bad")
    delivery = await taken(store_at_model)
    cluster.faults[asked_for.SEND] = [asked_for.NO_PERMISSION]
    assert codes(await store_at_model.consumption.reject("t", "g", handles([delivery]), "why")) == [None]
    [letter] = await letters(store_at_model, 1)
    assert letter.body == b"bad" and len(cluster.asked(asked_for.SEND_BACK)) == 1


async def test_what_waits_for_ever_waits_as_long_as_a_broker_can(store: SettledStore):
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    change, ages_ms = store.consumption.change_invisible_duration, 365 * 24 * 3600 * 1000
    for release in (True, False):
        delivery = await taken(store)
        assert codes(await change("t", "g", handles([delivery]), ages_ms, release=release)) == [None]
    assert bodies(await pop(store, "t")) == []


async def test_what_was_given_back_is_counted_where_it_waits(store: SettledStore):
    """A queue of AMQP tells its number of ready messages by it: nobody may have asked the retry topic before."""
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "a", "b")
    for _ in range(2):
        delivery = await taken(store)
        assert codes(
            await store.consumption.change_invisible_duration("t", "g", handles([delivery]), 0, release=True)
        ) == [None]

    async def waiting() -> bool:
        progress = (await store.topology.group_status("g")).progress
        return sum(each.lag - each.in_flight for each in progress) == 2

    assert await eventually(waiting)


async def test_only_what_is_over_goes_and_the_rest_keeps_its_place(store: SettledStore):
    """An expired message that nobody asks for becomes a dead letter: the live one behind it is not touched."""
    await store.topology.put_topic(Topic("t", queues=1))
    over = {SystemProperty.EXPIRES_AT_MS: 1}
    await append_all(store, replace(message("t", "a"), system=over), message("t", "b"))
    await append_all(store, replace(message("t", "c"), system=over))
    request = PopRequest("t", "g", 32, 0, LEASE_MS, expired_only=True)
    assert bodies(await eventually(lambda: store.consumption.pop(request))) == ["a"]
    assert bodies(await store.consumption.pop(request)) == []
    alive = await taken(store)
    assert (alive.message.body, alive.attempt) == (b"b", 1)
    assert bodies(await eventually(lambda: store.consumption.pop(request))) == ["c"]


async def test_what_was_confirmed_is_there_for_a_pop_that_does_not_wait(store: SettledStore):
    """`basic.get` after a publisher confirm: a broker lets a message be read a moment after it has confirmed it."""
    await store.topology.put_topic(Topic("t", queues=1))
    assert bodies(await pop(store, "t")) == []
    for number in range(20):
        await store.own_messages.append([message("t", f"{number}")]).wait()
        assert bodies(await pop(store, "t", wait_ms=0)) == [f"{number}"]
