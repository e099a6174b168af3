"""SharedQueues: the rules of queues for consumers by MQTT's shared subscriptions.

They are consumers of the queue's group like any other: time to live, dead letters and the delivery limit hold for them,
too.
"""

from __future__ import annotations

from collections.abc import Sequence

from entrepot.domain.entity_name import decoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE, QUEUE_FEED_PREFIX
from entrepot.gateway.amqp.virtual_hosts.dead_letters import DeadLetters
from entrepot.gateway.amqp.virtual_hosts.definitions import Definitions
from entrepot.gateway.amqp.virtual_hosts.vhost import Queue
from entrepot.gateway.messaging.ticket import Ticket


class SharedQueues:
    """An implementation of `gateway.mqtt.shares.shares.QueueRules`, for the default virtual host, as MQTT's names
    belong to it."""

    def __init__(self, definitions: Definitions, dead_letters: DeadLetters) -> None:
        self._definitions, self._dead_letters = definitions, dead_letters

    def _queue(self, topic: str) -> Queue | None:
        vhost = self._definitions.vhost_in(DEFAULT_NAMESPACE)
        if vhost is None:
            return None
        name = decoded_name(topic.removeprefix(QUEUE_FEED_PREFIX))
        if name is not None:
            return vhost.queue(name)
        return next((each for each in vhost.queues.values() if each.topic == topic), None)

    def check_shareable(self, topic: str) -> None:
        """Raise TOPIC_NOT_FOUND, or FORBIDDEN for an exclusive or single-active-consumer queue, or a stream."""
        queue = self._queue(topic)
        if queue is None:
            raise EntrepotError(Code.TOPIC_NOT_FOUND, f"there is no queue behind {topic!r}")
        if queue.connection or queue.is_stream or queue.declaration.arguments.single_active_consumer:
            raise EntrepotError(
                Code.FORBIDDEN,
                f"queue {queue.name!r} is not shared: it is exclusive, a stream, or has a single active consumer",
            )

    def sort_out(self, topic: str, tickets: list[Ticket]) -> list[Ticket]:
        """Return the messages to deliver, as `DeadLetters.sort_out`."""
        queue = self._queue(topic)
        if queue is None:  # it is being deleted, with its messages
            return tickets
        return self._dead_letters.sort_out(queue, tickets)

    def came_back(self, topic: str, tickets: Sequence[Ticket]) -> list[Ticket]:
        """Return the messages not to be released, as `DeadLetters.came_back`."""
        queue = self._queue(topic)
        return [] if queue is None else self._dead_letters.came_back(queue, tickets)
