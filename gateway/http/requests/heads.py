"""Heads of requests that are refused, and those that are read again without an offer."""

from __future__ import annotations

import re
from typing import Final

import httptools

from entrepot.gateway.http.requests.asgi import Headers
from entrepot.gateway.transport.http_requests import authority_and_target, with_host

_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
"""A Host header (RFC 9110 7.2, RFC 3986 3.2.2)."""
_NEVER_TRAILERS: Final = frozenset({b"connection", b"host", b"upgrade"})
"""Headers that control how a request is read, beside those that the parser refuses in trailers."""


class RefusedHeadError(Exception):
    """The request's head is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def refusal_of(error: httptools.HttpParserError) -> tuple[int, str]:
    """Return the status and the detail of an unparsable request."""
    cause = error.__context__
    if isinstance(cause, RefusedHeadError):
        return cause.status, str(cause)
    known = cause if isinstance(cause, httptools.HttpParserError) else error
    return 400, f"this is not HTTP: {known}"


def new_parser(protocol: object) -> httptools.HttpRequestParser:
    """Make a parser that ignores what comes after a last request, as uvicorn's does."""
    parser = httptools.HttpRequestParser(protocol)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def check_host(value: bytes) -> None:
    """Refuse what names no host."""
    if _HOST.fullmatch(value) is None:
        raise RefusedHeadError(400, "the Host header names no host")


def check_coding(value: bytes, version: str) -> None:
    """Refuse a Transfer-Encoding other than chunked, and any of HTTP/1.0 (RFC 9112 6.1)."""
    if value.strip().lower() != b"chunked":
        raise RefusedHeadError(501, "no transfer coding but chunked is taken")
    if version != "1.1":
        raise RefusedHeadError(400, "HTTP/1.0 has no Transfer-Encoding")


def check_version(version: str, host: bytes | None) -> None:
    """Refuse another version than HTTP/1.0 and 1.1 (RFC 9110 2.5), and HTTP/1.1 without a Host (RFC 9112 3.2)."""
    if version not in ("1.0", "1.1"):
        raise RefusedHeadError(505, "only HTTP/1.1 and HTTP/1.0 are taken")
    if host is None and version == "1.1":
        raise RefusedHeadError(400, "the request has no Host header")


def origin_form(url: bytes, headers: Headers) -> bytes:
    """Return the path and query of a target that is a URL, whose host replaces that of `headers`; `*` stays as it is.

    Other targets are refused.
    """
    if url == b"*":
        return url
    found = authority_and_target(url)
    if found is None or not found[0]:
        raise RefusedHeadError(400, "the target of the request is neither a path nor a URL")
    host, target = found
    check_host(host)
    headers[:] = with_host(headers, host)
    return target


def check_trailers(trailers: Headers) -> None:
    """Refuse trailers that would control how the request is read (RFC 9110 6.5.1); all others are ignored."""
    if any(name in _NEVER_TRAILERS for name, _ in trailers):
        raise RefusedHeadError(400, "a trailer controls how the request is read")


def without_offer(method: bytes, url: bytes, version: str, headers: Headers) -> bytes:
    """Encode a request's head without its Upgrade, which a server may ignore (RFC 9110 7.8)."""
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    lines += [b"%b: %b" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join((*lines, b"", b""))
