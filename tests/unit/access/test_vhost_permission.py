"""RabbitMQ's permissions as statements: each grants the names its expression finds, and is read back as it was."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.evaluator import compile_statements, evaluate
from entrepot.domain.access.model import (
    Action,
    Effect,
    Origin,
    Principal,
    Request,
    ResourceType,
    Statement,
    default_exchange_name,
)
from entrepot.domain.access.vhost_permission import (
    NOTHING,
    VhostPermission,
    is_of_vhost,
    permission_of,
    statements_of,
)
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.amqp.virtual_hosts.needs import entity_name
from tests.support.cases import cases

PRINCIPAL = Principal("bob", Origin.PASSWORD, "10.0.0.1")
NAMES = (
    *(
        "orders",
        "orders2",
        "my-orders",
        "a",
        "b",
        "ab",
        "app",
        "app.in",
        "app-out",
        "amq.gen-x",
        "celery.a",
        "x.reply.y",
    ),
    *("a|b", "x/y", "secret", "secret.a", "not-secret", "jobs-q", "jobs-q2", "é", "a+b", "$a", "%DLQ%a", "A"),
)
OF = {
    "configure": (Action.CREATE, ResourceType.TOPIC),
    "write": (Action.PUB, ResourceType.TOPIC),
    "read": (Action.SUB, ResourceType.GROUP),
}
EXPRESSIONS = (
    *("", "^$", ".*", "^.*", ".*$", "^.*$", "^", ".", "^orders$", "^orders", "^orders.*", "^orders.*$", "orders", "a$"),
    *("^(orders|app)$", r"^(amq\.gen.*|orders)$", r"^app\.in$|^orders$", r"^(app)-out$", "^(app|orders).*$", r"^a\|b$"),
    *("^x/y$", "^(a|b)$", r"^a\.b$", "^[a-z]+$", ".*-q$", r"^(amq\.gen.*|celery.*|.*reply.*)$", r"^a\+b$", "^(a|)$"),
    *(r"(amq\.default|orders.*)", "^(?!secret).*$", "^a.b$", "^[ab]$", "^(a|(b))$", "^a+$", r"^\w$", "^()$", "(?i)^a$"),
    *(r"^\$a$", "^%DLQ%", "a{2}|b", "[[:alpha:]]", r"^\x61$"),
)


def given_for(what: str, expression: str) -> VhostPermission:
    return VhostPermission(**{"configure": "", "write": "", "read": "", what: expression})


def allows(
    permission: VhostPermission, namespace: str, action: Action, kind: ResourceType, name: str, instead: str = ""
) -> bool:
    compiled = compile_statements("bob", statements_of(permission, namespace))
    return evaluate(PRINCIPAL, Request(action, kind, name, instead), [compiled]).is_allowed


def means(expression: str, name: str) -> bool:
    """Meaning of the expression: a search, in which an empty one finds nothing."""
    python = expression.replace("[:alpha:]", "a-zA-Z")
    return expression != "" and re.search(python, name, re.ASCII) is not None


@cases("expression", EXPRESSIONS)
@cases("what", OF)
@cases("namespace", ["default", "plant"])
def test_it_grants_what_the_expression_finds(expression: str, what: str, namespace: str) -> None:
    compiled = [compile_statements("bob", statements_of(given_for(what, expression), namespace))]
    for name in NAMES:
        asked = entity_name(namespace, name)
        is_meant = means(expression, name) or (name == "é" and expression == r"^\w$")
        for each, (action, kind) in OF.items():
            for named in (asked, f"{asked}/any/key") if kind is ResourceType.TOPIC else (asked,):
                granted = evaluate(PRINCIPAL, Request(action, kind, named), compiled).is_allowed
                assert granted is (is_meant and each == what), named


@cases("expression", EXPRESSIONS)
@cases("namespace", ["default", "plant"])
def test_it_is_read_back_as_it_was_written(expression: str, namespace: str) -> None:
    for permission in (
        VhostPermission(expression, "", expression),
        VhostPermission("^$", expression, ".*"),
        VhostPermission(expression, expression, expression),
    ):
        statements = statements_of(permission, namespace)
        assert all(is_of_vhost(each, namespace) for each in statements)
        assert not any(is_of_vhost(each, "other") for each in statements)
        assert permission_of(statements, namespace) == permission
        assert permission_of(statements, "other") is None


@cases("what", OF)
@cases("expression", [".*", "^(?!x)", "q", "[q]", "^.*$", "q|r"])
def test_a_right_in_one_vhost_is_nothing_in_another(what: str, expression: str) -> None:
    permission = given_for(what, expression)
    action, kind = OF[what]
    assert allows(permission, "default", action, kind, "q")
    for other in ("$ns/plant/q", "$ns/q", "$SYS/q", "$ns/q/q"):
        assert not allows(permission, "default", action, kind, other)
    assert allows(permission, "plant", action, kind, "$ns/plant/q")
    for other in ("q", "$ns/plant2/q", "plant/q", "$ns/q/plant", "$ns/plant", "q/$ns/plant/q"):
        assert not allows(permission, "plant", action, kind, other)


@cases("expression", ["orders", "^[a-z]+$", "^(?!secret)", ".+"])
def test_an_expression_covers_no_set_of_names_and_no_name_of_no_entity(expression: str) -> None:
    """Sets that reach over several Topics, MQTT names that only look like a decoded one, names with a hash."""
    permission, long = VhostPermission(expression, expression, expression), entity_name("default", "orders" * 30)
    for name in ("#", "+/orders", "+", "+/#", "orders.x/y", "my orders/x", "%2Forders", "", "$orders/x", long):
        assert not allows(permission, "default", Action.PUB, ResourceType.TOPIC, name)


@cases("what", [r"^(amq\.default|orders)$", "^amq", "default$", "."])
@cases("namespace", ["default", "plant"])
def test_writing_to_the_default_exchange_is_publishing_to_every_queue(what: str, namespace: str) -> None:
    permission = VhostPermission("", what, "")
    (need,) = needs.to_publish(namespace, "", ["any.queue"])
    assert allows(permission, namespace, need.action, need.resource_type, need.name, need.instead)
    assert not allows(permission, "other", need.action, need.resource_type, need.name, need.instead)
    (further,) = needs.to_publish(namespace, "any.queue", ["key"])
    assert what == "." or not allows(permission, namespace, further.action, further.resource_type, further.name)
    own = VhostPermission("", "^orders$", "")
    assert not allows(own, namespace, need.action, need.resource_type, need.name, need.instead)


def test_a_denied_queue_stays_denied_by_the_default_exchange() -> None:
    granted = statements_of(VhostPermission("", "^amq", ""), "default")
    (need,) = needs.to_publish("default", "", ["secret"])
    for pattern in ("Topic:secret", "Topic~^sec", "Topic:secret/#"):
        denied = Statement(Effect.DENY, (Action.PUB,), (pattern,))
        assert not evaluate(PRINCIPAL, need, [compile_statements("bob", [*granted, denied])]).is_allowed
    elsewhere = Statement(Effect.DENY, (Action.PUB,), (f"Topic:{default_exchange_name('default')}",))
    assert evaluate(PRINCIPAL, need, [compile_statements("bob", [*granted, elsewhere])]).is_allowed


@cases(
    "expression, advice",
    [
        ("^a(?=b)", "match what follows"),
        ("^a(?!b)", "write ^(?!x)"),
        ("(?<=a)b", "match what is before"),
        ("(?<!a)b", "write ^(?!x)"),
        (r"^(a)\1$", "write the group once more"),
        ("^(?>a)b", "write (?:...)"),
        ("^a++$", "repeat it once"),
        ("(", "missing )"),
        ("[z-a]", "invalid character class range"),
        ("^${username}", "no placeholders"),
        ("$ns/plant/x", "write ^$ for none"),
        ("a\nb", "printable"),
        ("a" * 4097, "up to 4096 characters"),
        ("[a]" * 400, "up to 1024 characters"),
    ],
)
@cases("namespace", ["default", "plant"])
def test_what_does_not_run_in_linear_time_is_refused(expression: str, advice: str, namespace: str) -> None:
    for permission in (VhostPermission(expression, "", ""), VhostPermission("", expression, "")):
        with pytest.raises(EntrepotError) as refused:
            statements_of(permission, namespace)
        assert refused.value.code is Code.BAD_REQUEST
        assert advice in refused.value.message


def test_statements_of_earlier_versions_are_read() -> None:
    """They had nothing for what finds nothing, and names for every list."""
    old = [Statement(Effect.ALLOW, (Action.SUB,), ("Topic:a/#", "Topic:app*", "Group:a", "Group:app*"))]
    assert permission_of(old, "default") == VhostPermission(NOTHING, NOTHING, "^(a|app.*)$")
    more = Statement(Effect.ALLOW, (Action.SUB,), ("Topic~x$", "Group~x$", "Topic~"))
    assert permission_of([*old, more], "default") == VhostPermission(NOTHING, NOTHING, "x$|^(a|app.*)$")


texts = st.text(st.sampled_from("ab.-_|()/\\[]^$*+?~: é"), max_size=8)


@given(permission=st.builds(VhostPermission, texts, texts, texts), namespace=st.sampled_from(["default", "plant"]))
def test_any_text_is_refused_or_read_back(permission: VhostPermission, namespace: str) -> None:
    try:
        statements = statements_of(permission, namespace)
    except EntrepotError as refused:
        if refused.code is not Code.BAD_REQUEST:
            raise
        return
    assert permission_of(statements, namespace) == permission
    compile_statements("bob", statements)


@given(text=texts, name=st.text(st.sampled_from("ab.-"), min_size=1, max_size=4))
def test_any_expression_grants_what_it_finds(text: str, name: str) -> None:
    permission = VhostPermission("", "", text)
    try:
        granted = allows(permission, "default", Action.SUB, ResourceType.GROUP, entity_name("default", name))
        is_meant = means(text, name)
    except (EntrepotError, re.error):  # `^?` is one of RE2's only
        return
    assert granted is is_meant
