"""The routing table of a vhost: a state machine against lists, and the cases that have a name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges import remembered_routes
from entrepot.domain.exchanges import routing as exchange_routing
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.exchanges.exchange import PREDECLARED, RANDOM_TYPES, Exchange, ExchangeType
from entrepot.domain.exchanges.routing import Removal, Routing, UnknownExchange
from tests.support.cases import cases
from tests.tiers.marks import scaled
from tests.unit.domain.routing_model import RoutingModel

QUEUE, EXCHANGE = DestinationKind.QUEUE, DestinationKind.EXCHANGE
exchange_names = st.sampled_from(["e0", "e1", "e2", "e3"])
sources = st.sampled_from(["e0", "e1", "e2", "e3", "amq.topic"])
queue_names = st.sampled_from(["q0", "q1", "q2", "a.b"])
patterns = st.sampled_from(["a", "b", "a.b", "*", "#", "a.*", "#.b", "*.*", ""])
routing_keys = st.sampled_from(["a", "b", "a.b", "b.b", "", "a.b.a", "q0", "q1"])
tables = st.dictionaries(st.sampled_from(["h", "i", "x-match"]), st.sampled_from(["any", "all"]), max_size=2)
headers = st.dictionaries(st.sampled_from(["h", "i"]), st.sampled_from(["any", "all"]), max_size=2)
ONE_OF = (ExchangeType.CONSISTENT_HASH, ExchangeType.MODULUS_HASH, *RANDOM_TYPES)
"""Types that choose one of their bindings: the model knows what matches, and not which one."""
alternates = st.none() | st.sampled_from(["e0", "e1", "e2", "e3", "amq.fanout", ""])


@st.composite
def exchanges(draw):
    arguments = {}
    if (alternate := draw(alternates)) is not None:
        arguments["alternate-exchange"] = alternate
    kind = draw(st.sampled_from([kind for kind in ExchangeType if kind not in ONE_OF]))
    if kind is ExchangeType.DELAYED:
        arguments["x-delayed-type"] = draw(st.sampled_from(["direct", "topic", "fanout", "headers"]))
    return Exchange(draw(exchange_names), kind, auto_delete=draw(st.booleans()), arguments=arguments)


@st.composite
def bindings(draw):
    kind = draw(st.sampled_from([QUEUE, QUEUE, EXCHANGE]))
    destination = draw(queue_names if kind is QUEUE else exchange_names)
    return Binding(draw(sources), destination, draw(patterns), draw(tables), kind)


class RoutingMachine(RuleBasedStateMachine):
    """Every step on the table and on lists; after each, some messages go the same ways, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.routing = Routing()
        self.model = RoutingModel()

    @initialize(declared=st.lists(exchanges(), min_size=4, max_size=8), bound=st.lists(bindings(), max_size=12))
    def begin(self, declared, bound):
        """With something to change."""
        for name in ("q0", "q1", "q2"):
            self.declare_queue(name)
        for exchange in declared:
            self.declare_exchange(exchange)
        for binding in bound:
            self.bind(binding)

    @rule(exchange=exchanges())
    def declare_exchange(self, exchange):
        assert self.routing.declare_exchange(exchange) == (exchange.name not in self.model.exchanges)
        self.model.exchanges.setdefault(exchange.name, exchange)

    @rule(name=queue_names)
    def declare_queue(self, name):
        assert self.routing.declare_queue(name) == (name not in self.model.queues)
        if name not in self.model.queues:
            self.model.queues.append(name)

    @rule(binding=bindings())
    def bind(self, binding):
        there = self.model.queues if binding.destination_kind is QUEUE else self.model.exchanges
        if binding.source not in self.model.exchanges or binding.destination not in there:
            with pytest.raises(EntrepotError) as refusal:
                self.routing.bind(binding)
            assert refusal.value.code is Code.TOPIC_NOT_FOUND
            return
        assert self.routing.bind(binding) == (binding not in self.model.bindings)
        if binding not in self.model.bindings:
            self.model.bindings.append(binding)

    @rule(name=exchange_names, alternate=alternates)
    def set_policy(self, name, alternate):
        self.routing.set_policy_alternate(name, alternate)
        if name in self.model.exchanges:
            self.model.policy_alternates[name] = alternate

    @precondition(lambda self: self.model.bindings)
    @rule(data=st.data())
    def unbind(self, data):
        binding = data.draw(st.sampled_from(self.model.bindings))
        self._remove(self.routing.removal_of_binding(binding), lambda: self.model.unbind(binding))

    @precondition(lambda self: self.model.queues)
    @rule(data=st.data())
    def delete_queue(self, data):
        name = data.draw(st.sampled_from(self.model.queues))
        self._remove(self.routing.removal_of_queue(name), lambda: self.model.delete_queue(name))

    @precondition(lambda self: len(self.model.exchanges) > len(PREDECLARED))
    @rule(data=st.data())
    def delete_exchange(self, data):
        name = data.draw(st.sampled_from(list(self.model.exchanges)[len(PREDECLARED) :]))
        self._remove(self.routing.removal_of_exchange(name), lambda: self.model.delete_exchange(name))

    def _remove(self, removal, remove_from_model):
        exchanges, before = set(self.model.exchanges), list(self.model.bindings)
        remove_from_model()
        assert set(removal.exchanges) == exchanges - set(self.model.exchanges)
        assert set(removal.bindings) == {each for each in before if each not in self.model.bindings}
        assert len(set(removal.bindings)) == len(removal.bindings)
        self.routing.remove(removal)

    @rule(
        exchange=st.one_of(sources, st.just("")),
        keys=st.lists(routing_keys, min_size=1, max_size=3),
        table=headers,
    )
    def route(self, exchange, keys, table):
        expected = self.model.route(exchange, keys, table)
        for _ in range(2):
            found = self.routing.route(exchange, keys, lambda: table)
            if exchange not in self.model.exchanges:
                assert found == UnknownExchange(exchange)
                return
            assert len(set(found)) == len(found), "each queue once"
            assert set(found) == expected

    @invariant()
    def routes_that_are_remembered_are_right(self):
        for exchange in self.model.exchanges:
            for key in ("a", "a.b", "q0"):
                found = self.routing.route(exchange, (key,), lambda: {"h": "any"})
                assert set(found) == self.model.route(exchange, [key], {"h": "any"}), (exchange, key)

    @invariant()
    def listings_are_those_of_the_model(self):
        bindings = self.model.bindings
        assert self.routing.binding_count == len(bindings)
        assert {exchange.name for exchange in self.routing.exchanges()} == set(self.model.exchanges)
        alternates = {(self.model.alternate(name), name) for name in self.model.exchanges}
        noted = {(alternate, name) for alternate, names in self.routing._alternates_of.items() for name in names}
        assert noted == {each for each in alternates if each[0] is not None}, "nothing is left of what is gone"
        for name in self.model.exchanges:
            own = [each for each in bindings if each.source == name]
            assert list(self.routing.bindings_of_source(name)) == own
            assert self.routing.is_bound(name) == bool(own)
            leading = [each for each in bindings if self.model.leads_to(each, EXCHANGE, name)]
            assert list(self.routing.bindings_of_destination(EXCHANGE, name)) == leading
        for name in self.model.queues:
            leading = [each for each in bindings if self.model.leads_to(each, QUEUE, name)]
            assert list(self.routing.bindings_of_destination(QUEUE, name)) == leading


RoutingMachine.TestCase.settings = settings(stateful_step_count=scaled(20, 30))
TestRoutingMachine = RoutingMachine.TestCase


@pytest.fixture
def routing():
    return routing_of_three_queues()


def routing_of_three_queues() -> Routing:
    made = Routing()
    for name in ("q0", "q1", "q2"):
        made.declare_queue(name)
    return made


def declare(routing: Routing, name: str, kind: ExchangeType = ExchangeType.FANOUT, **more: Any) -> None:
    assert routing.declare_exchange(Exchange(name, kind, **more))


def test_the_default_exchange_goes_to_the_queue_of_that_name(routing):
    assert routing.route("", ("q0",)) == ("q0",)
    assert routing.route("", ("nobody",)) == ()
    assert routing.route("", ("q1", "q0", "q1", "nobody")) == ("q1", "q0")
    routing.remove(routing.removal_of_queue("q0"))
    assert routing.route("", ("q0",)) == ()


def test_an_exchange_that_is_not_there_is_a_value(routing):
    unknown = routing.route("gone", ("key",))
    assert unknown == UnknownExchange("gone")
    assert unknown.refusal("/").message == "no exchange 'gone' in vhost '/'"


def test_what_is_predeclared_is_there(routing):
    names = {exchange.name for exchange in routing.exchanges()}
    assert {"", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"} <= names


def test_a_queue_comes_once_however_many_bindings_match(routing):
    for pattern in ("a.b", "a.*", "#"):
        routing.bind(Binding("amq.topic", "q0", pattern))
    routing.bind(Binding("amq.topic", "q1", "*.b"))
    assert routing.route("amq.topic", ("a.b", "c.b")) == ("q0", "q1")


def test_exchanges_in_a_circle_end(routing):
    declare(routing, "e0")
    declare(routing, "e1")
    for source, destination in (("e0", "e1"), ("e1", "e0"), ("e0", "e0")):
        routing.bind(Binding(source, destination, destination_kind=EXCHANGE))
    routing.bind(Binding("e1", "q0"))
    routing.bind(Binding("e0", "q1"))
    assert set(routing.route("e0", ("key",))) == {"q0", "q1"}
    assert set(routing.route("e1", ("key",))) == {"q0", "q1"}


def test_the_alternate_gets_what_nobody_is_bound_for(routing):
    declare(routing, "e0", ExchangeType.DIRECT, arguments={"alternate-exchange": "e1"})
    routing.bind(Binding("e0", "q0", "key"))
    assert routing.route("e0", ("other",)) == (), "an alternate that is not there is no error"
    declare(routing, "e1")
    routing.bind(Binding("e1", "q1"))
    assert routing.route("e0", ("other",)) == ("q1",)
    assert routing.route("e0", ("key",)) == ("q0",)
    routing.remove(routing.removal_of_exchange("e1"))
    assert routing.route("e0", ("other",)) == ()


def test_a_change_far_behind_an_exchange_is_seen_at_once(routing):
    for name in ("e0", "e1", "e2"):
        declare(routing, name)
    for source, destination in (("e0", "e1"), ("e1", "e2")):
        routing.bind(Binding(source, destination, destination_kind=EXCHANGE))
    assert routing.route("e0", ("key",)) == ()
    routing.bind(Binding("e2", "q0"))
    assert routing.route("e0", ("key",)) == ("q0",)
    routing.bind(Binding("e2", "q1"))
    assert routing.route("e0", ("key",)) == ("q0", "q1")
    routing.remove(routing.removal_of_binding(Binding("e1", "e2", destination_kind=EXCHANGE)))
    assert routing.route("e0", ("key",)) == ()


def test_alternates_in_a_circle_end(routing):
    declare(routing, "e0", ExchangeType.DIRECT, arguments={"alternate-exchange": "e1"})
    declare(routing, "e1", ExchangeType.DIRECT, arguments={"alternate-exchange": "e0"})
    assert routing.route("e0", ("key",)) == ()


def test_a_policy_may_name_the_alternate_and_the_argument_wins(routing):
    declare(routing, "e0", ExchangeType.DIRECT)
    declare(routing, "e1", ExchangeType.DIRECT, arguments={"alternate-exchange": "amq.fanout"})
    routing.bind(Binding("amq.fanout", "q0"))
    assert routing.route("e0", ("key",)) == ()
    for name, alternate in (("e0", "amq.fanout"), ("e1", "amq.direct"), ("gone", "amq.direct")):
        routing.set_policy_alternate(name, alternate)
    assert routing.route("e0", ("key",)) == ("q0",)
    assert routing.route("e1", ("key",)) == ("q0",)
    routing.set_policy_alternate("e0", None)
    assert routing.route("e0", ("key",)) == ()


def test_the_headers_are_asked_for_once_and_only_where_they_count(routing):
    asked = []

    def headers():
        asked.append(1)
        return {"format": "pdf"}

    routing.bind(Binding("amq.topic", "q0", "#"))
    assert routing.route("amq.topic", ("a",), headers) == ("q0",)
    assert asked == []
    for exchange in ("amq.headers", "amq.match"):
        routing.bind(Binding("amq.fanout", exchange, destination_kind=EXCHANGE))
        routing.bind(Binding(exchange, "q1", arguments={"format": "pdf"}))
    assert routing.route("amq.fanout", ("a",), headers) == ("q1",)
    assert asked == [1]
    assert routing.route("amq.fanout", ("a",), lambda: {"format": "csv"}) == (), "what headers decide is not remembered"


def test_a_delayed_exchange_chooses_as_its_type_says(routing):
    declare(routing, "e0", ExchangeType.DELAYED, arguments={"x-delayed-type": "topic"})
    routing.bind(Binding("e0", "q0", "a.#"))
    assert routing.route("e0", ("a.b",)) == ("q0",)
    assert routing.route("e0", ("b",)) == ()


def test_a_hash_by_header_is_not_remembered_by_key(routing):
    declare(routing, "e0", ExchangeType.CONSISTENT_HASH, arguments={"hash-header": "customer"})
    for name in ("q0", "q1", "q2"):
        routing.bind(Binding("e0", name, "1"))
    assert {routing.route("e0", ("key",), lambda n=n: {"customer": n}) for n in range(50)} == {
        ("q0",),
        ("q1",),
        ("q2",),
    }


def test_a_hash_by_key_is_remembered_until_a_binding_changes(routing):
    declare(routing, "e0", ExchangeType.CONSISTENT_HASH)
    for name in ("q0", "q1"):
        routing.bind(Binding("e0", name, "1"))
    keys = [str(number) for number in range(100)]
    assert {routing.route("e0", (key,)) for key in keys} == {("q0",), ("q1",)}
    routing.remove(routing.removal_of_queue("q0"))
    assert {routing.route("e0", (key,)) for key in keys} == {("q1",)}


def test_bindings_are_the_same_with_the_same_arguments(routing):
    assert routing.bind(Binding("amq.direct", "q0", "key", {"a": 1, "b": 2}))
    assert not routing.bind(Binding("amq.direct", "q0", "key", {"b": 2, "a": 1}))
    for other in ({"a": 1}, {"a": 1, "b": "2"}, {"a": 1.0, "b": 2}, {"a": True, "b": 2}):
        assert routing.bind(Binding("amq.direct", "q0", "key", other))
    assert routing.binding_count == 5
    routing.remove(routing.removal_of_binding(Binding("amq.direct", "q0", "key", {"a": 1, "b": 2})))
    assert routing.route("amq.direct", ("key",)) == ("q0",), "the others still lead there"


def test_what_is_not_there_is_removed_without_ado(routing):
    for removal in (
        routing.removal_of_binding(Binding("gone", "q0")),
        routing.removal_of_binding(Binding("amq.direct", "q0", "key")),
        routing.removal_of_queue("gone"),
        routing.removal_of_exchange("gone"),
    ):
        assert removal == Removal()
    routing.remove(Removal((Binding("gone", "q0"),), ("gone",), "gone"))


def test_a_removal_says_all_that_follows_and_changes_nothing_yet(routing):
    """q0 is the last of e1, which is the last of e0; e2 keeps q1."""
    for name in ("e0", "e1", "e2"):
        declare(routing, name, auto_delete=True)
    steps = [
        Binding("e0", "e1", destination_kind=EXCHANGE),
        Binding("e1", "q0"),
        Binding("e2", "e1", destination_kind=EXCHANGE),
        Binding("e2", "q1"),
    ]
    for binding in steps:
        routing.bind(binding)
    removal = routing.removal_of_queue("q0")
    assert removal == Removal((steps[1], steps[0], steps[2]), ("e1", "e0"), "q0")
    assert set(routing.route("e2", ("key",))) == {"q0", "q1"}
    routing.remove(removal)
    assert routing.route("e2", ("key",)) == ("q1",)
    assert routing.route("e0", ("key",)) == UnknownExchange("e0")


def test_one_event_after_another_removes_as_much_as_all_at_once(routing):
    """As a gateway hears of it: an exchange may be named without its bindings, in any order."""
    declare(routing, "e0")
    routing.bind(Binding("e0", "q0"))
    routing.bind(Binding("amq.fanout", "e0", destination_kind=EXCHANGE))
    routing.remove(Removal(exchanges=("e0",)))
    assert routing.binding_count == 0
    assert routing.bindings_of_destination(QUEUE, "q0") == ()
    assert routing.route("amq.fanout", ("key",)) == ()


@cases(
    "binding, code, text",
    [
        (Binding("gone", "q0"), Code.TOPIC_NOT_FOUND, "no exchange 'gone' in vhost '/'"),
        (Binding("amq.direct", "gone"), Code.TOPIC_NOT_FOUND, "no queue 'gone' in vhost '/'"),
        (
            Binding("amq.direct", "gone", destination_kind=EXCHANGE),
            Code.TOPIC_NOT_FOUND,
            "no exchange 'gone' in vhost '/'",
        ),
        (Binding("", "q0", "key"), Code.FORBIDDEN, "operation not permitted on the default exchange"),
        (
            Binding("amq.direct", "", destination_kind=EXCHANGE),
            Code.FORBIDDEN,
            "operation not permitted on the default exchange",
        ),
        (
            Binding("amq.headers", "q0", arguments={"x-match": "some"}),
            Code.PRECONDITION_FAILED,
            'Invalid x-match field value <<"some">>; expected all, any, all-with-x, or any-with-x',
        ),
        (
            Binding("amq.headers", "q0", arguments={"x-match": 1}),
            Code.PRECONDITION_FAILED,
            "Invalid x-match field type signedint (value 1); expected longstr",
        ),
        (
            Binding("hash", "q0", "many"),
            Code.PRECONDITION_FAILED,
            'The binding key must be an integer: <<"many">>',
        ),
        (Binding("hash", "q0", "0"), Code.PRECONDITION_FAILED, "The binding key must be greater than 0"),
        (Binding("hash", "q0", "1_0"), Code.PRECONDITION_FAILED, 'The binding key must be an integer: <<"1_0">>'),
    ],
)
def test_bindings_that_are_refused(binding, code, text):
    routing = routing_of_three_queues()
    declare(routing, "hash", ExchangeType.CONSISTENT_HASH)
    with pytest.raises(EntrepotError) as refusal:
        routing.bind(binding)
    assert (refusal.value.code, refusal.value.message) == (code, text)
    assert routing.binding_count == 0


def test_limits_are_told_before_anything_is_declared(routing, monkeypatch):
    monkeypatch.setattr(exchange_routing, "MAX_EXCHANGES", len(PREDECLARED))
    monkeypatch.setattr(exchange_routing, "MAX_BINDINGS", 1)
    routing.check_room()
    routing.check_room(Exchange("amq.direct"))
    with pytest.raises(EntrepotError, match="cannot declare exchange 'e0' in vhost '/': exchange limit of 7"):
        routing.check_room(Exchange("e0"))
    routing.bind(Binding("amq.direct", "q0"))
    with pytest.raises(EntrepotError, match="1 bindings, which is the limit"):
        routing.check_room()


# -- what is remembered ------------------------------------------------------------------------------------------------


def test_remembered_routes_are_bounded_and_those_in_use_stay(monkeypatch):
    monkeypatch.setattr(remembered_routes, "MAX_KEYS", 10)
    routes = remembered_routes.RememberedRoutes()
    routes.keep("hot", ("q",))
    for number in range(1000):
        routes.keep(f"cold {number}", ("q",))
        assert routes.recent.get("hot") or routes.find("hot"), number
        assert len(routes.recent) + len(routes._older) <= 20
    assert routes.find("cold 1") is None


def test_remembered_routes_are_bounded_by_the_names_in_them(monkeypatch):
    monkeypatch.setattr(remembered_routes, "MAX_NAMES", 100)
    routes = remembered_routes.RememberedRoutes()
    for number in range(50):
        routes.keep(f"key {number}", ("q",) * 30)
    assert len(routes.recent) + len(routes._older) <= 6
    routes.keep("too many", ("q",) * 101)
    assert routes.find("too many") is None
    assert "too many" not in routes.recent
    routes.clear()
    assert (routes.recent, routes._older) == ({}, {})
