"""TLS under the wire: links trust what they are told to trust, and nothing is said in the clear."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
import trustme

from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import ServerChannel
from entrepot.broker.remoting.listener_limits import ListenerLimits
from entrepot.broker.remoting.trust import WireTls, WireTrust, secret_of
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.wire.authentication import ClusterSecret, Role
from entrepot.protocols.wire.frames import VERSION, FrameKind, Hello, frame
from entrepot.protocols.wire.values import encode
from tests.support.brokers.served_calls import BOUNDS, linked, raw, serving, until_closed, up
from tests.support.processes.certificates import TestAuthority
from tests.support.waiting import until

FILES = Path(__file__).parents[1] / "fixtures" / "tls"


CERTIFICATE, KEY = FILES / "certificate.pem", FILES / "key.pem"
SERVER = ClusterTrust(CERTIFICATE, KEY)
CLIENT = ClusterTrust(ca=CERTIFICATE)


def server_side() -> WireTrust:
    return WireTrust.of_server(SERVER)


def client_side(trust: ClusterTrust = CLIENT) -> WireTrust:
    return WireTrust.of_client(trust)


async def test_requests_go_over_tls():
    async with serving(trust=server_side()) as served, linked(served.address, trust=client_side()) as link:
        await up(link)
        assert await link.ask(BOUNDS, "quick", seconds=5) == []
        assert link._channel is not None and link._channel._transport is not None
        assert link._channel._transport.get_extra_info("cipher")


async def test_a_link_may_end_in_the_tick_in_which_its_peer_leaves():
    async with serving(trust=server_side()) as served, linked(served.address, trust=client_side()) as link:
        await up(link)
        [channel], own = served.listener.channels, link._channel
        assert channel._transport is not None and own is not None and own._transport is not None
        channel._transport.abort()
        while not own._transport.is_closing():
            await asyncio.sleep(0)
        own.close()
        link._gone("the connection was closed")
        assert (link.problem, link._channel) == ("the connection was closed", None)


class Begun(asyncio.Transport):
    """A connection whose handshake has ended just now."""

    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


async def test_a_handshake_that_ends_after_the_listener_was_closed_leaves_no_channel():
    """Nobody would look after it."""
    async with serving(trust=server_side()) as served:
        listener, transport = served.listener, Begun()
        assert listener is not None
        channel = ServerChannel(listener)
        await listener.close()
        channel.connection_made(transport)
        assert transport.is_aborted and not listener.channels
        channel.connection_lost(None)


async def test_a_certificate_that_nobody_trusts_is_a_problem_that_is_told(tmp_path: Path):
    trusting_others = client_side(ClusterTrust(ca=TestAuthority(tmp_path).file))
    async with serving(trust=server_side()) as served, linked(served.address, trust=trusting_others) as link:
        await until(lambda: "certificate verify failed" in link.problem, lambda: link.problem)
        assert not link.is_up


async def test_a_client_without_tls_gets_nothing_out_of_it():
    async with serving(trust=server_side()) as served, raw(served.address) as client:
        client.send(frame(FrameKind.HELLO, 0, encode(Hello([VERSION], "plain"))))
        assert b"served" not in await until_closed(client)
        assert not served.begun


async def test_a_client_with_tls_finds_none():
    async with serving() as served, linked(served.address, trust=client_side()) as link:
        await until(lambda: link.problem and link.problem != "not connected yet", "it is told")
        assert not link.is_up


async def test_who_never_shakes_hands_is_closed():
    limits = ListenerLimits(greeting_seconds=0.1)
    async with serving(limits, trust=server_side()) as served, raw(served.address) as client:
        assert await until_closed(client) == b""


SECRET = "the secret of this cluster"


def member(authority: TestAuthority, name: str, *hosts: str, secret: str = SECRET, **others: object) -> ClusterTrust:
    pair = authority.issue(name, *hosts)
    return ClusterTrust(pair, pair, authority.file, secret=secret, **others)  # type: ignore[arg-type]


async def test_a_proof_of_the_secret_is_for_that_server_s_certificate(tmp_path: Path):
    """One in between, with a certificate of the same authority, passes everything on, and gets nobody through."""
    authority = TestAuthority(tmp_path)
    own, between = member(authority, "own"), member(authority, "between", secret="")
    shown, trusted = (WireTls(between, is_server=is_server).context for is_server in (True, False))

    async with serving(trust=WireTrust.of_server(own)) as served:

        async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, here = await asyncio.open_connection("127.0.0.1", served.port, ssl=trusted)
            await asyncio.gather(copied(reader, here), copied(there, writer))

        relay = await asyncio.start_server(passed_on, "127.0.0.1", 0, ssl=shown)
        address = f"127.0.0.1:{relay.sockets[0].getsockname()[1]}"
        async with linked(served.address, trust=WireTrust.of_client(own)) as link:
            await up(link)
        async with linked(address, trust=WireTrust.of_client(own)) as link:
            await until(lambda: "it does not know the cluster's secret" in link.problem, lambda: link.problem)
            assert not link.is_up
        relay.close()


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


async def test_only_certificates_of_members_are_taken(tmp_path: Path):
    authority = TestAuthority(tmp_path)
    own = member(authority, "own", "localhost", "127.0.0.1", names=("gateway.example", "*.brokers.example"))
    async with serving(trust=WireTrust.of_server(own)) as served:
        for name in ("gateway.example", "b-0.brokers.example", "B-1.Brokers.Example"):
            async with linked(served.address, trust=WireTrust.of_client(member(authority, "one", name))) as link:
                await up(link)
        for name in ("brokers.example", "a.b-0.brokers.example", "gateway.example.org", "other.example"):
            async with linked(served.address, trust=WireTrust.of_client(member(authority, "one", name))) as link:
                words = f"its certificate is of no member of the cluster: {name}"
                await until(lambda: words in link.problem, lambda: link.problem)  # noqa: B023
                assert not link.is_up


@pytest.mark.failure_also("A certificate is replaced by an unusable file")
async def test_certificates_are_read_again_when_they_change(tmp_path: Path):
    """By a listener and by links; unusable ones change nothing."""
    authority = TestAuthority(tmp_path)
    own, client = WireTrust.of_server(member(authority, "own")), WireTrust.of_client(member(authority, "client"))
    async with serving(ListenerLimits(sweep_seconds=0.01), trust=own) as served:

        async def shown() -> bytes:
            async with linked(served.address, trust=client) as link:
                await up(link)
                assert link._channel is not None
                return link._channel.shared

        assert own.tls is not None
        before = await shown()
        state = own.tls._state
        (tmp_path / "own.pem").write_text("no certificate")
        await until(lambda: own.tls is not None and own.tls._state != state, "the change is seen")
        assert await shown() == before
        authority.issue("own")
        authority.issue("client")
        await until(lambda: own.tls is not None and own.tls.shown(own.tls.present) != before, "the new one is read")
        assert await shown() == own.tls.shown(own.tls.present) != before
        rsa = authority.authority.issue_cert("localhost", "127.0.0.1", key_type=trustme.KeyType.RSA)
        rsa.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "own.pem"))
        known = own.tls.present
        await until(lambda: own.tls is not None and own.tls.present is not known, "one of another kind is read")
        assert await shown() == own.tls.shown(own.tls.present), "that one is shown, and no other"


REACHED = ["0.0.0.0", "::"]


@pytest.mark.failure(
    "A broker without a secret listens on an address of the network",
    group="Operators' mistakes and maintenance",
    does="It ends, unless certificates are checked by name, or `cluster.trusted_network` is set.",
    lost="nothing",
    told="the error: it would trust whoever reaches it",
)
@pytest.mark.parametrize("host", [*REACHED, "127.0.0.1", "::1"])
def test_who_trusts_everybody_is_not_reached_from_outside(tmp_path: Path, host: str):
    authority = TestAuthority(tmp_path)
    pair = authority.issue("own")
    open_to_all = [ClusterTrust(), ClusterTrust(pair, pair), ClusterTrust(pair, pair, authority.file)]
    closed = [
        ClusterTrust(secret=SECRET),
        ClusterTrust(pair, pair, authority.file, names=("one.example",)),
        ClusterTrust(is_network_trusted=True),
    ]
    try:
        bound = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with bound:
        for trust in (*closed, *(open_to_all if host not in REACHED else ())):
            wire = WireTrust.of_server(trust)
            assert wire.at(bound) is wire
        for trust in open_to_all if host in REACHED else ():
            with pytest.raises(EntrepotError, match="would trust whoever reaches it") as refusal:
                WireTrust.of_server(trust).at(bound)
            assert refusal.value.code is Code.BAD_REQUEST


def test_a_private_socket_needs_no_secret(tmp_path: Path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "s"))
        assert WireTrust.of_server(ClusterTrust(secret=SECRET)).at(bound) == WireTrust()
    settings = LinkSettings(trust=WireTrust.of_client(ClusterTrust(secret=SECRET)))
    assert settings.greet("unix:/s", b"")._handshake._secret is None
    assert settings.greet("127.0.0.1:1", b"")._handshake._secret is not None


def test_secrets_of_files(tmp_path: Path):
    file = tmp_path / "secret"
    with pytest.raises(EntrepotError, match=r"secret \(cluster.secret_file\) cannot be read: No such file"):
        secret_of(ClusterTrust(secret_file=file))
    for text, words in (("", "is empty"), (" \n", "is empty"), ("short", "is too short")):
        file.write_text(text)
        with pytest.raises(EntrepotError, match=words):
            secret_of(ClusterTrust(secret_file=file))
    file.write_text(SECRET + "\n")
    found = secret_of(ClusterTrust(secret_file=file))
    assert found is not None
    assert found.role_key(Role.BROKER) == ClusterSecret(SECRET).role_key(Role.BROKER)
    file.chmod(0o666)
    with pytest.raises(EntrepotError, match="anybody can write"):
        secret_of(ClusterTrust(secret_file=file))
    assert secret_of(ClusterTrust()) is None


async def test_so_many_may_greet_at_a_time():
    async with serving(ListenerLimits(strangers=3)) as served:
        assert served.listener is not None
        strangers = served.listener.strangers
        async with raw(served.address), raw(served.address), raw(served.address):
            await until(lambda: len(strangers) == 3, "they are there")
            async with linked(served.address) as link:
                await up(link)
                assert len(strangers) == 2, "the one that came first had to go"
        await until(lambda: not strangers, "they are gone")


def test_certificates_with_words_around_them_are_read(tmp_path: Path):
    text = CERTIFICATE.read_bytes()
    (tmp_path / "bag.pem").write_bytes(b"Bag Attributes: caf\xe9\n" + text)
    (tmp_path / "x509.pem").write_bytes(text.replace(b" CERTIFICATE-", b" X509 CERTIFICATE-"))
    own = WireTls(SERVER, is_server=True)
    for name in ("bag.pem", "x509.pem"):
        found = WireTls(ClusterTrust(tmp_path / name, KEY), is_server=True)
        assert found.shown(found.present) == own.shown(own.present) != b""


def test_the_key_of_another_role_is_refused_at_once():
    trust = WireTrust.of_client(ClusterTrust(secret=ClusterSecret(SECRET).role_key(Role.BROKER)))
    with pytest.raises(EntrepotError, match="the key of a broker, not of a gateway") as refusal:
        LinkSettings(trust=trust)
    assert refusal.value.code is Code.BAD_REQUEST
    assert SECRET not in repr(ClusterTrust(secret=SECRET))
