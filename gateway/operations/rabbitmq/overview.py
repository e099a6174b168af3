"""The server as a whole: overview, nodes, current user, health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.access.model import Action, ResourceType
from entrepot.domain.access.model import Request as Need
from entrepot.domain.exchanges.exchange import ExchangeType
from entrepot.domain.queues.declaration import declared_queue
from entrepot.gateway.operations.local_views.amqp_connections import COUNTS
from entrepot.gateway.operations.local_views.amqp_shapes import node_name
from entrepot.gateway.operations.rabbitmq.everywhere import name_missing
from entrepot.gateway.operations.rabbitmq.health_checks import protocol_of
from entrepot.gateway.operations.rabbitmq.listing import ColumnsAsked, ListingAsked, Row, chosen, listing
from entrepot.gateway.operations.rabbitmq.message_stats import MessageRates, totals_of_all
from entrepot.gateway.operations.rabbitmq.overview_shapes import (
    ClusterNameRow,
    OverviewRow,
    StatusShown,
    WhoAmIRow,
)
from entrepot.gateway.operations.rabbitmq.publishing import PublishBody, publish_of, published
from entrepot.gateway.operations.rabbitmq.queue_figures import add_counts
from entrepot.gateway.operations.rabbitmq.rows import FeatureFlagRows, NodeRow, NodeRows
from entrepot.gateway.operations.rabbitmq.server import new_noun, resource_name
from entrepot.gateway.operations.rabbitmq.users import ADMINISTRATOR, tags_of
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import NO_RIGHTS, Right, cluster
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.gateway.settings.version import own_version

if TYPE_CHECKING:
    from entrepot.domain.ports import Store
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.operations.rabbitmq.server import RabbitMq
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.settings import Settings

ALIVENESS_QUEUE: Final = "aliveness-test"
MAX_COUNTED_QUEUES: Final = 1000
"""Maximum number of queues for which the overview adds up message counts."""
ALL: Final = "all"
FEATURE_FLAGS: Final = {
    "implicit_default_bindings": "Bindings of the default exchange are not stored",
    "quorum_queue": "Queues of type quorum",
    "stream_queue": "Queues of type stream",
    "virtual_host_metadata": "Virtual hosts have descriptions and tags",
}
"""RabbitMQ's feature flags that hold here, with descriptions."""
_GET: Final = cluster(Action.GET)

RABBITMQ_SERVER: Final = new_noun()


def _aliveness(own: Any, asked: Asked) -> list[Need]:
    name, topic = resource_name(asked.plain["vhost"], ALIVENESS_QUEUE), ResourceType.TOPIC
    return [Need(Action.CREATE, topic, name), Need(Action.PUB, topic, name), Need(Action.SUB, ResourceType.GROUP, name)]


class RabbitMqServer:
    """The operations of the server.  `addresses`: of this gateway's listeners, by door."""

    def __init__(
        self,
        rabbitmq: RabbitMq,
        store: Store,
        peers: Peers,
        settings: Settings,
        addresses: Mapping[str, str],
        is_ready: Callable[[], bool],
    ) -> None:
        self._rabbitmq, self._store, self._peers = rabbitmq, store, peers
        self._settings, self._addresses, self._is_ready = settings, addresses, is_ready
        self._rates = MessageRates(lambda: {ALL: totals_of_all(rabbitmq.frontend)}, monotonic)

    @RABBITMQ_SERVER.get("/overview", "getOverview", "Get an overview of the server", _GET)
    async def overview(self, query: ColumnsAsked, asked: Asked) -> OverviewRow:
        frontend = self._rabbitmq.frontend
        self._rates.look()
        stats = self._rates.stats(ALL, totals_of_all(frontend))
        totals = await _queue_totals(frontend)
        counted = await self._peers.gather(COUNTS)
        name_missing(asked, counted)
        shown = self._overview(frontend, counted.answers.values())
        return chosen(query, {**shown, "message_stats": stats, "queue_totals": totals})

    @RABBITMQ_SERVER.get("/whoami", "whoAmI", "Get the authenticated user", NO_RIGHTS)
    async def who_am_i(self, query: ColumnsAsked, asked: Asked) -> WhoAmIRow:
        principal = asked.principal
        user = self._rabbitmq.security.administration.user(principal.name)
        tags = [ADMINISTRATOR] if principal.is_anonymous else [] if user is None else tags_of(user)
        return chosen(query, {"name": principal.name, "tags": tags})

    @RABBITMQ_SERVER.get("/cluster-name", "getClusterName", "Get the name of the cluster", _GET)
    async def cluster_name(self, query: ColumnsAsked) -> ClusterNameRow:
        return chosen(query, {"name": self._cluster_name()})

    @RABBITMQ_SERVER.get(
        "/extensions", "listExtensions", "List extensions of the management UI: always none", NO_RIGHTS
    )
    async def extensions(self) -> list[Any]:
        return []

    @RABBITMQ_SERVER.get(
        "/feature-flags", "listFeatureFlags", "List RabbitMQ's feature flags that are supported here", _GET
    )
    async def feature_flags(self, query: ListingAsked) -> FeatureFlagRows:
        rows = [
            {"name": name, "desc": text, "state": "enabled", "stability": "required", "provided_by": "entrepot"}
            for name, text in FEATURE_FLAGS.items()
        ]
        return await listing(query, [{**row, "doc_url": ""} for row in rows])

    @RABBITMQ_SERVER.get("/nodes", "listNodes", "List nodes: this gateway only", _GET)
    async def nodes(self, query: ListingAsked) -> NodeRows:
        return await listing(query, [self._node()])

    @RABBITMQ_SERVER.get("/nodes/{name}", "getNode", "Get this gateway as a node", _GET)
    async def node(self, name: PlainName, query: ColumnsAsked) -> NodeRow:
        found = self._node()
        if name != found["name"]:
            raise MissingError("node-not-found", "The node does not exist", f"there is no node {name[:80]!r} here")
        return chosen(query, found)

    @RABBITMQ_SERVER.get(
        "/aliveness-test/{vhost}",
        "testAliveness",
        "Test a virtual host: declare a queue, publish to it, and get the message",
        Right(_aliveness),
    )
    async def test_aliveness(self, vhost: PlainName) -> StatusShown:
        frontend, found = self._rabbitmq.frontend, self._rabbitmq.vhost(vhost)
        wanted = declared_queue(ALIVENESS_QUEUE, found.name, durable=True, arguments={})
        await frontend.virtual_hosts.declare_queue(found, wanted)
        body = PublishBody(ALIVENESS_QUEUE, "test_message")
        await published(frontend, found, publish_of("", body))
        ticket = await frontend.virtual_hosts.feeds.of(found.queues[ALIVENESS_QUEUE]).get()
        if ticket is not None:  # else a concurrent test has taken it
            ticket.acknowledge()
            await ticket.consumer.settle()
        return StatusShown("ok")

    def _cluster_name(self) -> str:
        return self._settings.cluster.name or node_name(self._rabbitmq.virtual_hosts.gateway)

    def _node(self) -> Row:
        frontend = self._rabbitmq.frontend
        return {
            "name": node_name(frontend.virtual_hosts.gateway),
            "type": "disc",
            "running": self._is_ready(),
            "mem_alarm": False,
            "disk_free_alarm": self._store.condition.failure is not None or frontend.is_full,
            "partitions": [],
            "sockets_used": len(frontend.conversations),
        }

    def _overview(self, frontend: AmqpFrontend, counted: Iterable[Mapping[str, int]]) -> Row:
        """The overview; `counted`: the counts of each gateway's connections."""
        version, vhosts = self._settings.amqp.product_version, frontend.virtual_hosts.definitions.vhosts()
        clients = [*counted]
        return {
            "management_version": version,
            "rabbitmq_version": version,
            "product_name": "Entrepôt",
            "product_version": own_version(),
            "cluster_name": self._cluster_name(),
            "node": node_name(frontend.virtual_hosts.gateway),
            "rates_mode": "basic",
            "exchange_types": [{"name": each.value, "description": "", "enabled": True} for each in ExchangeType],
            "object_totals": {
                **{kind: sum(each[kind] for each in clients) for kind in ("connections", "channels", "consumers")},
                "exchanges": sum(1 for vhost in vhosts for _ in vhost.routing.exchanges()),
                "queues": sum(len(vhost.queues) for vhost in vhosts),
            },
            "listeners": self._listeners(frontend),
            "contexts": [],
        }

    def _listeners(self, frontend: AmqpFrontend) -> list[Row]:
        """This gateway's listeners, by RabbitMQ's protocol names."""
        found = []
        for door, address in self._addresses.items():
            host, _, port = address.rpartition(":")
            found.append(
                {
                    "node": node_name(frontend.virtual_hosts.gateway),
                    "protocol": protocol_of(door, is_tls=self._settings.http.tls_certificate is not None),
                    "ip_address": host.strip("[]"),
                    "port": int(port),
                }
            )
        return found


async def _queue_totals(frontend: AmqpFrontend) -> dict[str, int]:
    """Message counts of all queues; empty where there are too many queues."""
    rows: list[Row] = [
        {"vhost": vhost.name, "name": name}
        for vhost in frontend.virtual_hosts.definitions.vhosts()
        for name in vhost.queues
    ]
    if len(rows) > MAX_COUNTED_QUEUES:
        return {}
    await add_counts(frontend.virtual_hosts, rows)
    kinds = ("messages", "messages_ready", "messages_unacknowledged")
    return {kind: sum(row.get(kind, 0) for row in rows) for kind in kinds}
