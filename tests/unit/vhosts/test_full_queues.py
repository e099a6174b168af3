"""Queues that reject what is over their limit: a run of messages counts as its messages do."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.send import Refusals
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from tests.support.amqp.publishers import Site
from tests.support.stores.steps import bodies, pop


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    opened = await Site().open()
    yield opened
    await opened.door.virtual_hosts.feeds.close()
    await opened.close()


async def publish(site: Site, *given: tuple[str, bytes]) -> list[bool]:
    """Publish to queues, each with names between commas, as one run; True for each message that all of them took."""
    hosts, answers = site.door.virtual_hosts, []
    messages = []
    for name, body in given:
        wanted = Publish("", name, False, ContentHeader.of(), body)
        message = hosts.routing.message(site.vhost, wanted, name.split(","), site.clock.now_ms())
        assert message is not None
        messages.append(message)

    def on_sent(failure: EntrepotError | None, refusals: Refusals) -> None:
        assert failure is None
        answers.append(refusals or [None] * len(messages))

    work = hosts.overflow.admit(site.vhost, messages, on_sent)
    assert work is not None
    await work
    (refusals,) = answers
    assert {each.code for each in refusals if each is not None} <= {Code.TOO_MANY_REQUESTS}
    return [each is None for each in refusals]


async def kept(site: Site, queue: Queue) -> list[str]:
    return bodies(await pop(site.store, queue.topic, queue.group, 100))


async def test_a_run_ends_at_the_limit_of_bytes(site: Site) -> None:
    limits = {"x-max-length-bytes": 10, "x-overflow": "reject-publish"}
    full, other = await site.queue("q", **limits), await site.queue("other", **limits)
    assert await publish(site, ("q", b"1234"), ("q", b"abcdefg"), ("other", b"0123456789"), ("q", b"56789!")) == [
        True,
        False,
        True,
        True,
    ]
    assert await publish(site, ("q", b"x"), ("q", b""), ("other", b"x")) == [False, True, False]
    assert await kept(site, full) == ["1234", "56789!", ""]
    assert await kept(site, other) == ["0123456789"]


async def test_a_run_ends_at_the_limit_of_messages(site: Site) -> None:
    queue = await site.queue("q", **{"x-max-length": 2, "x-overflow": "reject-publish"})
    assert await publish(site, ("q", b"1"), ("q", b"2"), ("q", b"3")) == [True, True, False]
    assert await publish(site, ("q", b"4")) == [False]
    assert await kept(site, queue) == ["1", "2"]


async def test_a_queue_that_drops_keeps_the_last(site: Site) -> None:
    queue = await site.queue("q", **{"x-max-length": 2})
    assert await publish(site, ("q", b"1"), ("q", b"2"), ("q", b"3")) == [True, True, True]
    assert await kept(site, queue) == ["2", "3"]


async def test_a_full_queue_leaves_the_message_to_the_others(site: Site) -> None:
    limits = {"x-max-length": 1, "x-overflow": "reject-publish"}
    full, other, wide = await site.queue("q", **limits), await site.queue("other", **limits), await site.queue("wide")
    assert await publish(site, ("q", b"1"), ("q,wide", b"2"), ("wide,q,other", b"3"), ("q,other", b"4")) == [
        True,
        False,
        False,
        False,
    ]
    assert await kept(site, full) == ["1"]
    assert await kept(site, other) == ["3"]
    assert await kept(site, wide) == ["2", "3"]


async def test_a_refusal_of_the_store_stays_at_its_message(site: Site) -> None:
    full = await site.queue("q", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    await site.queue("wide")
    hosts = site.door.virtual_hosts
    await site.store.topology.delete_topic("%AMQP%wide")
    answers: list[Refusals] = []
    messages = []
    for names in (["q"], ["q", "wide"], ["wide"]):
        wanted = Publish("", names[0], False, ContentHeader.of(), b"x")
        message = hosts.routing.message(site.vhost, wanted, names, site.clock.now_ms())
        assert message is not None
        messages.append(message)
    work = hosts.overflow.admit(site.vhost, messages, lambda failure, refusals: answers.append(refusals))
    assert work is not None
    await work
    codes = [each and each.code for each in answers[0] or ()]
    assert codes == [None, Code.TOPIC_NOT_FOUND, Code.TOPIC_NOT_FOUND]
    assert await kept(site, full) == ["x"]
