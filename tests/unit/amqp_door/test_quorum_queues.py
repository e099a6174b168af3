"""Quorum queues as RabbitMQ 4.3 documents them: retries with a delay, strict priorities, consumers that are late."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.queues.arguments import QueueArguments, parse_queue_arguments
from entrepot.domain.queues.policy import Policy
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.methods_basic import BasicCancel, BasicNack, BasicRecover, BasicReject
from entrepot.protocols.amqp.methods_connection import ChannelClose
from tests.support.amqp.door import AmqpClient, AmqpDoor, quiet
from tests.support.cases import cases
from tests.support.waiting import until

OF = "queue 'q' in vhost '/'"
QUORUM = {"x-queue-type": "quorum"}


# -- retries with a delay ----------------------------------------------------------------------------------------------


def arguments(**given: object) -> QueueArguments:
    return parse_queue_arguments({**QUORUM, **{name.replace("_", "-"): value for name, value in given.items()}}, OF)


@cases(
    ("kind", "attempt", "has_failed", "expected"),
    [
        ("all", 1, True, 100),
        ("all", 2, False, 200),
        ("all", 9, False, 500),
        ("failed", 3, True, 300),
        ("failed", 3, False, 0),
        ("returned", 3, True, 0),
        ("returned", 4, False, 400),
        ("disabled", 1, True, 0),
    ],
)
def test_the_delay(kind: str, attempt: int, has_failed: bool, expected: int) -> None:
    delayed = arguments(x_delayed_retry_type=kind, x_delayed_retry_min=100, x_delayed_retry_max=500)
    assert delayed.retry_delay_ms(attempt, has_failed=has_failed) == expected


def test_a_delay_without_a_maximum_or_a_minimum() -> None:
    assert arguments(x_delayed_retry_type="all", x_delayed_retry_min=100).retry_delay_ms(50, has_failed=True) == 5000
    assert arguments(x_delayed_retry_type="all").retry_delay_ms(50, has_failed=True) == 0
    assert QueueArguments(delayed_retry_min_ms=100).retry_delay_ms(1, has_failed=True) == 0


async def delayed(door: AmqpDoor, kind: str) -> AmqpClient:
    client = await door.client().open()
    await client.declare("q", queue_type="quorum", delayed_retry_type=kind, delayed_retry_min=1000)
    await client.fill("q", b"odd", b"next")
    await client.consume("q", prefetch=1)
    assert await client.takes(1) == [b"odd"]
    return client


async def test_a_rejected_message_waits_and_others_pass_it(door: AmqpDoor) -> None:
    client = await delayed(door, "failed")
    expected = [b"odd", b"next"]
    client.say(1, BasicReject(1, True))
    assert await client.takes(2) == expected
    client.say(1, BasicReject(2, False))
    await quiet()
    door.clock.advance(999)
    await quiet()
    assert client.bodies() == expected, "not before its time"
    door.clock.advance(1)
    assert await client.takes(3) == [*expected, b"odd"]
    assert client.given[-1].redelivered


@pytest.mark.parametrize(
    ("kind", "waits", "method"),
    [
        ("failed", False, BasicNack(1, requeue=True)),
        ("failed", True, BasicReject(1, True)),
        ("returned", True, BasicNack(1, requeue=True)),
        ("returned", False, BasicReject(1, True)),
        ("all", True, BasicNack(1, requeue=True)),
        ("all", True, BasicRecover(True)),
        ("failed", False, BasicRecover(True)),
    ],
)
async def test_which_returns_wait(door: AmqpDoor, kind: str, waits: bool, method: BasicNack) -> None:
    client = await delayed(door, kind)
    client.say(1, method)
    assert await client.takes(2) == [b"odd", b"next" if waits else b"odd"]


async def test_a_policy_sets_the_delay_too(door: AmqpDoor) -> None:
    client = await door.client().open()
    definition = {"delayed-retry-type": "all", "delayed-retry-min": 1000}
    vhost = door.hosts.definitions.vhost("/")
    assert vhost is not None
    await door.hosts.definitions.put_policy(vhost, Policy("p", "^q$", definition))
    await client.declare("q", queue_type="quorum")
    assert door.queue("q").declaration.arguments.retry_delay_ms(3, has_failed=True) == 3000


# -- strict priorities -------------------------------------------------------------------------------------------------


async def test_higher_priorities_come_first(door: AmqpDoor) -> None:
    client = await door.client().open()
    await client.declare("q", queue_type="quorum", max_priority=31)
    for priority in (3, 31, 0, 17, 200):
        await client.fill("q", b"%d" % priority, header=ContentHeader.of(priority=priority))
    found = [await client.get("q") for _ in range(5)]
    bodies = [each.body for each in found if each is not None]
    assert sorted(bodies[:2]) == [b"200", b"31"], "one above the highest counts as that"
    assert bodies[2:] == [b"17", b"3", b"0"]


def test_priorities_beyond_32_are_refused() -> None:
    assert arguments(x_max_priority=31).max_priority == 31
    with pytest.raises(EntrepotError, match=r"max_value_exceeded,32"):
        arguments(x_max_priority=32)
    assert parse_queue_arguments({"x-max-priority": 255}, OF).max_priority == 255


# -- consumers that are late -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "is_told"), [("quorum", True), ("classic", False)])
async def test_a_late_consumer_is_cancelled_and_its_messages_go_to_others(kind: str, is_told: bool) -> None:
    """A classic queue's loses its channel, as before."""
    how = {"consumer_timeout_seconds": 3600, "consumer_timeout_response": "notify_consumer"}
    async with AmqpDoor(amqp=how) as door:
        slow, quick = await door.client().open(), await door.client().open()
        await slow.declare("q", queue_type=kind, consumer_timeout=0)
        await slow.declare("other")
        await slow.fill("q", b"0")
        await slow.consume("q", tag="slow")
        await slow.consume("other", tag="stays")
        await slow.takes(1)
        await quick.consume("q", tag="quick")
        machine, consuming = slow.conversation.machine, slow.conversation.channels[1].consuming
        machine.capabilities = replace(machine.capabilities, consumer_cancel_notify=True)
        now = asyncio.get_running_loop().time
        await until(lambda: consuming.late(now(), 3600), "it is late")
        door.frontend._look_for_late()
        if not is_told:
            assert (await slow.expect(ChannelClose)).reply_code == 406
            return
        assert (await slow.expect(BasicCancel)).consumer_tag == "slow"
        assert not slow.has(ChannelClose, 1)
        assert await quick.takes(1) == [b"0"] and quick.given[0].redelivered
        await slow.fill("other", b"1")
        assert await slow.takes(2) == [b"0", b"1"]
