"""Policies: which one holds, and what it leaves of a queue's own arguments."""

from __future__ import annotations

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.queues.arguments import DeadLetterStrategy, Overflow, QueueArguments, QueueType
from entrepot.domain.queues.declaration import declared_queue
from entrepot.domain.queues.policy import (
    ApplyTo,
    Policy,
    alternate_exchange,
    effective_definition,
    policy_of_exchange,
    policy_of_queue,
    with_policy,
)
from tests.support.cases import cases


def arguments_of(**given: object) -> QueueArguments:
    spelt = {"x-" + name.replace("_", "-"): value for name, value in given.items()}
    return declared_queue("q", "/", durable=True, arguments=spelt).arguments


@cases(
    "apply_to, queues, exchange",
    [
        (ApplyTo.ALL, "classic quorum stream", True),
        (ApplyTo.EXCHANGES, "", True),
        (ApplyTo.QUEUES, "classic quorum stream", False),
        (ApplyTo.CLASSIC_QUEUES, "classic", False),
        (ApplyTo.QUORUM_QUEUES, "quorum", False),
        (ApplyTo.STREAMS, "stream", False),
    ],
)
def test_what_a_policy_is_for(apply_to, queues, exchange):
    policy = Policy("p", "^a", apply_to=apply_to)
    assert [str(kind) for kind in QueueType if policy.applies_to_queue("abc", kind)] == queues.split()
    assert policy.applies_to_exchange("abc") is exchange
    assert not any(policy.applies_to_queue("cba", kind) for kind in QueueType)
    assert not policy.applies_to_exchange("cba")


def test_the_pattern_may_match_anywhere():
    assert Policy("p", "b+").applies_to_exchange("abbc")


@cases(
    "key, value, kinds",
    [
        ("max-length", 1, "classic quorum"),
        ("max-length-bytes", 1, "classic quorum stream"),
        ("delivery-limit", 1, "quorum"),
        ("max-age", "1D", "stream"),
        ("queue-mode", "lazy", "classic"),
    ],
)
def test_a_policy_with_a_key_that_the_type_does_not_know_is_not_for_it(key, value, kinds):
    policy = Policy("p", "", {key: value})
    assert [str(kind) for kind in QueueType if policy.applies_to_queue("q", kind)] == kinds.split()


def test_the_highest_priority_holds_and_among_equals_the_first_by_name():
    low, b, a, other = Policy("l", ""), Policy("b", "", priority=5), Policy("a", "", priority=5), Policy("o", "x")
    assert policy_of_queue([low, b, a, other], "q", QueueType.CLASSIC) is a
    assert policy_of_exchange([low, b, other], "e") is b
    assert policy_of_queue([other], "q", QueueType.CLASSIC) is None


@cases(
    "definition, text",
    [
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": "1"}, '<<"1">> is not a valid message TTL'),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"overflow": "explode"}, '<<"explode">> is not a valid overflow value'),
        ({"max-age": "soon"}, '<<"soon">> is not a valid max age'),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"queue-version": 3}, "3 is not a valid queue version"),
        ({"queue-version": True}, "true is not a valid queue version"),
        ({"delivery-limit": "x"}, '<<"x">> is not a valid delivery limit'),
        ({"b": 1, "a": 1}, '[<<"a">>,<<"b">>] are not recognised policy settings'),
    ],
)
def test_definitions_that_are_refused(definition, text):
    with pytest.raises(EntrepotError) as refusal:
        Policy("p", "", definition)
    assert (refusal.value.code, refusal.value.message) == (Code.BAD_REQUEST, text)


def test_an_operators_policy_only_limits():
    assert Policy("p", "", {"max-length": 1}, is_operators=True).is_operators
    with pytest.raises(EntrepotError, match="are not recognised operator policy settings"):
        Policy("p", "", {"dead-letter-exchange": "dlx"}, is_operators=True)


@cases("pattern", ["(", "a" * 1025])
def test_patterns_that_are_refused(pattern):
    with pytest.raises(EntrepotError) as refusal:
        Policy("p", pattern)
    assert refusal.value.code is Code.BAD_REQUEST


def test_of_a_users_and_an_operators_number_the_lower_holds():
    user = Policy("u", "", {"max-length": 10, "message-ttl": 5, "overflow": "drop-head"})
    operator = Policy("o", "", {"max-length": 7, "message-ttl": 9, "expires": 3}, is_operators=True)
    assert effective_definition(user, operator) == {
        "max-length": 7,
        "message-ttl": 5,
        "overflow": "drop-head",
        "expires": 3,
    }
    assert effective_definition(user, None) == user.definition
    assert effective_definition(None, operator) == operator.definition
    assert effective_definition(None, None) == {}


def test_a_policy_gives_what_the_queue_does_not_say():
    definition = {
        "message-ttl": 5,
        "dead-letter-exchange": "dlx",
        "dead-letter-routing-key": "dead",
        "overflow": "reject-publish",
        "alternate-exchange": "other",
    }
    left = with_policy(QueueArguments(), definition)
    assert left == QueueArguments(
        message_ttl_ms=5,
        dead_letter_exchange="dlx",
        dead_letter_routing_key="dead",
        overflow=Overflow.REJECT_PUBLISH,
    )
    assert left.given == {}, "a second declaration is compared with what was declared"


@cases("argument, of_policy, left", [(5, 9, 5), (9, 5, 5), (0, 5, 0), (5, 0, 0)])
def test_of_two_numbers_the_lower_holds(argument, of_policy, left):
    for key, name in (("message-ttl", "message_ttl_ms"), ("max-length", "max_length")):
        arguments = arguments_of(**{key.replace("-", "_"): argument})
        assert getattr(with_policy(arguments, {key: of_policy}), name) == left


@cases("argument, of_policy, left", [(3, 5, 3), (-1, 5, 5), (5, -1, 5), (-1, -1, -1)])
def test_of_two_delivery_limits_the_lower_holds_and_below_0_is_none(argument, of_policy, left):
    arguments = arguments_of(queue_type="quorum", delivery_limit=argument)
    assert with_policy(arguments, {"delivery-limit": of_policy}).delivery_limit == left


def test_of_two_ages_the_shorter_holds():
    arguments = arguments_of(queue_type="stream", max_age="2D")
    assert with_policy(arguments, {"max-age": "36h"}).max_age_ms == 36 * 3600 * 1000
    assert with_policy(arguments, {"max-age": "1M"}).max_age_ms == 48 * 3600 * 1000


def test_of_other_things_the_argument_wins():
    arguments = arguments_of(dead_letter_exchange="mine", overflow="drop-head", queue_version=2, queue_mode="lazy")
    definition = {
        "dead-letter-exchange": "theirs",
        "overflow": "reject-publish",
        "queue-version": 1,
        "queue-mode": "default",
    }
    assert with_policy(arguments, definition) == arguments


def test_of_a_quorum_queue_the_policys_overflow_wins():
    arguments = arguments_of(queue_type="quorum", overflow="drop-head", dead_letter_strategy="at-most-once")
    left = with_policy(arguments, {"overflow": "reject-publish", "dead-letter-strategy": "at-least-once"})
    assert left.overflow is Overflow.REJECT_PUBLISH
    assert left.dead_letter_strategy is DeadLetterStrategy.AT_MOST_ONCE


def test_a_policy_may_name_an_alternate():
    assert alternate_exchange({"alternate-exchange": "other"}) == "other"
    assert alternate_exchange({}) is None
