"""A client that says what no client would: frames by pamqp, or any bytes, on a plain socket."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

from pamqp import base, body, commands, frame, header, heartbeat

from tests.support.waiting import PATIENCE_SECONDS

HEADER: Final = b"AMQP\x00\x00\x09\x01"

Said = tuple[Any, ...]
"""(scope, code, text, class, method) of a close; ("dropped",) for a socket that ends; ("ok",) for neither."""


class Dropped(Exception):
    """The server closed the socket."""


class Closed(Exception):
    """The server closed the connection; `said`: how."""

    def __init__(self, said: Said) -> None:
        super().__init__(said)
        self.said = said


class Wire:
    """One connection.  Names are made unique by a suffix, which answers are given without."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS)
        self._read = b""
        self._suffix = f".{uuid4().hex[:10]}"
        self._port = port
        self._others: list[Wire] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for other in self._others:
            other.__exit__(kind, error, at)
        self._socket.close()

    def unopened(self) -> Wire:
        """One more connection, with the same names."""
        other = Wire(self._port)
        other._suffix = self._suffix
        self._others.append(other)
        return other

    def other(self, **tune_ok: Any) -> Wire:
        """One more connection, open, with the same names."""
        return self.unopened().opened(**tune_ok)

    def name(self, word: str) -> str:
        """A name of this connection alone."""
        return word + self._suffix

    # -- sending -------------------------------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        self._socket.sendall(data)

    def send(self, *frames: Any, channel: int = 1) -> None:
        self.raw(b"".join(frame.marshal(each, channel) for each in frames))

    # -- reading -------------------------------------------------------------------------------------------------

    def next(self) -> tuple[int, Any]:
        """The next frame and its channel, heartbeats left out."""
        while True:
            if len(self._read) >= 7:
                size = 7 + int.from_bytes(self._read[3:7]) + 1
                if len(self._read) >= size:
                    taken, channel, found = frame.unmarshal(self._read[:size])
                    self._read = self._read[taken:]
                    if not isinstance(found, heartbeat.Heartbeat):
                        return channel, found
                    continue
            self.more()

    def more(self) -> bytes:
        """All that is read and not taken, after more has come."""
        try:
            data = self._socket.recv(65_536)
        except ConnectionError as error:
            raise Dropped from error
        if not data:
            raise Dropped
        self._read += data
        return self._read

    def until(self, is_it: Callable[[int, Any], bool]) -> Any:
        """The first frame that is it."""
        while True:
            channel, found = self.next()
            if is_it(channel, found):
                return found

    # -- conversations -------------------------------------------------------------------------------------------

    def started(self, **start_ok: Any) -> Any:
        """Header and start-ok; what comes then."""
        self.raw(HEADER)
        self.until(lambda channel, found: isinstance(found, commands.Connection.Start))
        given: dict[str, Any] = {
            "client_properties": {"capabilities": {"authentication_failure_close": True}},
            "mechanism": "PLAIN",
        }
        given |= {"response": "\0guest\0guest", "locale": "en_US"} | start_ok
        self.send(commands.Connection.StartOk(**given), channel=0)
        return self.next()[1]

    def tuned(self, **tune_ok: Any) -> None:
        """Up to tune-ok, with the values that were offered, or others."""
        offered = self.started()
        assert isinstance(offered, commands.Connection.Tune), offered
        given = {"channel_max": offered.channel_max, "frame_max": offered.frame_max, "heartbeat": 0} | tune_ok
        self.send(commands.Connection.TuneOk(**given), channel=0)

    def opened(self, **tune_ok: Any) -> Self:
        """Up to channel.open-ok of channel 1."""
        self.tuned(**tune_ok)
        self.send(commands.Connection.Open(virtual_host="/"), channel=0)
        self.until(lambda channel, found: isinstance(found, commands.Connection.OpenOk))
        self.open_channel(1)
        return self

    def open_channel(self, channel: int) -> None:
        self.send(commands.Channel.Open(), channel=channel)
        self.until(lambda number, found: number == channel and isinstance(found, commands.Channel.OpenOk))

    def ask(self, request: Any, channel: int = 1) -> Any:
        """What a method is answered."""
        self.send(request, channel=channel)
        found = self.until(lambda number, found: number in (0, channel) and isinstance(found, base.Frame))
        if isinstance(found, commands.Connection.Close):
            raise Closed(self._close(found))
        return found

    def said(self, *frames: Any, channel: int = 1) -> Said:
        """What the server says to frames: the close that comes before the answer to a method sent behind them."""
        try:
            self.send(*frames, commands.Basic.Qos(prefetch_count=0), channel=channel)
            return self.answered(channel)
        except Dropped:
            return ("dropped",)
        except ConnectionError:
            return ("dropped",)

    def answered(self, channel: int = 1) -> Said:
        """What comes first: a close, the end, or the answer to qos."""
        try:
            found = self.until(lambda number, found: _is_end(found) or isinstance(found, commands.Basic.QosOk))
        except Dropped:
            return ("dropped",)
        if isinstance(found, commands.Basic.QosOk):
            return ("ok",)
        return self._close(found)

    def _close(self, found: Any) -> Said:
        scope = "channel" if isinstance(found, commands.Channel.Close) else "connection"
        text = found.reply_text.replace(self._suffix, "")
        return (scope, found.reply_code, text, found.class_id, found.method_id)


def _is_end(found: Any) -> bool:
    return isinstance(found, (commands.Channel.Close, commands.Connection.Close))


def publishing(
    exchange: str = "", key: str = "", content: bytes = b"x", *, properties: dict[str, Any] | None = None, **how: Any
) -> list[Any]:
    """The frames of a publish."""
    frames: list[Any] = [commands.Basic.Publish(exchange=exchange, routing_key=key, **how)]
    frames.append(header.ContentHeader(0, len(content), commands.Basic.Properties(**(properties or {}))))
    if content:
        frames.append(body.ContentBody(content))
    return frames
