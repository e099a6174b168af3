"""Requests whose ends readers of HTTP/1 disagree about, each with what is to be run and answered.

Behind most of them comes a request for `/next`, which is run where the one before it is whole. What comes behind
ambiguous framing is never run: the answer is 400 and the connection ends (RFC 9112 6.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.support.http.machine import Run

HOST: Final = b"Host: localhost\r\n"
POST: Final = b"POST /first HTTP/1.1\r\n" + HOST
GET: Final = b"GET /first HTTP/1.1\r\n" + HOST
NEXT: Final = b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n"
RUN_NEXT: Final[Run] = (b"GET", b"/next", b"")
SMUGGLED: Final = b"DELETE /smuggled HTTP/1.1\r\n" + HOST + b"\r\n"
"""A body that is a request in itself."""
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
HELLO: Final = b"5\r\nhello\r\n0\r\n\r\n"
OFFER: Final = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
"""What curl and the HttpClient of Java send to http:// addresses."""
WEBSOCKET: Final = b"Connection: Upgrade\r\nUpgrade: websocket\r\n"
KEY: Final = b"Sec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\nSec-WebSocket-Version: 13\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes of a client, and what a server makes of them."""

    sent: bytes
    run: tuple[Run, ...] = ()
    statuses: tuple[int, ...] = ()
    is_closed: bool = False


def taken(request: bytes, body: bytes = b"", method: bytes = b"POST", target: bytes = b"/first") -> Case:
    """A request that is run, and so is the one behind it."""
    return Case(request + NEXT, ((method, target, body), RUN_NEXT), (200, 200))


def last(request: bytes, body: bytes = b"", method: bytes = b"POST") -> Case:
    """A request that is run as the last one: what is behind it is not."""
    return Case(request + SMUGGLED, ((method, b"/first", body),), (200,), is_closed=True)


def refused(request: bytes, status: int = 400) -> Case:
    """A request that is refused; nothing behind it is run."""
    return Case(request + SMUGGLED, (), (status,), is_closed=True)


def _sized(body: bytes, *headers: bytes) -> bytes:
    return POST + b"".join(headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _chunked(rest: bytes, *headers: bytes) -> bytes:
    return POST + b"".join(headers) + CHUNKED + b"\r\n" + rest


OFFERS: Final = {
    "h2c with a length": taken(_sized(SMUGGLED, OFFER), SMUGGLED),
    "h2c behind the length": taken(
        POST + b"Content-Length: %d\r\n" % len(SMUGGLED) + OFFER + b"\r\n" + SMUGGLED, SMUGGLED
    ),
    "h2c with chunks": taken(_chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED), OFFER), SMUGGLED),
    "h2c with an empty body": taken(_sized(b"", OFFER)),
    "h2c without a body": taken(GET + OFFER + b"\r\n", method=b"GET"),
    "h2c twice": Case(
        _sized(SMUGGLED, OFFER) + _sized(b"two", OFFER) + NEXT,
        ((b"POST", b"/first", SMUGGLED), (b"POST", b"/first", b"two"), RUN_NEXT),
        (200, 200, 200),
    ),
    "h2c behind a plain request": Case(
        NEXT + _sized(SMUGGLED, OFFER), (RUN_NEXT, (b"POST", b"/first", SMUGGLED)), (200, 200)
    ),
    "h2c and close": last(_sized(b"one", b"Connection: close\r\n", OFFER), b"one"),
    "h2c and close in one list": last(_sized(b"one", b"Connection: upgrade, close\r\nUpgrade: h2c\r\n"), b"one"),
    "h2c with Expect": Case(
        _sized(b"one", b"Expect: 100-continue\r\n", OFFER) + NEXT,
        ((b"POST", b"/first", b"one"), RUN_NEXT),
        (100, 200, 200),
    ),
    "h2c of HTTP/1.0": last(b"POST /first HTTP/1.0\r\n" + OFFER + b"Content-Length: 3\r\n\r\none", b"one"),
    "h2c with an ambiguous length": refused(POST + OFFER + b"Content-Length: 3\r\n" + CHUNKED + b"\r\n0\r\n\r\n"),
    "h2c with another coding": refused(POST + OFFER + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    "h2c with two hosts": refused(_sized(b"one", OFFER, HOST)),
    "h2c without a host": refused(b"POST /first HTTP/1.1\r\n" + OFFER + b"Content-Length: 3\r\n\r\none"),
    "h2c with a bad chunk": refused(_chunked(b"x\r\n", OFFER)),
    "h2c of a publish": Case(
        b"POST /topics/t:publish HTTP/1.1\r\n" + HOST + OFFER + b"Content-Length: 3\r\n\r\none" + NEXT,
        ((b"POST", b"/topics/t:publish", b"one"), RUN_NEXT),
        (200, 200),
    ),
    "h2c of a URL": taken(
        b"POST http://localhost/first?a=b HTTP/1.1\r\n" + HOST + OFFER + b"Content-Length: 3\r\n\r\none",
        b"one",
        target=b"/first?a=b",
    ),
    "TLS": taken(_sized(SMUGGLED, b"Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n"), SMUGGLED),
    "HTTP/2.0": taken(_sized(SMUGGLED, b"Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n"), SMUGGLED),
    "several protocols": taken(_sized(SMUGGLED, b"Connection: Upgrade\r\nUpgrade: h2c, websocket\r\n"), SMUGGLED),
    "several Upgrades": taken(_sized(SMUGGLED, OFFER, b"Upgrade: foo\r\nuPGRADE: websocket\r\n"), SMUGGLED),
    "an Upgrade that Connection does not name": taken(_sized(SMUGGLED, b"Upgrade: h2c\r\n"), SMUGGLED),
    "a Connection without an Upgrade": taken(_sized(SMUGGLED, b"Connection: Upgrade\r\n"), SMUGGLED),
    "an empty Upgrade": taken(_sized(SMUGGLED, b"Connection: Upgrade\r\nUpgrade:\r\n"), SMUGGLED),
    "an Upgrade of Proxy-Connection": taken(
        _sized(SMUGGLED, b"Proxy-Connection: Upgrade\r\nUpgrade: h2c\r\n"), SMUGGLED
    ),
    "WebSocket by POST": taken(_sized(SMUGGLED, WEBSOCKET, KEY), SMUGGLED),
    "WebSocket with a body": taken(
        GET + WEBSOCKET + KEY + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED, SMUGGLED, b"GET"
    ),
    "WebSocket where there is none": taken(GET + WEBSOCKET + KEY + b"\r\n", method=b"GET"),
    "WebSocket by POST on its path": taken(
        _sized(SMUGGLED, WEBSOCKET, KEY).replace(b"/first", b"/mqtt"), SMUGGLED, target=b"/mqtt"
    ),
    "WebSocket by POST without a body on its path": taken(
        POST.replace(b"/first", b"/mqtt") + WEBSOCKET + KEY + b"\r\n", target=b"/mqtt"
    ),
    "WebSocket with Expect on its path": Case(
        GET.replace(b"/first", b"/mqtt") + WEBSOCKET + KEY + b"Expect: 100-continue\r\n\r\n" + NEXT,
        ((b"GET", b"/mqtt", b""), RUN_NEXT),
        (100, 200, 200),
    ),
    "WebSocket with a body on its path": taken(
        GET.replace(b"/first", b"/mqtt") + WEBSOCKET + KEY + CHUNKED + b"\r\n" + HELLO, b"hello", b"GET", b"/mqtt"
    ),
    "WebSocket of HTTP/1.0 on its path": Case(
        b"GET /mqtt HTTP/1.0\r\n" + HOST + WEBSOCKET + KEY + b"\r\n" + SMUGGLED,
        ((b"GET", b"/mqtt", b""),),
        (200,),
        True,
    ),
    "h2c on the path of a WebSocket": taken(
        GET.replace(b"/first", b"/mqtt") + OFFER + b"\r\n", method=b"GET", target=b"/mqtt"
    ),
    "CONNECT": refused(b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "CONNECT of a path": refused(b"CONNECT /first HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "CONNECT with an offer": refused(b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + OFFER + b"\r\n", 501),
}
"""Offers of another protocol: the request is run as one of HTTP/1.1 (RFC 9110 7.8)."""

LENGTHS: Final = {
    "a length": taken(_sized(SMUGGLED), SMUGGLED),
    "zeros before it": taken(POST + b"Content-Length: 0003\r\n\r\none", b"one"),
    "blanks around it": taken(POST + b"Content-Length: \t 3  \r\n\r\none", b"one"),
    "with chunks": refused(POST + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n"),
    "behind chunks": refused(POST + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
    "of 0 with chunks": refused(POST + b"Content-Length: 0\r\n" + CHUNKED + b"\r\n" + HELLO),
    "twice": refused(POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\none"),
    "twice, and another": refused(POST + b"Content-Length: 3\r\nContent-Length: 0\r\n\r\none"),
    "as a list": refused(POST + b"Content-Length: 3, 3\r\n\r\none"),
    "with a plus": refused(POST + b"Content-Length: +3\r\n\r\none"),
    "with a minus": refused(POST + b"Content-Length: -3\r\n\r\none"),
    "in hex": refused(POST + b"Content-Length: 0x3\r\n\r\none"),
    "with a point": refused(POST + b"Content-Length: 3.0\r\n\r\none"),
    "with an underscore": refused(POST + b"Content-Length: 1_0\r\n\r\none"),
    "in other digits": refused(POST + "Content-Length: \u0663\r\n\r\n".encode() + b"one"),
    "two numbers": refused(POST + b"Content-Length: 3 0\r\n\r\none"),
    "no number": refused(POST + b"Content-Length: one\r\n\r\none"),
    "empty": refused(POST + b"Content-Length:\r\n\r\none"),
    "too large": refused(POST + b"Content-Length: 18446744073709551619\r\n\r\none"),
    "folded": refused(POST + b"Content-Length:\r\n 3\r\n\r\none"),
    "a blank before the colon": refused(POST + b"Content-Length : 3\r\n\r\none"),
    "a tab before the colon": refused(POST + b"Content-Length\t: 3\r\n\r\none"),
    "of HTTP/1.0": last(b"POST /first HTTP/1.0\r\nContent-Length: 3\r\n\r\none", b"one"),
}
"""Content-Length."""

CODINGS: Final = {
    "chunks": taken(_chunked(HELLO), b"hello"),
    "in capitals": taken(POST + b"TRANSFER-ENCODING: CHUNKED\r\n\r\n" + HELLO, b"hello"),
    "gzip": refused(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + HELLO, 501),
    "gzip in a header of its own": refused(POST + b"Transfer-Encoding: gzip\r\n" + CHUNKED + b"\r\n" + HELLO, 501),
    "identity": refused(POST + b"Transfer-Encoding: identity\r\n\r\n" + HELLO, 501),
    "chunked, then identity": refused(POST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + HELLO),
    "chunked, then identity in another": refused(POST + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + HELLO),
    "chunked twice": refused(POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + HELLO),
    "chunked in two": refused(POST + CHUNKED + CHUNKED + b"\r\n" + HELLO),
    "almost chunked": refused(POST + b"Transfer-Encoding: xchunked\r\n\r\n" + HELLO, 501),
    "in quotes": refused(POST + b'Transfer-Encoding: "chunked"\r\n\r\n' + HELLO, 501),
    "a vertical tab": refused(POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + HELLO),
    "empty": refused(POST + b"Transfer-Encoding:\r\n\r\n" + HELLO),
    "folded": refused(POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + HELLO),
    "a blank before the colon": refused(POST + b"Transfer-Encoding : chunked\r\n\r\n" + HELLO),
    "of HTTP/1.0": refused(b"POST /first HTTP/1.0\r\n" + CHUNKED + b"\r\n" + HELLO),
    "of HTTP/1.0 that goes on": refused(
        b"POST /first HTTP/1.0\r\nConnection: keep-alive\r\n" + CHUNKED + b"\r\n" + HELLO
    ),
}
"""Transfer-Encoding."""

CHUNKS: Final = {
    "several": taken(_chunked(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"), b"hello"),
    "zeros before the size": taken(_chunked(b"00005\r\nhello\r\n000\r\n\r\n"), b"hello"),
    "a size in capitals": taken(_chunked(b"A\r\n0123456789\r\n0\r\n\r\n"), b"0123456789"),
    "extensions": taken(_chunked(b'5;a=b;c="d"\r\nhello\r\n0;e\r\n\r\n'), b"hello"),
    "a trailer": taken(_chunked(b"5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"), b"hello"),
    "a trailer that is an Authorization": taken(
        _chunked(b"5\r\nhello\r\n0\r\nAuthorization: Basic YTpi\r\n\r\n"), b"hello"
    ),
    "chunks that are a request": taken(_chunked(b"%x\r\n%b\r\n0\r\n\r\n" % (len(SMUGGLED), SMUGGLED)), SMUGGLED),
    "LF behind an extension": refused(_chunked(b"5;a\nhello\r\n0\r\n\r\n")),
    "CR in an extension": refused(_chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n")),
    "LF behind a size": refused(_chunked(b"5\nhello\r\n0\r\n\r\n")),
    "LF behind data": refused(_chunked(b"5\r\nhello\n0\r\n\r\n")),
    "nothing behind data": refused(_chunked(b"5\r\nhello0\r\n\r\n")),
    "LF at the end": refused(_chunked(b"5\r\nhello\r\n0\n\n")),
    "more data than its size": refused(_chunked(b"3\r\nhello\r\n0\r\n\r\n")),
    "a size with 0x": refused(_chunked(b"0x5\r\nhello\r\n0\r\n\r\n")),
    "a blank behind a size": refused(_chunked(b"5 \r\nhello\r\n0\r\n\r\n")),
    "a blank before a size": refused(_chunked(b" 5\r\nhello\r\n0\r\n\r\n")),
    "a negative size": refused(_chunked(b"-5\r\nhello\r\n0\r\n\r\n")),
    "too large a size": refused(_chunked(b"10000000000000005\r\nhello\r\n0\r\n\r\n")),
    "no size": refused(_chunked(b"\r\nhello\r\n0\r\n\r\n")),
    "a trailer that is a length": refused(_chunked(b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n")),
    "a trailer that is a coding": refused(_chunked(b"5\r\nhello\r\n0\r\n" + CHUNKED + b"\r\n")),
    "a trailer that is a host": refused(_chunked(b"5\r\nhello\r\n0\r\n" + HOST + b"\r\n")),
    "a trailer that is an offer": refused(_chunked(b"5\r\nhello\r\n0\r\n" + OFFER + b"\r\n")),
    "a trailer that closes": refused(_chunked(b"5\r\nhello\r\n0\r\nConnection: close\r\n\r\n")),
    "a folded trailer": refused(_chunked(b"5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n")),
}
"""Chunks (RFC 9112 7.1)."""

LINES: Final = {
    "empty lines before": taken(b"\r\n\r\n" + GET + b"\r\n", method=b"GET"),
    "an empty line between": taken(_sized(b"one") + b"\r\n", b"one"),
    "LF alone": refused(b"POST /first HTTP/1.1\nHost: localhost\n\n"),
    "LF in one line": refused(GET + b"X: a\nY: b\r\n\r\n"),
    "LF at the end": refused(GET + b"X: a\r\n\n"),
    "CR in a value": refused(GET + b"X: a\rY: b\r\n\r\n"),
    "CR at the end": refused(GET + b"X: a\r\n\rx"),
    "NUL in a value": refused(GET + b"X: a\0b\r\n\r\n"),
    "NUL in a name": refused(GET + b"X\0: a\r\n\r\n"),
    "NUL in a target": refused(b"GET /fi\0rst HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a folded value": refused(GET + b"X: a\r\n b\r\n\r\n"),
    "a folded value by a tab": refused(GET + b"X: a\r\n\tb\r\n\r\n"),
    "a blank before the first header": refused(b"GET /first HTTP/1.1\r\n Host: localhost\r\n\r\n"),
    "a blank before the colon": refused(GET + b"X : a\r\n\r\n"),
    "no colon": refused(GET + b"X\r\n\r\n"),
    "no name": refused(GET + b": a\r\n\r\n"),
    "no version": refused(b"GET /first\r\n" + HOST + b"\r\n", 505),
    "a blank in a target": refused(b"GET /fi rst HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a method in small letters": refused(b"get /first HTTP/1.1\r\n" + HOST + b"\r\n"),
    "HTTP/2.0": refused(b"GET /first HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "HTTP/0.9": refused(b"GET /first HTTP/0.9\r\n" + HOST + b"\r\n", 505),
    "HTTP/1.2": refused(b"GET /first HTTP/1.2\r\n" + HOST + b"\r\n"),
    "the preface of HTTP/2": refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "no host": refused(b"GET /first HTTP/1.1\r\n\r\n"),
    "two hosts": refused(GET + HOST + b"\r\n"),
    "a host that is a request": refused(b"GET /first HTTP/1.1\r\nHost: a b\r\n\r\n"),
}
"""Lines of a head."""

CONNECTIONS: Final = {
    "pipelined": Case(
        _sized(b"one") + _chunked(HELLO) + NEXT,
        ((b"POST", b"/first", b"one"), (b"POST", b"/first", b"hello"), RUN_NEXT),
        (200, 200, 200),
    ),
    "pipelined publishes": Case(
        b"".join(
            b"POST /topics/%b:publish HTTP/1.1\r\n" % name
            + HOST
            + b"Content-Length: %d\r\n\r\n" % len(SMUGGLED)
            + SMUGGLED
            for name in (b"now", b"later", b"now")
        ),
        tuple((b"POST", b"/topics/%b:publish" % name, SMUGGLED) for name in (b"now", b"later", b"now")),
        (200, 200, 200),
    ),
    "a fault behind a request": Case(NEXT + b"\0" + SMUGGLED, (RUN_NEXT,), (200, 400), is_closed=True),
    "a fault behind a publish": Case(
        b"POST /topics/t:publish HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n\r\nxx" + SMUGGLED,
        ((b"POST", b"/topics/t:publish", b"x"),),
        (200, 400),
        is_closed=True,
    ),
    "Expect": Case(
        _sized(b"one", b"Expect: 100-continue\r\n") + NEXT, ((b"POST", b"/first", b"one"), RUN_NEXT), (100, 200, 200)
    ),
    "Expect in capitals": Case(
        _sized(b"one", b"Expect: 100-CONTINUE\r\n") + NEXT, ((b"POST", b"/first", b"one"), RUN_NEXT), (100, 200, 200)
    ),
    "Expect of chunks": Case(
        _chunked(HELLO, b"Expect: 100-continue\r\n") + NEXT, ((b"POST", b"/first", b"hello"), RUN_NEXT), (100, 200, 200)
    ),
    "close": last(_sized(b"one", b"Connection: close\r\n"), b"one"),
    "close among others": last(_sized(b"one", b"Connection: keep-alive, Close, x\r\n"), b"one"),
    "close in the second": last(_sized(b"one", b"Connection: x\r\nConnection: close\r\n"), b"one"),
    "a length that Connection names": taken(
        _sized(SMUGGLED, b"Connection: Content-Length, Transfer-Encoding\r\n"), SMUGGLED
    ),
    "HTTP/1.0": last(b"GET /first HTTP/1.0\r\n\r\n", method=b"GET"),
    "HTTP/1.0 without a length": last(b"POST /first HTTP/1.0\r\n\r\n"),
    "HTTP/1.0 that goes on": last(
        b"POST /first HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\none", b"one"
    ),
}
"""Requests one after the other."""

TARGETS: Final = {
    "a URL": taken(b"GET http://other/first?a=b HTTP/1.1\r\n" + HOST + b"\r\n", b"", b"GET", b"/first?a=b"),
    "a URL without a path": taken(b"GET http://other HTTP/1.1\r\n" + HOST + b"\r\n", b"", b"GET", b"/"),
    "a URL with a query alone": taken(b"GET http://other?a HTTP/1.1\r\n" + HOST + b"\r\n", b"", b"GET", b"/?a"),
    "a URL of a publish": Case(
        b"POST HTTP://other:80/topics/t:publish HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\none" + NEXT,
        ((b"POST", b"/topics/t:publish", b"one"), RUN_NEXT),
        (200, 200),
    ),
    "a URL without a host": refused(b"GET http:///first HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a URL with a user": refused(b"GET http://a@other/first HTTP/1.1\r\n" + HOST + b"\r\n"),
    "another scheme": refused(b"GET ftp://other/first HTTP/1.1\r\n" + HOST + b"\r\n"),
    "an authority": refused(b"GET other:80 HTTP/1.1\r\n" + HOST + b"\r\n"),
    "a path without a slash": refused(b"GET first HTTP/1.1\r\n" + HOST + b"\r\n"),
    "two slashes": taken(b"GET //other/first HTTP/1.1\r\n" + HOST + b"\r\n", b"", b"GET", b"//other/first"),
    "a star": taken(b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", b"", b"OPTIONS", b"*"),
}
"""Forms of a target (RFC 9112 3.2)."""

CORPUS: Final = {
    "offer": OFFERS,
    "length": LENGTHS,
    "coding": CODINGS,
    "chunk": CHUNKS,
    "line": LINES,
    "connection": CONNECTIONS,
    "target": TARGETS,
}
