"""A deliverer: nothing is acknowledged before its sink has it, one odd event hurts no other, and a pause keeps all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from entrepot.domain.delivery import Deliveries
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import place_of
from entrepot.domain.ports import PopRequest
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.webhooks import backlog
from entrepot.gateway.events.webhooks import deliverer as module
from entrepot.gateway.events.webhooks.deliverer import Deliverer
from entrepot.gateway.events.webhooks.delivery_request import DeliveryRequest, request_of
from entrepot.gateway.events.webhooks.sink_answer import Answer
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.settings import WebhookSettings
from tests.support.cases import cases
from tests.support.seed import seeded
from tests.support.stores.replaced import replaced
from tests.support.waiting import until
from tests.unit.webhooks.world import World, bodies_of, world

FAULTS = (ValueError("odd"), KeyError("odd"), RecursionError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd"))


@asynccontextmanager
async def delivering(made: World) -> AsyncIterator[Deliverer]:
    running = Deliverer(made.context, made.subscription, made.circuit)
    try:
        yield running
    finally:
        await running.stop()


# -- acknowledging -----------------------------------------------------------------------------------------------------


async def test_nothing_is_acknowledged_before_the_sink_has_answered() -> None:
    async with world() as made:
        made.sink.gate.clear()
        await made.feed("a", "b")
        async with delivering(made) as running:
            await until(lambda: made.sink.under_way == 2, "both are under way")
            assert (running.in_flight, await made.waiting()) == (2, 2)
            made.sink.gate.set()
            await made.left()
        assert made.context.counters.delivered == 2 == len(made.sink.bodies)


async def test_what_was_under_way_at_the_end_comes_again_at_once() -> None:
    async with world() as made:
        made.sink.gate.clear()
        await made.feed("a", "b")
        async with delivering(made):
            await until(lambda: made.sink.under_way == 2, "both are under way")
        assert sorted(bodies_of(await made.take())) == ["a", "b"]


async def test_a_stop_lets_requests_end() -> None:
    async with world() as made:
        made.sink.gate.clear()
        await made.feed("a")
        running = Deliverer(made.context, made.subscription, made.circuit)
        await until(lambda: made.sink.under_way == 1, "it is under way")
        stopping = asyncio.ensure_future(running.stop(60.0))
        await asyncio.sleep(0)
        made.sink.gate.set()
        await stopping
        assert (await made.waiting(), made.context.counters.delivered) == (0, 1)


async def test_an_event_waits_where_the_store_does_not_take_the_sink_s_state() -> None:
    async def refused(*arguments: Any) -> bool:
        raise EntrepotError(Code.UNAVAILABLE, "away")

    async with world() as made:
        made.context.subscriptions = replaced(made.subscriptions, put_state=refused)
        made.sink.told = [Answer(410)]
        await made.feed("a")
        async with delivering(made) as running:
            await until(lambda: made.sink.bodies and not running.in_flight, "it was answered")
        assert (await made.waiting(), await made.dead_letters()) == (1, [])
        made.clock.advance(module.PAUSE_MS - 1)
        assert await made.take() == []
        made.clock.advance(1)
        assert bodies_of(await made.take()) == ["a"]


@cases("mode, key, most", [("binary", "", 3), ("binary", "k", 1), ("batched", "k", 1)])
async def test_no_more_requests_than_allowed_are_under_way(mode: str, key: str, most: int) -> None:
    settings = WebhookSettings(max_requests_per_subscription=3)
    async with world(settings, mode=mode, batch_size=2, is_ordered=bool(key)) as made:
        names = [f"e{number}" for number in range(12)]
        await made.feed(*names, key=key)
        async with delivering(made):
            await made.left()
        assert 1 <= made.sink.most_under_way <= most
        if mode == "binary":
            assert sorted(made.sink.bodies) == sorted(name.encode() for name in names)
            assert not key or [body.decode() for body in made.sink.bodies] == names


async def test_a_failing_sink_is_left_alone_and_a_busy_one_too() -> None:
    settings = WebhookSettings(circuit_failures=2, circuit_seconds=1000, circuit_max_seconds=1000)
    for told, requests in (([Answer(500)] * 9, 2), ([Answer(503, {"retry-after": "900"})] * 9, 1)):
        async with world(settings, is_ordered=True, initial_backoff_ms=0, max_backoff_ms=0) as made:
            made.sink.told = list(told)
            await made.feed("a", "b", "c", key="k")
            async with delivering(made) as running:
                await until(lambda running=running: running.is_open and not running.in_flight, "it is left alone")
                assert (len(made.sink.bodies), running.circuit[0]) == (requests, "open")
                assert running.circuit[2] > 800
            assert await made.waiting() == 3


async def test_old_events_are_dead_letters_unsent() -> None:
    async with world(max_age_seconds=60) as made:
        await made.feed("old")
        made.clock.advance(30_000)
        await made.feed("young")
        made.clock.advance(30_001)
        async with delivering(made):
            await made.left()
        assert (made.sink.bodies, await made.dead_letters()) == ([b"young"], [("old", "expired")])
        assert made.context.counters.dead_letters == 1


# -- odd events --------------------------------------------------------------------------------------------------------


def failing(odd: Mapping[bytes, Exception]) -> Any:
    """`request_of`, which fails where one of these bodies is among the events."""

    def made(subscription: Subscription, tickets: Sequence[Ticket], *others: Any) -> DeliveryRequest:
        for each in tickets:
            if each.message.body in odd:
                raise odd[each.message.body]
        return request_of(subscription, tickets, *others)

    return made


@cases("mode, key", [("binary", "k"), ("structured", ""), ("batched", ""), ("batched", "k")])
async def test_odd_events_are_set_aside_and_the_others_go_on_in_order(
    monkeypatch: pytest.MonkeyPatch, mode: str, key: str
) -> None:
    rng = seeded(f"odd events {mode} {key}")
    count = rng.randint(20, 40)
    names = [f"event-{number:02}" for number in range(count)]
    chosen = sorted(rng.sample(range(count), rng.randint(1, 2)))
    odd = {names[number].encode(): rng.choice(FAULTS) for number in chosen}
    monkeypatch.setattr(module, "request_of", failing(odd))
    async with world(mode=mode, batch_size=rng.randint(2, 9), is_ordered=bool(key)) as made:
        await made.feed(*names, key=key)
        async with delivering(made):
            await made.left()
        sent = b" ".join(made.sink.bodies)
        plain = [name.encode() for name in names if name.encode() not in odd]
        places = sorted((sent.find(name), name) for name in plain)
        assert places[0][0] >= 0 and not any(name in sent for name in odd)
        if key:
            assert [name for _, name in places] == plain, "in order"
        dead = await made.dead_letters()
        assert sorted(dead) == [
            (body.decode(), f"a fault of the server: {type(fault).__name__}") for body, fault in odd.items()
        ]
        counters, incidents = made.context.counters, made.context.incidents
        assert (counters.delivered, counters.dead_letters) == (len(plain), len(odd))
        assert incidents.counts == {("webhook", Outcome.SET_ASIDE): len(odd)}
        noted = sorted((each.place, each.reason) for each in incidents.last)
        assert noted == sorted(
            (place_of(made.subscription.feed, 0, number), f"{type(fault).__name__}: {fault}"[:300])
            for number, fault in zip(chosen, odd.values(), strict=True)
        )
        assert made.circuit.failures == 0 and not made.circuit.is_trying


async def test_an_event_that_cannot_be_read_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(message: Any, *others: Any) -> bool:
        if message.body == b"b":
            raise ValueError("no message")
        return False

    monkeypatch.setattr(module, "is_over", unreadable)
    async with world(mode="batched", is_ordered=True) as made:
        await made.feed("a", "b", "c", key="k")
        async with delivering(made):
            await made.left()
        assert await made.dead_letters() == [("b", "a fault of the server: ValueError")]
        assert made.context.counters.delivered == 2


async def test_an_odd_event_that_is_to_try_the_sink_lets_the_next_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "request_of", failing({b"odd": ValueError("odd")}))
    async with world(WebhookSettings(circuit_failures=1, circuit_seconds=0), is_ordered=True) as made:
        made.circuit.failed(asyncio.get_running_loop().time())
        await made.feed("odd", "plain", key="k")
        async with delivering(made):
            await made.left()
        assert made.sink.bodies == [b"plain"] and made.circuit.is_well


async def test_of_two_subscriptions_one_tries_their_sink() -> None:
    async with world(WebhookSettings(circuit_failures=1, circuit_seconds=0)) as made:
        made.circuit.failed(asyncio.get_running_loop().time())
        made.sink.gate.clear()
        await made.feed("a", "b")
        async with delivering(made), delivering(made):
            await until(lambda: made.sink.under_way, "one tries")
            for _ in range(100):
                await asyncio.sleep(0)
            assert made.sink.most_under_way == 1
            made.sink.gate.set()
            await until(lambda: made.circuit.is_well, "the sink is well again")


async def test_a_fault_of_ours_after_the_request_makes_another_attempt() -> None:
    async with world(max_attempts=5) as made:
        made.sink.told = [RuntimeError("ours")]
        await made.feed("a")
        async with delivering(made) as running:
            await until(lambda: made.sink.bodies and not running.in_flight, "it failed")
            assert not made.circuit.is_trying and await made.waiting() == 1
        made.clock.advance(module.PAUSE_MS)
        [again] = await made.take()
        assert again.attempt == 2


async def test_events_that_were_popped_as_the_sink_was_suspended_had_no_attempt() -> None:
    async with world() as made:
        own = made.store.consumption

        async def pop_late(request: PopRequest) -> Deliveries:
            popped = await own.pop(request)
            if popped:
                await made.put_state(suspended="HTTP 410")
            return popped

        made.store.consumption = replaced(own, pop=pop_late)
        await made.feed("a")
        async with delivering(made):
            await until(lambda: made.state.suspended, "it is suspended")
        made.store.consumption = own
        [again] = await made.take()
        assert (again.attempt, made.sink.bodies) == (1, [])


@pytest.mark.parametrize(
    ("record", "state", "per_minute"),
    [
        ({}, {}, 0),
        ({"rate_per_minute": 60}, {}, 60),
        ({"rate_per_minute": 60}, {"consent": "granted", "allowed_rate": 30}, 30),
        ({"rate_per_minute": 20}, {"consent": "granted", "allowed_rate": 30}, 20),
        ({}, {"consent": "granted", "allowed_rate": 30}, 30),
        ({"rate_per_minute": 60, "handshake": "optional"}, {"consent": "denied"}, 6),
        ({"rate_per_minute": 60}, {"consent": "denied"}, 60),
    ],
)
async def test_the_lowest_of_all_rates_counts(record: dict[str, Any], state: dict[str, Any], per_minute: int) -> None:
    async with world(WebhookSettings(unconfirmed_rate_per_minute=6), **record) as made:
        await made.put_state(suspended="for the test", **state)
        async with delivering(made) as running:
            assert running._rate() * module.RATE_DIVISOR == per_minute


# -- pauses ------------------------------------------------------------------------------------------------------------


@cases("fields, state", [({"handshake": "off"}, {"suspended": "HTTP 410"}), ({"handshake": "required"}, {})])
async def test_a_pause_keeps_the_newest_events(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], state: dict[str, Any]
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    settings = WebhookSettings(max_waiting_events=150)
    async with world(settings, **fields) as made:
        await made.put_state(**{"consent": "denied", "tries": 1, "asked_ms": made.clock.now_ms(), **state})
        names = [f"e{number:03}" for number in range(400)]
        await made.feed(*names[:150])
        async with delivering(made):
            await made.left(150)
            assert made.context.counters.dead_letters == 0, "up to the limit all wait"
            await made.feed(*names[150:])
            await made.left(150)
            assert made.sink.bodies == []
            why = "over the limit of 150 waiting events"
            counts = made.context.incidents.counts
            assert counts == {("webhook", Outcome.DEAD_LETTERED): 250} and made.context.counters.dead_letters == 250
            assert made.context.incidents.last[0].reason == why
            assert made.context.incidents.last[0].place == place_of(made.subscription.feed, 0, 0)
            await made.put_state(consent="granted")
            await made.left()
        assert sorted(body.decode() for body in made.sink.bodies) == names[250:]


async def test_a_change_while_the_store_is_asked_is_no_lost_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a pause comes while the deliverer counts what waits: it does not rest for half a minute then."""
    async with world(handshake="off") as made:
        await made.put_state(suspended="HTTP 410")
        await made.feed("a")
        own, told = backlog.feed_progress, 0

        async def resumed_meanwhile(store: Any, subscription: Subscription) -> Any:
            nonlocal told
            told += 1
            await made.put_state()
            running.change(made.subscription, made.circuit)
            return await own(store, subscription)

        monkeypatch.setattr(backlog, "feed_progress", resumed_meanwhile)
        async with delivering(made) as running:
            await until(lambda: made.sink.bodies, "it is sent")
        assert (made.sink.bodies, told) == ([b"a"], 1)


async def test_two_gateways_keep_to_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    async with world(WebhookSettings(max_waiting_events=30)) as made:
        await made.put_state(suspended="HTTP 410")
        await made.feed(*[f"e{number:03}" for number in range(500)])
        async with delivering(made), delivering(made):
            await made.left(30)
        assert made.context.counters.dead_letters == 470
        assert bodies_of(await made.take(100)) == [f"e{number:03}" for number in range(470, 500)]


async def test_while_the_store_is_away_a_pause_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.001)
    asked = 0

    async def away(group: str) -> Any:
        nonlocal asked
        asked += 1
        raise EntrepotError(Code.UNAVAILABLE, "away")

    async with world(WebhookSettings(max_waiting_events=1)) as made:
        await made.put_state(suspended="HTTP 410")
        await made.feed("a", "b")
        own = made.store.topology
        made.store.topology = replaced(own, group_status=away)
        async with delivering(made):
            await until(lambda: asked > 3, "it is asked again and again")
            made.store.topology = own
            await made.left(1)
