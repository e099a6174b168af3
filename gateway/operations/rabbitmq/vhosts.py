"""Virtual hosts, which are namespaces: list, show, create, delete with all AMQP entities in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, is_hidden_topic, split_name
from entrepot.gateway.amqp.virtual_hosts.vhost import namespace_of
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import VhostRow, VhostRows
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.rights import Right, listed
from entrepot.gateway.operations.row.shapes import Declared, PlainName
from entrepot.protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from entrepot.domain.ports import Topology
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

VHOSTS: Final = new_noun("/vhosts")


def _of(action: Action) -> Right:
    def needs(own: Any, asked: Asked) -> list[Need]:
        return [Need(action, ResourceType.NAMESPACE, namespace_of(asked.plain["name"]))]

    return Right(needs)


class Vhosts:
    """The operations of virtual hosts."""

    def __init__(self, rabbitmq: RabbitMq, topology: Topology) -> None:
        self._rabbitmq, self._topology = rabbitmq, topology

    @VHOSTS.get("", "listVhosts", "List all virtual hosts", listed(ResourceType.NAMESPACE))
    async def listed(self, query: ListingAsked) -> VhostRows:
        return await listing(query, [_shape(each) for each in self._rabbitmq.vhosts])

    @VHOSTS.get("/{name}", "getVhost", "Get a virtual host", _of(Action.GET))
    async def show(self, name: PlainName, query: ColumnsAsked) -> VhostRow:
        return chosen(query, _shape(self._rabbitmq.vhost(name)))

    @VHOSTS.put("/{name}", "createVhost", "Create a virtual host", _of(Action.CREATE))
    async def put(self, name: PlainName) -> Declared:
        return Declared(await create_vhost(self._topology, name))

    @VHOSTS.delete("/{name}", "deleteVhost", "Delete a virtual host with its exchanges and queues", _of(Action.DELETE))
    async def delete(self, name: PlainName) -> None:
        vhost = self._rabbitmq.vhost(name)
        if vhost.namespace == DEFAULT_NAMESPACE:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"vhost '{vhost.name}' cannot be deleted")
        topics = [each.name for each in self._topology.topics() if split_name(each.name)[0] == vhost.namespace]
        others = [name for name in topics if not is_hidden_topic(name)]
        if others:
            raise EntrepotError(
                Code.PRECONDITION_FAILED, f"vhost '{vhost.name}' has topics of other protocols: {', '.join(others[:5])}"
            )
        frontend = self._rabbitmq.frontend
        for conversation in tuple(frontend.conversations):
            if conversation.client.vhost is vhost:
                conversation.close_connection(ReplyCode.CONNECTION_FORCED, f"vhost '{vhost.name}' is deleted")
        await frontend.virtual_hosts.definitions.clear(vhost)
        await self._topology.delete_namespace(vhost.namespace)


async def create_vhost(topology: Topology, name: str) -> bool:
    """Create a virtual host; True if it is new.  Raises BAD_REQUEST for an invalid namespace name."""
    namespace = namespace_of(name)
    if namespace in topology.namespaces():
        return False
    await topology.put_namespace(namespace)
    return True


def _shape(vhost: Vhost) -> Row:
    return {
        "name": vhost.name,
        "description": "",
        "tags": [],
        "tracing": False,
        "cluster_state": {},
        "default_queue_type": "classic",
    }
