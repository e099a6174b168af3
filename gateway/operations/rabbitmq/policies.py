"""Policies of virtual hosts, users' and operators': list, show, put, delete."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from entrepot.domain.queues.policy import ApplyTo, Policy
from entrepot.gateway.amqp.virtual_hosts import needs
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import PolicyRow, PolicyRows
from entrepot.gateway.operations.rabbitmq.server import GOVERN, LIST, check_sayable, missing, new_noun
from entrepot.gateway.operations.rabbitmq.shapes import policy_shape
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, Number, PlainName

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.operations.row.operation import Noun
    from entrepot.gateway.operations.row.rights import Right

POLICIES: Final = new_noun("/policies")
OPERATOR_POLICIES: Final = new_noun("/operator-policies")
_HandlerT = TypeVar("_HandlerT", bound=Callable[..., Any])
_EXAMPLE: Final = {"pattern": "^jobs", "definition": {"max-length": 1000}, "priority": 0, "apply-to": "queues"}


class PolicyBody(LenientBody, frozen=True):
    """A policy."""

    pattern: str
    definition: dict[str, Any]
    priority: Number = 0
    apply_to: ApplyTo | None = msgspec.field(default=None, name="apply-to")

    def policy(self, name: str, *, is_operators: bool) -> Policy:
        """Return the policy.  Raises BAD_REQUEST."""
        check_sayable("definition", self.definition)
        default = ApplyTo.QUEUES if is_operators else ApplyTo.ALL
        return Policy(name, self.pattern, self.definition, self.priority, self.apply_to or default, is_operators)


def _both(
    method: str, path: str, name: str, summary: str, right: Right, change: str = "", **more: Any
) -> Callable[[_HandlerT], _HandlerT]:
    """Add a row for users' and one for operators' policies.  In braces: the words that differ."""

    def add(noun: Noun, handler: _HandlerT, one: str, many: str, whose: str, what: str) -> None:
        words = {"one": one, "many": many, "whose": whose, "what": what}
        told = {"change": change.format(**words)} if change else {}
        register: Any = getattr(noun, method)
        register(path, name.format(**words), summary.format(**words), right, **told, **more)(handler)

    def register(handler: _HandlerT) -> _HandlerT:
        add(POLICIES, handler, "Policy", "Policies", "policies", "queue policy")
        add(OPERATOR_POLICIES, handler, "OperatorPolicy", "OperatorPolicies", "operators' policies", "operator policy")
        return handler

    return register


class Policies:
    """The operations of policies; `is_operators`: of operators'."""

    def __init__(self, rabbitmq: RabbitMq, *, is_operators: bool) -> None:
        self._rabbitmq, self._is_operators = rabbitmq, is_operators

    @_both("get", "", "list{many}", "List all {whose}", LIST)
    async def listed(self, query: ListingAsked) -> PolicyRows:
        return await listing(query, self._rows(self._rabbitmq.vhosts))

    @_both("get", "/{vhost}", "listVhost{many}", "List the {whose} of a virtual host", LIST)
    async def listed_in(self, vhost: PlainName, query: ListingAsked) -> PolicyRows:
        return await listing(query, self._rows([self._rabbitmq.vhost(vhost)]))

    @_both("get", "/{vhost}/{name}", "get{one}", "Get one of the {whose}", LIST)
    async def show(self, vhost: PlainName, name: PlainName, query: ColumnsAsked) -> PolicyRow:
        found = self._rabbitmq.vhost(vhost)
        for row in self._rows([found]):
            if row["name"] == name:
                return chosen(query, row)
        raise missing("policy", name, found)

    @_both(
        "put",
        "/{vhost}/{name}",
        "set{one}",
        "Put one of the {whose}, effective at once",
        GOVERN,
        "{what} changed",
        example=_EXAMPLE,
    )
    async def put(self, vhost: PlainName, name: PlainName, body: PolicyBody, asked: Asked) -> Declared:
        found = self._rabbitmq.vhost(vhost)
        policy = body.policy(name, is_operators=self._is_operators)
        self._rabbitmq.check(asked.principal, needs.to_put_policy(found.namespace, policy.definition))
        return Declared(await self._rabbitmq.virtual_hosts.put_policy(found, policy))

    @_both("delete", "/{vhost}/{name}", "delete{one}", "Delete one of the {whose}", GOVERN, "{what} deleted")
    async def delete(self, vhost: PlainName, name: PlainName) -> None:
        found, definitions = self._rabbitmq.vhost(vhost), self._rabbitmq.virtual_hosts.definitions
        if not await definitions.delete_policy(found, name, is_operators=self._is_operators):
            raise missing("policy", name, found)

    def _rows(self, vhosts: list[Vhost]) -> list[Row]:
        of = self._is_operators
        return [policy_shape(each, vhost) for vhost in vhosts for each in vhost.policies(of_operators=of)]
