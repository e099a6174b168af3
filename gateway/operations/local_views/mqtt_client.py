"""One MQTT client of this gateway in full, and the recent events of a client id here."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.gateway.operations.local_views.mqtt import subscribed_filter, version_name
from entrepot.gateway.operations.local_views.mqtt_clients import accepted_of, client_shape
from entrepot.gateway.operations.row.times import time_shape

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.connections.conversation import MqttConversation
    from entrepot.gateway.mqtt.connections.history import ClientEvent
    from entrepot.gateway.mqtt.connections.in_flight import InFlight
    from entrepot.gateway.mqtt.connections.services import MqttServices
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.mqtt.sessions.record import WillRecord
    from entrepot.gateway.peers.peers import Peers

CLIENT: Final = "mqtt-client"
EVENTS: Final = "mqtt-client-events"
MAX_SUBSCRIPTIONS: Final = 1000
"""Subscriptions in a client's detail; `/subscriptions?client=` lists all."""
MAX_CLIENT_EVENTS: Final = 200


def serve_mqtt_client(peers: Peers, mqtt: MqttFrontend | None) -> None:
    """Register the views.  Those of a gateway without MQTT have nothing to tell."""

    async def client(asked: dict[str, Any]) -> Any:
        found = accepted_of(mqtt, asked["id"])
        if found is None or mqtt is None:
            return None
        return await _detail(found, mqtt)

    async def events(asked: dict[str, Any]) -> Any:
        if mqtt is None:
            return {"value": [], "since": None}
        found = mqtt.history.of(asked["id"], MAX_CLIENT_EVENTS)
        return {"value": [_event_shape(each) for each in found], "since": time_shape(mqtt.history.since_ms())}

    peers.serve(CLIENT, client)
    peers.serve(EVENTS, events)


async def _detail(conversation: MqttConversation, mqtt: MqttFrontend) -> dict[str, Any]:
    from entrepot.gateway.mqtt.connections.facts import facts_of
    from entrepot.gateway.mqtt.connections.in_flight import MAX_LISTED, in_flight_of

    client, services = conversation.client, mqtt.services
    records = conversation.subscribing.records
    in_flight = await in_flight_of(client, services)
    now_ms = services.clock.now_ms()
    return {
        **client_shape(conversation),
        "lastPacketSeconds": round(services.loop.time() - conversation.machine.heard_at, 1),
        "session": _session_shape(conversation, services),
        "will": _will_shape(conversation),
        "subscribedTo": [
            msgspec.to_builtins(subscribed_filter(each)) for each in islice(records.values(), MAX_SUBSCRIPTIONS)
        ],
        "inFlightMessages": [_in_flight_shape(each, now_ms) for each in in_flight],
        "halfReceived": list(islice(conversation.machine.incoming or (), MAX_LISTED)),
        "output": _output_shape(conversation),
        "facts": [
            {"kind": each.kind, "isTrouble": each.is_trouble, "text": each.text}
            for each in facts_of(conversation, services)
        ],
        "lastRefusal": _refusal_shape(client.last_refusal),
        "isTraced": client.traced_by is not None,
    }


def _refusal_shape(refusal: ClientEvent | None) -> dict[str, Any] | None:
    if refusal is None:
        return None
    return {
        "time": time_shape(refusal.last_ms or refusal.at_ms),
        "reason": refusal.reason,
        "text": refusal.text,
    }


def _session_shape(conversation: MqttConversation, services: MqttServices) -> dict[str, Any]:
    from entrepot.protocols.mqtt.outgoing import UNLIMITED_PACKET

    session, machine = conversation.client.session, conversation.machine
    assert session is not None
    largest = machine.max_packet_to_client
    return {
        "continued": session.is_present,
        "isDurable": session.is_kept and session.persists,
        "expirySeconds": session.record.expiry_seconds,
        "receiveMaximum": machine.window.maximum,
        "receiveMaximumFromClient": services.limits.receive_maximum,
        "maxQueued": services.settings.max_queued_messages,
        "maxPacketSize": None if largest == UNLIMITED_PACKET else largest,
    }


def _will_shape(conversation: MqttConversation) -> dict[str, Any] | None:
    session = conversation.client.session
    will: WillRecord | None = None if session is None else session.record.will
    if will is None:
        return None
    return {
        "topic": will.topic,
        "qos": will.qos,
        "retain": will.retain,
        "size": len(will.payload),
        "delaySeconds": will.delay_seconds,
    }


def _in_flight_shape(shown: InFlight, now_ms: int) -> dict[str, Any]:
    return {
        "packetId": shown.packet_id,
        "qos": shown.qos,
        "waitsFor": shown.stage.value,
        "name": shown.name or None,
        "topic": shown.topic or None,
        "queueId": shown.queue_id,
        "offset": None if shown.queue_id is None else str(shown.queue_offset),
        "isRetained": shown.is_retained,
        "storeTime": time_shape(shown.stored_ms),
        "ageSeconds": round((now_ms - shown.stored_ms) / 1000, 3) if shown.stored_ms else None,
    }


def _output_shape(conversation: MqttConversation) -> dict[str, Any]:
    driver, outbox = conversation.client.driver, conversation.outbox
    queued_bytes, unrecorded = outbox.waiting_bytes
    return {
        "queuedBytes": queued_bytes,
        "unrecordedBytes": unrecorded,
        "socketBytes": 0 if driver is None else driver.unwritten,
        "isCongested": driver is not None and driver.is_congested,
        "isReadingPaused": driver is not None and (driver.is_paused or driver.is_choked),
    }


def _event_shape(event: ClientEvent) -> dict[str, Any]:
    return {
        "time": time_shape(event.at_ms),
        "event": event.kind.value,
        "reason": event.reason or None,
        "text": event.text,
        "address": event.address,
        "user": event.user or None,
        "version": version_name(event.version) if event.version else None,
        "count": event.count,
        "lastTime": time_shape(event.last_ms or event.at_ms),
    }
