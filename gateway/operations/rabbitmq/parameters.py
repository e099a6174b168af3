"""Runtime parameters: those of components in virtual hosts, and global ones, which are kept for their clients alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.operations.rabbitmq.limits import vhost_limit_rows
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import (
    GlobalParameterRow,
    GlobalParameterRows,
    ParameterRows,
)
from entrepot.gateway.operations.rabbitmq.server import LIST, new_noun
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, PlainName

if TYPE_CHECKING:
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

VHOST_LIMITS_COMPONENT: Final = "vhost-limits"
PARAMETERS: Final = new_noun()


class GlobalParameterBody(LenientBody, frozen=True):
    """A value: any JSON."""

    value: Any


class Parameters:
    """The operations of parameters."""

    def __init__(self, rabbitmq: RabbitMq) -> None:
        self._rabbitmq = rabbitmq

    @PARAMETERS.get("/parameters", "listParameters", "List runtime parameters", LIST)
    async def listed(self, query: ListingAsked) -> ParameterRows:
        return await listing(query, parameter_rows(self._rabbitmq, self._rabbitmq.vhosts))

    @PARAMETERS.get("/parameters/{component}", "listParametersOf", "List runtime parameters of a component", LIST)
    async def listed_of(self, component: PlainName, query: ListingAsked) -> ParameterRows:
        rows = parameter_rows(self._rabbitmq, self._rabbitmq.vhosts)
        return await listing(query, [row for row in rows if row["component"] == component])

    @PARAMETERS.get(
        "/parameters/{component}/{vhost}",
        "listParametersIn",
        "List runtime parameters of a component in a virtual host",
        LIST,
    )
    async def listed_in(self, component: PlainName, vhost: PlainName, query: ListingAsked) -> ParameterRows:
        rows = parameter_rows(self._rabbitmq, [self._rabbitmq.vhost(vhost)])
        return await listing(query, [row for row in rows if row["component"] == component])

    @PARAMETERS.get("/global-parameters", "listGlobalParameters", "List global parameters", SUPER_USERS)
    async def listed_globally(self, query: ListingAsked) -> GlobalParameterRows:
        return await listing(query, global_parameter_rows(self._rabbitmq))

    @PARAMETERS.get("/global-parameters/{name}", "getGlobalParameter", "Get a global parameter", SUPER_USERS)
    async def show(self, name: PlainName, query: ColumnsAsked) -> GlobalParameterRow:
        values = self._rabbitmq.virtual_hosts.parameters.global_values()
        if name not in values:
            raise _missing(name)
        return chosen(query, {"name": name, "value": values[name]})

    @PARAMETERS.put(
        "/global-parameters/{name}",
        "putGlobalParameter",
        "Set a global parameter",
        SUPER_USERS,
        example={"value": {"region": "eu"}},
    )
    async def put(self, name: PlainName, body: GlobalParameterBody) -> Declared:
        return Declared(await self._rabbitmq.virtual_hosts.parameters.put_global(name, body.value))

    @PARAMETERS.delete("/global-parameters/{name}", "deleteGlobalParameter", "Delete a global parameter", SUPER_USERS)
    async def delete(self, name: PlainName) -> None:
        if not await self._rabbitmq.virtual_hosts.parameters.delete_global(name):
            raise _missing(name)


def parameter_rows(rabbitmq: RabbitMq, vhosts: list[Vhost]) -> list[Row]:
    """The parameters of virtual hosts: their limits."""
    return [
        {"component": VHOST_LIMITS_COMPONENT, "name": "limits", "vhost": row["vhost"], "value": row["value"]}
        for row in vhost_limit_rows(rabbitmq, vhosts)
    ]


def global_parameter_rows(rabbitmq: RabbitMq) -> list[Row]:
    values = rabbitmq.virtual_hosts.parameters.global_values()
    return [{"name": name, "value": value} for name, value in values.items()]


def _missing(name: str) -> MissingError:
    return MissingError(
        "parameter-not-found", "The parameter does not exist", f"there is no global parameter {name[:80]!r}"
    )
