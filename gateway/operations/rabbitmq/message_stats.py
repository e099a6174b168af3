"""RabbitMQ's `message_stats`: totals since this gateway began, and rates of the last seconds.

Samples are taken only on requests: a rate is the difference to a sample some seconds old.  Without a recent sample
there is a total and no rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.amqp.virtual_hosts.consumption import QueueCounts
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.amqp.virtual_hosts.virtual_hosts import VirtualHosts

SAMPLE_SECONDS: Final = 5.0
"""Interval between two samples, in seconds, as in RabbitMQ."""
OLD_SECONDS: Final = 60.0
"""Maximum age of a compared sample, in seconds."""

Totals = Mapping[str, int]
Sample = tuple[float, Mapping[str, Totals]]
"""A sample: its time, and the totals by subject."""


class MessageRates:
    """Totals and rates.  `read`: reads the totals of all subjects.  `now`: a monotonic clock in seconds."""

    def __init__(self, read: Callable[[], Mapping[str, Totals]], now: Callable[[], float]) -> None:
        self._read, self._now = read, now
        self._before: Sample | None = None
        self._latest: Sample | None = None

    def look(self) -> None:
        """Take a sample if it is time; call it on each request."""
        now = self._now()
        if self._latest is None or now - self._latest[0] >= SAMPLE_SECONDS:
            self._before, self._latest = self._latest, (now, self._read())

    def stats(self, of: str, totals: Totals) -> dict[str, Any]:
        """The totals of a subject, each with its rate if known."""
        shown: dict[str, Any] = dict(totals)
        if self._before is None:
            return shown
        seconds = self._now() - self._before[0]
        if not 0 < seconds <= OLD_SECONDS:
            return shown
        then = self._before[1].get(of, {})
        for name, total in totals.items():
            shown[f"{name}_details"] = {"rate": round(max(total - then.get(name, 0), 0) / seconds, 2)}
        return shown


def totals_of_all(frontend: AmqpFrontend) -> Totals:
    """This gateway's totals, by RabbitMQ's names."""
    counters = frontend.counters
    return {
        "publish": counters.published,
        "confirm": counters.confirmed,
        "return_unroutable": counters.returned,
        **_consumed(frontend.virtual_hosts.consumption.total),
    }


def totals_of_queue(virtual_hosts: VirtualHosts, queue: Queue) -> Totals:
    """A queue's totals."""
    consumption = virtual_hosts.consumption
    return {"publish": consumption.incoming(queue), **_consumed(consumption.of(queue))}


def totals_of_queues(virtual_hosts: VirtualHosts) -> Mapping[str, Totals]:
    """Every queue's totals, by its topic."""
    return {
        queue.topic: totals_of_queue(virtual_hosts, queue)
        for vhost in virtual_hosts.definitions.vhosts()
        for queue in vhost.queues.values()
    }


def _consumed(counts: QueueCounts) -> Totals:
    return {"deliver_get": counts.delivered, "ack": counts.acknowledged, "redeliver": counts.redelivered}
