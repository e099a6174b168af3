"""SinkConnection: aiohttp's connection, for sinks that send a body where HTTP forbids one, or a long head.

An answer of 204 or 304 ends with its head (RFC 9110 6.4.1). aiohttp takes the bytes after it for the next answer, and
loses both. Here they are dropped, and the connection is not used again. So are bytes that come between two requests,
such as a 408 that tells of an idle connection's end.

aiohttp limits each line of a head, and the number of lines. Here the whole of it is limited, as browsers do.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

from entrepot.domain.closing import close_once

MAX_HEAD: Final = 262_144
"""Bytes of an answer's head and the interim ones before it, to the end of a read; browsers take as many."""
NO_LIMIT: Final = 1 << 30
"""For aiohttp's own limits of lines, which MAX_HEAD makes needless."""
_END: Final = b"\r\n\r\n"
_HAVE_NONE: Final = frozenset({b"204", b"304"})
_INTERIM: Final = b"1"
"""First digit of statuses after which another answer follows."""
_STATUS_END: Final = len(b"HTTP/1.1 200")
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
_BODY = re.compile(rb"\r\n(?:transfer-encoding:|content-length:[ \t]*0*[1-9])", re.IGNORECASE)


class LongHeadError(aiohttp.ClientError):
    """The head of an answer is longer than MAX_HEAD."""


class SinkConnection(ResponseHandler):
    """One connection, request after request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._head: bytearray | None = bytearray()
        """The bytes of the head so far, or None after its end, or where a body may follow."""
        self._head_bytes = 0
        self._has_head = False
        self._body: Any = None

    def set_response_params(self, **parameters: Any) -> None:
        """Begin another answer."""
        self._head, self._head_bytes, self._has_head = bytearray(), 0, False
        parameters |= {"max_line_size": NO_LIMIT, "max_field_size": NO_LIMIT, "max_headers": NO_LIMIT}
        super().set_response_params(**parameters)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """Take an answer whose head is read."""
        status = data[0].code
        self._has_head = status >= 200 or status == 101
        self._body = data[1]
        super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer, or from beyond its end."""
        if data and self._is_idle:  # aiohttp goes on with what it has by no data
            self.force_close()
            if self.transport is not None:
                close_once(self.transport)  # else the pool may give it to the next request
            return
        if self._has_head:
            super().data_received(data)
            return
        self._head_bytes += len(data)
        if self._head is not None:
            status = data[_STATUS_END - 3 : _STATUS_END]
            if self._head or len(status) < 3 or status[:1] == _INTERIM or status in _HAVE_NONE:
                data = self._without_rest(data)
            else:  # the common case: the answer may have a body
                self._head = None
        super().data_received(data)
        if self._head_bytes > MAX_HEAD and not self._has_head and self.transport is not None:
            close_once(self.transport)
            self.set_exception(LongHeadError())

    @property
    def _is_idle(self) -> bool:
        """True if the answer was taken, and all of its body is here."""
        return self._has_head and not self._buffer and bool(self._body.is_eof())

    def _without_rest(self, data: bytes) -> bytes:
        """Return the data up to the end of the head, where no body may follow."""
        assert self._head is not None
        seen, before = self._head, len(self._head)
        seen += data
        end = seen.find(_END, max(before - len(_END) + 1, 0))
        while end >= 0:
            status = _STATUS.match(seen)
            if status is None or status[1][:1] != _INTERIM or status[1] == b"101":
                break
            del seen[: end + len(_END)]  # interim: another answer follows
            before -= end + len(_END)
            end = seen.find(_END)
        if end < 0:
            return data
        self._head = None
        if status is None or status[1] not in _HAVE_NONE:
            return data
        end += len(_END)
        if end < len(seen) or (status[1] == b"204" and _BODY.search(seen, 0, end)):
            self.force_close()
        return data[: end - before]


class SinkConnector(aiohttp.TCPConnector):
    """A connector that makes SinkConnections."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(SinkConnection, loop=self._loop)  # type: ignore[assignment]  # it is one of these
