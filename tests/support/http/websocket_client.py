"""WebSocketClient: a WebSocket client that does just what it is told, also what no library would."""

from __future__ import annotations

import base64
import os
import socket
import struct
from types import TracebackType

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.packets import Packet
from tests.support.waiting import PATIENCE_SECONDS

MASK = b"\x37\xfa\x21\x3d"
"""The same for every frame: what a test sends is what it sent the last time."""
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, masked: bool = True) -> bytes:
    """One frame as a client sends it."""
    size = len(payload)
    short = size if size < 126 else 126 if size < 65_536 else 127
    head = bytes((fin << 7 | opcode, masked << 7 | short))
    head += b"" if short < 126 else struct.pack("!H" if short == 126 else "!Q", size)
    if not masked:
        return head + payload
    key = (MASK * (size // 4 + 1))[:size]
    masked_payload = (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(size)
    return head + MASK + masked_payload


class WebSocketClient:
    """One connection to a path.  `protocols`: the sub-protocols offered, as the header has them."""

    def __init__(self, port: int, path: str = "/mqtt", protocols: str | None = "mqtt", **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._buffer = b""
        self._decoder = Decoder(1 << 28, 5)
        self._packets: list[Packet] = []
        fields = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
            "Sec-WebSocket-Version": "13",
            **({"Sec-WebSocket-Protocol": protocols} if protocols is not None else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        while b"\r\n\r\n" not in self._buffer:
            assert self._more(), f"closed in the handshake: {self._buffer!r}"
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        status, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}

    def __enter__(self) -> WebSocketClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, *frames: bytes) -> None:
        """Frames in one piece."""
        self.socket.sendall(b"".join(frames))

    def read_frame(self) -> tuple[int, bytes] | None:
        """(opcode, payload) of the next frame; None at the end of the connection."""
        while (found := self._frame()) is None:
            if not self._more():
                return None
        return found

    def read_packet(self) -> Packet:
        """The next MQTT packet; frames must be binary."""
        while not self._packets:
            found = self.read_frame()
            assert found is not None, "closed where a packet was expected"
            assert found[0] == BINARY, found
            self._packets += self._decoder.feed(found[1])
        return self._packets.pop(0)

    def read_close(self) -> int:
        """The code of the close frame that comes next but for data; then the connection must end."""
        while (found := self.read_frame()) is not None and found[0] != CLOSE:
            assert found[0] == BINARY, found
        assert found is not None, "closed without a close frame"
        return int.from_bytes(found[1][:2], "big")

    def at_end(self) -> bool:
        """Whether the connection is closed when all is read."""
        return self.read_frame() is None

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65_536)
        except ConnectionError:
            return False
        self._buffer += data
        return bool(data)

    def _frame(self) -> tuple[int, bytes] | None:
        data = self._buffer
        if len(data) < 2:
            return None
        size, at = data[1] & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(data) < 2 + width:
                return None
            size, at = int.from_bytes(data[2 : 2 + width], "big"), 2 + width
        if len(data) < at + size:
            return None
        self._buffer = data[at + size :]
        return data[0] & 0x0F, data[at : at + size]
