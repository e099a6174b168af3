"""This gateway's MQTT clients: pages of them and of their subscriptions, the slow ones, and orders to them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.gateway.operations.local_views.mqtt import subscribed_filter, version_name
from entrepot.gateway.operations.row.gathered import page_of
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.connections.client import MqttClient
    from entrepot.gateway.mqtt.connections.conversation import MqttConversation
    from entrepot.gateway.mqtt.fan_out.hub import DeliveryHub
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.peers.peers import Peers

CLIENTS: Final = "mqtt-clients"
SUBSCRIPTIONS: Final = "mqtt-subscriptions"
SLOW: Final = "mqtt-slow-subscribers"
BETWEEN: Final = "\0"
"""Separator of a subscription's client id and filter in its key: neither may contain it."""


def serve_mqtt_clients(peers: Peers, mqtt: MqttFrontend | None) -> None:
    """Register the views.  Those of a gateway without MQTT have nothing to tell."""

    async def clients(asked: dict[str, Any]) -> Any:
        return _clients(mqtt, asked)

    async def subscriptions(asked: dict[str, Any]) -> Any:
        return _subscriptions(mqtt, asked)

    async def slow(asked: dict[str, Any]) -> Any:
        return {"value": _slow(mqtt, asked["limit"])}

    peers.serve(CLIENTS, clients)
    peers.serve(SUBSCRIPTIONS, subscriptions)
    peers.serve(SLOW, slow)


def accepted(mqtt: MqttFrontend | None) -> Iterator[MqttConversation]:
    """Open connections whose CONNECT was accepted."""
    return iter(()) if mqtt is None else mqtt.accepted()


def accepted_of(mqtt: MqttFrontend | None, client_id: str) -> MqttConversation | None:
    """The connection of a client on this gateway, or None."""
    found = None if mqtt is None else mqtt.registry.of(client_id)
    return None if found is None or found.client.session is None or not found.machine.is_open else found


# -- clients ---------------------------------------------------------------------------------------------------------


def _clients(mqtt: MqttFrontend | None, asked: dict[str, Any]) -> dict[str, Any]:
    """A page by `prefix`, `contains`, `user`, `after` and `limit`."""
    prefix, contains, after = asked["prefix"], asked["contains"], asked["after"]
    user, limit = asked["user"], asked["limit"]

    def is_wanted(client: MqttClient) -> bool:
        client_id = client.client_id
        is_in_range = client_id > after and client_id.startswith(prefix) and contains in client_id
        return is_in_range and user in (None, client.user or None)

    wanted = (each for each in accepted(mqtt) if is_wanted(each.client))
    found = heapq.nsmallest(limit + 1, wanted, key=lambda each: each.client.client_id)
    return page_of([client_shape(each) for each in found], limit, "id")


def client_shape(conversation: MqttConversation) -> dict[str, Any]:
    """Return a client as JSON."""
    client = conversation.client
    session, driver = client.session, client.driver
    assert session is not None
    return {
        "id": client.client_id,
        "user": client.user or None,
        "version": version_name(conversation.machine.version),
        "address": client.peer,
        "listener": driver.source.listener if driver is not None else None,
        "tls": driver.source.is_tls if driver is not None else None,
        "connectedSince": time_shape(client.connected_at_ms),
        "keepAlive": client.keep_alive,
        "cleanStart": session.record.clean_start,
        "sessionExpiry": session.record.expiry_seconds,
        "subscriptions": len(conversation.subscribing.records),
        "inFlight": len(conversation.machine.window.held),
        "queued": conversation.outbox.waiting,
        "lagging": len(conversation.subscribing.reader.lagging or ()),
        "dropped": client.dropped,
        "refused": client.refused,
        "messagesIn": client.messages_in,
        "messagesOut": client.messages_out,
        "bytesIn": client.bytes_in,
        "bytesOut": client.bytes_out,
    }


# -- subscriptions -----------------------------------------------------------------------------------------------------


def _subscriptions(mqtt: MqttFrontend | None, asked: dict[str, Any]) -> dict[str, Any]:
    """A page by `client`, `filter`, `after` and `limit`, in the order of client ids and filters."""
    after, limit, topic_filter = asked["after"], asked["limit"], asked["filter"]
    first_client = after.partition(BETWEEN)[0]
    if asked["client"] is not None:
        one = accepted_of(mqtt, asked["client"])
        wanted = iter(() if one is None else (one,))
    else:
        wanted = accepted(mqtt)
    having = (
        each
        for each in wanted
        if each.client.client_id >= first_client
        and (each.subscribing.records if topic_filter is None else topic_filter in each.subscribing.records)
    )
    # each has a subscription to show, but for the first, whose subscriptions the last page may have shown
    clients = heapq.nsmallest(limit + 2, having, key=lambda each: each.client.client_id)
    rows = [
        {
            "key": f"{each.client.client_id}{BETWEEN}{text}",
            "client": each.client.client_id,
            **msgspec.to_builtins(subscribed_filter(record)),
        }
        for each in clients
        for text, record in sorted(each.subscribing.records.items())
        if topic_filter in (None, text)
    ]
    return page_of([row for row in rows if row["key"] > after][: limit + 1], limit, "key")


# -- slow subscribers ------------------------------------------------------------------------------------------------


def slowness(row: dict[str, Any]) -> tuple[int, int, int]:
    """A slow subscriber's sort key, the slowest last: messages behind in the log, waiting in memory, dropped."""
    return row["behind"], row["queued"], row["dropped"]


def _slow(mqtt: MqttFrontend | None, limit: int) -> list[dict[str, Any]]:
    if mqtt is None:
        return []
    hub = mqtt.services.hub
    behind = [
        each for each in accepted(mqtt) if each.subscribing.reader.lagging or each.outbox.waiting or each.client.dropped
    ]
    found = {each: _slowness(hub, each) for each in behind}
    slowest = heapq.nlargest(limit, found, key=found.__getitem__)
    return [_slow_shape(each, found[each][0]) for each in slowest]


def _slowness(hub: DeliveryHub, conversation: MqttConversation) -> tuple[int, int, int]:
    from entrepot.gateway.mqtt.connections.facts import messages_behind

    return messages_behind(hub, conversation), conversation.outbox.waiting, conversation.client.dropped


def _slow_shape(conversation: MqttConversation, behind: int) -> dict[str, Any]:
    return {
        "id": conversation.client.client_id,
        "address": conversation.client.peer,
        "behind": behind,
        "queued": conversation.outbox.waiting,
        "inFlight": len(conversation.machine.window.held),
        "dropped": conversation.client.dropped,
    }
