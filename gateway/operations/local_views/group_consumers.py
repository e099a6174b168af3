"""This gateway's consumers of a group, over all its doors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.operations.local_views.amqp_shapes import channel_name

if TYPE_CHECKING:
    from entrepot.gateway.amqp.frontend import AmqpFrontend
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.rocketmq.connected import RocketMqClients

CONSUMERS: Final = "group-consumers"
"""View of every gateway: the consumers of a group that are connected to it."""
MAX_CONSUMERS: Final = 1000
"""Most consumers that one gateway tells."""


@dataclass(frozen=True, slots=True)
class Doors:
    """The doors of one gateway; None for those that are not open.  `others`: consumers of a group, by its stored name,
    at listeners that have no field."""

    amqp: AmqpFrontend | None
    mqtt: MqttFrontend | None
    rocketmq: RocketMqClients | None
    others: Iterable[Callable[[str], Sequence[GroupConsumer]]]

    def consumers(self, group: str) -> list[GroupConsumer]:
        """Return the consumers that are connected to this gateway."""
        found: list[GroupConsumer] = []
        if self.amqp is not None:
            found += _of_amqp(self.amqp, group)
        if self.mqtt is not None:
            found += _of_mqtt(self.mqtt, group)
        if self.rocketmq is not None:
            found += _of_rocketmq(self.rocketmq, group)
        for consumers in self.others:
            found += consumers(group)
        return found


def serve_group_consumers(peers: Peers, doors: Doors) -> None:
    """Register the view."""

    async def own_consumers(asked: dict[str, Any]) -> Any:
        found = doors.consumers(str(asked["group"]))
        return {"value": [consumer_shape(each) for each in found[:MAX_CONSUMERS]], "isCut": len(found) > MAX_CONSUMERS}

    peers.serve(CONSUMERS, own_consumers)


def _of_amqp(amqp: AmqpFrontend, group: str) -> Iterator[GroupConsumer]:
    for conversation in amqp.conversations:
        for channel in conversation.channels.values():
            for consumer in channel.consuming.consumers.values():
                if consumer.queue.group == group:
                    yield GroupConsumer(
                        "amqp",
                        channel_name(channel),
                        channel.client.login_name,
                        "" if channel.out.driver is None else channel.out.driver.source.host,
                        (consumer.queue.topic,),
                        held=consumer.held,
                        detail=consumer.tag,
                    )


def _of_rocketmq(rocketmq: RocketMqClients, group: str) -> Iterator[GroupConsumer]:
    for client in rocketmq.clients():
        if client.group == group:
            topics = tuple(topic for topic, _ in client.topics)
            yield GroupConsumer(
                "rocketmq",
                client.client_id,
                client.user,
                client.address,
                topics,
                held=client.in_flight,
                detail=client.kind,
            )


def _of_mqtt(mqtt: MqttFrontend, group: str) -> Iterator[GroupConsumer]:
    shares = mqtt.services.shares
    for conversation in mqtt.conversations:
        client = conversation.client
        for member in (conversation.subscribing.shares or {}).values():
            share = member.share
            try:
                is_of_group = shares.group_name(share.name, share.filter) == group
            except EntrepotError:
                continue  # its queue is gone
            if is_of_group:
                held = shares.held_by(share.name, share.filter, member)
                yield GroupConsumer(
                    "mqtt",
                    client.client_id,
                    client.user or "",
                    client.peer,
                    (share.filter,),
                    held=held,
                    detail=f"$share/{share.name}/{share.filter}",
                )


def consumer_shape(consumer: GroupConsumer) -> dict[str, Any]:
    """Return a consumer as JSON."""
    return {
        "door": consumer.door,
        "client": consumer.client,
        "user": consumer.user or None,
        "address": consumer.source or None,
        "topics": [split_name(topic)[1] if consumer.door != "mqtt" else topic for topic in consumer.topics],
        "queues": None if consumer.queues is None else list(consumer.queues),
        "held": consumer.held,
        "detail": consumer.detail or None,
    }
