"""Which requests are a foreign page's, and which hosts are known."""

from __future__ import annotations

from entrepot.gateway.transport.web_origin import WebOrigins
from tests.support.cases import cases

OURS = (b"host", b"gw.example:8080")


@cases(
    "headers, is_foreign",
    [
        ([], False),
        ([(b"origin", b"http://gw.example:8080")], False),
        ([(b"origin", b"HTTP://GW.Example:8080")], False),
        ([(b"origin", b"https://app.example")], False),
        ([(b"origin", b"events.example")], False),
        ([(b"origin", b"")], False),
        ([(b"sec-fetch-site", b"same-origin")], False),
        ([(b"sec-fetch-site", b"none")], False),
        ([(b"origin", b"http://gw.example")], True),
        ([(b"origin", b"http://gw.example:8081")], True),
        ([(b"origin", b"http://gw.example:8080.evil.example")], True),
        ([(b"origin", b"null")], True),
        ([(b"origin", b"file://")], True),
        ([(b"origin", b"chrome-extension://abc")], True),
        ([(b"origin", b"http://gw.example:8080"), (b"origin", b"http://evil.example")], True),
        ([(b"sec-fetch-site", b"same-site")], True),
        ([(b"sec-fetch-site", b"Cross-Site")], True),
        ([(b"sec-fetch-site", b"something-new")], True),
    ],
)
def test_foreign_pages(headers: list[tuple[bytes, bytes]], is_foreign: bool) -> None:
    origins = WebOrigins(["https://App.example"])
    assert (origins.foreign_page([OURS, *headers]) is not None) is is_foreign
    assert WebOrigins(["*"]).foreign_page([OURS, *headers]) is None


def test_default_ports_are_none() -> None:
    origins = WebOrigins()
    for host, origin in ((b"gw", b"http://gw"), (b"gw:80", b"http://gw"), (b"gw:443", b"https://gw")):
        assert origins.foreign_page([(b"host", host), (b"origin", origin)]) is None
    assert origins.foreign_page([(b"host", b"gw:443"), (b"origin", b"http://gw")]) is not None


@cases(
    "host, is_known",
    [
        *((name, True) for name in (b"localhost", b"LOCALHOST:8080", b"localhost.", b"127.0.0.1:1", b"[::1]:8080")),
        *((name, True) for name in (b"10.1.2.3", b"Gw.Example:8080", b"gw.example.")),
        *((name, False) for name in (b"", b"x", b"evil.example", b"gw.example.evil", b"127.0.0.1.evil.example")),
        *((name, False) for name in (b"localhost.evil.example", b"\xff", b"a" * 300, b"[evil]:80", b"1.2.3.4.5")),
    ],
)  # fmt: skip
def test_hosts(host: bytes, is_known: bool) -> None:
    assert WebOrigins(hosts=["GW.example"]).knows_host([(b"host", host)]) is is_known
    assert WebOrigins(hosts=["*"]).knows_host([(b"host", host[:200])])
    assert WebOrigins().knows_host([])
