"""The consumers of a group over all doors: those of this gateway, and those that the store knows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from entrepot.domain.consumer_group import GroupStatus
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.domain.url import host_of
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.mqtt.frontend import MqttFrontend
from entrepot.gateway.operations.local_views.amqp_shapes import channel_name
from entrepot.gateway.rocketmq.connected import RocketMqClients

MAX_TOPICS: Final = 100
"""Most topics of a group whose members are looked up."""


def consumers_here(context: HttpContext, group: str) -> list[GroupConsumer]:
    """The consumers that are connected to this gateway."""
    found: list[GroupConsumer] = []
    if context.amqp is not None:
        found += _of_amqp(context.amqp, group)
    if context.mqtt is not None:
        found += _of_mqtt(context.mqtt, group)
    if context.rocketmq is not None:
        found += _of_rocketmq(context.rocketmq, group)
    for consumers in context.group_consumers:
        found += consumers(group)
    return found


async def consumers_everywhere(context: HttpContext, status: GroupStatus) -> list[GroupConsumer]:
    """The consumers that the store knows, whatever their gateway: members with whole queues, and webhooks."""
    group = status.group.name
    found = [
        GroupConsumer(
            "webhook", subscription.record.id, topics=(subscription.topic,), detail=host_of(subscription.record.sink)
        )
        for subscription in context.subscriptions.all()
        if group in (subscription.group, subscription.catch_up_group)
    ]
    for topic in sorted({queue.topic for queue in status.progress})[:MAX_TOPICS]:
        membership = await context.memberships.members(group, topic)
        queues = membership.assignment()
        found += [
            GroupConsumer("member", member.id, topics=(topic,), queues=tuple(queues[member.id]))
            for member in membership.members
        ]
    return found


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
