"""SinkConnection: aiohttp's connection, for sinks that send a body where HTTP forbids one.

An answer of 204 or 304 ends with its head (RFC 9110 6.4.1). aiohttp takes the bytes after it for the next answer, and
loses both. Here they are dropped, and the connection is not used again.
"""

from __future__ import annotations

import asyncio
import re
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp.client_proto import ResponseHandler

MAX_HEAD: Final = 65_536
"""Longest head that is examined: aiohttp refuses longer ones itself."""
_END: Final = b"\r\n\r\n"
_HAVE_NONE: Final = frozenset({b"204", b"304"})
_MAY_HAVE_NONE: Final = frozenset({b"", b"1"})
"""First digits of statuses to examine: unknown yet, or interim (another answer follows)."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
_BODY = re.compile(rb"\r\n(?:transfer-encoding:|content-length:[ \t]*0*[1-9])", re.IGNORECASE)


class SinkConnection(ResponseHandler):
    """One connection, request after request."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._head: bytes | None = b""
        """The bytes of the head so far, or None after its end."""
        self._is_over = False

    def set_response_params(self, **parameters: Any) -> None:
        """Begin another answer."""
        self._head, self._is_over = b"", False
        super().set_response_params(**parameters)

    def data_received(self, data: bytes) -> None:
        """Take bytes of an answer, or from beyond its end."""
        if self._is_over:
            self.force_close()
            return
        if self._head is not None:
            if self._head or data[9:10] in _MAY_HAVE_NONE or data[9:12] in _HAVE_NONE:
                data = self._without_rest(data)
            else:  # the common case: the answer may have a body
                self._head = None
        super().data_received(data)

    def _without_rest(self, data: bytes) -> bytes:
        """Return the data up to the end of the head, where no body may follow."""
        assert self._head is not None
        before, seen = len(self._head), self._head + data
        end = seen.find(_END)
        while end >= 0:
            status = _STATUS.match(seen)
            if status is None or status[1][:1] != b"1" or status[1] == b"101":
                break
            before, seen = before - end - len(_END), seen[end + len(_END) :]  # interim: another answer follows
            end = seen.find(_END)
        if end < 0:
            self._head = seen if len(seen) <= MAX_HEAD else None
            return data
        self._head = None
        if status is None or status[1] not in _HAVE_NONE:
            return data
        self._is_over = True
        end += len(_END)
        if end < len(seen) or (status[1] == b"204" and _BODY.search(seen, 0, end)):
            self.force_close()
        return data[: end - before]


class SinkConnector(aiohttp.TCPConnector):
    """A connector that makes SinkConnections."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(SinkConnection, loop=self._loop)  # type: ignore[assignment]  # it is one of these
