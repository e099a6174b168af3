"""Unsettled: the bytes of the messages of a topic that a group has not settled."""

from __future__ import annotations

from entrepot.broker.consume.group_windows import GroupWindows
from entrepot.broker.consume.window import ConsumeWindow
from entrepot.broker.store.body_sizes import body_bytes
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.domain.definitions.consumer_group import EARLIEST, ConsumerGroup, UnsettledBytes
from entrepot.domain.names import retry_topic
from entrepot.domain.topic import Topic


def unsettled_bytes(found: GroupWindows, group: ConsumerGroup, topic: Topic, now_ms: int) -> UnsettledBytes | None:
    """Return the bytes, or None where some of the messages are cold.  See `domain.ports.Topology.unsettled_bytes`."""
    windows = found.progress.windows.get((group.name, topic.name), {})
    queues = found.engine.dispatcher.first_queues(topic.name, topic.queues)
    waiting = in_flight = 0
    for queue in queues:
        window = windows.get(queue.queue_id)
        if window is None and group.start != EARLIEST:
            continue
        if _is_cold(found, queue, window):
            return None
        told = _of_queue(found, queue, window, now_ms)
        waiting, in_flight = waiting + told.waiting, in_flight + told.in_flight
    retries = retry_topic(group.name, topic.name)
    for queue_id, window in found.retry_windows(group.name, topic.name).items():
        told = _of_queue(found, found.engine.dispatcher.queue(retries, queue_id), window, now_ms)
        waiting, in_flight = waiting + told.waiting, in_flight + told.in_flight
    return UnsettledBytes(waiting, in_flight)


def _is_cold(found: GroupWindows, queue: ConsumeQueue, window: ConsumeWindow | None) -> bool:
    """True if messages that the group has not settled are in the object store."""
    base = 0 if window is None else window.base
    return base < queue.min_offset and found.thawed.least(queue) < queue.min_offset


def _of_queue(found: GroupWindows, queue: ConsumeQueue, window: ConsumeWindow | None, now_ms: int) -> UnsettledBytes:
    end = queue.visible_offset
    first = queue.min_offset if window is None else max(window.frontier, queue.min_offset)
    waiting, in_flight = body_bytes(found.engine, queue, range(first, max(end, first))), 0
    if window is not None and window.unsettled:
        returned, held = window.unsettled_offsets(now_ms, queue.min_offset, end)
        waiting += body_bytes(found.engine, queue, returned)
        in_flight = body_bytes(found.engine, queue, held)
    return UnsettledBytes(waiting, in_flight)
