"""Definitions of everything, or of one virtual host: export and import.  For super users only.

An import that left something out, or has `report=true`, answers 200 with a report and reasons; else 204 as in RabbitMQ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from msgspec import Meta

from entrepot.domain.exchanges.exchange import RESERVED_PREFIX
from entrepot.gateway.amqp.virtual_hosts.vhost_names import vhost_of
from entrepot.gateway.operations.local_views.amqp_shapes import plain
from entrepot.gateway.operations.rabbitmq.importing import Import
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, Flag, Row, chosen
from entrepot.gateway.operations.rabbitmq.parameters import global_parameter_rows, parameter_rows
from entrepot.gateway.operations.rabbitmq.permissions import permission_rows
from entrepot.gateway.operations.rabbitmq.rows import Definitions, DefinitionsShown
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.rabbitmq.shapes import binding_shape, exchange_shape, policy_shape
from entrepot.gateway.operations.rabbitmq.topic_permissions import topic_permission_rows
from entrepot.gateway.operations.rabbitmq.users import user_definition
from entrepot.gateway.operations.rabbitmq.vhosts import vhost_shape
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.schema import Schema, Schemas, example_of
from entrepot.gateway.operations.row.shapes import Part, PlainName, Query, RawBody, shown_as
from entrepot.gateway.security.changes import By
from entrepot.gateway.settings.version import own_version

if TYPE_CHECKING:
    from entrepot.domain.ports import Topology
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

_OF_EXCHANGE = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
_OF_BINDING = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")
_IMPORTED: Final = "definitions imported"
_OUTCOME: Final = "Done, but for what is named"

DEFINITIONS: Final = new_noun("/definitions")


def _shown(schemas: Schemas) -> Schema:
    return schemas.of(DefinitionsShown)


class ImportAsked(Query, frozen=True):
    report: Annotated[Flag, Meta(description="True: tell what was done though nothing was left out")] = None


class ImportReport(Part, rename="lower", frozen=True):
    done: dict[str, int]
    left_out: list[Any]


shown_as(ImportReport({"queues": 3}, [{"kind": "x"}]))


class AllDefinitions:
    """The operations of definitions."""

    def __init__(self, rabbitmq: RabbitMq, topology: Topology, version: str) -> None:
        """`version`: RabbitMQ's version that is told."""
        self._rabbitmq, self._topology, self._version = rabbitmq, topology, version

    @DEFINITIONS.get("", "exportDefinitions", "Export all definitions", SUPER_USERS)
    async def export(self, query: ColumnsAsked) -> Definitions:
        vhosts, administration = self._rabbitmq.vhosts, self._rabbitmq.security.administration
        users = [user_definition(each, self._rabbitmq) for each in administration.users()]
        found = {
            **self._head(),
            "users": users,
            "vhosts": [_vhost(self._rabbitmq, vhost) for vhost in vhosts],
            "permissions": permission_rows(administration, vhosts),
            "topic_permissions": topic_permission_rows(self._rabbitmq, vhosts),
            "parameters": self._parameters(vhosts),
            "global_parameters": global_parameter_rows(self._rabbitmq),
            **_of_vhosts(vhosts),
        }
        return chosen(query, found)

    @DEFINITIONS.get("/{vhost}", "exportVhostDefinitions", "Export the definitions of a virtual host", SUPER_USERS)
    async def export_of(self, vhost: PlainName, query: ColumnsAsked) -> Definitions:
        found = [self._rabbitmq.vhost(vhost)]
        answer = {**self._head(), "parameters": self._parameters(found), **_of_vhosts(found)}
        for rows in answer.values():
            if isinstance(rows, list):
                for row in rows:
                    row.pop("vhost", None)
        return chosen(query, answer)

    @DEFINITIONS.post(
        "",
        "importDefinitions",
        "Import definitions",
        SUPER_USERS,
        change=_IMPORTED,
        outcome=_OUTCOME,
        example=example_of(DefinitionsShown),
        body_as=_shown,
    )
    async def take_in(self, query: ImportAsked, body: RawBody, asked: Asked) -> ImportReport | None:
        return await self._take_in(query, body, asked, None)

    @DEFINITIONS.post(
        "/{vhost}",
        "importVhostDefinitions",
        "Import definitions into a virtual host",
        SUPER_USERS,
        change=_IMPORTED,
        outcome=_OUTCOME,
        example=example_of(DefinitionsShown),
        body_as=_shown,
    )
    async def take_in_of(
        self, vhost: PlainName, query: ImportAsked, body: RawBody, asked: Asked
    ) -> ImportReport | None:
        return await self._take_in(query, body, asked, self._rabbitmq.vhost(vhost))

    async def _take_in(self, query: ImportAsked, body: bytes, asked: Asked, vhost: Vhost | None) -> ImportReport | None:
        given, by = _read(body), By.principal(asked.principal)
        if given.get("users") or given.get("permissions"):  # all of it or nothing
            self._rabbitmq.security.administration.check_may_change(by)
        work = Import(self._rabbitmq, self._topology, by, vhost)
        try:
            await work.run(given)
        finally:
            done = ", ".join(f"{count} {kind}" for kind, count in work.done.items()) or "nothing"
            asked.tell(detail=f"{done}; {len(work.left_out)} left out")
        if not work.left_out and query.report != "true":
            return None
        return ImportReport(work.done, work.left_out)

    def _parameters(self, vhosts: list[Vhost]) -> list[Row]:
        return [*parameter_rows(self._rabbitmq, vhosts), *_operator_policies(vhosts)]

    def _head(self) -> Row:
        return {
            "rabbit_version": self._version,
            "rabbitmq_version": self._version,
            "product_name": "Entrepôt",
            "product_version": own_version(),
        }


def _read(body: bytes) -> Row:
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the definitions are not JSON: {error}") from None
    if not isinstance(given, dict):
        raise bad_request("definitions are an object")
    return given


def _vhost(rabbitmq: RabbitMq, vhost: Vhost) -> Row:
    shape = vhost_shape(rabbitmq, vhost)
    return {name: shape[name] for name in ("name", "description", "tags", "metadata")}


def _of_vhosts(vhosts: list[Vhost]) -> dict[str, Any]:
    """Durable definitions only: no exclusive queues, no predeclared exchanges."""
    return {
        "policies": [policy_shape(each, vhost) for vhost in vhosts for each in vhost.policies()],
        "queues": [_queue(queue, vhost) for vhost in vhosts for queue in vhost.queues.values() if not queue.connection],
        "exchanges": [
            {name: row[name] for name in _OF_EXCHANGE}
            for vhost in vhosts
            for exchange in vhost.routing.exchanges()
            if exchange.name and not exchange.name.startswith(RESERVED_PREFIX)
            for row in (exchange_shape(exchange, vhost),)
        ],
        "bindings": [
            {name: row[name] for name in _OF_BINDING}
            for vhost in vhosts
            for binding in vhost.bindings()
            if not _is_exclusive(vhost, binding.destination_kind.value, binding.destination)
            for row in (binding_shape(binding, vhost),)
        ],
    }


def _queue(queue: Any, vhost: Vhost) -> dict[str, Any]:
    declared = queue.declared
    return {
        "name": declared.name,
        "vhost": vhost_of(vhost.namespace),
        "durable": declared.durable,
        "auto_delete": declared.auto_delete,
        "arguments": plain(declared.arguments.given),
    }


def _is_exclusive(vhost: Vhost, kind: str, destination: str) -> bool:
    queue = vhost.queue(destination) if kind == "queue" else None
    return queue is not None and bool(queue.connection)


def _operator_policies(vhosts: list[Vhost]) -> list[dict[str, Any]]:
    """Operator policies in RabbitMQ's form: parameters of a component."""
    return [
        {
            "component": "operator_policy",
            "vhost": vhost.name,
            "name": policy.name,
            "value": {
                name: value for name, value in policy_shape(policy, vhost).items() if name not in ("vhost", "name")
            },
        }
        for vhost in vhosts
        for policy in vhost.policies(of_operators=True)
    ]
