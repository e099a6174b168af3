"""Users with any right in a namespace, by any kind of resource."""

from __future__ import annotations

from typing import cast

from entrepot.domain.access.evaluator import compile_statements, may_be_known
from entrepot.domain.access.model import Action, Decision, Effect, Origin, Principal, ResourceType, Statement
from entrepot.gateway.security.namespace_rights import has_rights_in
from entrepot.gateway.security.security import Security
from tests.support.cases import cases

ALICE = Principal("alice", Origin.PASSWORD, "192.0.2.7")


class Rights:
    """The policy of one principal; None: everything."""

    def __init__(self, statements: list[Statement] | None) -> None:
        self._compiled = None if statements is None else [compile_statements("alice", statements)]

    def statements_for(self, principal: Principal) -> object:
        return Decision(True, "a super user") if self._compiled is None else self._compiled

    def may_know(self, principal: Principal, kind: ResourceType, name: str) -> bool:
        assert self._compiled is not None
        return may_be_known(principal, kind, name, self._compiled)


def allow(*resources: str, sources: tuple[str, ...] = (), effect: Effect = Effect.ALLOW) -> Statement:
    return Statement(effect, (Action.SUB,), resources, sources)


@cases(
    "statements, expected",
    [
        (None, {"default", "plant"}),
        ([], set()),
        ([allow("Topic:*")], {"default", "plant"}),
        ([allow("Group:*")], {"default", "plant"}),
        ([allow("Topic:orders/#")], {"default"}),
        ([allow("Topic:or*")], {"default"}),
        ([allow("Group:workers")], {"default"}),
        ([allow("Group:#")], {"default"}),
        ([allow("Topic:$ns/plant/orders")], {"plant"}),
        ([allow("Topic:$ns/plant/or*")], {"plant"}),
        ([allow("Group:$ns/plant/workers")], {"plant"}),
        ([allow("Group:$ns/plant/*")], {"plant"}),
        ([allow("Group:$ns/*")], {"plant"}),
        ([allow("Group:$ns/other/workers", "Topic:$ns/other/#")], set()),
        ([allow("Cluster:default", "Namespace:plant")], set()),
        ([allow("Topic:*", sources=("10.0.0.0/8",)), allow("Group:*", sources=("10.0.0.0/8",))], set()),
        ([allow("Topic:*"), allow("Topic:$ns/plant/#", effect=Effect.DENY)], {"default"}),
    ],
)
def test_where_a_user_has_rights(statements: list[Statement] | None, expected: set[str]) -> None:
    security = cast(Security, Rights(statements))
    assert {name for name in ("default", "plant") if has_rights_in(security, ALICE, name)} == expected
