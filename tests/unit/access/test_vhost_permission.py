"""RabbitMQ's permissions as statements: what can be said grants exactly that, and nothing else is taken."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.evaluator import compile_statements, evaluate
from entrepot.domain.access.model import Action, Origin, Principal, Request, ResourceType
from entrepot.domain.access.vhost_permission import (
    NOTHING,
    VhostPermission,
    is_of_vhost,
    patterns_of,
    permission_of,
    statements_of,
)
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.amqp.virtual_hosts.needs import entity_name
from tests.support.cases import cases

PRINCIPAL = Principal("bob", Origin.PASSWORD, "10.0.0.1")
NAMES = ("orders", "orders2", "app", "app.in", "app-out", "amq.gen-x", "a|b", "", "x/y")
OF = {
    "configure": (Action.CREATE, ResourceType.TOPIC),
    "write": (Action.PUB, ResourceType.TOPIC),
    "read": (Action.SUB, ResourceType.GROUP),
}


def allows(permission: VhostPermission, namespace: str, action: Action, kind: ResourceType, name: str) -> bool:
    compiled = compile_statements("bob", statements_of(permission, namespace))
    return evaluate(PRINCIPAL, Request(action, kind, name), [compiled]).is_allowed


@cases(
    "expression",
    [
        "",
        "^$",
        ".*",
        "^.*$",
        "^orders$",
        "^orders",
        "^orders.*",
        "^(orders|app)$",
        r"^(amq\.gen.*|orders)$",
        r"^app\.in$|^orders$",
        r"^(app)-out$",
        r"^(app|orders).*$",
        r"^a\|b$",
        "^x/y$",
    ],
)
@cases("what", OF)
@cases("namespace", ["default", "plant"])
def test_it_grants_what_the_expression_matches(expression: str, what: str, namespace: str) -> None:
    try:
        permission = VhostPermission(**{"configure": "", "write": "", "read": "", what: expression})
        statements_of(permission, namespace)
    except EntrepotError:
        assert expression == r"^(app)-out$"  # a group inside a name is not taken
        return
    for name in filter(None, NAMES):
        asked = entity_name(namespace, name)
        is_meant = bool(expression) and re.search(expression, name) is not None
        for each, (action, kind) in OF.items():
            assert allows(permission, namespace, action, kind, asked) is (is_meant and each == what)


@cases("what", OF)
def test_everything_of_one_vhost_is_nothing_of_another(what: str) -> None:
    permission = VhostPermission(**{"configure": "", "write": "", "read": "", what: ".*"})
    action, kind = OF[what]
    assert allows(permission, "default", action, kind, "q")
    assert not allows(permission, "default", action, kind, "$ns/plant/q")
    assert allows(permission, "plant", action, kind, "$ns/plant/q")
    assert not allows(permission, "plant", action, kind, "q")
    assert not allows(permission, "plant", action, kind, "$ns/plant2/q")


@cases(
    "expression", ["orders", "^a.b$", "^[ab]$", "^(a|(b))$", "^a+$", r"^\w$", "^a*$", "^()$", "a$", "^(a|)$", r"^a\*$"]
)
def test_what_cannot_be_said_is_refused(expression: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        patterns_of(expression)
    assert refused.value.code is Code.BAD_REQUEST


literals = st.text(st.sampled_from("ab.-_|()/\\[]"), min_size=1, max_size=6)


@given(
    names=st.lists(st.tuples(literals, st.booleans()), max_size=4, unique=True),
    namespace=st.sampled_from(["default", "plant"]),
)
def test_what_was_said_is_read_back(names: list[tuple[str, bool]], namespace: str) -> None:
    """The expression that comes out grants what the one that went in grants."""
    parts = [re.sub(r"([^\w-])", r"\\\1", name) + (".*" if is_open else "") for name, is_open in names]
    expression = f"^({'|'.join(parts)})$" if parts else NOTHING
    permission = VhostPermission(expression, "", expression)
    statements = statements_of(permission, namespace)
    assert all(is_of_vhost(each, namespace) for each in statements)
    assert not any(is_of_vhost(each, "other") for each in statements)
    again = permission_of(statements, namespace)
    if not parts:
        assert again is None
        return
    assert again is not None and again.write == NOTHING
    assert statements_of(again, namespace) == statements
    assert patterns_of(again.read) == patterns_of(expression)
