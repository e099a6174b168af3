"""RawClient: an MQTT client that does just what it is told, also what no library would."""

from __future__ import annotations

import socket
import struct
import time
from types import TracebackType
from typing import TypeVar

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import (
    Connack,
    Connect,
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    Subscription,
)
from tests.support.waiting import PATIENCE_SECONDS

P = TypeVar("P")


class RawClient:
    """One TCP connection.  `acknowledges`: whether deliveries above QoS 0 are acknowledged as they are read."""

    def __init__(
        self,
        port: int,
        version: int = 5,
        *,
        receive_buffer: int = 0,
        acknowledges: bool = True,
        host: str = "127.0.0.1",
    ) -> None:
        self.version = version
        self.acknowledges = acknowledges
        self.deliveries: list[Publish] = []
        self._waiting: list[Packet] = []
        self._decoder = Decoder(1 << 28, version)
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Be gone as if killed: the peer gets a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, *packets: Packet) -> None:
        self.send(b"".join(encode(packet, self.version) for packet in packets))

    def connect(self, client_id: str = "raw", **options: object) -> Connack:
        """CONNECT, and its answer."""
        self.say(Connect(client_id, self.version, **options))  # type: ignore[arg-type]
        return self.expect(Connack)

    def subscribe(self, *filters: str, qos: int = 1) -> Suback:
        self.say(Subscribe(1, [Subscription(topic_filter, qos) for topic_filter in filters]))
        return self.expect(Suback)

    def publish(self, topic: str, payload: bytes = b"x", packet_id: int = 1) -> Puback:
        """A publish of QoS 1, and its answer."""
        self.say(Publish(topic, payload, 1, packet_id))
        return self.expect(Puback)

    def read(self, timeout: float = PATIENCE_SECONDS) -> bool:
        """Take in what is there, waiting for some; False at the end of the connection."""
        self.socket.settimeout(timeout)
        try:
            data = self.socket.recv(1 << 18)
        except ConnectionError:
            return False
        if not data:
            return False
        for packet in self._decoder.feed(data):
            if isinstance(packet, Publish):
                self.deliveries.append(packet)
                if packet.qos and self.acknowledges:
                    self.say((Puback if packet.qos == 1 else Pubrec)(packet.packet_id))
            elif isinstance(packet, Pubrel) and self.acknowledges:
                self.say(Pubcomp(packet.packet_id))
            else:
                self._waiting.append(packet)
        assert self._decoder.error is None, self._decoder.error
        return True

    def read_some(self) -> list[Packet]:
        """The next packets that are no deliveries; none at the end of the connection."""
        while not self._waiting and self.read():
            pass
        found, self._waiting = self._waiting, []
        return found

    def expect(self, kind: type[P]) -> P:
        """The next packet that is no delivery; it must be of that kind."""
        while not self._waiting:
            assert self.read(), f"closed where {kind.__name__} was expected"
        packet = self._waiting.pop(0)
        assert isinstance(packet, kind), packet
        return packet

    def expect_deliveries(self, count: int, timeout: float = PATIENCE_SECONDS) -> list[Publish]:
        """The first deliveries, as many as are wanted, in their order."""
        deadline = time.monotonic() + timeout
        while len(self.deliveries) < count:
            left = deadline - time.monotonic()
            assert left > 0, f"{len(self.deliveries)} of {count} deliveries"
            assert self.read(left), f"closed after {len(self.deliveries)} of {count} deliveries"
        taken, self.deliveries = self.deliveries[:count], self.deliveries[count:]
        return taken

    def read_to_end(self, timeout: float = PATIENCE_SECONDS) -> list[Packet]:
        """What comes, without deliveries, until the server closes."""
        deadline = time.monotonic() + timeout
        while self.read(max(deadline - time.monotonic(), 0.001)):
            pass
        return self._waiting
