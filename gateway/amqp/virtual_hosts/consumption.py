"""Consumption: deliveries and acknowledgements of queues at this gateway, since the process began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.traffic import Traffic


class Way(Enum):
    """A way to be handed messages; ACK: those that the client has to acknowledge."""

    CONSUMED = "consumed"
    CONSUMED_ACK = "consumed, to be acknowledged"
    GOT = "got"
    GOT_ACK = "got, to be acknowledged"


@dataclass(slots=True)
class QueueCounts:
    """Counts of one queue, or of all; `delivered` to consumers and by basic.get includes `redelivered`."""

    delivered: int = 0
    redelivered: int = 0
    acknowledged: int = 0


class Consumption:
    """The counts by queue; `total` includes deleted queues."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._queues: dict[str, QueueCounts] = {}
        self.total = QueueCounts()
        self.by_way: dict[Way, int] = dict.fromkeys(Way, 0)
        """Deliveries of all queues, by how they were asked for."""

    def of(self, queue: Queue) -> QueueCounts:
        """The counts of a queue, to be read."""
        return self._queues.get(queue.topic) or QueueCounts()

    def _begun(self, queue: Queue) -> QueueCounts:
        counts = self._queues.get(queue.topic)
        if counts is None:
            counts = self._queues[queue.topic] = QueueCounts()
        return counts

    def incoming(self, queue: Queue) -> int:
        """Messages that this gateway put into a queue, from any listener."""
        flow = self._traffic.incoming.get(queue.topic)
        return 0 if flow is None else flow.messages

    def delivered(self, queue: Queue, sizes: list[int], redelivered: int, way: Way) -> None:
        """Count deliveries of messages of these sizes; `redelivered` of them not for the first time."""
        if not sizes:
            return
        self.by_way[way] += len(sizes)
        for counts in (self._begun(queue), self.total):
            counts.delivered += len(sizes)
            counts.redelivered += redelivered
        self._traffic.add_out(queue.topic, queue.group, sizes, "amqp")

    def acknowledged(self, queues: Sequence[Queue]) -> None:
        """Count one acknowledged message for each queue given."""
        self.total.acknowledged += len(queues)
        queue, counts = None, self.total
        for each in queues:
            if each is not queue:
                queue, counts = each, self._begun(each)
            counts.acknowledged += 1

    def forget(self, queue: Queue) -> None:
        """Drop the counts of a deleted queue."""
        self._queues.pop(queue.topic, None)
