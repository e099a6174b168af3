"""gmqtt (version 5) and amqtt's client (version 3.1.1)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import gmqtt  # type: ignore[import-untyped]
from amqtt.client import MQTTClient  # type: ignore[import-untyped]

from tests.support.mqtt.peers.loop import LOOP
from tests.support.mqtt.peers.peer import Arrival, Incoming, Outgoing, Peer, Wanted
from tests.support.waiting import PATIENCE_SECONDS, until


def _given(message: Outgoing) -> dict[str, Any]:
    """gmqtt's names of properties."""
    given: dict[str, Any] = {
        "content_type": message.content_type,
        "response_topic": message.response_topic,
        "correlation_data": message.correlation,
        "message_expiry_interval": message.expiry_seconds,
        "topic_alias": message.alias,
        "user_property": list(message.user),
    }
    return {name: value for name, value in given.items() if value}


class GmqttPeer(Peer):
    """gmqtt."""

    def __init__(self, port: int, arrival: Arrival) -> None:
        super().__init__()
        LOOP.run(self._connect(port, arrival))

    async def _connect(self, port: int, arrival: Arrival) -> None:
        will = None
        if arrival.will is not None:
            given = arrival.will
            own = {"will_delay_interval": arrival.will_delay_seconds} if arrival.will_delay_seconds else {}
            will = gmqtt.Message(given.topic, given.payload, given.qos, given.retain, **_given(given), **own)
        said = {
            "session_expiry_interval": arrival.expiry_seconds,
            "receive_maximum": arrival.receive_maximum,
            "topic_alias_maximum": arrival.topic_alias_maximum,
        }
        said = {name: value for name, value in said.items() if value}
        self.client = gmqtt.Client(arrival.client_id, clean_session=arrival.clean, will_message=will, **said)
        self._granted: dict[int, Any] = {}
        self._ended: set[int] = set()
        self._is_connected = asyncio.Event()
        self._is_gone = asyncio.Event()
        self.client.on_connect = self._on_connect
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda client, mid, qos, properties: self._granted.update({mid: list(qos)})
        self.client.on_unsubscribe = lambda client, mid, *_: self._ended.add(mid)
        self.client.on_disconnect = lambda client, packet, exc=None: self._is_gone.set()
        self.client.set_config({"reconnect_retries": 0, "reconnect_delay": 0})
        await self.client.connect("127.0.0.1", port)
        await asyncio.wait_for(self._is_connected.wait(), PATIENCE_SECONDS)

    def _on_connect(self, client: Any, flags: int, reason: int, properties: Any) -> None:
        self.session_present = bool(flags)
        self._is_connected.set()

    def _on_message(self, client: Any, topic: str, payload: bytes, qos: int, properties: dict[str, Any]) -> int:
        def first(name: str, empty: Any) -> Any:
            found = properties.get(name, [empty])
            return found[0] if isinstance(found, list) else found

        self.received.append(
            Incoming(
                topic,
                bytes(payload),
                qos,
                bool(properties["retain"]),
                first("content_type", ""),
                first("response_topic", ""),
                first("correlation_data", b""),
                tuple((name, value) for name, value in properties.get("user_property", ())),
                first("message_expiry_interval", 0),
                tuple(properties.get("subscription_identifier", ())),
            )
        )
        return 0

    def subscribe(self, *wanted: Wanted) -> list[int]:
        return LOOP.run(self._subscribe(wanted))

    async def _subscribe(self, wanted: tuple[Wanted, ...]) -> list[int]:
        filters = [
            gmqtt.Subscription(
                each.filter,
                each.qos,
                no_local=each.no_local,
                retain_as_published=each.retain_as_published,
                retain_handling_options=each.retain_handling,
                subscription_identifier=each.identifier or None,
            )
            for each in wanted
        ]
        own = {"subscription_identifier": wanted[0].identifier} if wanted[0].identifier else {}
        mid = self.client.subscribe(filters, **own)
        return await until(lambda: self._granted.get(mid, []), "SUBACK")

    def publish(self, *messages: Outgoing) -> None:
        async def all_of_them() -> None:
            for each in messages:
                self.client.publish(each.topic, each.payload, each.qos, each.retain, **_given(each))
            await self._drained()

        LOOP.run(all_of_them())

    async def _drained(self) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.client._persistent_storage.is_empty:
                await asyncio.sleep(0.005)

    def unsubscribe(self, topic_filter: str) -> None:
        async def end() -> None:
            mid = self.client.unsubscribe(topic_filter)
            await until(lambda: mid in self._ended, "UNSUBACK")

        LOOP.run(end())

    def leave(self) -> None:
        with contextlib.suppress(Exception):  # gmqtt complains of what is closed already
            LOOP.run(self.client.disconnect())

    def cut(self) -> None:
        async def abort() -> None:
            self.client._temporarily_stop_reconnect()
            self.client._connection._transport.abort()
            await asyncio.wait_for(self._is_gone.wait(), PATIENCE_SECONDS)

        LOOP.run(abort())


class AmqttPeer(Peer):
    """amqtt's client."""

    def __init__(self, port: int, arrival: Arrival) -> None:
        super().__init__()
        LOOP.run(self._connect(port, arrival))

    async def _connect(self, port: int, arrival: Arrival) -> None:
        config: dict[str, Any] = {"auto_reconnect": False}
        if arrival.will is not None:
            will = arrival.will
            config["will"] = {
                "topic": will.topic,
                "message": will.payload.decode(),
                "qos": will.qos,
                "retain": will.retain,
            }
        self.client = MQTTClient(arrival.client_id, config=config)
        await self.client.connect(f"mqtt://127.0.0.1:{port}/", cleansession=arrival.clean)
        self._reading = LOOP.task(self._read())

    async def _read(self) -> None:
        with contextlib.suppress(Exception):  # the connection has ended
            while True:
                found = await self.client.deliver_message()
                assert found is not None
                self.received.append(
                    Incoming(found.topic, bytes(found.data or b""), int(found.qos or 0), bool(found.retain))
                )

    def subscribe(self, *wanted: Wanted) -> list[int]:
        return list(LOOP.run(self.client.subscribe([(each.filter, each.qos) for each in wanted])))

    def publish(self, *messages: Outgoing) -> None:
        for each in messages:
            LOOP.run(self.client.publish(each.topic, each.payload, qos=each.qos, retain=each.retain))

    def unsubscribe(self, topic_filter: str) -> None:
        LOOP.run(self.client.unsubscribe([topic_filter]))

    def leave(self) -> None:
        self._reading.cancel()
        with contextlib.suppress(Exception):  # cut off before
            LOOP.run(self.client.disconnect())

    def cut(self) -> None:
        async def abort() -> None:
            handler: Any = self.client._handler
            handler.writer._writer.transport.abort()

        LOOP.run(abort())
        self.leave()
