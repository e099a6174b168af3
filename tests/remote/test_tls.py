"""TLS under the wire: links trust what they are told to trust, and nothing is said in the clear."""

from __future__ import annotations

import ssl
from pathlib import Path

from entrepot.broker.remoting.listener import ListenerLimits
from entrepot.protocols.remoting.frames import VERSION, FrameKind, Hello, frame
from entrepot.protocols.remoting.values import encode
from tests.support.served_calls import BOUNDS, linked, raw, serving, until_closed, up
from tests.support.waiting import until

FILES = Path(__file__).parents[1] / "fixtures" / "tls"


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(FILES / "certificate.pem", FILES / "key.pem")
    return context


def client_side() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(FILES / "certificate.pem"))


async def test_requests_go_over_tls():
    async with serving(tls=server_side()) as served, linked(served.address, tls=client_side()) as link:
        await up(link)
        assert await link.ask(BOUNDS, "quick", seconds=5) == []
        assert link._channel is not None and link._channel._transport is not None
        assert link._channel._transport.get_extra_info("cipher")


async def test_a_certificate_that_nobody_trusts_is_a_problem_that_is_told():
    trusting_others = ssl.create_default_context()
    async with serving(tls=server_side()) as served, linked(served.address, tls=trusting_others) as link:
        await until(lambda: "certificate verify failed" in link.problem, lambda: link.problem)
        assert not link.is_up


async def test_a_client_without_tls_gets_nothing_out_of_it():
    async with serving(tls=server_side()) as served, raw(served.address) as client:
        client.send(frame(FrameKind.HELLO, 0, encode(Hello([VERSION], "plain"))))
        assert b"served" not in await until_closed(client)
        assert not served.begun


async def test_a_client_with_tls_finds_none():
    async with serving() as served, linked(served.address, tls=client_side()) as link:
        await until(lambda: link.problem and link.problem != "not connected yet", "it is told")
        assert not link.is_up


async def test_who_never_shakes_hands_is_closed():
    limits = ListenerLimits(greeting_seconds=0.1)
    async with serving(limits, tls=server_side()) as served, raw(served.address) as client:
        assert await until_closed(client) == b""
