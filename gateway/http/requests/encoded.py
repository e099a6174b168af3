"""Whole answers as bytes, for publishes and refusals that no ASGI application answers."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from entrepot.gateway.http.requests.asgi import Headers
from entrepot.gateway.http.requests.problems import ProblemAnswer
from entrepot.gateway.http.requests.publish import PUBLISHED, PUBLISHED_HEADERS


class Exchange:
    """A fast-path publish in the role of a connection's last request (uvicorn's `RequestResponseCycle`)."""

    __slots__ = ("disconnected", "keep_alive", "message_event", "response_complete")

    def __init__(self) -> None:
        self.response_complete = True
        self.disconnected = False
        self.keep_alive = True
        self.message_event = asyncio.Event()


class PublishResults:
    """The answer to a stored publish, whose head changes each second."""

    def __init__(self) -> None:
        self._headers: Headers | None = None
        self._encoded = b""

    def published(self, headers: Headers) -> bytes:
        """The whole answer.  `headers`: uvicorn's, a new list after each change."""
        if headers is not self._headers:
            self._headers, self._encoded = headers, encoded_answer(None, headers)
        return self._encoded


def encoded_answer(problem: ProblemAnswer | None, headers: Headers) -> bytes:
    """Return a whole answer: the empty result, or a problem."""
    if problem is None:
        status, own, body = 200, PUBLISHED_HEADERS, PUBLISHED
    else:
        status, own, body = problem.status, problem.raw_headers(), problem.body
    lines = [name + b": " + value for name, value in (*headers, *own, (b"content-length", b"%d" % len(body)))]
    return STATUS_LINE[status] + b"\r\n".join((*lines, b"", body))


def last_answer(problem: ProblemAnswer | None, headers: Headers) -> bytes:
    """Return a whole answer after which the connection is closed."""
    return encoded_answer(problem, [*headers, (b"connection", b"close")])
