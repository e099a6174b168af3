"""Exchanges that choose one of all their bindings: by chance, or by the routing key's hash."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from entrepot.domain.errors import EntrepotError
from entrepot.domain.exchanges.binding import Binding, DestinationKind, check_binding
from entrepot.domain.exchanges.exchange import Exchange, ExchangeType
from entrepot.domain.exchanges.one_of import OneOfTable, by_modulus
from entrepot.domain.exchanges.routing import Routing
from entrepot.domain.exchanges.table import RoutedMessage
from tests.support.cases import cases

QUEUES = ["a", "b", "c"]


def routing_with(kind: ExchangeType) -> Routing:
    routing = Routing("/", random.Random(7).randrange)
    routing.declare_exchange(Exchange("x", kind))
    for queue in QUEUES:
        routing.declare_queue(queue)
        routing.bind(Binding("x", queue, f"key of {queue}"))
    return routing


@cases("kind", [ExchangeType.RANDOM, ExchangeType.LOCAL_RANDOM])
def test_each_queue_gets_its_share_by_chance(kind: ExchangeType) -> None:
    routing = routing_with(kind)
    found = Counter(routing.route("x", ["k"]) for _ in range(900))
    assert set(found) == {("a",), ("b",), ("c",)}, "each message goes to one"
    assert min(found.values()) > 200
    assert routing.is_random
    routing.remove(routing.removal_of_queue("b"))
    assert {routing.route("x", ["k"]) for _ in range(100)} == {("a",), ("c",)}
    routing.remove(routing.removal_of_exchange("x"))
    assert not routing.is_random


def test_chance_is_kept_by_no_exchange_before_it() -> None:
    routing = routing_with(ExchangeType.RANDOM)
    routing.declare_exchange(Exchange("first", ExchangeType.FANOUT))
    routing.bind(Binding("first", "x", destination_kind=DestinationKind.EXCHANGE))
    assert len({routing.route("first", ["k"]) for _ in range(100)}) == 3


def test_a_key_stays_with_its_queue_whatever_the_order_of_bindings() -> None:
    one, other = OneOfTable(by_modulus, is_by_key=True), OneOfTable(by_modulus, is_by_key=True)
    for queue in QUEUES:
        one.add(Binding("x", queue))
    for queue in reversed(QUEUES):
        other.add(Binding("x", queue))
    messages = [RoutedMessage((f"key {number}",), dict, dict) for number in range(300)]
    found = [next(iter(each.match(message)[0].queues)) for message in messages for each in (one, other)]
    assert found[::2] == found[1::2]
    assert min(Counter(found).values()) > 100
    assert routing_with(ExchangeType.MODULUS_HASH).route("x", ["k"]) == routing_with(ExchangeType.MODULUS_HASH).route(
        "x", ["k"]
    )


@cases("kind", [ExchangeType.RANDOM, ExchangeType.LOCAL_RANDOM, ExchangeType.MODULUS_HASH])
def test_without_bindings_nothing_matches(kind: ExchangeType) -> None:
    routing = Routing()
    routing.declare_exchange(Exchange("x", kind))
    assert routing.route("x", ["k"]) == ()


def test_a_local_random_exchange_leads_to_queues_alone() -> None:
    binding = Binding("x", "y", destination_kind=DestinationKind.EXCHANGE)
    check_binding(binding, ExchangeType.RANDOM)
    with pytest.raises(EntrepotError, match="bound to queues only"):
        check_binding(binding, ExchangeType.LOCAL_RANDOM)


def test_without_a_pick_they_come_in_turn() -> None:
    routing = Routing()
    routing.declare_exchange(Exchange("x", ExchangeType.RANDOM))
    for queue in QUEUES:
        routing.declare_queue(queue)
        routing.bind(Binding("x", queue))
    assert [routing.route("x", ["k"]) for _ in range(4)] == [("a",), ("b",), ("c",), ("a",)]
