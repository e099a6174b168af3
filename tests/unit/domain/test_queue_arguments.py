"""Arguments of queues: what they mean, what is refused in which words, and when a second declaration is the same."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.queues.arguments import (
    DeadLetterStrategy,
    DelayedRetry,
    Overflow,
    QueueArguments,
    QueueType,
    default_delivery_limit,
)
from entrepot.domain.queues.declaration import check_new_name, declared_queue, inequivalence, locked, not_found
from tests.support.cases import cases

QUORUM = {"x-queue-type": "quorum"}
STREAM = {"x-queue-type": "stream"}


def declare(arguments, *, durable=True, exclusive=False, auto_delete=False):
    return declared_queue("q", "/", durable=durable, exclusive=exclusive, auto_delete=auto_delete, arguments=arguments)


def refusal_of(arguments, **properties) -> str:
    with pytest.raises(EntrepotError) as refusal:
        declare(arguments, **properties)
    assert refusal.value.code is Code.PRECONDITION_FAILED
    return refusal.value.message


def test_without_arguments_everything_is_default():
    assert declare({}).arguments == QueueArguments()


def test_what_is_understood():
    given = {
        "x-message-ttl": 0,
        "x-expires": 60_000,
        "x-max-length": 10,
        "x-max-length-bytes": 1 << 40,
        "x-overflow": "reject-publish-dlx",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": b"dead",
        "x-max-priority": 255,
        "x-single-active-consumer": True,
        "x-consumer-timeout": 1000,
        "x-queue-mode": "lazy",
        "x-queue-version": 2,
        "x-something-else": [1],
    }
    arguments = declare(given).arguments
    assert arguments == QueueArguments(
        message_ttl_ms=0,
        expires_ms=60_000,
        max_length=10,
        max_length_bytes=1 << 40,
        overflow=Overflow.REJECT_PUBLISH_DLX,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
        max_priority=255,
        single_active_consumer=True,
        consumer_timeout_ms=1000,
        queue_mode="lazy",
        queue_version=2,
    )
    assert arguments.given == given, "what is not known is kept"
    assert arguments.full_queue is Overflow.REJECT_PUBLISH_DLX


def test_a_quorum_queue():
    arguments = declare(
        {
            **QUORUM,
            "x-delivery-limit": 3,
            "x-dead-letter-exchange": "dlx",
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
            "x-quorum-initial-group-size": 3,
            "x-delayed-retry-type": "failed",
            "x-delayed-retry-min": 1000,
            "x-delayed-retry-max": 30_000,
        }
    ).arguments
    assert arguments.queue_type is QueueType.QUORUM
    assert arguments.dead_letter_strategy is DeadLetterStrategy.AT_LEAST_ONCE
    assert (arguments.delayed_retry, arguments.delayed_retry_min_ms, arguments.delayed_retry_max_ms) == (
        DelayedRetry.FAILED,
        1000,
        30_000,
    )
    assert arguments.attempts_allowed(20) == 3


@cases(
    "arguments, attempts",
    [({}, None), (QUORUM, 20), ({**QUORUM, "x-delivery-limit": -1}, None), ({**QUORUM, "x-delivery-limit": 0}, 0)],
)
def test_how_often_a_message_may_come_back(arguments, attempts):
    assert declare(arguments).arguments.attempts_allowed(20) == attempts
    without = declare(arguments).arguments.attempts_allowed(None)
    assert without == (attempts if "x-delivery-limit" in arguments else None)


@cases(
    "version, limit",
    [("3.13.7", None), ("3.8.0", None), ("4.0.0", 20), ("4.1", 20), ("10.2", 20), ("", None), ("moon", None)],
)
def test_the_default_limit_is_that_of_the_announced_version(version, limit):
    assert default_delivery_limit(version) == limit


def test_quorum_queues_drop_where_they_cannot_dead_letter_what_they_refuse():
    assert declare({**QUORUM, "x-overflow": "reject-publish-dlx"}).arguments.full_queue is Overflow.DROP_HEAD


@cases(
    "age, milliseconds",
    [
        ("1s", 1000),
        ("2m", 120_000),
        ("3h", 10_800_000),
        ("7D", 604_800_000),
        ("1M", 30 * 86_400_000),
        ("1Y", 365 * 86_400_000),
    ],
)
def test_ages(age, milliseconds):
    assert declare({**STREAM, "x-max-age": age}).arguments.max_age_ms == milliseconds


@cases(
    "arguments, fault",
    [
        ({"x-message-ttl": -1}, "x-message-ttl: {value_negative,-1}"),
        ({"x-message-ttl": "60"}, 'x-message-ttl: "expected integer, got longstr"'),
        ({"x-message-ttl": 1.5}, 'x-message-ttl: "expected integer, got double"'),
        ({"x-message-ttl": True}, 'x-message-ttl: "expected integer, got bool"'),
        ({"x-expires": 0}, "x-expires: {value_zero,0}"),
        ({"x-expires": -5}, "x-expires: {value_negative,-5}"),
        ({"x-expires": None}, 'x-expires: "expected integer, got void"'),
        ({"x-expires": False}, 'x-expires: "expected integer, got bool"'),
        ({"x-max-length": -1}, "x-max-length: {value_negative,-1}"),
        ({"x-max-length-bytes": [1]}, 'x-max-length-bytes: "expected integer, got array"'),
        ({"x-max-priority": 256}, "x-max-priority: {max_value_exceeded,256}"),
        ({"x-max-priority": -1}, "x-max-priority: {value_negative,-1}"),
        ({"x-overflow": "explode"}, "x-overflow: invalid_overflow"),
        ({"x-overflow": 1}, "x-overflow: {unacceptable_type,signedint}"),
        ({"x-dead-letter-routing-key": "k"}, "x-dead-letter-routing-key: routing_key_but_no_dlx_defined"),
        (
            {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": 1 << 40},
            "x-dead-letter-routing-key: {unacceptable_type,long}",
        ),
        ({**QUORUM, "x-dead-letter-strategy": "often"}, "x-dead-letter-strategy: invalid_dlx_strategy"),
        ({"x-single-active-consumer": "true"}, "x-single-active-consumer: {unacceptable_type,longstr}"),
        ({"x-single-active-consumer": 1}, "x-single-active-consumer: {unacceptable_type,signedint}"),
        ({"x-queue-mode": "fast"}, "x-queue-mode: \"unsupported queue mode 'fast'\""),
        ({"x-queue-version": 3}, "x-queue-version: \"unsupported queue version '3'\""),
        ({"x-queue-type": "heap"}, "x-queue-type: \"unsupported queue type 'heap'\""),
        ({"x-queue-type": 1}, "x-queue-type: {unacceptable_type,signedint}"),
        ({**QUORUM, "x-delivery-limit": "3"}, 'x-delivery-limit: "expected integer, got longstr"'),
        ({**QUORUM, "x-quorum-initial-group-size": 0}, "x-quorum-initial-group-size: {value_zero,0}"),
        ({**QUORUM, "x-delayed-retry-type": "some"}, "x-delayed-retry-type: invalid_delayed_retry_type"),
        ({**STREAM, "x-max-age": "7"}, "x-max-age: invalid_max_age"),
        ({**STREAM, "x-max-age": "0D"}, "x-max-age: invalid_max_age"),
        ({**STREAM, "x-max-age": 7}, "x-max-age: {unacceptable_type,signedint}"),
        ({"x-queue-leader-locator": "mine"}, "x-queue-leader-locator: invalid_queue_locator_arg"),
        ({"x-consumer-timeout": -1}, "x-consumer-timeout: {value_negative,-1}"),
    ],
)
def test_values_that_are_refused(arguments, fault):
    name, _, term = fault.partition(": ")
    assert refusal_of(arguments) == f"invalid arg '{name}' for queue 'q' in vhost '/': {term}"


@cases(
    "kind, name, value",
    [
        ("classic", "x-delivery-limit", 3),
        ("classic", "x-max-age", "1D"),
        ("classic", "x-dead-letter-strategy", "at-least-once"),
        ("quorum", "x-queue-mode", "lazy"),
        ("quorum", "x-max-age", "1D"),
        ("stream", "x-max-priority", 5),
        ("stream", "x-message-ttl", 5),
        ("stream", "x-expires", 5),
        ("stream", "x-max-length", 5),
        ("stream", "x-overflow", "drop-head"),
        ("stream", "x-dead-letter-exchange", "dlx"),
    ],
)
def test_arguments_of_other_types_of_queues(kind, name, value):
    assert refusal_of({"x-queue-type": kind, name: value}) == (
        f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_{kind}_queue"
    )


def test_a_dead_letter_exchange_is_a_name():
    assert refusal_of({"x-dead-letter-exchange": 1}) == (
        "invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
    )


@cases(
    "arguments, properties, name",
    [
        (QUORUM, {"durable": False}, "non-durable"),
        (STREAM, {"durable": False}, "non-durable"),
        (QUORUM, {"exclusive": True}, "exclusive-owner"),
        (STREAM, {"exclusive": True}, "exclusive-owner"),
        (STREAM, {"auto_delete": True}, "auto-delete"),
    ],
)
def test_rules_between_properties_and_type(arguments, properties, name):
    assert refusal_of(arguments, **properties) == f"invalid property '{name}' for queue 'q' in vhost '/'"


def test_quorum_queues_may_delete_themselves_and_classic_ones_may_be_anything():
    assert declare(QUORUM, auto_delete=True).auto_delete
    queue = declare({}, durable=False, exclusive=True, auto_delete=True)
    assert (queue.durable, queue.exclusive, queue.auto_delete) == (False, True, True)


def test_names_and_texts():
    check_new_name("amqp")
    with pytest.raises(EntrepotError, match=r"^queue name 'amq\.gen' contains reserved prefix 'amq\.\*'$") as refusal:
        check_new_name("amq.gen")
    assert refusal.value.code is Code.FORBIDDEN
    assert not_found("q", "v").message == "no queue 'q' in vhost 'v'"
    assert locked("q", "v").startswith("cannot obtain exclusive access to locked queue 'q' in vhost 'v'. It could be")


# -- declared anew -----------------------------------------------------------------------------------------------------


@cases(
    "current, wanted, text",
    [
        ({}, {}, None),
        ({"x-max-length": 1}, {"x-max-length": 1}, None),
        ({"x-max-length": 1}, {"x-max-length": 1, "x-unknown": 2}, None),
        ({}, {"x-queue-type": "classic"}, None),
        ({"x-queue-type": "classic"}, {}, None),
        ({"x-dead-letter-exchange": "d"}, {"x-dead-letter-exchange": b"d"}, None),
        ({"x-max-length": 1}, {"x-max-length": 2}, "x-max-length: received '2' but current is '1'"),
        (
            {},
            {"x-message-ttl": 1000},
            "x-message-ttl: received the value '1000' of type 'signedint' but current is none",
        ),
        (
            {"x-message-ttl": 1 << 40},
            {},
            "x-message-ttl: received none but current is the value '1099511627776' of type 'long'",
        ),
        (
            {},
            QUORUM,
            "x-queue-type: received the value 'quorum' of type 'longstr' but current is none",
        ),
        (QUORUM, {"x-queue-type": "classic"}, "x-queue-type: received 'classic' but current is 'quorum'"),
        (
            {"x-single-active-consumer": True},
            {"x-single-active-consumer": False},
            "x-single-active-consumer: received 'false' but current is 'true'",
        ),
        (
            {"x-expires": 5, "x-max-length": 5},
            {"x-expires": 6, "x-max-length": 6},
            "x-expires: received '6' but current is '5'",
        ),
    ],
)
def test_arguments_of_a_second_declaration(current, wanted, text):
    expected = None
    if text is not None:
        name, _, rest = text.partition(": ")
        expected = f"inequivalent arg '{name}' for queue 'q' in vhost '/': {rest}"
    assert inequivalence(declare(current), declare(wanted), "/") == expected


def test_properties_of_a_second_declaration():
    durable, transient = declare({}), declare({}, durable=False)
    assert inequivalence(durable, transient, "/") == (
        "inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but current is 'true'"
    )
    assert inequivalence(durable, declare({}, auto_delete=True), "/") == (
        "inequivalent arg 'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"
    )
