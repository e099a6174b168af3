"""Publishes that come again: they become what they would without memory, whatever has changed in between."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from entrepot.broker.store.record import encode_properties, properties_of
from entrepot.domain.access.model import Effect, Origin, Principal
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import ALTERNATE_EXCHANGE, DELAYED_TYPE, ExchangeType
from entrepot.domain.message import SharedProperties, SystemProperty, as_texts
from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.domain.topic import Topic
from entrepot.gateway.amqp.connections import remembered_publishes
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import REPEATED_HEADER_MAX_BYTES, ContentHeader
from tests.support.amqp.publishers import ME, Publisher, Site, anybody
from tests.support.cases import cases

DIRECT, FANOUT = ExchangeType.DIRECT, ExchangeType.FANOUT


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    opened = await Site().open()
    yield opened
    await opened.close()


@pytest.fixture
async def publisher(site: Site) -> Publisher:
    """Anybody's, with exchange `x` that binds `q` with key `k`, and a queue `other` that is bound nowhere."""
    await site.queue("q")
    await site.queue("other")
    await site.exchange("x", DIRECT)
    await site.store.topology.put_topic(Topic("x"))
    await site.definitions.bind(site.vhost, Binding("x", "q", "k"))
    return Publisher(site.door, anybody())


def topics_of(site: Site, *names: str) -> list[str]:
    return [site.vhost.queues[name].topic for name in names]


def routed(publisher: Publisher, exchange: str = "x", key: str = "k") -> list[str]:
    """The queues' topics of a publish that comes three times; the exchange's own topic is left out."""
    found = [publisher.send(exchange, key).topics for _ in range(3)]
    assert found[0] == found[1] == found[2]
    return [topic for topic in found[0] if topic != exchange]


async def test_what_comes_again_is_the_same_but_for_body_and_time(site: Site, publisher: Publisher) -> None:
    header = ContentHeader.of(content_type="text/plain", headers={"a": 1}, delivery_mode=2, priority=3)
    first, _ = publisher.publish(*[Publish("x", "k", False, header, b"one")] * 2).messages
    site.clock.advance(5)
    (second, third) = publisher.publish(*[Publish("x", "k", False, header, each) for each in (b"two", b"3")]).messages
    assert site.door.services.remembered.count == 2  # the login, and this
    assert second == replace(first, body=b"two", born_time_ms=first.born_time_ms + 5)
    assert second.system is third.system and second is not third
    assert properties_of(second) == properties_of(first) == encode_properties(as_texts(first.system), first.properties)
    assert second.properties == (("a", "1"),) and second.system[SystemProperty.CONTENT_TYPE] == "text/plain"


async def test_bindings_come_and_go(site: Site, publisher: Publisher) -> None:
    assert routed(publisher) == topics_of(site, "q")
    more = Binding("x", "other", "k")
    await site.definitions.bind(site.vhost, more)
    assert sorted(routed(publisher)) == sorted(topics_of(site, "q", "other"))
    await site.definitions.unbind(site.vhost, more)
    assert routed(publisher) == topics_of(site, "q")
    await site.exchange("y", FANOUT)
    await site.definitions.bind(site.vhost, Binding("x", "y", "k", destination_kind=DestinationKind.EXCHANGE))
    await site.definitions.bind(site.vhost, Binding("y", "other"))
    assert sorted(routed(publisher)) == sorted(topics_of(site, "q", "other"))
    await site.definitions.delete_exchange(site.vhost, "y")
    assert routed(publisher) == topics_of(site, "q")


async def test_exchanges_are_deleted_and_declared_again(site: Site, publisher: Publisher) -> None:
    assert routed(publisher) == topics_of(site, "q")
    await site.definitions.delete_exchange(site.vhost, "x")
    assert site.store.topology.topic("x") is not None
    assert "no exchange 'x'" in publisher.send("x", "k").refused
    await site.exchange("x", FANOUT)
    assert not publisher.send("x", "k").messages[0].further_queues
    await site.definitions.bind(site.vhost, Binding("x", "other"))
    assert routed(publisher) == topics_of(site, "other")
    await site.definitions.delete_exchange(site.vhost, "x")
    await site.exchange("x", FANOUT, internal=True)
    assert "internal exchange" in publisher.send("x", "k").refused


async def test_queues_are_deleted(site: Site, publisher: Publisher) -> None:
    assert routed(publisher, "", "q") == topics_of(site, "q") == routed(publisher)
    await site.delete_queue("q")
    lost = publisher.send("", "q", mandatory=True)
    assert (lost.messages, lost.returned) == ([], [("", "q")])
    assert routed(publisher) == []
    await site.queue("q", **{"x-max-priority": 3})
    assert publisher.send("", "q", b"\x08\0\x02").messages[0].queue_id == 2  # of priority 2


async def test_policies_change_where_and_how_long(site: Site, publisher: Publisher) -> None:
    await site.exchange("lost", FANOUT)
    await site.definitions.bind(site.vhost, Binding("lost", "other"))
    assert routed(publisher, "x", "nowhere") == []
    await site.definitions.put_policy(
        site.vhost, Policy("p", "^x$", {ALTERNATE_EXCHANGE: "lost"}, 0, ApplyTo.EXCHANGES)
    )
    assert routed(publisher, "x", "nowhere") == topics_of(site, "other")
    await site.definitions.delete_policy(site.vhost, "p", is_operators=False)
    assert routed(publisher, "x", "nowhere") == []
    assert publisher.send("x", "k").timed == []
    await site.definitions.put_policy(site.vhost, Policy("p", "^q$", {"message-ttl": 50}))
    for _ in range(3):
        assert publisher.send("x", "k").timed == [("q", site.clock.now_ms() + 50)]


async def test_topics_get_other_queues(site: Site, publisher: Publisher) -> None:
    await site.store.topology.put_topic(Topic("shop", queues=1))  # which is an exchange of that name
    for _ in range(3):
        assert publisher.send("shop", "a.b").messages[0].queue_id == 0
    await site.store.topology.put_topic(Topic("shop", queues=64))
    told, plain = publisher.send("shop", "a.b"), Publisher(site.plain, anybody()).send("shop", "a.b")
    assert told == plain and told.messages[0].queue_id > 0
    await site.store.topology.delete_topic("shop")
    assert "no exchange 'shop'" in publisher.send("shop", "a.b").refused


async def test_rights_are_granted_and_revoked(site: Site, publisher: Publisher) -> None:
    assert routed(publisher) == topics_of(site, "q")
    await site.user("root", is_super=True)
    assert "refused" in publisher.send("x", "k").refused  # who came in while no user was defined
    bob, eve = [Publisher(site.door, await site.user(name)) for name in ("bob", "eve")]
    assert "write access" in bob.send("x", "k").refused
    await site.allow("bob", "Topic:x/#")
    assert routed(bob) == topics_of(site, "q")
    assert "user 'eve'" in eve.send("x", "k").refused
    await site.allow("bob", "Topic:x/other")  # a topic permission: other routing keys
    assert "write access" in bob.send("x", "k").refused
    await site.allow("*", "Topic:x/k")
    assert routed(bob) == routed(eve) == topics_of(site, "q")
    await site.allow("eve", "Topic:x/k", effect=Effect.DENY)
    assert "user 'eve'" in eve.send("x", "k").refused
    assert routed(bob) == topics_of(site, "q")
    await site.security.administration.delete_policy(ME, "*")
    assert "write access" in bob.send("x", "k").refused
    await site.allow("bob", "Topic:x/#")
    assert routed(bob) == topics_of(site, "q")
    await site.security.administration.delete_user(ME, "bob")
    assert "write access" in bob.send("x", "k").refused


async def test_rights_end_with_the_token(site: Site, publisher: Publisher) -> None:
    await site.user("root", is_super=True)
    await site.allow("*", "Topic:x/k")
    end = site.clock.now_ms() + 100
    holder = Publisher(site.door, Principal("t", Origin.TOKEN, "10.0.0.9", expires_at_ms=end))
    site.clock.advance(99)
    assert routed(holder) == topics_of(site, "q")
    site.clock.advance(1)
    assert "write access" in holder.send("x", "k").refused


async def test_two_logins_of_one_user_share_nothing(site: Site, publisher: Publisher) -> None:
    routed(publisher)
    before = site.door.services.remembered.count
    routed(Publisher(site.door, anybody()))
    assert site.door.services.remembered.count == before + 2


HEADERS = {
    "correlation id": ContentHeader.of(correlation_id="1"),
    "reply to": ContentHeader.of(reply_to="r"),
    "expiration": ContentHeader.of(expiration="1000"),
    "message id": ContentHeader.of(message_id="1"),
    "timestamp": ContentHeader.of(timestamp=1),
    "user id": ContentHeader.of(user_id="anonymous"),
    "CC": ContentHeader.of(headers={"CC": ["other"]}),
    "BCC": ContentHeader.of(headers={"BCC": ["other"]}),
    "long": ContentHeader.of(headers={"a": "b" * REPEATED_HEADER_MAX_BYTES}),
}


@cases("name", list(HEADERS))
async def test_what_depends_on_the_message_is_not_kept(site: Site, publisher: Publisher, name: str) -> None:
    for _ in range(3):
        assert len(publisher.publish(Publish("x", "k", False, HEADERS[name], b"")).messages) == 1
    assert site.door.services.remembered.count == 1  # the login alone


async def test_nor_what_waits_for_its_time(site: Site, publisher: Publisher) -> None:
    await site.store.topology.put_topic(Topic("later"))
    await site.exchange("later", ExchangeType.DELAYED, arguments={DELAYED_TYPE: "direct"})
    await site.definitions.bind(site.vhost, Binding("later", "q", "k"))
    delayed = Publish("later", "k", False, ContentHeader.of(headers={"x-delay": 10}), b"")
    for _ in range(3):
        site.clock.advance(7)
        (message,) = publisher.publish(delayed).messages
        assert message.system[SystemProperty.DELIVER_AT_MS] == site.clock.now_ms() + 10
    assert site.door.services.remembered.count == 1


async def test_nor_what_chance_decides(site: Site, publisher: Publisher) -> None:
    await site.exchange("any", ExchangeType.RANDOM)
    for name in ("q", "other"):
        await site.definitions.bind(site.vhost, Binding("any", name, "k"))
    found = {publisher.send("any", "k").topics[-1] for _ in range(100)}
    assert found == set(topics_of(site, "q", "other"))


async def test_a_transaction_goes_the_whole_way(site: Site, publisher: Publisher) -> None:
    routed(publisher)
    before = site.door.services.remembered.count
    publisher.channel.publishing.is_tx = True
    for _ in range(3):
        publisher.send("x", "other")
    publisher.channel.publishing._publish(publisher.channel.publishing.roll_back())  # as the commit does
    assert site.door.services.remembered.count == before


async def test_what_is_routed_nowhere_is_returned_each_time(site: Site, publisher: Publisher) -> None:
    for mandatory in (False, True, False, True, True):  # the topic of the exchange keeps it
        outcome = publisher.send("x", "nowhere", mandatory=mandatory)
        assert outcome.topics == ["x"]
        assert outcome.returned == [("x", "nowhere")] * mandatory


async def test_confirms_count_what_goes_nowhere(site: Site, publisher: Publisher) -> None:
    confirming = Publisher(site.door, anybody(), confirms=True)
    header = ContentHeader()
    run = [Publish("", key, False, header, b"") for key in ("q", "gone", "q", "q", "gone", "other")]
    for first in (1, 7):
        outcome = confirming.publish(*run)
        assert outcome.confirmed == [first + 1, first + 4]
        assert outcome.tags == [first, first + 2, first + 3, first + 5] and len(outcome.messages) == 4
    assert confirming.publish(*run[2:4]).tags == [13, 14]


async def test_a_refusal_lets_those_before_it_go(site: Site, publisher: Publisher) -> None:
    confirming = Publisher(site.door, anybody(), confirms=True)
    header = ContentHeader()
    confirming.send("", "q")
    outcome = confirming.publish(*[Publish(name, "q", False, header, b"") for name in ("", "", "none", "")])
    assert outcome.tags == [2, 3] and "no exchange 'none'" in outcome.refused


@cases("limit", ["MAX_PUBLISHES", "MAX_BYTES"])
async def test_the_limits_hold(site: Site, publisher: Publisher, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    remembered = site.door.services.remembered
    routed(publisher)
    monkeypatch.setattr(remembered_publishes, limit, 12 if limit == "MAX_PUBLISHES" else 12 * remembered.size)
    counts, sizes = [], []
    for number in range(40):
        routed(publisher, "x", f"key-{number}")
        Publisher(site.door, anybody()).send("x", "k")
        counts.append(remembered.count)
        sizes.append(remembered.size)
    assert max(counts) <= 12 or limit == "MAX_BYTES"
    assert max(sizes) <= 12 * sizes[0] and min(counts[5:]) < max(counts)  # all was forgotten now and then
    remembered.forget()
    assert remembered.count == remembered.size == 0


async def test_a_large_one_is_not_kept(site: Site, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_publishes, "MAX_PUBLISH_BYTES", 100)
    routed(publisher)
    assert site.door.services.remembered.count == 1


async def test_what_comes_once_is_not_kept(site: Site, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered_publishes, "MAX_SEEN", 5)
    for number in range(20):
        publisher.send("x", f"key-{number}")
        assert len(site.door.services.remembered._seen) <= 5
    assert site.door.services.remembered.count == 1
    publisher.send("x", "key-19")
    assert site.door.services.remembered.count == 2


def test_shared_properties_are_those_of_messages_with_them_alone() -> None:
    shared = SharedProperties({"amqp": b"raw"}, (("a", "b"),))
    with pytest.raises(TypeError):
        shared["amqp"] = b""
    assert shared == {"amqp": b"raw"} and not shared.encoded


async def test_what_a_login_had_kept_goes_with_it(site: Site, publisher: Publisher) -> None:
    remembered, other = site.door.services.remembered, Publisher(site.door, anybody())
    routed(other)
    count, size = remembered.count, remembered.size
    routed(publisher)
    assert remembered.count > count and remembered.size > size
    client = publisher.channel.client
    for _ in range(2):  # also where it has gone already
        assert client.vhost is not None and client.principal is not None
        remembered.leave(client.vhost, client.principal)
        assert (remembered.count, remembered.size) == (count, size)
    assert routed(other) == topics_of(site, "q")
