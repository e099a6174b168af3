"""What may be declared as an exchange, in RabbitMQ's words, and when two declarations are the same."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.exchange import (
    Exchange,
    ExchangeType,
    check_deletable,
    check_exchange,
    check_new_name,
    check_publishable,
    exchange_type,
    inequivalence,
)
from tests.support.cases import cases

DIRECT = Exchange("e", ExchangeType.DIRECT)


def test_types_go_by_their_names():
    assert exchange_type("x-consistent-hash") is ExchangeType.CONSISTENT_HASH
    with pytest.raises(EntrepotError, match=r"^unknown exchange type 'x-other'$") as refusal:
        exchange_type("x-other")
    assert refusal.value.code is Code.PRECONDITION_FAILED


def test_exchanges_are_values():
    one = Exchange("e", arguments={"a": 1, "b": 2})
    assert one == Exchange("e", arguments={"b": 2, "a": 1})
    assert hash(one) == hash(Exchange("e", arguments={"b": 2, "a": 1}))
    assert one != Exchange("e", arguments={"a": True, "b": 2}), "in Python 1 is True"
    assert one != Exchange("e")


@cases(
    "wanted, text",
    [
        (Exchange("e"), None),
        (Exchange("e", arguments={"anything": "else"}), None),
        (
            Exchange("e", durable=False),
            "inequivalent arg 'durable' for exchange 'e' in vhost '/': received 'false' but current is 'true'",
        ),
        (
            Exchange("e", auto_delete=True),
            "inequivalent arg 'auto_delete' for exchange 'e' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            Exchange("e", internal=True),
            "inequivalent arg 'internal' for exchange 'e' in vhost '/': received 'true' but current is 'false'",
        ),
        (
            Exchange("e", ExchangeType.TOPIC, durable=False),
            "inequivalent arg 'type' for exchange 'e' in vhost '/': received 'topic' but current is 'direct'",
        ),
        (
            Exchange("e", ExchangeType.CONSISTENT_HASH),
            "inequivalent arg 'type' for exchange 'e' in vhost '/': "
            "received ''x-consistent-hash'' but current is 'direct'",
        ),
        (
            Exchange("e", arguments={"alternate-exchange": "other"}),
            "inequivalent arg 'alternate-exchange' for exchange 'e' in vhost '/': "
            "received the value 'other' of type 'longstr' but current is none",
        ),
    ],
)
def test_a_second_declaration(wanted, text):
    assert inequivalence(DIRECT, wanted, "/") == text


def test_a_second_declaration_with_another_alternate():
    one, other = (Exchange("e", arguments={"alternate-exchange": name}) for name in ("a", "b"))
    assert inequivalence(one, one, "/") is None
    assert inequivalence(one, other, "v") == (
        "inequivalent arg 'alternate-exchange' for exchange 'e' in vhost 'v': received 'b' but current is 'a'"
    )
    assert inequivalence(one, DIRECT, "v") == (
        "inequivalent arg 'alternate-exchange' for exchange 'e' in vhost 'v': "
        "received none but current is the value 'a' of type 'longstr'"
    )


@cases(
    "kind, arguments, text",
    [
        (
            ExchangeType.FANOUT,
            {"alternate-exchange": 5},
            "invalid type 'signedint' for arg 'alternate-exchange' in exchange 'e' in vhost '/'",
        ),
        (ExchangeType.DELAYED, {}, "Invalid argument, 'x-delayed-type' must be an existing exchange type"),
        (
            ExchangeType.DELAYED,
            {"x-delayed-type": 1},
            "Invalid argument, 'x-delayed-type' must be an existing exchange type",
        ),
        (ExchangeType.DELAYED, {"x-delayed-type": "none"}, "unknown exchange type 'none'"),
        (
            ExchangeType.DELAYED,
            {"x-delayed-type": "x-delayed-message"},
            "Invalid argument, 'x-delayed-message' can't be used for 'x-delayed-type'",
        ),
        (
            ExchangeType.CONSISTENT_HASH,
            {"hash-header": "a", "hash-property": "message_id"},
            "hash-header and hash-property are mutually exclusive",
        ),
        (ExchangeType.CONSISTENT_HASH, {"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            ExchangeType.DELAYED,
            {"x-delayed-type": "x-consistent-hash", "hash-property": "app_id"},
            "Unsupported property: app_id",
        ),
    ],
)
def test_arguments_that_are_refused(kind, arguments, text):
    with pytest.raises(EntrepotError) as refusal:
        check_exchange(Exchange("e", kind, arguments=arguments), "/")
    assert (refusal.value.code, refusal.value.message) == (Code.PRECONDITION_FAILED, text)


@cases(
    "kind, arguments",
    [
        (ExchangeType.DIRECT, {"hash-property": "app_id", "x-delayed-type": "none", "unknown": [1]}),
        (ExchangeType.DELAYED, {"x-delayed-type": "topic", "alternate-exchange": "other"}),
        (ExchangeType.DELAYED, {"x-delayed-type": b"topic"}),
        (ExchangeType.CONSISTENT_HASH, {"hash-property": "correlation_id"}),
        (ExchangeType.CONSISTENT_HASH, {"hash-header": "customer"}),
    ],
)
def test_arguments_that_are_taken(kind, arguments):
    exchange = Exchange("e", kind, arguments=arguments)
    check_exchange(exchange, "/")
    assert exchange.routing_type is (ExchangeType.TOPIC if kind is ExchangeType.DELAYED else kind)


@cases(
    "check, text",
    [
        (lambda: check_new_name(""), "operation not permitted on the default exchange"),
        (lambda: check_new_name("amq.mine"), "exchange name 'amq.mine' contains reserved prefix 'amq.*'"),
        (lambda: check_deletable("", "/"), "operation not permitted on the default exchange"),
        (
            lambda: check_deletable("amq.direct", "/"),
            "deletion of system exchange 'amq.direct' in vhost '/' not allowed",
        ),
        (
            lambda: check_publishable(Exchange("e", internal=True), "/"),
            "cannot publish to internal exchange 'e' in vhost '/'",
        ),
    ],
)
def test_what_is_forbidden(check, text):
    with pytest.raises(EntrepotError) as refusal:
        check()
    assert (refusal.value.code, refusal.value.message) == (Code.FORBIDDEN, text)


def test_what_is_allowed():
    check_new_name("amqp")
    check_deletable("e", "/")
    check_publishable(DIRECT, "/")
