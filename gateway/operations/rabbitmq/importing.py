"""Import of RabbitMQ definitions, as far as they are supported.

Nothing is dropped silently: omitted parts are listed with the reason, and the rest is imported.  Existing equal
definitions count as done, so an import may be repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from entrepot.domain.errors import EntrepotError
from entrepot.domain.exchanges.binding import Binding, DestinationKind
from entrepot.domain.queues.policy import KNOWN_KEYS, OPERATOR_KEYS, WITHOUT_EFFECT
from entrepot.gateway.amqp.virtual_hosts.parameters import USER_LIMITS, VHOST_LIMITS
from entrepot.gateway.operations.rabbitmq.bindings import BindingBody
from entrepot.gateway.operations.rabbitmq.exchanges import ExchangeBody
from entrepot.gateway.operations.rabbitmq.limits import LimitBody
from entrepot.gateway.operations.rabbitmq.listing import Row
from entrepot.gateway.operations.rabbitmq.parameters import VHOST_LIMITS_COMPONENT, GlobalParameterBody
from entrepot.gateway.operations.rabbitmq.permissions import PermissionBody, set_permission
from entrepot.gateway.operations.rabbitmq.policies import PolicyBody
from entrepot.gateway.operations.rabbitmq.queues import QueueBody
from entrepot.gateway.operations.rabbitmq.server import arguments_of
from entrepot.gateway.operations.rabbitmq.topic_permissions import TopicPermissionBody
from entrepot.gateway.operations.rabbitmq.users import UserBody, create_user
from entrepot.gateway.operations.rabbitmq.vhosts import VhostBody, create_vhost, describe_vhost
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.reading import lenient
from entrepot.gateway.operations.row.shapes import LenientBody
from entrepot.protocols.amqp.errors import AmqpError

if TYPE_CHECKING:
    from entrepot.domain.ports import Topology
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.security.changes import By

AT_ONCE: Final = 64
"""Number of queues, exchanges and bindings made concurrently, so that they become durable together."""
ONE_BY_ONE: Final = (
    *("vhosts", "users", "permissions", "topic_permissions"),
    *("parameters", "global_parameters", "policies"),
)
"""Kinds imported one by one, because each changes the checks of the next."""
_IN_ORDER: Final = (*ONE_BY_ONE, "exchanges", "queues", "bindings")
_OWN_GLOBALS: Final = ("cluster_name", "internal_cluster_id", "cluster_tags")
"""Global parameters of the cluster that the definitions come from."""
_DURABLE: Final = {"durable": True}
"""The meaning of a row that does not say it: definitions are of durable things."""
_ABOUT_ITSELF: Final = frozenset(
    ("rabbit_version", "rabbitmq_version", "product_name", "product_version", "metadata", "rabbitmq_definition_format",
     "original_vhost_name", "explanation", "default_queue_type", "description", "original_cluster_name")
)  # fmt: skip


class Named(LenientBody, frozen=True):
    """A named object."""

    name: str


class Import:
    """One import.  `vhost`: the destination of all of it, for an import into one virtual host.  `done`: number of
    imported objects by kind.  `left_out`: objects omitted in whole or in part, with `kind`, `name`, `vhost` and
    `reason`."""

    def __init__(self, rabbitmq: RabbitMq, topology: Topology, by: By, vhost: Vhost | None) -> None:
        self._rabbitmq, self._topology, self._by, self._vhost = rabbitmq, topology, by, vhost
        self._virtual_hosts, self._administration = rabbitmq.virtual_hosts, rabbitmq.security.administration
        self.done: dict[str, int] = {}
        self.left_out: list[Row] = []
        self._takers: dict[str, Callable[[Row], Awaitable[None]]] = {
            "vhosts": self._take_vhost,
            "users": self._take_user,
            "permissions": self._take_permission,
            "topic_permissions": self._take_topic_permission,
            "parameters": self._take_parameter,
            "global_parameters": self._take_global,
            "policies": self._take_policy,
            "exchanges": self._take_exchange,
            "queues": self._take_queue,
            "bindings": self._take_binding,
        }

    async def run(self, given: Row) -> None:
        """Import everything.  Raises BAD_REQUEST before anything is imported, or a general failure, such
        as a failed store."""
        every = {kind: self._rows(kind, given.get(kind)) for kind in _IN_ORDER}
        every["users"].sort(key=lambda row: "administrator" not in str(row.get("tags")))  # the first one must be super
        every["global_parameters"] = [row for row in every["global_parameters"] if row.get("name") not in _OWN_GLOBALS]
        for kind in _IN_ORDER:
            rows = every[kind]
            width = 1 if kind in ONE_BY_ONE else AT_ONCE
            for start in range(0, len(rows), width):
                await asyncio.gather(*(self._take(kind, row) for row in rows[start : start + width]))
        for kind in given.keys() - {*_IN_ORDER} - _ABOUT_ITSELF:
            self._leave_out(kind, {}, "there is nothing of that kind here")

    def _rows(self, kind: str, given: Any) -> list[Row]:
        if given is None:
            return []
        if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
            raise bad_request(f"{kind}: must be an array of objects")
        return given

    async def _take(self, kind: str, row: Row) -> None:
        try:
            await self._takers[kind](row)
        except EntrepotError as error:
            self._leave_out(kind, row, error.message)
        except AmqpError as error:
            self._leave_out(kind, row, error.text)
        else:
            self.done[kind] = self.done.get(kind, 0) + 1

    def _leave_out(self, kind: str, row: Row, reason: str) -> None:
        name = row.get("name") or row.get("user") or f"{row.get('source', '')} -> {row.get('destination', '')}"
        vhost = row.get("vhost") or (self._vhost.name if self._vhost is not None else "")
        self.left_out.append({"kind": kind, "name": str(name) if row else "", "vhost": str(vhost), "reason": reason})

    def _of(self, row: Row) -> Vhost:
        if self._vhost is not None:
            return self._vhost
        name = row.get("vhost")
        if not isinstance(name, str):
            raise bad_request("it names no vhost")
        return self._rabbitmq.vhost(name)

    # -- each kind -----------------------------------------------------------------------------------------------

    async def _take_vhost(self, row: Row) -> None:
        name = lenient(Named, row).name
        metadata = row.get("metadata")
        told = {**row, **metadata} if isinstance(metadata, dict) else row
        body = lenient(VhostBody, {**told, "default_queue_type": None})
        body.check()
        await create_vhost(self._topology, name)
        await describe_vhost(self._rabbitmq, name, body)
        if told.get("default_queue_type") not in (None, "", "undefined", "classic"):
            self._leave_out("vhosts", row, "default_queue_type: queues are what they are declared as")

    async def _take_user(self, row: Row) -> None:
        name, body = lenient(Named, row).name, lenient(UserBody, row)
        user = self._administration.user(name)
        if user is not None:
            if user.is_super is not ("administrator" in body.all_tags):
                self._leave_out("users", row, "the user is there already, and stays super or not as it is")
            return
        limits = row.get("limits") or {}
        if not isinstance(limits, dict):
            raise bad_request("limits: must be an object")
        checked = {each: LimitBody(value).checked(each, USER_LIMITS, "user-limits") for each, value in limits.items()}
        await create_user(self._administration, self._by, name, body)
        for each, value in checked.items():
            await self._virtual_hosts.parameters.limit_user(name, each, value)

    async def _take_permission(self, row: Row) -> None:
        user = row.get("user")
        if not isinstance(user, str):
            raise bad_request("it names no user")
        permission = lenient(PermissionBody, row).permission()
        await set_permission(self._administration, self._by, self._of(row), user, permission)

    async def _take_topic_permission(self, row: Row) -> None:
        user = row.get("user")
        if not isinstance(user, str):
            raise bad_request("it names no user")
        namespace = self._of(row).namespace
        wanted = lenient(TopicPermissionBody, row).patterns(namespace)
        await self._virtual_hosts.parameters.permit(user, namespace, wanted)

    async def _take_global(self, row: Row) -> None:
        name, body = lenient(Named, row).name, lenient(GlobalParameterBody, row)
        await self._virtual_hosts.parameters.put_global(name, body.value)

    async def _take_vhost_limits(self, row: Row, limits: Row) -> None:
        namespace = self._of(row).namespace
        checked = {each: LimitBody(value).checked(each, VHOST_LIMITS, "limits") for each, value in limits.items()}
        for each, value in checked.items():
            await self._virtual_hosts.parameters.limit_vhost(namespace, each, value)

    async def _take_parameter(self, row: Row) -> None:
        if row.get("component") == VHOST_LIMITS_COMPONENT and isinstance(row.get("value"), dict):
            await self._take_vhost_limits(row, row["value"])
            return
        if row.get("component") != "operator_policy":
            raise bad_request(f"there is no component {str(row.get('component'))[:80]!r} here")
        value = row.get("value") or {}
        if not isinstance(value, dict):
            raise bad_request("value: must be an object")
        await self._put_policy("parameters", row, {"name": row.get("name"), **value}, True)

    async def _take_policy(self, row: Row) -> None:
        await self._put_policy("policies", row, row, False)

    async def _put_policy(self, kind: str, row: Row, given: Row, is_operators: bool) -> None:
        name, body = lenient(Named, given).name, lenient(PolicyBody, given)
        vhost = self._of(row)
        known = OPERATOR_KEYS if is_operators else KNOWN_KEYS
        unknown = sorted(body.definition.keys() - known)
        kept = {key: value for key, value in body.definition.items() if key in known}
        if unknown and not kept:
            raise bad_request(f"{', '.join(unknown)}: there is nothing like that here")
        policy = msgspec.structs.replace(body, definition=kept).policy(name, is_operators=is_operators)
        await self._virtual_hosts.put_policy(vhost, policy)
        if unknown:
            self._leave_out(kind, row, f"without {', '.join(unknown)}: there is nothing like that here")
        if idle := sorted(WITHOUT_EFFECT.intersection(kept)):
            self._leave_out(kind, row, f"{', '.join(idle)}: kept, and without effect here")

    async def _take_exchange(self, row: Row) -> None:
        name, body = lenient(Named, row).name, lenient(ExchangeBody, {**_DURABLE, **row})
        await self._virtual_hosts.declare_exchange(self._of(row), body.exchange(name))

    async def _take_queue(self, row: Row) -> None:
        name, body, vhost = lenient(Named, row).name, lenient(QueueBody, {**_DURABLE, **row}), self._of(row)
        kind = row.get("type")
        if kind not in (None, "classic"):
            body = msgspec.structs.replace(body, arguments={"x-queue-type": kind, **arguments_of(body.arguments)})
        await self._virtual_hosts.declare_queue(vhost, body.declaration(name, vhost))

    async def _take_binding(self, row: Row) -> None:
        ends = lenient(BindingEnds, row)
        body, vhost = lenient(BindingBody, row), self._of(row)
        kind = DestinationKind(ends.destination_type)
        arguments = arguments_of(body.arguments)
        binding = Binding(ends.source, ends.destination, body.routing_key, arguments, kind)
        await self._virtual_hosts.bind(vhost, binding)


class BindingEnds(LenientBody, frozen=True):
    """Source and destination of a binding."""

    source: str
    destination: str
    destination_type: Annotated[str, Meta(pattern=r"^(queue|exchange)\Z")] = "queue"
