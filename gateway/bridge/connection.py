"""RemoteConnection: one connection to another broker, with paho-mqtt for the protocol on our event loop.

An object serves one connection: no unacknowledged message survives in it, so the store alone decides what is sent
again. The session at the remote outlives the connection. paho answers nothing by itself (`manual_ack`): only
`acknowledge` acknowledges a message.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties as PahoProperties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from entrepot.domain.written_text import written_text
from entrepot.gateway.bridge.errors import RemoteError
from entrepot.gateway.settings import BridgeRemote

CONNECT_SECONDS: Final = 10.0
"""Longest wait for each answer of the remote until the connection stands."""
MISC_SECONDS: Final = 1.0
"""Interval between looks at the keep-alive."""
MAX_PACKETS_PER_READ: Final = 128
"""Packets taken in one turn of the event loop."""
RETAINED_IF_NEW: Final = 1
"""Retain handling (MQTT 5.0 3.8.3.1): retained messages come with a new subscription, not at every connect."""
MQTT_5: Final = 5

log = structlog.get_logger(__name__)

OnMessage = Callable[[paho.MQTTMessage], None]


class _BoundedClient(paho.Client):
    """paho's client, which takes no packet beyond a size: it would keep up to 256 MiB of it before it looks."""

    max_packet_bytes = 0

    def _sock_recv(self, bufsize: int) -> bytes:
        """Receive; asked for what is left of a packet at the first read of it."""
        if bufsize > self.max_packet_bytes:
            raise RemoteError(f"the remote sends a packet of {bufsize} bytes, more than {self.max_packet_bytes}")
        return super()._sock_recv(bufsize)


class RemoteConnection:
    """One connection; `window` is the remote's limit of unacknowledged QoS 1 messages. `max_packet_bytes` is the
    largest packet that it takes, None if it names none."""

    def __init__(self, remote: BridgeRemote, on_message: OnMessage) -> None:
        self._remote = remote
        self._loop = asyncio.get_running_loop()
        self._on_message = on_message
        self._client = self._new_client()
        self._descriptor: int | None = None
        self._is_paused = False
        self._packets = 0
        self._misc: asyncio.TimerHandle | None = None
        self._accepted: asyncio.Future[None] = self._loop.create_future()
        self._subscribed: dict[int, asyncio.Future[list[ReasonCode]]] = {}
        self._published: dict[int, asyncio.Future[int]] = {}
        self._end: asyncio.Future[str] = self._loop.create_future()
        self.window = remote.max_inflight_messages
        self.max_packet_bytes: int | None = None
        self.maximum_qos = 1
        self.takes_retained = True

    def _new_client(self) -> paho.Client:
        remote = self._remote
        is_five = remote.version == MQTT_5
        client = _BoundedClient(
            CallbackAPIVersion.VERSION2,
            client_id=remote.session_name,
            clean_session=None if is_five else False,
            protocol=paho.MQTTv5 if is_five else paho.MQTTv311,
            reconnect_on_failure=False,
            manual_ack=True,
        )
        client.max_packet_bytes = remote.max_packet_size_bytes
        client.connect_timeout = CONNECT_SECONDS
        client.max_inflight_messages_set(remote.max_inflight_messages)
        client.max_queued_messages_set(0)  # the publisher's window is the limit
        if remote.announce_bridge:
            client.enable_bridge_mode()
        client.on_connect = self._connected
        client.on_disconnect = self._disconnected
        client.on_message = self._message
        client.on_publish = self._acknowledged
        client.on_subscribe = self._subscription
        client.on_socket_close = lambda *_: self._detach()
        client.on_socket_register_write = lambda *_: self._watch_writing()
        client.on_socket_unregister_write = lambda *_: self._unwatch_writing()
        return client

    # -- begin and end -----------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and resume our session at the remote. Raises `RemoteError`."""
        connecting = self._loop.run_in_executor(None, self._connect)
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            connecting.add_done_callback(lambda done: self._drop(done))
            raise
        except (OSError, ValueError) as error:
            raise RemoteError(f"cannot connect: {error}") from None
        self._attach()
        await self._answer(self._accepted, "CONNECT")

    def _connect(self) -> None:
        """Connect in a thread: name look-ups and handshakes take time."""
        remote, client = self._remote, self._client
        if remote.username is not None:
            password = None
            if remote.password_file is not None:
                password = written_text(remote.password_file.read_bytes()).rstrip("\r\n")
            client.username_pw_set(remote.username, password)
        if remote.uses_tls:
            context = ssl.create_default_context(cafile=remote.ca_file)
            if remote.cert_file is not None:
                context.load_cert_chain(remote.cert_file, remote.key_file)
            client.tls_set_context(context)
        host, port = remote.address
        if remote.version == MQTT_5:
            properties = PahoProperties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = remote.session_expiry_seconds
            properties.ReceiveMaximum = remote.receive_maximum
            properties.MaximumPacketSize = remote.max_packet_size_bytes
            client.connect(host, port, remote.keep_alive_seconds, clean_start=False, properties=properties)
        else:
            client.connect(host, port, remote.keep_alive_seconds)

    def _drop(self, connecting: asyncio.Future[None]) -> None:
        """Close a connection that nobody waits for any more."""
        if not connecting.cancelled() and connecting.exception() is None:
            self._attach()
            self.close()

    async def _answer(self, answer: asyncio.Future[Any], packet: str) -> None:
        await asyncio.wait((answer, self._end), timeout=CONNECT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            answer.result()
        elif self._end.done():
            raise RemoteError(self._end.result())
        else:
            raise RemoteError(f"no answer to {packet} within {CONNECT_SECONDS:g} s")

    async def until_ended(self) -> str:
        """Wait for the end of the connection, and return its reason."""
        return await asyncio.shield(self._end)

    def close(self) -> None:
        """Say goodbye and close; the remote keeps the session."""
        if not self._end.done():
            self._client.disconnect()
        self._ended("closed")

    def _ended(self, reason: str) -> None:
        self._detach()
        if (socket := self._client.socket()) is not None:
            socket.close()
        if not self._end.done():
            self._end.set_result(reason)
        published, self._published = self._published, {}
        for future in published.values():
            if not future.done():
                future.set_exception(RemoteError(reason))
                future.exception()  # callers that no longer wait need not hear of it

    # -- what is asked of the remote ---------------------------------------------------------------------------------

    async def subscribe(self, filters: Sequence[tuple[str, int]]) -> None:
        """Subscribe. Raises `RemoteError` where the remote refuses a filter."""
        is_five = self._remote.version == MQTT_5
        wanted: Any = [
            (
                topic_filter,
                SubscribeOptions(qos, noLocal=True, retainAsPublished=True, retainHandling=RETAINED_IF_NEW)
                if is_five
                else qos,
            )
            for topic_filter, qos in filters
        ]
        code, packet_id = self._client.subscribe(wanted)
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS or packet_id is None:
            raise RemoteError(f"cannot subscribe: {paho.error_string(code)}")
        answer: asyncio.Future[list[ReasonCode]] = self._loop.create_future()
        self._subscribed[packet_id] = answer
        await self._answer(answer, "SUBSCRIBE")
        for (topic_filter, qos), granted in zip(filters, answer.result(), strict=False):
            if granted.is_failure:
                raise RemoteError(f"the remote refuses the subscription to {topic_filter!r}: {granted}")
            if granted.value < qos:
                raise RemoteError(f"the remote grants {topic_filter!r} with QoS {granted.value} only, not {qos}")

    def publish(
        self, name: str, payload: bytes, qos: int, retain: bool, properties: PahoProperties | None
    ) -> asyncio.Future[int]:
        """Publish; the result is the reason code of the PUBACK, or 0 once written for QoS 0. It fails with
        `RemoteError` when the connection ends first."""
        answer: asyncio.Future[int] = self._loop.create_future()
        if self._end.done():
            raise RemoteError(self._end.result())
        info = self._client.publish(name, payload, qos, retain, properties)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise RemoteError(f"cannot publish: {paho.error_string(info.rc)}")
        if qos:
            self._published[info.mid] = answer
        else:
            answer.set_result(0)
        return answer

    def acknowledge(self, packet_ids: Sequence[int]) -> None:
        """Acknowledge QoS 1 messages to the remote, in the order they came."""
        for packet_id in packet_ids:
            if not self._end.done():
                self._client.ack(packet_id, 1)

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""
        if not self._is_paused:
            self._is_paused = True
            if self._descriptor is not None:
                self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._descriptor is not None:
                self._loop.add_reader(self._descriptor, self._readable)
                self._loop.call_soon(self._readable)  # TLS may have bytes that the socket does not show

    # -- the socket --------------------------------------------------------------------------------------------------

    def _attach(self) -> None:
        socket = self._client.socket()
        if socket is None:
            self._ended("the remote closed the connection")
            return
        self._descriptor = socket.fileno()
        self._loop.add_reader(self._descriptor, self._readable)
        if self._client.want_write():
            self._watch_writing()
        self._misc = self._loop.call_later(MISC_SECONDS, self._look)

    def _detach(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            self._loop.remove_reader(descriptor)
            self._loop.remove_writer(descriptor)
        if self._misc is not None:
            self._misc.cancel()
            self._misc = None

    def _watch_writing(self) -> None:
        if self._descriptor is not None:
            self._loop.add_writer(self._descriptor, self._writable)

    def _unwatch_writing(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_writer(self._descriptor)

    def _readable(self) -> None:
        """Take packets until there are none, or the turn is over."""
        for _ in range(MAX_PACKETS_PER_READ):
            if self._descriptor is None or self._is_paused:
                return
            before = self._packets
            if not self._turned(self._client.loop_read):
                return
            if self._packets == before and not self._has_decrypted():
                return
        if self._has_decrypted():
            self._loop.call_soon(self._readable)

    def _has_decrypted(self) -> bool:
        socket = self._client.socket()
        return isinstance(socket, ssl.SSLSocket) and socket.pending() > 0

    def _writable(self) -> None:
        self._turned(self._client.loop_write)

    def _look(self) -> None:
        self._misc = self._loop.call_later(MISC_SECONDS, self._look)
        if not self._is_paused:  # a pause is ours, not the remote's silence
            self._turned(self._client.loop_misc)

    def _turned(self, turn: Callable[[], MQTTErrorCode]) -> bool:
        """Let paho do its part; True if the connection still stands."""
        try:
            code = turn()
        except Exception as error:  # noqa: BLE001 - whatever paho meets on a socket ends this connection, not us
            self._ended(f"{type(error).__name__}: {error}")
            return False
        if code != MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._ended(paho.error_string(code))
        return not self._end.done()

    # -- what paho tells ---------------------------------------------------------------------------------------------

    def _connected(
        self, client: Any, data: Any, flags: Any, code: ReasonCode, properties: PahoProperties | None = None
    ) -> None:
        if self._accepted.done():
            return
        if code.is_failure:
            self._accepted.set_exception(RemoteError(f"the remote refuses us: {code}"))
            return
        limits = vars(properties) if properties is not None else {}
        self.window = min(self.window, limits.get("ReceiveMaximum", self.window))
        self.max_packet_bytes = limits.get("MaximumPacketSize")
        self.maximum_qos = min(1, limits.get("MaximumQoS", 1))
        self.takes_retained = bool(limits.get("RetainAvailable", 1))
        if limits.get("SessionExpiryInterval") == 0:
            log.warning(
                "the remote keeps no session: what comes while a bridge is away is lost", bridge=self._remote.name
            )
        self._accepted.set_result(None)

    def _disconnected(self, client: Any, data: Any, flags: Any, code: ReasonCode, properties: Any = None) -> None:
        self._ended(f"the connection ended: {code}")

    def _message(self, client: Any, data: Any, message: paho.MQTTMessage) -> None:
        self._packets += 1
        self._on_message(message)

    def _acknowledged(self, client: Any, data: Any, mid: int, code: ReasonCode, properties: Any = None) -> None:
        self._packets += 1
        answer = self._published.pop(mid, None)
        if answer is not None and not answer.done():
            answer.set_result(code.value)

    def _subscription(self, client: Any, data: Any, mid: int, codes: list[ReasonCode], properties: Any = None) -> None:
        self._packets += 1
        answer = self._subscribed.pop(mid, None)
        if answer is not None and not answer.done():
            answer.set_result(codes)
