"""Any course of changes and publishes: a door that remembers publishes says the same as one that remembers nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store.record import encode_new, encode_properties, properties_of
from entrepot.domain.access.model import Effect
from entrepot.domain.errors import EntrepotError
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import ALTERNATE_EXCHANGE, DELAYED_TYPE, HASH_HEADER, ExchangeType
from entrepot.domain.message import SharedProperties, as_texts
from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.domain.topic import Topic
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader, received_header
from tests.support.amqp.publishers import ME, Publisher, Site

EXCHANGES = ("x", "y", "amq.topic", "")
QUEUES = ("q", "r", "k")
KEYS = ("k", "q", "a.b")
USERS = ("ann", "bob")
HEADERS = (
    ContentHeader(),
    ContentHeader.of(delivery_mode=2, priority=2),
    ContentHeader.of(content_type="text/plain", headers={"n": 1, "s": "t"}),
    ContentHeader.of(headers={"n": 2, "x-delay": 9}),
    ContentHeader.of(headers={"CC": ["q"], "BCC": ["r"]}),
    ContentHeader.of(expiration="30", message_id="1"),
    ContentHeader.of(user_id="ann"),
)
KINDS: tuple[tuple[ExchangeType, dict[str, object]], ...] = (
    (ExchangeType.DIRECT, {}),
    (ExchangeType.FANOUT, {ALTERNATE_EXCHANGE: "y"}),
    (ExchangeType.TOPIC, {ALTERNATE_EXCHANGE: ""}),
    (ExchangeType.HEADERS, {}),
    (ExchangeType.CONSISTENT_HASH, {HASH_HEADER: "n"}),
    (ExchangeType.CONSISTENT_HASH, {}),
    (ExchangeType.DELAYED, {DELAYED_TYPE: "topic"}),
)
Step = Callable[[Site], Awaitable[object]]
names, queues, keys, users = map(st.sampled_from, (("x", "y"), QUEUES, KEYS, USERS))
publishes = st.builds(
    Publish,
    st.sampled_from(EXCHANGES),
    keys,
    st.booleans(),
    st.sampled_from([received_header(header.data) for header in HEADERS]),
    st.binary(max_size=3),
)


def _bound(site: Site, source: str, name: str, key: str, is_exchange: bool) -> Binding:
    kind = DestinationKind.EXCHANGE if is_exchange else DestinationKind.QUEUE
    exchange = site.vhost.routing.exchange(source)
    is_hash = exchange is not None and exchange.type is ExchangeType.CONSISTENT_HASH
    return Binding(source, name, "1" if is_hash else key, destination_kind=kind)


async def _bind(site: Site, source: str, name: str, key: str, is_exchange: bool) -> None:
    binding = _bound(site, source, name, key, is_exchange)
    if site.vhost.routing.exchange(source) is not None and site.definitions.destination_exists(site.vhost, binding):
        await site.definitions.bind(site.vhost, binding)


async def _put_topic(site: Site, name: str, count: int) -> None:
    known = site.store.topology.topic(name)
    await site.store.topology.put_topic(Topic(name, queues=max(count, 0 if known is None else known.queues)))


async def _delete_topic(site: Site, name: str) -> None:
    if site.store.topology.topic(name) is not None:
        await site.store.topology.delete_topic(name)


def _policy(on_queues: bool, seconds: int) -> Policy:
    if on_queues:
        return Policy("p", "^q$", {"message-ttl": seconds})
    return Policy("p", "^x$", {ALTERNATE_EXCHANGE: "y"}, 0, ApplyTo.EXCHANGES)


def step(function: Callable[..., Awaitable[object]], *given: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.tuples(*given).map(lambda values: lambda site: function(site, *values))


changes: st.SearchStrategy[Step] = st.one_of(
    step(lambda site, name, kind: site.exchange(name, kind[0], arguments=kind[1]), names, st.sampled_from(KINDS)),
    step(lambda site, name: site.definitions.delete_exchange(site.vhost, name), names),
    step(_bind, st.sampled_from(("x", "y", "amq.topic")), queues | names, keys | st.just("#"), st.booleans()),
    step(
        lambda site, *given: site.definitions.unbind(site.vhost, _bound(site, *given)),
        names, queues | names, keys | st.just("#"), st.booleans(),
    ),
    step(lambda site, name, more: site.queue(name, **more), queues,
         st.sampled_from(({}, {"x-max-priority": 3}, {"x-message-ttl": 20}))),
    step(lambda site, name: site.delete_queue(name), queues),
    step(lambda site, *given: site.definitions.put_policy(site.vhost, _policy(*given)), st.booleans(),
         st.integers(1, 9)),
    step(lambda site: site.definitions.delete_policy(site.vhost, "p", is_operators=False)),
    step(_put_topic, st.sampled_from(("x", "y", "a", "k")), st.integers(1, 64)),
    step(_delete_topic, st.sampled_from(("x", "y", "a", "k"))),
    step(lambda site, name, *given: site.allow(name, *given), users | st.just("*"),
         st.sampled_from(("Topic:*", "Topic:x/#", "Topic:x/k", "Topic:q"))),
    step(lambda site, name: site.allow(name), users),
    step(lambda site, name: site.allow(name, "Topic:x/k", effect=Effect.DENY), users),
    step(lambda site, name: site.security.administration.delete_policy(ME, name), users | st.just("*")),
)  # fmt: skip


async def _play(course: list[tuple[Step | None, list[tuple[int, Publish]]]]) -> None:
    site = await Site().open()
    await site.user("root", is_super=True)
    logins = [await site.user(name) for name in USERS]
    for name in USERS:
        await site.allow(name, "Topic:*")
    for name in ("x", "y"):
        await site.exchange(name, ExchangeType.DIRECT)
        await _put_topic(site, name, 4)
    for name in QUEUES:
        await site.queue(name)
        await site.definitions.bind(site.vhost, Binding("x", name, "k"))
    remembering = [Publisher(site.door, login, confirms=True) for login in logins]
    plain = [Publisher(site.plain, login, confirms=True) for login in logins]
    try:
        for change, run in course:
            if change is not None:
                try:
                    await change(site)
                except EntrepotError:
                    pass  # refused, as it would be to a client
            for user, publish in run:
                site.clock.advance(1)
                thrice = [publish, publish, publish._replace(body=b"again")]
                found = remembering[user].publish(*thrice)
                assert found == plain[user].publish(*thrice)
                for number, message in enumerate(found.messages):
                    assert properties_of(message) == encode_properties(as_texts(message.system), message.properties)
                    fresh = Publisher(site.plain, logins[user]).publish(*thrice).messages[number]
                    if message.queue_id >= 0:
                        assert encode_new(message, 1, 2, 3, 4) == encode_new(fresh, 1, 2, 3, 4)
    finally:
        await site.close()


@st.composite
def courses(draw: st.DrawFn) -> list[tuple[Step | None, list[tuple[int, Publish]]]]:
    """Changes, and after each some of the few publishes that there are."""
    few = draw(st.lists(st.tuples(st.integers(0, 1), publishes), min_size=1, max_size=3))
    runs = st.lists(st.sampled_from(few), min_size=1, max_size=3)
    return draw(st.lists(st.tuples(changes, runs), min_size=1, max_size=16))


@given(courses())
def test_it_says_what_a_door_without_memory_says(course: list[tuple[Step | None, list[tuple[int, Publish]]]]) -> None:
    asyncio.run(_play(course))


def test_what_is_added_to_shared_properties_is_encoded_too() -> None:
    async def added() -> None:
        site = await Site().open()
        await site.queue("q")
        login = await site.user("root", is_super=True)
        publisher = Publisher(site.door, login)
        for _ in range(2):
            publisher.send("", "q")
        (message,) = publisher.send("", "q").messages
        assert isinstance(message.system, SharedProperties)
        first = properties_of(message)
        assert message.system.encoded == first
        message.properties = (("ce_fault", "x"),)  # as where a schema diverts it
        assert properties_of(message) == encode_properties(as_texts(message.system), message.properties) != first
        elsewhere = message.placed([("other", 0)])
        assert properties_of(elsewhere) == encode_properties(as_texts(elsewhere.system), message.properties)
        await site.close()

    asyncio.run(added())
