"""The delivery hub over a store whose tails move by hand: nothing twice, nothing lost, nothing out of order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from entrepot.domain.message import SystemProperty
from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.fan_out import audience
from entrepot.gateway.mqtt.fan_out.audience import Run, SubscriptionOptions
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import PublishTemplate, publish_template
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import PropertyId
from tests.support.clock import ManualClock
from tests.support.mqtt.hub_subscriber import HubSubscriber
from tests.support.stores.stepped_store import SteppedStore
from tests.support.waiting import until

PLENTY = 1 << 30
KEY = ("t", 0)


def hub_of(store: SteppedStore) -> DeliveryHub:
    return DeliveryHub(store.port, ManualClock(), Incidents(ManualClock()))


async def caught_up(hub: DeliveryHub, subscriber: HubSubscriber) -> None:
    subscriber.room = PLENTY
    hub.catch_up(subscriber)
    await until(lambda: not subscriber.lagging, "it has caught up")


def packet_of(template: PublishTemplate, version: int = 5) -> Publish:
    (packet,) = Decoder(1 << 20, version).feed(template.packet(1))
    assert isinstance(packet, Publish)
    return packet


# -- behind and back


@pytest.mark.parametrize("behind", [0, 1, 5, 300, 2000])
async def test_catching_up_while_the_tail_is_behind(behind: int) -> None:
    """What the tail has not reached yet comes from the tail, and only from there."""
    store = SteppedStore()
    hub = hub_of(store)
    slow, quick = HubSubscriber(room=5), HubSubscriber()
    for subscriber in (slow, quick):
        subscriber.subscribe(hub, "t/#")
    tail = store.tails["t"]
    store.append(20 + behind)
    tail.step(20)
    assert slow.offsets == list(range(5))
    assert quick.offsets == list(range(20)), "who has room does not wait for who has none"
    await caught_up(hub, slow)
    assert slow.offsets == list(range(20))
    while tail.next_offset < len(store.logs["t"]):
        tail.step(64)
    assert slow.offsets == quick.offsets == list(range(20 + behind))
    assert hub.delivered == 2 * (20 + behind)
    assert slow.flushed == len(slow.given)


async def test_falling_behind_again_and_again() -> None:
    store = SteppedStore()
    hub = hub_of(store)
    slow = HubSubscriber(room=3)
    slow.subscribe(hub, "t/x")
    for _ in range(40):
        store.append(30)
        store.tails["t"].step(30)
        slow.room = len(slow.given) + 7
        hub.catch_up(slow)
        await until(lambda: slow.has_backlog or not slow.lagging, "it read what it had room for")
    await caught_up(hub, slow)
    assert slow.offsets == list(range(40 * 30))


async def test_topics_of_namespaces_are_not_followed() -> None:
    store = SteppedStore("team/t", "t")
    hub = hub_of(store)
    HubSubscriber().subscribe(hub, "#")
    HubSubscriber().subscribe(hub, "team/t")
    assert list(store.tails) == ["t"]


async def test_catching_up_behind_what_is_gone() -> None:
    """Who lags where retention has been goes on at the beginning of what is left, at once."""
    store = SteppedStore()
    hub = hub_of(store)
    slow = HubSubscriber(room=5)
    slow.subscribe(hub, "t/#")
    store.append(1000)
    store.tails["t"].step(1000)
    store.min_offset = 900
    await caught_up(hub, slow)
    assert slow.offsets == [*range(5), *range(900, 1000)]
    assert store.pulls <= 3


@pytest.mark.parametrize("room", range(7))
async def test_names_with_different_audiences_leave_one_place_behind(room: int) -> None:
    """One batch has names that others want too: without room, the place left is that of the first one missed."""
    store = SteppedStore()
    hub = hub_of(store)
    slow, other = HubSubscriber(room=room), HubSubscriber()
    slow.subscribe(hub, "t/#")
    other.subscribe(hub, "t/x")
    for name in ("t/x", "t/y", "t/x", "t/z", "t/y", "t/x"):
        store.append(1, name)
    store.tails["t"].step()
    assert slow.offsets == list(range(room))
    assert other.offsets == [0, 2, 5]
    await caught_up(hub, slow)
    assert slow.offsets == list(range(6))


@pytest.mark.parametrize("seed", range(12))
async def test_random_subscribers_get_everything_once_in_order(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = SteppedStore()
    hub = hub_of(store)
    names = ["t", "t/a", "t/b", "t/a/c", "t/b/c"]
    filters = ["t/#", "t/a", "t/+", "t/+/c", "t/b/#", "#", "+/a"]
    subscribers = [HubSubscriber(rng.choice([0, 3, 50, PLENTY]), version=rng.choice([4, 5])) for _ in range(6)]
    for subscriber in subscribers:
        for wanted in rng.sample(filters, rng.randint(1, 4)):
            options = SubscriptionOptions(rng.randint(0, 2), identifier=rng.randint(0, 3))
            subscriber.subscribe(hub, wanted, options)
    for _ in range(60):
        for _ in range(rng.randint(0, 12)):
            store.append(1, rng.choice(names), rng.randint(0, 2))
        store.tails["t"].step(rng.randint(0, 15))
        subscriber = rng.choice(subscribers)
        subscriber.room = max(subscriber.room, len(subscriber.given) + rng.randint(0, 20))
        hub.catch_up(subscriber)
        if rng.random() < 0.5:
            await until(lambda s=subscriber: s.has_backlog or not s.lagging, "it read what it had room for")  # type: ignore[misc]
    store.tails["t"].step()
    for subscriber in subscribers:
        await caught_up(hub, subscriber)
        expected = [
            message.queue_offset
            for message in store.logs["t"]
            if any(matches(each, message.sub_topic) for each in subscriber.filters)
        ]
        assert subscriber.offsets == expected
        for message, template, identifiers in zip(
            subscriber.messages, subscriber.given, subscriber.identifiers, strict=True
        ):
            matching = [options for each, options in subscriber.filters.items() if matches(each, message.sub_topic)]
            assert template.qos == min(message.qos, max(options.qos for options in matching))
            if subscriber.version == 5:
                assert sorted(identifiers) == sorted(each.identifier for each in matching if each.identifier)


# -- subscriptions that overlap


async def test_overlapping_subscriptions_are_one_copy() -> None:
    """3.3.4-2, -3: the highest QoS, every identifier; RETAIN as published if any filter wants it."""
    store = SteppedStore()
    hub = hub_of(store)
    both, plain, old = HubSubscriber(), HubSubscriber(), HubSubscriber(version=4)
    both.subscribe(hub, "t/#", SubscriptionOptions(0, retain_as_published=True, identifier=7))
    both.subscribe(hub, "t/x", SubscriptionOptions(2, identifier=9))
    both.subscribe(hub, "t/+", SubscriptionOptions(1))
    for subscriber in (plain, old):
        subscriber.subscribe(hub, "t/#", SubscriptionOptions(1))
    store.append(1, "t/x", 2, {SystemProperty.RETAIN: "1"})
    store.tails["t"].step()
    (packet,) = map(packet_of, both.given)
    assert (packet.qos, packet.retain) == (2, True)
    assert sorted(packet.properties[PropertyId.SUBSCRIPTION_IDENTIFIER]) == [7, 9]
    (packet,) = map(packet_of, plain.given)
    assert (packet.qos, packet.retain, dict(packet.properties)) == (1, False, {})
    (packet,) = [packet_of(each, 4) for each in old.given]
    assert (packet.qos, packet.retain) == (1, False)


async def test_the_same_filter_again_changes_its_options() -> None:
    """3.8.4-3"""
    store = SteppedStore()
    hub = hub_of(store)
    subscriber = HubSubscriber()
    subscriber.subscribe(hub, "t/x", SubscriptionOptions(2, identifier=1))
    subscriber.subscribe(hub, "t/x", SubscriptionOptions(0, identifier=2))
    store.append(1, "t/x", 2)
    store.tails["t"].step()
    (packet,) = map(packet_of, subscriber.given)
    assert (packet.qos, packet.properties) == (0, {PropertyId.SUBSCRIPTION_IDENTIFIER: [2]})


@pytest.mark.parametrize("room", [0, PLENTY])
async def test_no_local(room: int) -> None:
    """3.8.3-3: live and read on; a filter without it gets what the client published all the same."""
    store = SteppedStore()
    hub = hub_of(store)
    own, mixed, other = (HubSubscriber(room, client_id=name) for name in ("me", "me", "you"))
    for subscriber in (own, mixed, other):
        subscriber.subscribe(hub, "t/#", SubscriptionOptions(1, no_local=True, identifier=1))
    mixed.subscribe(hub, "t/x", SubscriptionOptions(0, identifier=2))
    store.append(1, system={SystemProperty.PUBLISHER: "me"})
    store.append(1)
    store.append(1, "t/y", system={SystemProperty.PUBLISHER: "me"})
    store.tails["t"].step()
    for subscriber in (own, mixed, other):
        await caught_up(hub, subscriber)
    assert own.offsets == [1]
    assert mixed.offsets == [0, 1]
    assert mixed.identifiers[0] == (2,)
    assert other.offsets == [0, 1, 2]


async def test_publishers_with_no_local_leave_nothing_behind() -> None:
    """Each of them leaves out another subscriber: those who are left are not remembered for each."""
    store = SteppedStore()
    hub = hub_of(store)
    everybody = [HubSubscriber(client_id=f"c{number}") for number in range(100)]
    for subscriber in everybody:
        subscriber.subscribe(hub, "t/#", SubscriptionOptions(1, no_local=True))
    for number in range(100):
        store.append(1, system={SystemProperty.PUBLISHER: f"c{number}"})
    store.tails["t"].step()
    for number, subscriber in enumerate(everybody):
        assert subscriber.offsets == [offset for offset in range(100) if offset != number]
    assert len(hub._audiences) <= 1


async def test_a_message_in_further_queues_comes_from_that_of_its_own_topic() -> None:
    """Live and read on; and the places in the two queues are not taken for each other."""
    store = SteppedStore("t", "u")
    hub = hub_of(store)
    quick, slow = HubSubscriber(), HubSubscriber(room=0)
    for subscriber in (quick, slow):
        subscriber.subscribe(hub, "#")
    store.append(3, "u/x")
    for _ in range(2):
        store.append(1, "t/x")
        store.refer("u")
    store.append(1, "u/x")
    for tail in store.tails.values():
        tail.step()
    assert slow.lagging == {("t", 0): 0, ("u", 0): 0}
    await caught_up(hub, slow)
    expected = [("t", 0), ("t", 1), *(("u", offset) for offset in (0, 1, 2, 5))]
    for subscriber in (quick, slow):
        assert sorted((message.topic, message.queue_offset) for message in subscriber.messages) == expected


async def test_a_message_without_a_sub_topic_has_its_topic_s_name() -> None:
    store = SteppedStore()
    hub = hub_of(store)
    live, late = HubSubscriber(), HubSubscriber(room=0)
    for subscriber in (live, late):
        subscriber.subscribe(hub, "t")
    store.append(2, "t")
    for message in store.logs["t"]:
        message.sub_topic = ""
    store.tails["t"].step()
    await caught_up(hub, late)
    assert live.offsets == late.offsets == [0, 1]
    assert packet_of(live.given[0]).topic == "t"


# -- sessions that come back


async def resumed(
    store: SteppedStore,
    cursors: dict[tuple[str, int], int],
    *filters: str,
    is_replay: bool = False,
    steps: int = PLENTY,
) -> tuple[DeliveryHub, HubSubscriber]:
    """A subscriber that comes back while another was there all along, whose tail handed over `steps` messages."""
    hub = hub_of(store)
    HubSubscriber().subscribe(hub, "#")
    for tail in store.tails.values():
        tail.next_offset = 0
        tail.step(steps)
    back = HubSubscriber()
    for wanted in filters:
        back.subscribe(hub, wanted, SubscriptionOptions(2))
    hub.resume(back, filters, cursors, is_replay=is_replay)
    await until(lambda: not back.lagging, "it has caught up")
    return hub, back


async def test_a_session_reads_on_from_its_cursor() -> None:
    store = SteppedStore()
    for _ in range(600):
        store.append(1, "t/x")
        store.append(1, "t/y")
    _, back = await resumed(store, {KEY: 100}, "t/x", steps=1000)
    store.tails["t"].step()
    assert back.offsets == list(range(100, 1200, 2))
    assert all(wanted is not None for wanted in store.wanted), "the store is asked for what is wanted only"


async def test_what_was_sent_at_most_once_is_not_kept_for_who_is_away() -> None:
    store = SteppedStore()
    for _ in range(10):
        store.append(1, qos=0)
        store.append(1, qos=1)
    _, back = await resumed(store, {KEY: 4}, "t/#", steps=12)
    assert back.offsets == [5, 7, 9, 11]
    store.tails["t"].step()
    assert back.offsets == [5, 7, 9, 11, *range(12, 20)], "from where it joined, all"


async def test_a_replay_wants_everything() -> None:
    store = SteppedStore()
    store.append(10, qos=0)
    _, back = await resumed(store, {KEY: 4}, "t/#", is_replay=True)
    assert back.offsets == [4, 5, 6, 7, 8, 9]


async def test_a_queue_that_is_new_is_read_from_its_beginning() -> None:
    store = SteppedStore("t", "u")
    store.append(5)
    store.append(3, "u/x")
    _, back = await resumed(store, {KEY: 5}, "+/x")
    assert [(message.topic, message.queue_offset) for message in back.messages] == [("u", n) for n in range(3)]


@pytest.mark.parametrize(("is_replay", "expected"), [(False, [0, 1, 2]), (True, [])])
async def test_a_cursor_beyond_the_end_is_of_another_queue(is_replay: bool, expected: list[int]) -> None:
    store = SteppedStore()
    store.append(3)
    _, back = await resumed(store, {KEY: 50}, "t/#", is_replay=is_replay)
    assert back.offsets == expected
    store.append(1)
    store.tails["t"].step()
    assert back.offsets == [*expected, 3]


@pytest.mark.parametrize("cursor", [0, 5])
async def test_a_session_comes_back_while_a_broker_is_away(cursor: int) -> None:
    """Where the tail begins is not known yet, so nothing may be concluded from it: nothing twice, nothing lost."""
    store = SteppedStore()
    store.append(8)
    store.is_away = True
    hub = hub_of(store)
    back = HubSubscriber()
    back.subscribe(hub, "t/#", SubscriptionOptions(2))
    tail = store.tails["t"]
    tail.next_offset = 0
    hub.resume(back, ["t/#"], {KEY: cursor})
    await until(lambda: store.pulls, "it is read for")
    store.is_away = False
    await until(lambda: len(back.messages) >= 8 - cursor, "it is read on")
    tail.next_offset = 7  # it begins where the first message is that came while the broker was away
    store.append(2)
    tail.step()
    await until(lambda: not back.lagging, "it has caught up")
    store.append(2)
    tail.step()
    assert back.offsets == list(range(cursor, 12))


async def test_a_cursor_below_0_is_a_time() -> None:
    store = SteppedStore()
    store.append(10)
    _, back = await resumed(store, {KEY: -7}, "t/#")
    assert back.offsets == [7, 8, 9]


@pytest.mark.parametrize("seed", range(8))
async def test_sessions_come_and_go(seed: int) -> None:
    """Whatever it had got when it went, it gets the rest: nothing above QoS 0 twice or lost."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    store = SteppedStore("t", "u")
    hub = hub_of(store)
    HubSubscriber().subscribe(hub, "#")
    names = ["t/a", "t/b", "u/a", "u/b"]
    wanted = rng.sample(["t/a", "+/b", "u/#", "t/#"], 2)
    for topic, tail in store.tails.items():  # else a tail at 0 would be one that has not begun
        store.append(1, f"{topic}/first", qos=0)
        tail.step()
    cursors = {(topic, 0): 1 for topic in ("t", "u")}
    got: list[tuple[str, int]] = []
    for _ in range(10):
        session = HubSubscriber(rng.choice([0, 5, PLENTY]))
        for each in wanted:
            session.subscribe(hub, each, SubscriptionOptions(1))
        hub.resume(session, wanted, cursors)
        for _ in range(rng.randint(0, 6)):
            for _ in range(rng.randint(0, 40)):
                store.append(1, rng.choice(names), rng.randint(0, 1))
            store.tails[rng.choice("tu")].step(rng.randint(0, 50))
            session.room = max(session.room, len(session.given) + rng.randint(0, 10))
            hub.catch_up(session)
            if rng.random() < 0.5:
                await until(lambda s=session: s.has_backlog or not s.lagging, "it read on")  # type: ignore[misc]
        got += [(message.topic, message.queue_offset) for message in session.messages if message.qos]
        cursors = hub.positions(wanted) | (session.lagging or {})
        cursors = {key: max(offset, 0) for key, offset in cursors.items()}
        session.lagging = None
        for each in wanted:
            hub.unsubscribe(session, each)
    last = HubSubscriber()
    for tail in store.tails.values():
        tail.step()
    for each in wanted:
        last.subscribe(hub, each, SubscriptionOptions(1))
    hub.resume(last, wanted, cursors)
    await until(lambda: not last.lagging, "it has caught up")
    got += [(message.topic, message.queue_offset) for message in last.messages if message.qos]
    for topic, log in store.logs.items():
        expected = [
            message.queue_offset
            for message in log
            if message.qos and any(matches(each, message.sub_topic) for each in wanted)
        ]
        assert [offset for name, offset in got if name == topic] == expected


# -- one that fails


async def test_one_odd_message_is_set_aside_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Live and catching up: the ninety-nine arrive in order."""

    def odd(name: str, body: bytes, *rest: Any) -> PublishTemplate:
        if body == b"!42":
            raise ValueError("cannot be said")
        return publish_template(name, body, *rest)

    monkeypatch.setattr(audience, "publish_template", odd)
    store = SteppedStore()
    incidents = Incidents(ManualClock())
    hub = DeliveryHub(store.port, ManualClock(), incidents)
    quick, slow = HubSubscriber(), HubSubscriber(room=3)
    for subscriber in (quick, slow):
        subscriber.subscribe(hub, "t/#")
    store.append(100)
    store.tails["t"].step(100)
    await caught_up(hub, slow)
    expected = [offset for offset in range(100) if store.logs["t"][offset].body != b"!42"]
    assert len(expected) == 99
    assert quick.offsets == slow.offsets == expected
    assert incidents.counts["mqtt fan-out", Outcome.SET_ASIDE] >= 1
    assert incidents.last[0].place == "t/0@42"


async def test_a_subscriber_that_fails_is_ended_alone() -> None:
    store = SteppedStore()
    incidents = Incidents(ManualClock())
    hub = DeliveryHub(store.port, ManualClock(), incidents)

    class Failing(HubSubscriber):
        def deliver(self, run: Run) -> int:
            raise RuntimeError("mine")

    first, bad, last = HubSubscriber(), Failing(), HubSubscriber()
    for subscriber in (first, bad, last):
        subscriber.subscribe(hub, "t/#")
    store.append(10)
    store.tails["t"].step(10)
    assert first.offsets == last.offsets == list(range(10))
    assert bad.has_failed and not first.has_failed and not last.has_failed
    assert sum(incidents.counts.values()) == 1
