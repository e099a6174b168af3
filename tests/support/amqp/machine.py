"""An AMQP connection machine with the least a front end does for it: log in, open, answer the ends."""

from __future__ import annotations

from struct import unpack_from

from entrepot.protocols.amqp.connection import ServerConnection
from entrepot.protocols.amqp.connection_events import (
    ChannelClosed,
    Closing,
    ConnectionLimits,
    Event,
    Greeting,
    Login,
    Open,
    Publishes,
)
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import content_frames
from entrepot.protocols.amqp.frames import HEARTBEAT, METHOD, PROTOCOL_HEADER, frame
from entrepot.protocols.amqp.method_codec import AmqpMethod, decode_method, encode_method
from entrepot.protocols.amqp.methods_basic import BasicPublish
from entrepot.protocols.amqp.methods_connection import ChannelOpen, ConnectionOpen, ConnectionStartOk, ConnectionTuneOk

LIMITS = ConnectionLimits(
    channel_max=4,
    frame_max=8192,
    heartbeat_seconds=60,
    max_message_size_bytes=20_000,
    max_assembly_bytes=30_000,
    handshake_frame_max=4096,
)
CAPABLE = {"capabilities": {"authentication_failure_close": True, "connection.blocked": True}}

Heard = AmqpMethod | tuple[int, bytes] | str
"""What a client hears: a method, another frame as its type and payload, or "heartbeat"."""


def said(channel: int, *methods: AmqpMethod) -> bytes:
    """Methods as the client sends them."""
    return b"".join([frame(METHOD, channel, encode_method(method)) for method in methods])


def published(
    channel: int, exchange: str, key: str, body: bytes, header: ContentHeader | None = None, frame_max: int = 4096
) -> bytes:
    """A message as the client sends it."""
    properties = (header or ContentHeader()).data
    return said(channel, BasicPublish(exchange, key)) + content_frames(channel, properties, body, frame_max)


HELLO = PROTOCOL_HEADER
START_OK = said(0, ConnectionStartOk(CAPABLE, "PLAIN", b"\0guest\0guest", "en_US"))
TUNE_OK = said(0, ConnectionTuneOk(0, 0, 60))
OPEN = said(0, ConnectionOpen("/"))
HANDSHAKE = HELLO + START_OK + TUNE_OK + OPEN
CHANNEL = said(1, ChannelOpen())


def frames_of(data: bytes) -> list[tuple[int, int, bytes]]:
    """The frames of what was sent: type, channel, payload."""
    frames = []
    pos = 0
    while pos < len(data):
        kind, channel, size = unpack_from(">BHI", data, pos)
        end = pos + 7 + size
        assert data[end] == 0xCE
        frames.append((kind, channel, data[pos + 7 : end]))
        pos = end + 1
    return frames


def heard(data: bytes) -> list[tuple[int, Heard]]:
    """What the client hears, each with its channel."""
    data = data.removeprefix(PROTOCOL_HEADER)
    out: list[tuple[int, Heard]] = []
    for kind, channel, payload in frames_of(data):
        if kind == METHOD:
            out.append((channel, decode_method(payload)))
        elif kind == HEARTBEAT:
            out.append((channel, "heartbeat"))
        else:
            out.append((channel, (kind, payload)))
    return out


class Machine:
    """`decides`: whether logins and virtual hosts are granted at once; `ends`: whether ends are answered at once."""

    def __init__(self, limits: ConnectionLimits = LIMITS, now: float = 0.0, *, decides: bool = True,
                 ends: bool = True) -> None:  # fmt: skip
        self.connection = ServerConnection(limits, Greeting({"product": "Entrepot"}), now)
        self.events: list[Event] = []
        self._decides = decides
        self._ends = ends

    def feed(self, data: bytes, now: float = 0.0) -> bytes:
        """Give bytes of the client, deal with what they mean; returns what is to be sent."""
        for event in self.connection.receive_data(data, now):
            self.take(event)
        return self.connection.data_to_send()

    def go_on(self) -> bytes:
        """The caller has decided."""
        for event in self.connection.go_on():
            self.take(event)
        return self.connection.data_to_send()

    def take(self, event: Event) -> None:
        self.events.append(event)
        if self._decides and isinstance(event, Login):
            self.connection.authenticated()
        elif self._decides and isinstance(event, Open):
            self.connection.opened()
        elif self._ends and isinstance(event, ChannelClosed) and event.is_clients:
            self.connection.close_channel_ok(event.channel)
        elif self._ends and isinstance(event, Closing) and event.is_clients:
            self.connection.close_ok()

    def say(self, channel: int, *methods: AmqpMethod, now: float = 0.0) -> list[tuple[int, Heard]]:
        return heard(self.feed(said(channel, *methods), now))

    def wait(self, now: float) -> list[tuple[int, Heard]]:
        """The clock goes on."""
        for event in self.connection.handle_timeout(now):
            self.take(event)
        return heard(self.connection.data_to_send())

    @property
    def closing(self) -> Closing | None:
        return next((event for event in self.events if isinstance(event, Closing)), None)

    def bodies(self) -> list[tuple[int, bytes]]:
        """Channel and body of every message that came."""
        return [
            (event.channel, publish.body)
            for event in self.events
            if isinstance(event, Publishes)
            for publish in event.publishes
        ]


def opened_machine(limits: ConnectionLimits = LIMITS, *, channels: int = 1, ends: bool = True) -> Machine:
    """One whose connection is open, with so many channels, and nothing of that left over."""
    machine = Machine(limits, ends=ends)
    machine.feed(HANDSHAKE + b"".join([said(number, ChannelOpen()) for number in range(1, channels + 1)]))
    assert machine.connection.is_open
    machine.events.clear()
    return machine
