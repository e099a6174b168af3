"""What AMQP's operations ask for: the names are those of the messages, and no binding takes more than was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.filters import covers
from entrepot.domain.access.model import EVERYTHING, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.exchange import DELAYED_TYPE, Exchange, ExchangeType
from entrepot.domain.exchanges.routing import Routing
from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.gateway.amqp.virtual_hosts import needs
from tests.support.cases import cases

words = st.sampled_from(["a", "b", "", "a-b"])
keys = st.lists(words, max_size=4).map(".".join)
patterns = st.lists(st.one_of(words, st.sampled_from(["*", "#"])), max_size=4).map(".".join)
exchanges = st.sampled_from(
    [
        *(Exchange("shop.x", kind) for kind in ExchangeType if kind is not ExchangeType.DELAYED),
        *(Exchange("shop.x", ExchangeType.DELAYED, arguments={DELAYED_TYPE: kind}) for kind in ("topic", "direct")),
        Exchange("amq.topic", ExchangeType.TOPIC),
    ]
)


@given(exchange=exchanges, key=keys, pattern=patterns, namespace=st.sampled_from(["default", "plant"]))
def test_what_a_binding_takes_was_asked_for(exchange: Exchange, key: str, pattern: str, namespace: str) -> None:
    routing = Routing()
    routing.declare_exchange(exchange)
    routing.declare_queue("q")
    pattern = "1" if exchange.type is ExchangeType.CONSISTENT_HASH else pattern
    binding = Binding(exchange.name, "q", pattern)
    routing.bind(binding)
    name = needs.message_name(namespace, exchange.name, key)
    if routing.route(exchange.name, (key,)) and name:
        bound, read = needs.to_bind(namespace, binding, exchange)
        assert bound.name == needs.entity_name(namespace, "q")
        assert covers(read.name.split("/"), name.split("/"))


@given(exchange=exchanges, pattern=patterns, namespace=st.sampled_from(["default", "plant"]))
def test_what_is_asked_for_is_a_filter(exchange: Exchange, pattern: str, namespace: str) -> None:
    _, read = needs.to_bind(namespace, Binding(exchange.name, "q", pattern), exchange)
    assert not read.name or is_valid_filter(read.name)
    wide = needs.all_messages(namespace, exchange.name)
    assert not read.name or covers(wide.split("/"), read.name.split("/"))


@cases("key", ["#", "a.#", "a.+.b", "+", "a\0"])
@cases("exchange", ["shop", "amq.topic"])
def test_a_key_that_is_no_name_is_all_of_its_exchange(exchange: str, key: str) -> None:
    assert needs.message_name("default", exchange, key) == needs.all_messages("default", exchange)


def test_names_are_those_of_other_doors() -> None:
    assert needs.message_name("default", "factory", "line1.temp") == "factory/line1/temp"
    assert needs.message_name("default", "factory", "") == "factory"
    assert needs.message_name("default", "a/b", "c") == "a%2Fb/c"
    assert needs.message_name("default", "", "a.b") == "a%2Eb"
    assert needs.message_name("plant", "amq.topic", "a.b") == "$ns/plant/a/b"
    assert needs.all_messages("default", "") == "#"
    assert needs.all_messages("plant", "") == "$ns/plant/+/#"


def test_a_name_that_is_none_is_refused() -> None:
    for name in ("x" * 256, "half \ud800"):
        with pytest.raises(EntrepotError) as refused:
            needs.entity_name("default", name)
        assert refused.value.code is Code.BAD_REQUEST


def test_all_of_the_catch_all_is_everything() -> None:
    """It has messages with any name."""
    assert whole_topic("mqtt") == EVERYTHING
    assert whole_topic("plant/mqtt") == "$ns/plant/mqtt/#"
