"""Metrics, read from the gateway's parts for each scrape.

ADR 6: metrics are read off counters when somebody scrapes.  Invariant: nothing is counted twice, nothing locks.

The library's families tell a few lines each.  Lines that grow with topics, groups and connections are read a page at a
time (`status_lines`, `mqtt_metrics`), with turns for others, and the text is shared by scrapers that come together.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from entrepot.domain.background import background
from entrepot.domain.clock import comparison_of
from entrepot.domain.measurement import Histogram
from entrepot.domain.ports.cluster import BrokerStatus, ControllerStatus, control_of
from entrepot.gateway.bridge.rocketmq.status import RocketMqBridgeStatus
from entrepot.gateway.bridge.status import BridgeState, BridgeStatus
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.http.metrics.controller_metrics import controller_metrics
from entrepot.gateway.http.metrics.metric_families import counters, gauges
from entrepot.gateway.http.metrics.mqtt_metrics import MqttFigures, mqtt_figures, mqtt_metrics
from entrepot.gateway.http.metrics.replica_metrics import replica_metrics
from entrepot.gateway.http.metrics.status_lines import StatusLines
from entrepot.gateway.http.parts.shown_doors import ShownDoors
from entrepot.gateway.http.requests.request_times import RequestTimes
from entrepot.gateway.settings.version import own_version
from entrepot.gateway.work.fresh import Fresh

DELIVERIES: Final = {
    "amqp": "entrepot_amqp_deliveries",
    "http": "entrepot_http_deliveries",
    "mqtt": "entrepot_mqtt_deliveries",
    "rocketmq": "entrepot_rocketmq_deliveries",
    "webhook": "entrepot_webhook_deliveries",
}
"""Counters of delivered messages, by protocol."""
FRESH_SECONDS: Final = 1.0
"""Age up to which a dear text is shared by scrapers."""
DEAR_SECONDS: Final = 0.05
"""CPU time of a text from which on it is dear."""
STORE_TIMES: Final = {
    "append": "Time from a message's receipt to its confirm, counted for each message",
    "sync": "Duration of one sync of the store to disk",
    "pop": "Duration of a pop, without the wait for messages",
}
STORE_GAUGES: Final = {
    "timing_messages": ("rocketmq_timing_messages", "Scheduled messages"),
    "half_messages": ("rocketmq_half_messages", "Half messages, waiting for the end of their transaction"),
    "missing_bytes": ("entrepot_missing_bytes", "Bytes of the log that are missing, although they should be stored"),
    "storage_size": ("rocketmq_storage_size", "Size of the log in bytes, from its first segment to its end"),
    "flush_behind_bytes": ("rocketmq_storage_flush_behind_bytes", "Bytes of the log that are not durable yet"),
    "dispatch_behind_bytes": (
        "rocketmq_storage_dispatch_behind_bytes",
        "Bytes of the log that are not visible to readers yet",
    ),
    "checkpoint_behind_bytes": (
        "entrepot_checkpoint_behind_bytes",
        "Bytes of the log after the last checkpoint, which a recovery would read",
    ),
    "disk_state": (
        "entrepot_disk_state",
        "State of the disk: 0 fine, 1 filling up, 2 new messages are refused, 3 old messages are deleted early",
    ),
    "disk_total_bytes": ("entrepot_disk_total_bytes", "Size of the brokers' disks in bytes"),
    "disk_free_bytes": ("entrepot_disk_free_bytes", "Free bytes on the brokers' disks"),
    "disk_refused_below_bytes": (
        "entrepot_disk_refused_below_bytes",
        "Free bytes on the brokers' disks below which new messages are refused",
    ),
    "deleted_segments": ("entrepot_deleted_segments", "Segments of the log deleted by retention"),
    "pinned_bytes": (
        "entrepot_pinned_bytes",
        "Bytes of the log kept beyond retention by the queue whose oldest message keeps most",
    ),
    "carried_messages": (
        "entrepot_carried_messages",
        "Old messages carried to the end of the log, so that its first segments can go",
    ),
    "background_faulty": (
        "entrepot_store_background_faulty",
        "Kinds of background work of the brokers that had an error of the program within a minute",
    ),
    "clock_error_seconds": (
        "entrepot_store_clock_error_seconds",
        "Seconds between a broker's clock and its system's, which was set while it ran",
    ),
    "not_confirming": (
        "entrepot_store_not_confirming",
        "Brokers that can confirm no message now, as too few of their replicas are there",
    ),
    "confirm_age_seconds": (
        "entrepot_store_confirm_age_seconds",
        "Seconds for which a broker has confirmed nothing though something waits for it",
    ),
    "facts_age_seconds": (
        "entrepot_facts_age_seconds",
        "Seconds for which values in etcd may have changed unseen",
    ),
    "facts_calls": ("entrepot_facts_calls", "Calls of etcd since the start"),
    "facts_failed_calls": ("entrepot_facts_failed_calls", "Calls that a member of etcd refused, or did not answer"),
    "facts_moves": ("entrepot_facts_moves", "Times that another member of etcd was asked from then on"),
    "facts_waiting_writes": ("entrepot_facts_waiting_writes", "Writes that wait for etcd"),
    "dropped_hops": (
        "entrepot_trace_dropped_hops",
        "Hops and failed attempts dropped for lack of room",
    ),
    "tier_lag_messages": (
        "entrepot_tier_lag_messages",
        "Messages of tiered topics that are not in the object store yet",
    ),
    "tier_segments": ("entrepot_tier_segments", "Segments of tables in the object store"),
    "tier_bytes": ("entrepot_tier_bytes", "Bytes of the segments of tables in the object store"),
    "tier_problems": (
        "entrepot_tier_problems",
        "Topics whose uploads to the object store fail; 1 while it is unavailable",
    ),
    "tier_failed_requests": ("entrepot_tier_failed_requests", "Failed requests to the object store since the start"),
    "tier_kept_bytes": ("entrepot_tier_kept_bytes", "Bytes of the log kept until they are in the object store"),
    "tier_missing_messages": (
        "entrepot_tier_missing_messages",
        "Messages missing from tables, deleted from disk before their upload to the object store",
    ),
    "tier_skipped_messages": (
        "entrepot_tier_skipped_messages",
        "Messages missing from tables that readers stepped over since the start",
    ),
}


BRIDGE_COUNTERS: Final = {
    "received": ("entrepot_bridge_received", "Incoming messages of a bridge, stored and acknowledged to the remote"),
    "sent": ("entrepot_bridge_sent", "Outgoing messages of a bridge, accepted by the remote"),
    "refused_in": ("entrepot_bridge_refused_in", "Incoming messages of a bridge refused by the store for good"),
    "refused_out": ("entrepot_bridge_refused_out", "Outgoing messages of a bridge refused by the remote for good"),
    "ignored": ("entrepot_bridge_ignored", "Messages that a bridge did not carry: expired, its own, or without a rule"),
    "connects": ("entrepot_bridge_connects", "Successful connections of a bridge"),
}
ROCKETMQ_BRIDGE_COUNTERS: Final = {
    **{field: (name.replace("_bridge_", "_rocketmq_bridge_"), told) for field, (name, told) in BRIDGE_COUNTERS.items()},
    "gone": ("entrepot_rocketmq_bridge_gone", "Messages deleted at the cluster before a bridge carried them"),
    "unknown": (
        "entrepot_rocketmq_bridge_unknown",
        "Outgoing messages sent again, as the cluster did not answer",
    ),
}


class GatewayCollector(Collector):
    """The collector; call `look` before a scrape, because the store is asynchronous and collectors are not."""

    def __init__(self, parts: Parts, doors: ShownDoors, times: RequestTimes) -> None:
        self._parts, self._doors, self._times = parts, doors, times
        self._lines = StatusLines(with_queues=False)
        self._mqtt: MqttFigures | None = None
        self._measurements: dict[str, Histogram] = {}
        self._gauges: dict[str, float] = {}
        self._brokers: list[BrokerStatus] = []
        self._controllers: list[ControllerStatus] = []

    async def look(self) -> StatusLines:
        """Read the state of the store, and return the lines of topics and groups."""
        parts, mqtt, store = self._parts, self._doors.mqtt, self._parts.store
        lines = self._lines = StatusLines(with_queues=parts.settings.http.queue_metrics)
        await lines.look(store, parts.sender.traffic)
        if mqtt is not None:
            self._mqtt = await mqtt_figures(mqtt)
        self._measurements, self._gauges = await store.condition.measurements(), await store.condition.gauges()
        control = control_of(store)
        if control is not None:
            self._brokers = await control.replication()
            self._controllers = await control.controllers()
        return lines

    def describe(self) -> list[Metric]:
        """Return nothing: the metrics depend on the current topics and groups."""
        return []

    def collect(self) -> Iterator[Metric]:
        sender = self._parts.sender
        yield CounterMetricFamily("entrepot_messages_in", "Messages accepted from all protocols", value=sender.sent)
        yield CounterMetricFamily("entrepot_messages_refused", "Messages refused by the store", value=sender.refused)
        yield from self._of_doors()
        yield _build_info()
        yield from self._times.metrics()
        yield from self._bridges()
        yield from self._background()
        yield from counters(
            ["part", "outcome"],
            {"entrepot_incidents": "Messages and requests not treated as usual, by part and by what was done instead"},
            ((key, (count,)) for key, count in sender.incidents.counts.items()),
        )
        yield GaugeMetricFamily(
            "entrepot_clock_apart_seconds",
            "Seconds by which the machine's clock is ahead of the brokers'",
            value=comparison_of(self._parts.clock).apart_ms / 1000,
        )
        yield GaugeMetricFamily(
            "entrepot_store_failed",
            "1 once the store has failed and stopped for good",
            value=self._parts.store.condition.failure is not None,
        )
        retained = self._parts.retained
        yield GaugeMetricFamily("entrepot_mqtt_retained_messages", "Retained messages", value=retained.count)
        yield GaugeMetricFamily(
            "entrepot_mqtt_retained_bytes",
            "Bytes of the retained messages with their properties",
            value=retained.size_bytes,
        )
        yield GaugeMetricFamily(
            "entrepot_mqtt_retained_limit_bytes",
            "Most bytes of retained messages that are taken",
            value=retained.limits.max_bytes,
        )
        if self._mqtt is not None:
            yield from mqtt_metrics(self._mqtt)
        yield from self._store()
        if self._brokers:
            yield from replica_metrics(self._brokers)
        if self._controllers:
            yield from controller_metrics(self._controllers, self._brokers)
        yield from self._numbers()

    def _of_doors(self) -> Iterator[Metric]:
        totals = self._doors.counters
        for name, (description, total) in totals.items():
            yield CounterMetricFamily(name, description, value=total())
        out = CounterMetricFamily(
            "entrepot_messages_out", "Messages delivered to consumers, by protocol", labels=["door"]
        )
        for door, name in DELIVERIES.items():
            if name in totals:
                out.add_metric([door], totals[name][1]())
        yield out
        connections = GaugeMetricFamily("entrepot_connections", "Open connections, by protocol", labels=["door"])
        for door, count in self._doors.connections.items():
            connections.add_metric([door], count)
        yield connections

    def _bridges(self) -> Iterator[Metric]:
        yield from self._of_bridges("entrepot_bridge", self._doors.bridges(), BRIDGE_COUNTERS)
        to_rocketmq = self._doors.rocketmq_bridges()
        yield from self._of_bridges("entrepot_rocketmq_bridge", to_rocketmq, ROCKETMQ_BRIDGE_COUNTERS)
        if to_rocketmq:
            labels, name = ["bridge", "topic"], "entrepot_rocketmq_bridge_waiting"
            waiting = GaugeMetricFamily(name, "Messages at the cluster that are still to come in", labels=labels)
            for bridge in to_rocketmq:
                for topic in bridge.topics:
                    waiting.add_metric([bridge.name, topic.topic], topic.waiting)
            yield waiting

    def _of_bridges(
        self,
        kind: str,
        bridges: Sequence[BridgeStatus | RocketMqBridgeStatus],
        told: Mapping[str, tuple[str, str]],
    ) -> Iterator[Metric]:
        """Yield the state and the counters of all bridges of one kind."""
        if not bridges:
            return
        connected = GaugeMetricFamily(
            f"{kind}_connected", "1 while this gateway is connected to the remote", labels=["bridge"]
        )
        for bridge in bridges:
            connected.add_metric([bridge.name], bridge.is_here and bridge.state is BridgeState.CONNECTED)
        yield connected
        for field, (name, description) in told.items():
            family = CounterMetricFamily(name, description, labels=["bridge"])
            for bridge in bridges:
                family.add_metric([bridge.name], getattr(bridge.counters, field))
            yield family

    def _background(self) -> Iterator[Metric]:
        works, register = self._doors.background, background()
        described = {
            "entrepot_background_runs": "Runs of background work",
            "entrepot_background_failures": "Failed runs of background work",
            "entrepot_background_seconds": "Total duration of all runs of background work",
        }
        yield from counters(
            ["work"], described, (([each.name], (each.runs, each.failures, each.took_seconds)) for each in works)
        )
        described = {
            "entrepot_background_failing": "1 while the last run of background work has failed",
            "entrepot_background_period_seconds": "Interval between runs of background work",
            "entrepot_background_age_seconds": "Time since the last run of background work ended",
        }
        yield from gauges(
            ["work"],
            described,
            (([each.name], (bool(each.last_error), each.seconds, each.age_seconds)) for each in works),
        )
        faults = {"entrepot_background_faults": "Errors of the program that ended a task or a run, by work"}
        yield from counters(["work"], faults, (([name], (count,)) for name, count in register.faults.items()))
        faulty = {"entrepot_background_faulty": "1 while background work had such an error within the last minute"}
        failing = register.failing
        yield from gauges(["work"], faulty, (([name], (name in failing,)) for name in register.faults))

    def _store(self) -> Iterator[Metric]:
        for name, histogram in self._measurements.items():
            buckets = [("+Inf" if bound == inf else str(bound), count) for bound, count in histogram.cumulative()]
            yield HistogramMetricFamily(
                f"entrepot_store_{name}_seconds", STORE_TIMES[name], buckets, sum_value=histogram.total_seconds
            )
        for key, value in self._gauges.items():
            if key in STORE_GAUGES:  # brokers of a later version report more
                yield GaugeMetricFamily(*STORE_GAUGES[key], value=value)

    def _numbers(self) -> Iterator[Metric]:
        lines = self._lines
        yield GaugeMetricFamily("rocketmq_topic_number", "Topics, including system topics", value=lines.topics)
        yield GaugeMetricFamily("rocketmq_consumer_group_number", "Consumer groups", value=lines.groups)
        yield GaugeMetricFamily(
            "entrepot_statuses_incomplete",
            "1 if some broker did not tell its part of topics and groups in time, so that theirs are lower bounds",
            value=not lines.is_complete,
        )


def _build_info() -> Metric:
    """Build information: always 1, with labels."""
    family = GaugeMetricFamily("entrepot_build_info", "Versions of Entrepôt and Python", labels=["version", "python"])
    family.add_metric([own_version(), platform.python_version()], 1)
    return family


class Scrapes:
    """Texts of `/metrics`, in pieces, each made once for all who ask within a moment."""

    def __init__(self, parts: Parts, doors: ShownDoors, times: RequestTimes) -> None:
        self._registry = CollectorRegistry()
        self._gateway = GatewayCollector(parts, doors, times)
        self._registry.register(self._gateway)
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._fresh = Fresh(self._make, FRESH_SECONDS, DEAR_SECONDS)

    async def text(self) -> list[bytes]:
        """The text, in Prometheus' format 0.0.4."""
        return await self._fresh.get()

    async def _make(self) -> list[bytes]:
        lines = await self._gateway.look()
        process = await asyncio.to_thread(generate_latest, self._process)  # it counts all open descriptors
        return [generate_latest(self._registry), *lines.text(), process]
