"""This gateway's AMQP connections, channels and consumers, in RabbitMQ's JSON; each page in the order of `key`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final

from entrepot.gateway.amqp.connections.channel import AmqpChannel
from entrepot.gateway.amqp.connections.consumer import Consumer
from entrepot.gateway.amqp.connections.conversation import AmqpConversation
from entrepot.gateway.amqp.connections.shown_names import channel_name, connection_name
from entrepot.gateway.amqp.frontend import AmqpFrontend
from entrepot.gateway.operations.local_views.amqp_shapes import channel_shape, connection_shape, consumer_shape
from entrepot.gateway.operations.row.gathered import page_of
from entrepot.gateway.peers.peers import Peers
from entrepot.protocols.amqp.reply_codes import ReplyCode

CONNECTIONS: Final = "amqp-connections"
CONNECTION: Final = "amqp-connection"
CHANNELS: Final = "amqp-channels"
CHANNEL: Final = "amqp-channel"
CONSUMERS: Final = "amqp-consumers"
CONSUMED_QUEUES: Final = "amqp-consumed-queues"
CLOSE: Final = "amqp-close"
COUNTS: Final = "amqp-counts"
BETWEEN: Final = "\0"
"""Separator of the parts of a consumer's key."""

Row = dict[str, Any]


def serve_amqp_connections(peers: Peers, amqp: AmqpFrontend | None) -> None:
    """Register the views.  Those of a gateway without AMQP have nothing to tell."""
    for view, answer in _VIEWS.items():
        peers.serve(view, _answering(amqp, answer))


def _answering(amqp: AmqpFrontend | None, answer: Callable[[list[AmqpConversation], Row], Any]) -> Any:
    async def answered(asked: Row) -> Any:
        return answer(_open(amqp), asked)

    return answered


def _open(frontend: AmqpFrontend | None) -> list[AmqpConversation]:
    """Logged-in connections."""
    return [] if frontend is None else list(frontend.logged_in())


def _wanted(found: list[AmqpConversation], asked: Row) -> Iterator[AmqpConversation]:
    """Those of a virtual host and of a user, where these are given."""
    vhost, user = asked.get("vhost"), asked.get("user")
    return (
        each for each in found if vhost in (None, each.client.vhost_name) and user in (None, each.client.login_name)
    )


def _page(keyed: Iterator[tuple[str, Any]], asked: Row, shape: Callable[[Any], Row]) -> Row:
    """A page of things with their keys, by `contains`, `after` and `limit`."""
    after, limit, contains = asked["after"], asked["limit"], asked.get("contains", "")
    wanted = (each for each in keyed if each[0] > after and contains in each[0])
    rows = heapq.nsmallest(limit + 1, wanted, key=lambda each: each[0])
    return page_of([{"key": key, **shape(thing)} for key, thing in rows], limit, "key")


def _connections(found: list[AmqpConversation], asked: Row) -> Any:
    return _page(((connection_name(each.driver), each) for each in _wanted(found, asked)), asked, connection_shape)


def _connection(found: list[AmqpConversation], asked: Row) -> Any:
    """A connection by `name`, with its channels and their consumers."""
    for each in found:
        if connection_name(each.driver) == asked["name"]:
            channels = [_whole_channel(channel) for channel in each.channels.values()]
            return {"connection": connection_shape(each), "channels": channels}
    return None


def _channels(found: list[AmqpConversation], asked: Row) -> Any:
    return _page(((channel_name(each), each) for each in _channels_of(found, asked)), asked, channel_shape)


def _channels_of(found: list[AmqpConversation], asked: Row) -> Iterator[AmqpChannel]:
    return (channel for each in _wanted(found, asked) for channel in each.channels.values())


def _channel(found: list[AmqpConversation], asked: Row) -> Any:
    for channel in _channels_of(found, {}):
        if channel_name(channel) == asked["name"]:
            return _whole_channel(channel)
    return None


def _whole_channel(channel: AmqpChannel) -> Row:
    consumers = [consumer_shape(each, channel) for each in channel.consuming.consumers.values()]
    return {**channel_shape(channel), "consumer_details": consumers}


def _consumers(found: list[AmqpConversation], asked: Row) -> Any:
    """A page of consumers, of a queue where `queue` is given."""
    queue = asked.get("queue")
    keyed = (
        (f"{channel_name(channel)}{BETWEEN}{consumer.tag}", (consumer, channel))
        for channel in _channels_of(found, asked)
        for consumer in channel.consuming.consumers.values()
        if queue in (None, consumer.queue.name)
    )
    return _page(keyed, asked, lambda pair: consumer_shape(*pair))


def _consumed_queues(found: list[AmqpConversation], asked: Row) -> Any:
    """A page of queues with consumers here, of `queues` by virtual host and name where these are given."""
    named = asked["queues"]
    wanted = None if named is None else {(vhost, name) for vhost, name in named}
    keyed: dict[str, list[tuple[Consumer, AmqpChannel]]] = {}
    for channel in _channels_of(found, asked):
        for consumer in channel.consuming.consumers.values():
            if wanted is None or (channel.vhost.name, consumer.queue.name) in wanted:
                keyed.setdefault(consumer.queue.topic, []).append((consumer, channel))
    return _page(iter(keyed.items()), asked, _consumed_queue)


def _consumed_queue(consumers: list[tuple[Consumer, AmqpChannel]]) -> Row:
    """A queue as its consumers here know it.  `capacity`: the share of time in which it could deliver at once, and what
    it is if messages are ready now."""
    first, channel = consumers[0]
    virtual_hosts, queue = channel.consuming.services.virtual_hosts, first.queue
    capacity, now_ms = virtual_hosts.feeds.capacity(queue), virtual_hosts.clock.now_ms()
    is_single = queue.declaration.arguments.single_active_consumer
    active = [each.tag for each, _ in consumers if is_single and virtual_hosts.feeds.is_active(queue, each)]
    return {
        "vhost": channel.vhost.name,
        "name": queue.name,
        "capacity": None if capacity is None else capacity.share(now_ms, is_ready=False),
        "capacity_if_ready": None if capacity is None else capacity.share(now_ms, is_ready=True),
        "single_active_consumer_tag": next(iter(active), None),
        "exclusive_consumer_tag": next((each.tag for each, _ in consumers if each.exclusive), None),
    }


def _close(found: list[AmqpConversation], asked: Row) -> Any:
    """Close the connections with these `names`; return the names of those that were here."""
    wanted, closed = set(asked["names"]), []
    for each in found:
        name = connection_name(each.driver)
        if name in wanted:
            each.close_connection(ReplyCode.CONNECTION_FORCED, asked["reason"])
            closed.append(name)
    return closed


def _counts(found: list[AmqpConversation], asked: Row) -> Any:
    channels = list(_channels_of(found, {}))
    return {
        "connections": len(found),
        "channels": len(channels),
        "consumers": sum(len(each.consuming.consumers) for each in channels),
    }


_VIEWS: Final[dict[str, Callable[[list[AmqpConversation], Row], Any]]] = {
    CONNECTIONS: _connections,
    CONNECTION: _connection,
    CHANNELS: _channels,
    CHANNEL: _channel,
    CONSUMERS: _consumers,
    CONSUMED_QUEUES: _consumed_queues,
    CLOSE: _close,
    COUNTS: _counts,
}
