"""Expressions in statements: an ALLOW covers one name that is found, a DENY meets all that may be meant."""

from __future__ import annotations

import pytest

from entrepot.domain.access.evaluator import compile_statements, evaluate, may_be_known
from entrepot.domain.access.model import EVERYTHING, Action, Effect, Origin, Principal, Request, ResourceType, Statement
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.needs import entity_name
from tests.support.cases import cases

PRINCIPAL = Principal("bob", Origin.PASSWORD, "10.0.0.1")
LONG = entity_name("default", "x" * 200)


def statement(effect: Effect, *resources: str) -> Statement:
    return Statement(effect, (Action.SUB,), resources)


def asks(statements: list[Statement], name: str, kind: ResourceType = ResourceType.TOPIC) -> bool:
    return evaluate(PRINCIPAL, Request(Action.SUB, kind, name), [compile_statements("bob", statements)]).is_allowed


@cases(
    "name, is_allowed",
    [
        ("open/x", True),
        ("open", True),
        ("my-secret/x", False),
        ("my%2Esecret/x", False),
        ("my.secret/x", False),  # MQTT's, which is the name of no exchange
        ("open/secret", True),
        ("#", False),
        ("+/x", False),
        (f"{LONG}/x", False),  # who knows what is behind the hash
        ("$ns/plant/secret/x", True),
        ("$SYS/secret", True),
        (EVERYTHING, False),
    ],
)
def test_a_denial_meets_all_that_may_be_meant(name: str, is_allowed: bool) -> None:
    assert asks([statement(Effect.ALLOW, "Topic:*"), statement(Effect.DENY, "Topic~secret")], name) is is_allowed


@cases(
    "name, is_allowed",
    [
        ("$ns/plant/open/x", True),
        ("$ns/plant/secret/x", False),
        ("$ns/plant/#", False),
        ("$ns/+/x", False),
        ("$ns/#", False),
        ("$ns/garden/secret", True),
        ("secret", True),
        ("#", True),
    ],
)
def test_a_denial_in_a_namespace_is_of_that_alone(name: str, is_allowed: bool) -> None:
    denied = [statement(Effect.ALLOW, "Topic:*"), statement(Effect.DENY, "Topic~$ns/plant/^secret$")]
    assert asks(denied, name) is is_allowed


def test_a_denial_of_names_is_as_one_of_patterns() -> None:
    """An ALLOW that lists names is compiled to patterns; a DENY is not, so that no other spelling escapes it."""
    assert not asks([statement(Effect.ALLOW, "Topic:#"), statement(Effect.DENY, r"Topic~^app\.in$")], "app.in")
    assert not asks([statement(Effect.ALLOW, r"Topic~^app\.in$")], "app.in")
    assert asks([statement(Effect.ALLOW, r"Topic~^app\.in$")], "app%2Ein/x")
    assert asks([statement(Effect.ALLOW, "Topic~^.*$")], "#")
    assert asks([statement(Effect.ALLOW, "Topic:#"), statement(Effect.DENY, "Topic~")], "a")


def test_of_groups_the_whole_name_is_meant() -> None:
    allowed = [statement(Effect.ALLOW, "Group~-q$")]
    assert asks(allowed, "jobs-q", ResourceType.GROUP)
    assert not asks(allowed, "jobs-q/x", ResourceType.GROUP)
    assert not asks(allowed, "$ns/plant/jobs-q", ResourceType.GROUP)
    assert not asks(allowed, "jobs-q")


@cases(
    "name, is_known", [("jobs-q/#", True), ("jobs/#", False), ("#", True), (LONG, False), ("$ns/plant/jobs-q", False)]
)
def test_who_may_do_something_may_know(name: str, is_known: bool) -> None:
    compiled = [compile_statements("bob", [statement(Effect.ALLOW, "Topic~-q$")])]
    assert may_be_known(PRINCIPAL, ResourceType.TOPIC, name, compiled) is is_known


@cases("resource", ["Cluster~a", "Namespace~a", "Topic~(", "Topic~${clientid}", "Topic~a\tb", "~a", "Topic ~a"])
def test_what_is_not_a_resource(resource: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        compile_statements("bob", [statement(Effect.ALLOW, resource)])
    assert refused.value.code is Code.BAD_REQUEST
