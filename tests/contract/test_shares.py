"""Shared subscriptions over every store: what the members of a share are handed, and when."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.errors import Code
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import Message
from entrepot.domain.ports import PopRequest, Store
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.messaging.incidents import Incidents
from entrepot.gateway.messaging.leased_consumer import MIN_LEASE_MS, LeasedConsumer
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.messaging.traffic import Traffic
from entrepot.gateway.mqtt.shares.shares import Shares
from tests.support.clock import ManualClock
from tests.support.mqtt.share_member import KeepingMember
from tests.support.stores.steps import append_all, bodies, eventually, message, pop, refusal_of
from tests.support.waiting import PATIENCE_SECONDS, until

LEASE_MS = 12_000
OpenShares = Callable[[], Shares]


@pytest.fixture
async def open_shares(store: Store, clock: ManualClock) -> AsyncIterator[OpenShares]:
    """The shares of one more gateway over the store."""
    opened: list[Shares] = []

    def open_another() -> Shares:
        def new_group(name: str) -> ConsumerGroup:
            return ConsumerGroup(name, invisible_seconds=LEASE_MS // 1000)

        opened.append(Shares(store, clock, new_group, lambda: {"mqtt"}, Traffic(), Incidents(clock)))
        return opened[-1]

    yield open_another
    store.consumption.release_waiting()
    await asyncio.gather(*(shares.close() for shares in opened))


@pytest.fixture
def shares(open_shares: OpenShares) -> Shares:
    return open_shares()


@pytest.fixture(autouse=True)
async def topic(store: Store) -> None:
    await store.topology.put_topic(Topic("t", queues=2))


def named(sub_topic: str, body: str, queue_id: int = 0) -> Message:
    return replace(message(sub_topic.partition("/")[0], body, queue_id), sub_topic=sub_topic)


async def send(store: Store, *names: str, sub_topic: str = "t/x") -> None:
    sent = [named(sub_topic, name, at % 2) for at, name in enumerate(names)]
    assert await append_all(store, *sent) == [None] * len(names)


async def lag(store: Store, group: str) -> int:
    return sum(each.lag for each in (await store.topology.group_status(group)).progress)


async def all_settled(store: Store, group: str) -> None:
    async def is_settled() -> bool:
        return await lag(store, group) == 0

    await eventually(is_settled)


async def test_each_message_goes_to_one_member_and_equals_have_equal_parts(store: Store, shares: Shares):
    members = [KeepingMember(quick=True), KeepingMember(quick=True)]
    for member in members:
        await shares.join("w", "t/#", member)
    names = [str(n) for n in range(400)]
    await send(store, *names)
    await until(lambda: sum(len(each.taken) for each in members) >= 400, "all messages")
    assert sorted(members[0].bodies + members[1].bodies) == sorted(names)
    assert 160 <= len(members[0].taken) <= 240
    await all_settled(store, "w")


async def test_members_on_two_gateways_share(store: Store, open_shares: OpenShares):
    members = [KeepingMember(quick=True), KeepingMember(quick=True)]
    for member in members:
        await open_shares().join("w", "t/#", member)
    names = [str(n) for n in range(800)]
    for at in range(0, 800, 20):
        await send(store, *names[at : at + 20])
    await until(lambda: sum(len(each.taken) for each in members) >= 800, "all messages")
    assert sorted(members[0].bodies + members[1].bodies) == sorted(names)
    assert 200 <= len(members[0].taken) <= 600, "both have work; which gateway asks first is not decided here"


async def test_a_slow_member_gets_less(store: Store, shares: Shares):
    slow, quick = KeepingMember(), KeepingMember()
    for member in (slow, quick):
        await shares.join("w", "t/#", member)
    for round_ in range(20):
        await send(store, *(f"{round_}.{n}" for n in range(10)))
        due = 10 * (round_ + 1)
        await until(lambda due=due: len(slow.taken) + len(quick.taken) >= due, "the messages of a round")
        quick.acknowledge()
        slow.acknowledge(1)
        shares.has_room("w", "t/#", quick)
    assert len(quick.taken) > 2 * len(slow.taken) > 0


async def test_what_a_dead_member_held_is_with_another_at_once(store: Store, shares: Shares):
    """The clock stands still: no lease ends here."""
    dead, other = KeepingMember(), KeepingMember()
    await shares.join("w", "t/#", dead)
    await send(store, "1", "2", "3")
    await until(lambda: len(dead.held) == 3, "the messages")
    assert {ticket.attempt for ticket in dead.held} == {1}
    await shares.join("w", "t/#", other)
    shares.leave("w", "t/#", dead)
    shares.leave("w", "t/#", dead)
    await until(lambda: len(other.taken) == 3, "the messages of the dead one")
    assert sorted(other.bodies) == ["1", "2", "3"]
    assert {ticket.attempt for ticket in other.held} == {2}
    dead.acknowledge()  # too late: it holds nothing
    other.acknowledge()
    await all_settled(store, "w")
    assert len(other.taken) == 3


async def test_what_a_dead_gateway_held_is_with_another_gateway_at_once(store: Store, open_shares: OpenShares):
    dead, other = KeepingMember(), KeepingMember()
    first, second = open_shares(), open_shares()
    await first.join("w", "t/#", dead)
    await send(store, "1", "2")
    await until(lambda: len(dead.held) == 2, "the messages")
    await second.join("w", "t/#", other)
    first.leave("w", "t/#", dead)
    await until(lambda: len(other.taken) == 2, "the messages of the dead one")


async def test_nothing_is_sent_again_while_the_member_lives(
    store: Store, shares: Shares, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("entrepot.gateway.messaging.leased_consumer.TICK_SECONDS", 0.01)
    holder, other = KeepingMember(), KeepingMember(limit=0)
    await shares.join("w", "t/#", holder)
    await shares.join("w", "t/#", other)
    await send(store, "1", "2", "3")
    await until(lambda: len(holder.held) == 3, "the messages")
    other.limit = 100
    shares.has_room("w", "t/#", other)
    for step in range(1, 10):  # three leases
        clock.advance(LEASE_MS // 3)
        await until(lambda step=step: shares.renewed == 3 * step, f"renewal {step}")
        assert await pop(store, "t", "w") == []
    assert len(holder.taken) == 3 and other.taken == []
    holder.acknowledge()
    await all_settled(store, "w")


async def test_a_lease_that_the_store_ended_is_forgotten(store: Store, clock: ManualClock):
    """As after a gateway was cut off for long: another has the message, and the late acknowledgement is nothing."""
    ended: list[tuple[Ticket, bool]] = []
    await store.topology.put_group(ConsumerGroup("w", invisible_seconds=10))
    leased = LeasedConsumer(
        store, clock, "t", "w", on_end=lambda tickets, is_back: ended.extend((ticket, is_back) for ticket in tickets)
    )
    await send(store, "1")
    [ticket] = leased.take(await pop(store, "t", "w"))
    clock.advance(10_001)
    [again] = await pop(store, "t", "w")
    leased.leases.renew_due()
    await until(lambda: ended, "the loss")
    assert ended == [(ticket, True)] and leased.leases.lost == 1
    ticket.acknowledge()
    ticket.release()
    assert leased.is_idle and len(ended) == 1
    assert await store.consumption.acknowledge("t", "w", [again.receipt_handle]) == [None]


async def test_without_credit_nothing_is_popped(store: Store, shares: Shares):
    member = KeepingMember(limit=2)
    await shares.join("w", "t/#", member)
    await send(store, *"12345")
    await until(lambda: len(member.held) == 2, "what there is credit for")
    assert sorted(bodies(await pop(store, "t", "w", count=10))) == sorted(set("12345") - set(member.bodies))


async def test_credit_that_grows_is_used(store: Store, shares: Shares):
    member = KeepingMember(limit=1)
    await shares.join("w", "t/#", member)
    await send(store, *"12345")
    for count in range(1, 6):
        await until(lambda count=count: len(member.taken) == count, f"message {count}")
        member.acknowledge()
        shares.has_room("w", "t/#", member)
    await all_settled(store, "w")


async def test_a_topic_that_is_there_is_read_from_now_on(store: Store, shares: Shares, clock: ManualClock):
    await send(store, "old")
    clock.advance(1)
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await send(store, "new")  # in the very millisecond in which the group was made
    await until(lambda: member.taken, "the message")
    assert member.bodies == ["new"]
    assert await lag(store, "w") == 1


async def test_what_was_confirmed_in_the_millisecond_before_is_not_for_a_new_group(
    store: Store, shares: Shares, clock: ManualClock
):
    await send(store, "old")
    member = KeepingMember()
    joining = asyncio.create_task(shares.join("w", "t/#", member))
    for _ in range(4):
        await asyncio.sleep(0)  # it waits for the clock
    clock.advance(1)
    await joining
    await send(store, "new")
    await until(lambda: member.taken, "the message")
    assert member.bodies == ["new"]


@pytest.mark.parametrize("topic_filter", ["later/#", "later/+", "+/x", "#"])
async def test_a_topic_that_comes_later_is_read_from_its_beginning(
    store: Store, shares: Shares, clock: ManualClock, topic_filter: str
):
    member = KeepingMember()
    await shares.join("w", topic_filter, member)
    clock.advance(5000)
    await store.topology.put_topic(Topic("later", queues=2))
    await send(store, "1", "2", sub_topic="later/x")
    await until(lambda: len(member.taken) == 2, "the messages")
    assert sorted(member.bodies) == ["1", "2"]


async def test_a_topic_that_came_while_nobody_was_there_is_read_from_its_beginning(
    store: Store, open_shares: OpenShares, clock: ManualClock
):
    first = open_shares()
    member = KeepingMember()
    await first.join("w", "+/x", member)
    first.leave("w", "+/x", member)
    clock.advance(5000)
    await store.topology.put_topic(Topic("later", queues=2))
    await send(store, "1", "2", sub_topic="later/x")
    clock.advance(5000)
    await open_shares().join("w", "+/x", member)
    await until(lambda: len(member.taken) == 2, "the messages")


async def test_a_filter_has_a_group_of_its_own(store: Store, shares: Shares):
    whole, part = KeepingMember("whole"), KeepingMember("part")
    await shares.join("w", "t/#", whole)
    await shares.join("w", "t/a/+", part)
    assert shares.group_name("w", "t/#") == "w"
    assert shares.group_name("w", "t/a/+").startswith("w~")
    await send(store, "1", sub_topic="t/a/b")
    await send(store, "2", sub_topic="t/c")
    await until(lambda: len(whole.taken) == 2 and len(part.taken) == 1, "both shares' messages")
    assert part.bodies == ["1"]
    whole.acknowledge()
    part.acknowledge()
    await all_settled(store, "w")
    await all_settled(store, shares.group_name("w", "t/a/+"))


async def test_the_filter_that_the_group_declares_is_that_group(store: Store, shares: Shares):
    declared = FilterExpression(FilterKind.SUB_TOPIC, "t/a/+")
    await store.topology.put_group(ConsumerGroup("w", filter=declared))
    assert shares.group_name("w", "t/a/+") == "w"
    member = KeepingMember()
    await shares.join("w", "t/a/+", member)
    await send(store, "1", sub_topic="t/b")
    await send(store, "2", sub_topic="t/a/b")
    await until(lambda: member.taken, "the message")
    assert member.bodies == ["2"]


async def test_two_whole_topics_do_not_settle_each_others_names_in_the_catch_all(store: Store, shares: Shares):
    await store.topology.put_topic(Topic("mqtt", queues=2))
    first, second = KeepingMember(), KeepingMember()
    await shares.join("w", "t/#", first)
    await shares.join("w", "u/#", second)
    sent = [replace(message("mqtt", name), sub_topic=f"{name}/x") for name in "tuv"]
    assert await append_all(store, *sent) == [None] * 3
    await until(lambda: first.taken and second.taken, "both messages")
    assert (first.bodies, second.bodies) == (["t"], ["u"])


async def test_pull_consumers_share_with_members(store: Store, shares: Shares):
    member = KeepingMember(quick=True)
    await shares.join("w", "t/#", member)
    pulled: list[str] = []

    async def pull() -> None:
        while len(pulled) + len(member.taken) < 300:
            found = await store.consumption.pop(PopRequest("t", "w", 5, 50))
            await store.consumption.acknowledge("t", "w", [delivery.receipt_handle for delivery in found])
            pulled.extend(bodies(found))

    pulling = asyncio.create_task(pull())
    names = [str(n) for n in range(300)]
    for at in range(0, 300, 10):
        await send(store, *names[at : at + 10])
    await asyncio.wait_for(pulling, PATIENCE_SECONDS)
    assert Counter(pulled + member.bodies) == Counter(names)
    assert pulled and member.taken


async def test_the_order_of_message_groups(store: Store, open_shares: OpenShares):
    await store.topology.put_group(ConsumerGroup("w", fifo=True, start="earliest"))
    members = [KeepingMember(str(n), limit=4) for n in range(4)]
    gateways = [open_shares(), open_shares()]
    for at, member in enumerate(members):
        await gateways[at % 2].join("w", "t/#", member)
    sent = [replace(named("t/x", f"{key}{n}", ord(key) % 2), message_group=key) for n in range(12) for key in "abcdef"]
    assert await append_all(store, *sent) == [None] * len(sent)
    order: list[str] = []
    while len(order) < len(sent):
        await until(lambda: any(member.held for member in members), "another message")
        holders = [{ticket.message.message_group for ticket in member.held} for member in members]
        assert sum(map(len, holders)) == len(set().union(*holders)), "a message group has two holders"
        for at, member in enumerate(members):
            order += [ticket.message.body.decode() for ticket in member.acknowledge()]
            gateways[at % 2].has_room("w", "t/#", member)
    for key in "abcdef":
        assert [name for name in order if name[0] == key] == [f"{key}{n}" for n in range(12)]


async def test_a_released_message_goes_before_what_follows_it_in_its_message_group(store: Store, shares: Shares):
    await store.topology.put_group(ConsumerGroup("w", fifo=True, start="earliest"))
    first, second = KeepingMember(limit=3), KeepingMember(limit=0)
    await shares.join("w", "t/#", first)
    await shares.join("w", "t/#", second)
    sent = [replace(named("t/x", f"a{n}"), message_group="a") for n in range(5)]
    assert await append_all(store, *sent) == [None] * 5
    await until(lambda: len(first.held) == 3, "what there is credit for")
    second.limit = 10
    shares.leave("w", "t/#", first)
    shares.has_room("w", "t/#", second)
    taken: list[str] = []
    while len(taken) < 5:
        await until(lambda: second.held, "another message")
        taken += [ticket.message.body.decode() for ticket in second.acknowledge()]
        shares.has_room("w", "t/#", second)
    assert taken == [f"a{n}" for n in range(5)]


async def test_closing_gives_everything_back(store: Store, open_shares: OpenShares):
    member = KeepingMember()
    closed = open_shares()
    await closed.join("w", "t/#", member)
    await send(store, "1", "2", "3")
    await until(lambda: len(member.held) == 3, "the messages")
    store.consumption.release_waiting()
    await closed.close()
    assert sorted(bodies(await pop(store, "t", "w"))) == ["1", "2", "3"]
    assert await refusal_of(closed.join("w", "t/#", member)) == Code.UNAVAILABLE


async def test_what_comes_when_the_last_has_left_is_given_back_at_once(store: Store, shares: Shares):
    member = KeepingMember()
    await shares.join("w", "t/#", member)
    await send(store, "1")
    await until(lambda: member.taken, "the message")  # the next long poll is under way
    member.acknowledge()
    shares.leave("w", "t/#", member)
    await send(store, "2")
    found = await eventually(lambda: pop(store, "t", "w"))
    assert bodies(found) == ["2"]
    assert len(member.taken) == 1


async def test_what_is_spent_goes_to_the_dead_letters(store: Store, shares: Shares):
    name = shares.group_name("w", "t/+")
    await store.topology.put_group(ConsumerGroup(name, max_attempts=2, start="earliest"))
    await send(store, "1")
    for attempt in (1, 2):
        member = KeepingMember()
        await shares.join("w", "t/+", member)
        await until(lambda member=member: member.held, f"attempt {attempt}")
        assert member.held[0].attempt == attempt
        shares.leave("w", "t/+", member)
    await shares.join("w", "t/+", KeepingMember())

    async def dead() -> list[str]:
        return bodies(await pop(store, f"%DLQ%{name}", "reader"))

    async def buried() -> list[str]:
        return await dead() if store.topology.topic(f"%DLQ%{name}") is not None else []

    assert await eventually(buried) == ["1"]


async def test_what_is_refused(store: Store, shares: Shares):
    member = KeepingMember()
    await store.topology.put_topic(Topic("closed", permission=Permission.WRITE))
    assert await refusal_of(shares.join("n" * 121, "t/#", member)) == Code.ILLEGAL_CONSUMER_GROUP
    assert await refusal_of(shares.join("n" * 110, "t/+", member)) == Code.ILLEGAL_CONSUMER_GROUP
    assert await refusal_of(shares.join("w", "t/#/x", member)) == Code.ILLEGAL_FILTER_EXPRESSION
    assert await refusal_of(shares.join("w", "closed/#", member)) == Code.FORBIDDEN
    assert shares.group_name("über.all", "t/#") == "%C3%BCber%2Eall"


async def test_leaving_while_joining(store: Store, shares: Shares):
    member = KeepingMember()
    joining = asyncio.create_task(shares.join("w", "t/#", member))
    await asyncio.sleep(0)
    shares.leave("w", "t/#", member)
    await joining
    await send(store, "1")
    assert bodies(await pop(store, "t", "w")) == ["1"]
    assert member.taken == []


def test_the_shortest_lease_outlives_a_slow_disk():
    assert MIN_LEASE_MS >= 10_000
