"""One TCP or WebSocket connection of a case: whole packets in both directions, with the case's unique bytes put in
and taken out on the way."""

from __future__ import annotations

import socket
from collections import deque
from typing import Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, RejectConnection, Request, TextMessage

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Packet
from tests.conformance.mqtt.script import UNIQUE
from tests.support.waiting import PATIENCE_SECONDS

ANSWER_SECONDS: Final = PATIENCE_SECONDS
"""Longest time a server has for what it must do."""

MAX_PACKET: Final = 1 << 24
_PLACEHOLDER: Final = UNIQUE.encode()


class Mismatch(AssertionError):
    """The server did something else than the case says."""


class WireClient:
    """See the module.  `version` is the one in which packets are read and written."""

    def __init__(self, host: str, port: int, version: int, unique: bytes, websocket: str = "") -> None:
        self.version = version
        self.patience = ANSWER_SECONDS
        self._unique = unique
        self._socket = socket.create_connection((host, port), ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder(MAX_PACKET, version)
        self._heard: deque[Packet] = deque()
        self._partial = b""
        self._ended = False
        self._frames: WSConnection | None = None
        self.subprotocol: str | None = None
        if websocket:
            self._upgrade(host, websocket)

    def _upgrade(self, host: str, subprotocol: str) -> None:
        """Ask for a WebSocket at /mqtt and wait until it is there (6)."""
        self._frames = WSConnection(ConnectionType.CLIENT)
        request = Request(host=host, target="/mqtt", subprotocols=[subprotocol])
        self._socket.sendall(self._frames.send(request))
        while self.subprotocol is None and not self._ended:
            self._read()
        if self.subprotocol is None:
            raise Mismatch("the WebSocket was refused")

    def say(self, what: Packet | bytes) -> None:
        """Send one packet, or bytes as they are."""
        wire = what if isinstance(what, bytes) else encode(what, self.version)
        self.send(wire.replace(_PLACEHOLDER, self._unique))

    def send(self, wire: bytes, text: bool = False) -> None:
        """Send bytes, in one frame where there are frames."""
        if self._frames is not None:
            event = TextMessage(data=wire.decode("latin-1")) if text else BytesMessage(data=wire)
            wire = self._frames.send(event)
        try:
            self._socket.sendall(wire)
        except (BrokenPipeError, ConnectionResetError):
            self._ended = True  # the server closed first, which `next` reports

    def next(self) -> Packet | None:
        """The next packet, or None where the server closed instead.  Raises Mismatch when nothing happens."""
        while not self._heard and not self._ended:
            self._read()
        return self._heard.popleft() if self._heard else None

    def close(self) -> None:
        """Close the socket without a word."""
        self._socket.close()

    def _read(self) -> None:
        self._socket.settimeout(self.patience)
        try:
            data = self._socket.recv(65_536)
        except TimeoutError:
            raise Mismatch("nothing came and the connection is open") from None
        except ConnectionResetError:
            data = b""
        if self._frames is not None:
            data = self._unframed(data)
            if not data:
                return
        elif not data:
            self._ended = True
            return
        self._partial += data
        self._decode()

    def _unframed(self, data: bytes) -> bytes:
        """The bytes of the binary frames in it."""
        assert self._frames is not None
        self._frames.receive_data(data or None)
        found = b""
        for event in self._frames.events():
            if isinstance(event, AcceptConnection):
                self.subprotocol = event.subprotocol or ""
            elif isinstance(event, BytesMessage):
                found += bytes(event.data)
            elif isinstance(event, TextMessage):
                raise Mismatch("the server sent a text frame")
            elif isinstance(event, RejectConnection | CloseConnection):
                self._ended = True
        if not data:
            self._ended = True
        return found

    def _decode(self) -> None:
        """Packets out of what has come.  They are cut here, so that the unique bytes are never cut in two."""
        while (size := _packet_size(self._partial)) and size <= len(self._partial):
            wire, self._partial = self._partial[:size], self._partial[size:]
            packets = self._decoder.feed(wire.replace(self._unique, _PLACEHOLDER))
            if self._decoder.error is not None:
                raise Mismatch(f"the server sent {wire.hex()}, which is {self._decoder.error}")
            self._heard.extend(packets)


def _packet_size(data: bytes) -> int:
    """Bytes of the packet that begins here, with its header; 0 where that is not known yet (2.1.4)."""
    size = 0
    for at in range(1, min(len(data), 5)):
        size |= (data[at] & 0x7F) << 7 * (at - 1)
        if data[at] < 0x80:
            return 1 + at + size
    return 0
