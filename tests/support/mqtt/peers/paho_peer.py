"""paho-mqtt, and aiomqtt, which is paho with coroutines around it: both versions, TCP and WebSocket."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Any, cast

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from tests.support.mqtt.peers.loop import LOOP
from tests.support.mqtt.peers.peer import Arrival, Incoming, Outgoing, Peer, Wanted, found_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def publish_properties(message: Outgoing, kind: int = PacketTypes.PUBLISH, will_delay: int = 0) -> Properties | None:
    """paho's properties of a message or will."""
    made = Properties(kind)
    for name, value in (
        ("ContentType", message.content_type),
        ("ResponseTopic", message.response_topic),
        ("CorrelationData", message.correlation),
        ("MessageExpiryInterval", message.expiry_seconds),
        ("TopicAlias", message.alias),
        ("UserProperty", list(message.user)),
        ("WillDelayInterval", will_delay),
    ):
        if value:
            setattr(made, name, value)
    return made


def connect_properties(arrival: Arrival) -> Properties:
    """paho's properties of CONNECT."""
    made = Properties(PacketTypes.CONNECT)
    for name, value in (
        ("SessionExpiryInterval", arrival.expiry_seconds),
        ("ReceiveMaximum", arrival.receive_maximum),
        ("TopicAliasMaximum", arrival.topic_alias_maximum),
    ):
        if value:
            setattr(made, name, value)
    return made


def options_of(wanted: Wanted) -> SubscribeOptions:
    return SubscribeOptions(wanted.qos, wanted.no_local, wanted.retain_as_published, wanted.retain_handling)


def identified(wanted: Wanted) -> Properties | None:
    made = Properties(PacketTypes.SUBSCRIBE)
    if wanted.identifier:
        made.SubscriptionIdentifier = wanted.identifier
    return made


class PahoPeer(Peer):
    """`version`: 4 or 5."""

    def __init__(self, port: int, arrival: Arrival, version: int, transport: str = "tcp") -> None:
        super().__init__()
        self.is_5 = version == 5
        clean = None if self.is_5 else arrival.clean
        self.paho = paho.Client(
            CallbackAPIVersion.VERSION2,
            arrival.client_id,
            clean_session=clean,
            protocol=paho.MQTTv5 if self.is_5 else paho.MQTTv311,
            transport=transport,  # type: ignore[arg-type]
            reconnect_on_failure=False,
        )
        self._connected = threading.Event()
        self._granted: dict[int, list[int]] = {}
        self._ended: set[int] = set()
        self.paho.on_connect = self._on_connect
        self.paho.on_message = self._on_message
        self.paho.on_subscribe = lambda c, u, mid, reasons, p: self._granted.update({mid: [r.value for r in reasons]})
        self.paho.on_unsubscribe = lambda c, u, mid, reasons, p: self._ended.add(mid)
        will = arrival.will
        if will is not None:
            properties = (
                publish_properties(will, PacketTypes.WILLMESSAGE, arrival.will_delay_seconds) if self.is_5 else None
            )
            self.paho.will_set(will.topic, will.payload, will.qos, will.retain, properties)
        if self.is_5:
            self.paho.connect("127.0.0.1", port, clean_start=arrival.clean, properties=connect_properties(arrival))
        else:
            self.paho.connect("127.0.0.1", port)
        self.paho.loop_start()
        assert self._connected.wait(PATIENCE_SECONDS)

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        assert reason.value == 0, reason
        self.session_present = flags.session_present
        self._connected.set()

    def _on_message(self, client: Any, data: Any, message: paho.MQTTMessage) -> None:
        found = found_of(message.properties)
        self.received.append(Incoming(message.topic, bytes(message.payload), message.qos, message.retain, **found))

    def subscribe(self, *wanted: Wanted) -> list[int]:
        if self.is_5:
            filters = [(each.filter, options_of(each)) for each in wanted]
            _, mid = self.paho.subscribe(filters, properties=identified(wanted[0]))  # type: ignore[arg-type]
        else:
            _, mid = self.paho.subscribe([(each.filter, each.qos) for each in wanted])
        assert mid is not None
        return wait_until(lambda: self._granted.get(mid, []), "SUBACK")

    def publish(self, *messages: Outgoing) -> None:
        sent = [
            self.paho.publish(
                message.topic,
                message.payload,
                message.qos,
                message.retain,
                properties=publish_properties(message) if self.is_5 else None,
            )
            for message in messages
        ]
        for info in sent:
            info.wait_for_publish(PATIENCE_SECONDS)
            assert info.is_published()

    def unsubscribe(self, topic_filter: str) -> None:
        _, mid = self.paho.unsubscribe(topic_filter)
        wait_until(lambda: mid in self._ended, "UNSUBACK")

    def leave(self) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def cut(self) -> None:
        sock = self.paho.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                cast(socket.socket, getattr(sock, "_socket", sock)).shutdown(
                    socket.SHUT_RDWR
                )  # of a WebSocket: what is below it
        self.paho.loop_stop()


class AiomqttPeer(Peer):
    """`version`: 4 or 5."""

    def __init__(self, port: int, arrival: Arrival, version: int) -> None:
        super().__init__()
        self.is_5 = version == 5
        LOOP.run(self._connect(port, arrival))

    async def _connect(self, port: int, arrival: Arrival) -> None:
        will = None
        if arrival.will is not None:
            given = arrival.will
            properties = (
                publish_properties(given, PacketTypes.WILLMESSAGE, arrival.will_delay_seconds) if self.is_5 else None
            )
            will = aiomqtt.Will(given.topic, given.payload, given.qos, given.retain, properties)
        own: dict[str, Any] = {"clean_session": arrival.clean}
        if self.is_5:
            own = {"clean_start": arrival.clean, "properties": connect_properties(arrival)}
        version = aiomqtt.ProtocolVersion.V5 if self.is_5 else aiomqtt.ProtocolVersion.V311
        self.client = aiomqtt.Client(
            "127.0.0.1", port, identifier=arrival.client_id, protocol=version, will=will, **own
        )
        inner = self.client._client  # aiomqtt does not show whether the session was there
        previous = inner.on_connect

        def on_connect(client: Any, data: Any, flags: Any, reason: Any, properties: Any = None) -> None:
            self.session_present = bool(
                flags["session present"] if isinstance(flags, dict) else getattr(flags, "session_present", False)
            )
            previous(client, data, flags, reason, properties)  # type: ignore[misc,operator,call-arg]

        inner.on_connect = on_connect
        await self.client.__aenter__()
        self._reading = LOOP.task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):
            async for message in self.client.messages:
                payload = message.payload if isinstance(message.payload, bytes) else b""
                found = found_of(message.properties)
                self.received.append(Incoming(str(message.topic), payload, message.qos, message.retain, **found))

    def subscribe(self, *wanted: Wanted) -> list[int]:
        if self.is_5:
            filters: Any = [(each.filter, options_of(each)) for each in wanted]
            reasons = LOOP.run(self.client.subscribe(filters, properties=identified(wanted[0])))
        else:
            reasons = LOOP.run(self.client.subscribe([(each.filter, each.qos) for each in wanted]))
        return [cast(Any, getattr(reason, "value", reason)) for reason in reasons]  # type: ignore[misc]

    def publish(self, *messages: Outgoing) -> None:
        async def all_of_them() -> None:
            for each in messages:
                properties = publish_properties(each) if self.is_5 else None
                await self.client.publish(each.topic, each.payload, each.qos, each.retain, properties=properties)

        LOOP.run(all_of_them())

    def unsubscribe(self, topic_filter: str) -> None:
        LOOP.run(self.client.unsubscribe(topic_filter))

    def leave(self) -> None:
        self._reading.cancel()
        LOOP.run(self._end())

    async def _end(self) -> None:
        with contextlib.suppress(aiomqtt.MqttError):
            await self.client.__aexit__(None, None, None)

    def cut(self) -> None:
        sock: Any = self.client._client.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self.leave()
