"""Consumption: what clients of this gateway were handed of queues, and acknowledged; since the process began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.amqp.virtual_hosts.vhost import Queue
from gateway.messaging.traffic import Traffic


@dataclass(slots=True)
class QueueCounts:
    """Of one queue, or of all.  `delivered`: to consumers and by basic.get, those that are `redelivered` included."""

    delivered: int = 0
    redelivered: int = 0
    acknowledged: int = 0


class Consumption:
    """`total`: also of queues that are gone."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._queues: dict[str, QueueCounts] = {}
        self.total = QueueCounts()

    def of(self, queue: Queue) -> QueueCounts:
        """The counts of a queue, to be read."""
        return self._queues.get(queue.topic) or QueueCounts()

    def _begun(self, queue: Queue) -> QueueCounts:
        counts = self._queues.get(queue.topic)
        if counts is None:
            counts = self._queues[queue.topic] = QueueCounts()
        return counts

    def incoming(self, queue: Queue) -> int:
        """Messages that this gateway put into a queue, by whatever door they came."""
        flow = self._traffic.incoming.get(queue.topic)
        return 0 if flow is None else flow.messages

    def delivered(self, queue: Queue, sizes: list[int], redelivered: int) -> None:
        """Messages of these sizes were handed out; so many of them not for the first time."""
        if not sizes:
            return
        for counts in (self._begun(queue), self.total):
            counts.delivered += len(sizes)
            counts.redelivered += redelivered
        self._traffic.add_out(queue.topic, queue.group, sizes, "amqp")

    def acknowledged(self, queues: Sequence[Queue]) -> None:
        """A message of each was acknowledged."""
        self.total.acknowledged += len(queues)
        queue, counts = None, self.total
        for each in queues:
            if each is not queue:
                queue, counts = each, self._begun(each)
            counts.acknowledged += 1

    def forget(self, queue: Queue) -> None:
        """It is gone."""
        self._queues.pop(queue.topic, None)
