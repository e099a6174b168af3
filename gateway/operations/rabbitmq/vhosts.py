"""Virtual hosts, which are namespaces: list, show, create, delete with all AMQP entities in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, is_hidden_topic, split_name
from entrepot.gateway.amqp.virtual_hosts.vhost_names import check_vhost_name, namespace_of
from entrepot.gateway.operations.local_views.amqp_shapes import node_name
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.rows import VhostRow, VhostRows
from entrepot.gateway.operations.rabbitmq.server import new_noun
from entrepot.gateway.operations.rabbitmq.users import tags_in
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import Right, listed
from entrepot.gateway.operations.row.shapes import Declared, LenientBody, Like, PlainName
from entrepot.protocols.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from entrepot.domain.ports import Topology
    from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq

DEFAULT_QUEUE_TYPE: Final = "classic"
MAX_DESCRIPTION: Final = 1024

VHOSTS: Final = new_noun("/vhosts")


def _of(action: Action) -> Right:
    def needs(own: Any, asked: Asked) -> list[Need]:
        return [Need(action, ResourceType.NAMESPACE, namespace_of(asked.plain["name"]))]

    return Right(needs)


class VhostBody(LenientBody, frozen=True):
    """Description and tags of a virtual host.  Tags are an array, or a text with commas."""

    description: str | None = None
    tags: Annotated[Any, Like(str | list[str])] = None
    default_queue_type: str | None = None

    @property
    def says_something(self) -> bool:
        return self.description is not None or self.tags is not None

    @property
    def all_tags(self) -> list[str]:
        """The tags.  Raises BAD_REQUEST."""
        return tags_in(self.tags)

    def check(self) -> None:
        """Raise BAD_REQUEST for a description that is too long, and other faults."""
        if len(self.description or "") > MAX_DESCRIPTION:
            raise bad_request(f"description: at most {MAX_DESCRIPTION} characters")
        if self.default_queue_type not in (None, "", "undefined", DEFAULT_QUEUE_TYPE):
            raise bad_request("default_queue_type: queues are what they are declared as, or classic")
        tags_in(self.tags)


class Vhosts:
    """The operations of virtual hosts."""

    def __init__(self, rabbitmq: RabbitMq, topology: Topology) -> None:
        self._rabbitmq, self._topology = rabbitmq, topology

    @VHOSTS.get("", "listVhosts", "List all virtual hosts", listed(ResourceType.NAMESPACE))
    async def listed(self, query: ListingAsked) -> VhostRows:
        return await listing(query, [vhost_shape(self._rabbitmq, each) for each in self._rabbitmq.vhosts])

    @VHOSTS.get("/{name}", "getVhost", "Get a virtual host", _of(Action.GET))
    async def show(self, name: PlainName, query: ColumnsAsked) -> VhostRow:
        return chosen(query, vhost_shape(self._rabbitmq, self._rabbitmq.vhost(name)))

    @VHOSTS.put(
        "/{name}",
        "createVhost",
        "Create a virtual host, or describe it",
        _of(Action.CREATE),
        example={"description": "the plant in Ulm", "tags": "production,eu"},
    )
    async def put(self, name: PlainName, body: VhostBody) -> Declared:
        body.check()
        is_new = await create_vhost(self._topology, name)
        if body.says_something or not is_new:
            await describe_vhost(self._rabbitmq, name, body)
        return Declared(is_new)

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
        await frontend.virtual_hosts.parameters.forget_vhost(vhost.namespace)
        await self._topology.delete_namespace(vhost.namespace)


async def create_vhost(topology: Topology, name: str) -> bool:
    """Create a virtual host; True if it is new.  Raises BAD_REQUEST for a name that none can have."""
    check_vhost_name(name)
    namespace = namespace_of(name)
    if namespace in topology.namespaces():
        return False
    await topology.put_namespace(namespace)
    return True


async def describe_vhost(rabbitmq: RabbitMq, name: str, body: VhostBody) -> None:
    """Set the metadata of a virtual host, as far as the body says them."""
    parameters, namespace = rabbitmq.virtual_hosts.parameters, namespace_of(name)
    if body.says_something:
        await parameters.describe(namespace, body.description or "", tuple(body.all_tags))


def vhost_shape(rabbitmq: RabbitMq, vhost: Vhost) -> Row:
    known = rabbitmq.virtual_hosts.parameters.vhost(vhost.namespace)
    return {
        "name": vhost.name,
        "description": known.description,
        "tags": list(known.tags),
        "tracing": False,
        "cluster_state": {node_name(rabbitmq.virtual_hosts.gateway): "running"},
        "default_queue_type": DEFAULT_QUEUE_TYPE,
        "metadata": {"description": known.description, "tags": list(known.tags)},
    }
