"""Faults of our own while a subscriber catches up: they cost one message, one queue for a while, or one connection."""

from __future__ import annotations

import pytest

from entrepot.domain.message import StoredMessage
from entrepot.gateway.messaging.incidents import Incidents, Outcome
from entrepot.gateway.mqtt.fan_out import catching_up
from entrepot.gateway.mqtt.fan_out.audience import Match, Run
from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
from tests.support.clock import ManualClock
from tests.support.mqtt.hub_subscriber import HubSubscriber
from tests.support.stores.stepped_store import SteppedStore
from tests.support.waiting import until


def world(*names: str) -> tuple[SteppedStore, DeliveryHub]:
    store, clock = SteppedStore(*names), ManualClock()
    hub = DeliveryHub(store.port, clock, Incidents(clock))
    HubSubscriber(client_id="other").subscribe(hub, "#")
    return store, hub


def back(hub: DeliveryHub, subscriber: HubSubscriber) -> HubSubscriber:
    """A session that comes back, and had read nothing."""
    subscriber.subscribe(hub, "#")
    hub.resume(subscriber, ["#"], {})
    return subscriber


async def test_a_message_that_fails_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    store, hub = world()
    for name in ("t/a", "t/b", "t/odd", "t/odd", "t/c"):
        store.append(1, name)
    for tail in store.tails.values():
        tail.next_offset = 5
    own = hub.match

    def match(name: str) -> Match:
        if name == "t/odd":
            raise ValueError("odd")
        return own(name)

    monkeypatch.setattr(hub, "match", match)
    subscriber = back(hub, HubSubscriber())
    await until(lambda: not subscriber.lagging, "it has caught up")
    assert subscriber.offsets == [0, 1, 4] and not subscriber.has_failed
    assert [each.place for each in hub.incidents.last] == ["t/0@2", "t/0@3"]


async def test_a_queue_that_fails_is_read_later_and_the_others_now(monkeypatch: pytest.MonkeyPatch) -> None:
    store, hub = world("t", "u")
    monkeypatch.setattr(catching_up, "LASTING_SECONDS", 0.01)
    for name in ("t/x", "u/x"):
        store.append(3, name)
    for tail in store.tails.values():
        tail.next_offset = 3
    pull, broken = store.pull, {"t"}

    async def odd(topic: str, *rest: object) -> object:
        if topic in broken:
            raise ValueError("odd")
        return await pull(topic, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "pull", odd)
    subscriber = back(hub, HubSubscriber(client_id="mine"))
    await until(lambda: len(subscriber.messages) == 3, "the other queue is read")
    assert {each.topic for each in subscriber.messages} == {"u"}
    broken.clear()
    await until(lambda: not subscriber.lagging, "and this one, as soon as it can be")
    assert subscriber.offsets == [0, 1, 2, 0, 1, 2] and not subscriber.has_failed
    first = hub.incidents.last[0]
    assert (first.outcome, first.place, first.client) == (Outcome.SET_ASIDE, "t/0@0", "mine")


async def test_a_delivery_that_fails_ends_its_connection_alone() -> None:
    store, hub = world()
    store.append(3)
    for tail in store.tails.values():
        tail.next_offset = 3

    class Failing(HubSubscriber):
        def deliver(self, run: Run) -> int:
            raise ValueError("odd")

    failing, subscriber = back(hub, Failing(client_id="failing")), back(hub, HubSubscriber())
    await until(lambda: failing.has_failed and not subscriber.lagging, "one has failed, one has caught up")
    assert subscriber.offsets == [0, 1, 2] and not subscriber.has_failed
    assert [each.client for each in hub.incidents.last] == ["failing"]


async def test_a_fault_of_a_message_is_not_that_of_the_next_one_of_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    store, hub = world()
    store.append(4, "t/x")
    for tail in store.tails.values():
        tail.next_offset = 4
    own, calls = hub.match, list[StoredMessage]()

    def match(name: str) -> Match:
        calls.append(store.logs["t"][0])
        if len(calls) == 1:
            raise ValueError("odd")
        return own(name)

    monkeypatch.setattr(hub, "match", match)
    subscriber = back(hub, HubSubscriber())
    await until(lambda: not subscriber.lagging, "it has caught up")
    assert subscriber.offsets == [1, 2, 3]
