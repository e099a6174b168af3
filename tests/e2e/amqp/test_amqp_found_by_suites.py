"""What other people's suites found to be different from RabbitMQ, played by py-amqp on ours and on RabbitMQ."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import amqp  # type: ignore[import-untyped]
import pytest
import trustme

from tests.support.amqp import servers
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

Connect = Callable[[], amqp.Connection]


def test_who_deletes_a_queue_hears_that_before_its_consumer_is_cancelled(connect: Connect) -> None:
    heard: list[str] = []
    channel = connect().channel()
    queue = channel.queue_declare(exclusive=True).queue
    channel.basic_consume(queue, on_cancel=heard.append, consumer_tag="ours")
    channel.queue_delete(queue)
    heard.append("deleted")
    channel.connection.drain_events(timeout=PATIENCE_SECONDS)
    assert heard == ["deleted", "ours"]


@pytest.mark.parametrize("what_closes", ["connection", "channel"])
def test_what_goes_with_its_last_consumer_is_gone_after_the_close(connect: Connect, what_closes: str) -> None:
    name = f"auto-delete-{what_closes}"
    watching = connect()
    for _turn in range(20):  # each turn is a race that the queue must win
        consuming = connect()
        channel = consuming.channel()
        channel.queue_declare(name, auto_delete=True)
        channel.basic_consume(name)
        (consuming if what_closes == "connection" else channel).close()
        with pytest.raises(amqp.NotFound):
            watching.channel().queue_declare(name, passive=True)


def test_who_closes_twice_reads_the_answer(amqp_port: Callable[[str], int]) -> None:
    connection = amqp.Connection(f"127.0.0.1:{amqp_port('serve')}")
    connection.connect()
    socket = connection.transport.sock
    close = struct.pack(">HHHBHH", 10, 50, 200, 0, 0, 0)
    frame = struct.pack(">BHI", 1, 0, len(close)) + close + b"\xce"
    socket.sendall(frame)
    socket.settimeout(PATIENCE_SECONDS)
    assert socket.recv(100) == bytes.fromhex("01 0000 00000004 000a 0033 ce")
    for _turn in range(3):  # a server that had closed its socket would reset the connection
        socket.sendall(frame)
    assert socket.recv(100) == b""
    socket.close()


@pytest.mark.parametrize("passive", [True, False])
def test_the_default_exchange_is_not_declared(connect: Connect, passive: bool) -> None:
    channel = connect().channel()
    with pytest.raises(amqp.AccessRefused):
        channel.exchange_declare("", "direct", passive=passive)


def test_external_is_offered_to_who_shows_a_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.issue_cert("a-client", common_name="a-client").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "client.pem"
    )
    settings = {
        **servers.USERS,
        "amqp.tls_port": "0",
        "amqp.tls_certificate": str(tmp_path / "server.pem"),
        "amqp.tls_ca": str(tmp_path / "ca.pem"),
        "amqp.tls_client_certificates": "optional",
    }
    with ServerProcess(tmp_path, settings) as running:
        assert offered(running.port("amqp"), None) == ["PLAIN", "AMQPLAIN"]
        tls = {"ca_certs": str(tmp_path / "ca.pem"), "server_hostname": "127.0.0.1"}
        assert offered(running.port("amqps"), tls) == ["PLAIN", "AMQPLAIN"]
        tls["certfile"] = str(tmp_path / "client.pem")
        assert offered(running.port("amqps"), tls) == ["PLAIN", "AMQPLAIN", "EXTERNAL"]


def offered(port: int, tls: dict[str, str] | None) -> list[str]:
    """The mechanisms of connection.start."""
    found: list[str] = []

    class Connection(amqp.Connection):
        def _on_start(self, major: int, minor: int, properties: object, mechanisms: str, locales: str) -> None:
            found.extend(mechanisms.split())
            super()._on_start(major, minor, properties, mechanisms, locales)

    connection = Connection(
        f"127.0.0.1:{port}", ssl=tls or False, userid="guest", password="guest", login_method="PLAIN"
    )
    connection.connect()
    connection.close()
    return found


def test_a_commit_of_what_is_refused_is_no_success(connect: Connect) -> None:
    channel = connect().channel()
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    queue = channel.queue_declare(exclusive=True, arguments=arguments).queue
    channel.tx_select()
    for text in ("first", "second", "third"):
        channel.basic_publish(amqp.Message(text), routing_key=queue)
    with pytest.raises(amqp.PreconditionFailed, match="partial tx completion"):
        channel.tx_commit()
