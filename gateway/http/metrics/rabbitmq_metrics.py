"""Metrics of AMQP by the names of RabbitMQ's Prometheus plugin, so that boards and alarms made for it find them.

Counters are those of this gateway.  A shared queue is told by one gateway alone, as by one node of RabbitMQ, so that
sums over all gateways are right.  Figures that are not known here are left out: memory of queues, reductions, Erlang,
and bytes of messages in front of RocketMQ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from entrepot.gateway.http.metrics.metric_families import counters, gauges
from entrepot.gateway.http.metrics.metrics import DEAR_SECONDS, FRESH_SECONDS
from entrepot.gateway.http.metrics.rabbitmq_names import (
    CHANNEL_GAUGES,
    CONNECTION_GAUGES,
    COUNTERS,
    DISK,
    GAUGES,
    GLOBAL_COUNTERS,
    GLOBAL_GAUGES,
    PROCESS,
    QUEUE_BYTES,
    QUEUE_COUNTERS,
    QUEUE_GAUGES,
    QUEUE_SHARES,
    UPTIME,
    ways,
)
from entrepot.gateway.messaging.yielding import in_pages
from entrepot.gateway.operations.local_views.amqp_shapes import channel_shape, connection_shape, node_name
from entrepot.gateway.operations.rabbitmq.message_stats import totals_of_all
from entrepot.gateway.operations.rabbitmq.overview import MAX_COUNTED_QUEUES
from entrepot.gateway.operations.rabbitmq.queue_figures import QueueFigures
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.work.fresh import Fresh

if TYPE_CHECKING:
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.http.parts.shown_doors import ShownDoors
    from entrepot.gateway.peers.peers import Peers

AT_ONCE: Final = 500
"""Connections between two turns of others."""
PROTOCOL: Final = "amqp091"
_QUEUE: Final = ("vhost", "queue")
Row = Mapping[str, Any]
Rows = list[tuple[list[str], list[float]]]
Described = Mapping[str, tuple[str, str]]
Families = Callable[[Sequence[str], Mapping[str, str], Any], Iterator[Metric]]


@dataclass(slots=True)
class Look:
    """The state of one scrape.  `queues`: this gateway's, with their counts unless there are too many."""

    amqp: AmqpFrontend
    queues: Sequence[Row] = ()
    are_counted: bool = True
    connections: list[Row] = field(default_factory=list)
    channels: list[Row] = field(default_factory=list)
    publishers: int = 0
    """Channels that have published."""
    store: Mapping[str, float] = field(default_factory=dict)
    """The gauges of the store."""


class RabbitMqScrapes:
    """Texts of `/metrics/rabbitmq`, made once for all who ask within a moment.  `by_object`: of each queue, channel and
    connection."""

    def __init__(self, parts: Parts, doors: ShownDoors, peers: Peers, *, by_object: bool) -> None:
        self._parts, self._doors, self._peers, self._by_object = parts, doors, peers, by_object
        self._process = ProcessCollector(registry=CollectorRegistry())
        self._fresh = Fresh(self._make, FRESH_SECONDS, DEAR_SECONDS)

    async def text(self) -> list[bytes]:
        """The text, in Prometheus' format 0.0.4."""
        return await self._fresh.get()

    async def _make(self) -> list[bytes]:
        amqp = self._doors.amqp
        registry = CollectorRegistry()
        found = [*self._about_itself(), *(() if amqp is None else self._lines(amqp, await self._look(amqp)))]
        registry.register(_Ready(found))
        return [generate_latest(registry)]

    async def _look(self, amqp: AmqpFrontend) -> Look:
        queues: list[dict[str, Any]] = [
            {"vhost": vhost.name, "name": queue.name, "type": queue.declared.arguments.queue_type.value, "queue": queue}
            for vhost in amqp.virtual_hosts.definitions.vhosts()
            for queue in vhost.queues.values()
            if self._tells(queue.gateway, amqp.virtual_hosts.gateway)
        ]
        gauges_of_store = await self._parts.store.condition.gauges()
        look = Look(amqp, queues, len(queues) <= MAX_COUNTED_QUEUES, store=gauges_of_store)
        if look.are_counted:
            await QueueFigures(amqp.virtual_hosts, self._peers).add(queues)
        async for page in in_pages(list(amqp.logged_in()), AT_ONCE):
            for each in page:
                look.connections.append(connection_shape(each))
                look.channels += [channel_shape(channel) for channel in each.channels.values()]
                look.publishers += sum(channel.publishing.has_published for channel in each.channels.values())
        return look

    def _tells(self, owner: str, own: str) -> bool:
        """True if this gateway tells of a queue: it owns it, or is the first of all gateways where nobody does."""
        members = self._peers.members
        return owner == own if owner else all(members.own_id <= peer for peer, _ in members.others())

    def _about_itself(self) -> Iterator[Metric]:
        settings = self._parts.settings
        build = GaugeMetricFamily(
            "rabbitmq_build_info", "Versions", labels=["rabbitmq_version", "product_name", "product_version"]
        )
        build.add_metric([settings.amqp.product_version, "Entrepôt", own_version()], 1)
        yield build
        process = {each.name: each.samples[0].value for each in self._process.collect() if each.samples}
        for name, (own, told) in PROCESS.items():
            if own in process:
                yield GaugeMetricFamily(name, told, value=process[own])
        if (begin := process.get("process_start_time_seconds")) is not None:
            name, told = UPTIME
            yield GaugeMetricFamily(name, told, value=self._parts.clock.now_ms() / 1000 - begin)

    def _lines(self, amqp: AmqpFrontend, look: Look) -> Iterator[Metric]:
        settings, node = self._parts.settings, node_name(amqp.virtual_hosts.gateway)
        cluster = settings.cluster.name or node
        labels = ["rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"]
        identity = GaugeMetricFamily("rabbitmq_identity_info", "The node and its cluster", labels=labels)
        identity.add_metric([node, cluster, cluster, "per-object" if self._by_object else "aggregated"], 1)
        yield identity
        failure = self._parts.store.condition.failure
        alarm = GaugeMetricFamily(
            "rabbitmq_alarms_free_disk_space_watermark",
            "1 while the store takes no messages",
            value=amqp.is_full or failure is not None,
        )
        yield alarm
        gauge_values = {
            "rabbitmq_connections": len(look.connections),
            "rabbitmq_channels": len(look.channels),
            "rabbitmq_consumers": sum(each["consumer_count"] for each in look.channels),
            "rabbitmq_queues": len(look.queues),
            "rabbitmq_process_open_tcp_sockets": len(amqp.conversations),
            "rabbitmq_process_max_tcp_sockets": settings.amqp.max_connections,
        }
        for name, value in gauge_values.items():
            yield GaugeMetricFamily(name, GAUGES[name], value=value)
        globally = ([PROTOCOL], [look.publishers, gauge_values["rabbitmq_consumers"]])
        yield from gauges(["protocol"], GLOBAL_GAUGES, [globally])
        for name, (own, text) in DISK.items():
            if own in look.store:
                yield GaugeMetricFamily(name, text, value=look.store[own])
        yield from self._counters(amqp, look)
        yield from self._objects(look)

    def _counters(self, amqp: AmqpFrontend, look: Look) -> Iterator[Metric]:
        told, totals = amqp.counters, totals_of_all(amqp)
        virtual_hosts, by_way = amqp.virtual_hosts, ways(amqp.virtual_hosts.consumption.by_way)
        values = {
            "rabbitmq_connections_opened": told.connections_opened,
            "rabbitmq_connections_closed": told.connections_opened - len(look.connections),
            "rabbitmq_channels_opened": told.channels_opened,
            "rabbitmq_channels_closed": told.channels_opened - len(look.channels),
            "rabbitmq_queues_declared": virtual_hosts.queues_declared,
            "rabbitmq_queues_created": virtual_hosts.queues_created,
            "rabbitmq_queues_deleted": virtual_hosts.definitions.queues_deleted,
            "rabbitmq_channel_messages_published": totals["publish"],
            "rabbitmq_channel_messages_confirmed": totals["confirm"],
            "rabbitmq_channel_messages_unroutable_returned": totals["return_unroutable"],
            "rabbitmq_channel_messages_unroutable_dropped": told.dropped,
            "rabbitmq_channel_get_empty": told.got_nothing,
            "rabbitmq_channel_messages_redelivered": totals["redeliver"],
            "rabbitmq_channel_messages_acked": totals["ack"],
            **by_way,
        }
        for name, value in values.items():
            yield CounterMetricFamily(name, COUNTERS[name], value=value)
        own = {
            "to_confirm": told.to_confirm,
            "queued": self._parts.sender.traffic.queued,
            "deliver_get": totals["deliver_get"],
        }
        for name, (same, text) in GLOBAL_COUNTERS.items():
            yield from counters(["protocol"], {name: text}, [([PROTOCOL], [{**values, **own}[same]])])

    def _objects(self, look: Look) -> Iterator[Metric]:
        """Figures of queues, channels and connections: of each, or their sums."""
        consumption = look.amqp.virtual_hosts.consumption
        if look.are_counted:
            counted = [each for each in look.queues if "messages" in each]  # others have gone meanwhile
            for described in (QUEUE_GAUGES, QUEUE_BYTES, QUEUE_SHARES):
                known = [each for each in counted if all(name in each for name, _ in described.values())]
                if known or not counted:
                    yield from self._told(gauges, described, _QUEUE, _rows(known, ("vhost", "name"), described))
        published: Rows = [
            ([each["vhost"], each["name"]], [consumption.incoming(each["queue"])]) for each in look.queues
        ]
        yield from self._told(counters, QUEUE_COUNTERS, _QUEUE, published)
        for label, described, rows in (
            ("channel", CHANNEL_GAUGES, look.channels),
            ("connection", CONNECTION_GAUGES, look.connections),
        ):
            yield from self._told(gauges, described, (label,), _rows(rows, ("name",), described))

    def _told(self, make: Families, described: Described, labels: Sequence[str], rows: Rows) -> Iterator[Metric]:
        texts = {name: text for name, (_, text) in described.items()}
        if self._by_object:
            return make(labels, texts, rows)
        return make((), texts, [((), [sum(numbers[place] for _, numbers in rows) for place in range(len(texts))])])


class _Ready:
    """A collector of metrics that are made already."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        return self._metrics


def _rows(rows: Sequence[Row], names: Sequence[str], described: Described) -> Rows:
    """The values of the labels of each row, and its figures."""
    return [([row[name] for name in names], [row[name] for name, _ in described.values()]) for row in rows]
