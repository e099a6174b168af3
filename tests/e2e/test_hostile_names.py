"""Names that would act on a terminal, through every door of a real server: no log and no command shows them raw."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import grpc
import httpx2
import pika  # type: ignore[import-untyped]
import pytest

from entrepot.gateway.cli.app import run
from entrepot.protocols.mqtt.packets import Puback, Publish
from entrepot.protocols.rocketmq import v2_pb2
from tests.support.mqtt.client import RawClient
from tests.support.processes.server import ServerProcess
from tests.support.processes.terminal import acting_on_a_terminal
from tests.support.waiting import PATIENCE_SECONDS

EVIL = "x[red]\x1b[31m\x9b2J\x7f\u202e\u2066\n2026-01-01T00:00:00Z [info     ] forged"
MILD = "y[red]\u202e\u061cz"
"""What doors take that refuse control characters."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("hostile"), {"log.level": "debug"}) as process:
        for name in (EVIL, MILD):
            over_mqtt(process, name)
            over_amqp(process, name)
            over_http(process, name)
            over_grpc(process, name)
        yield process


def over_mqtt(server: ServerProcess, name: str) -> None:
    for client_id, user, topic in ((name, None, "t"), ("c", name, "t"), ("d", None, f"t/{name}")):
        with contextlib.suppress(OSError, AssertionError), RawClient(server.port("mqtt"), 5) as client:
            client.connect(client_id, username=user, password=b"x" if user else None)
            client.subscribe(f"t/{name}/#")
            client.publish(topic, name.encode())


def over_amqp(server: ServerProcess, name: str) -> None:
    for user, vhost in ((name, "/"), ("guest", name), ("guest", "/")):
        shown = pika.PlainCredentials(user, "guest")
        parameters = pika.ConnectionParameters(
            "127.0.0.1", server.port("amqp"), vhost, shown, client_properties={"connection_name": name}
        )
        with contextlib.suppress(pika.exceptions.AMQPError, OSError):
            connection = pika.BlockingConnection(parameters)
            for declare in ("queue_declare", "exchange_declare"):
                with contextlib.suppress(pika.exceptions.AMQPError):
                    getattr(connection.channel(), declare)(name.replace("\n", ""))  # pika waits for a name with it
            channel = connection.channel()
            channel.basic_publish("", name, name.encode())
            channel.basic_consume(name, lambda *_: None, consumer_tag=name)
            connection.close()


def over_http(server: ServerProcess, name: str) -> None:
    login = "Basic " + base64.b64encode(f"{name}:{name}".encode()).decode()
    with httpx2.Client(
        base_url=f"http://{server.address('http')}", timeout=PATIENCE_SECONDS, trust_env=False
    ) as client:
        segment = quote(name, safe="")
        for method, path in (
            ("GET", f"/{segment}"),
            ("POST", f"/topics/{segment}:publish"),
            ("PUT", f"/api/v1/namespaces/default/topics/{segment}"),
            ("PUT", f"/api/queues/%2F/{segment}"),
            ("GET", f"/api/v1/messages/{segment}"),
        ):
            client.request(method, path, json={}, headers={"authorization": login})
            client.request(method, path, json={})
        policy = {"pattern": name, "definition": {"max-length": 9}}
        client.put(f"/api/policies/%2F/{segment}", json=policy)
        client.put("/api/policies/%2F/refused", json={**policy, "pattern": f"({name}"})
    with socket.create_connection(("127.0.0.1", server.port("http")), PATIENCE_SECONDS) as raw:
        raw.sendall(f"GET /{name} HTTP/1.1\r\nhost: {name}\r\nce-id: {name}\r\n\r\n".encode())
        raw.recv(4096)


def over_grpc(server: ServerProcess, name: str) -> None:
    with grpc.insecure_channel(server.address("grpc")) as channel:
        ask = channel.unary_unary(
            "/apache.rocketmq.v2.MessagingService/QueryRoute",
            request_serializer=v2_pb2.QueryRouteRequest.SerializeToString,
            response_deserializer=v2_pb2.QueryRouteResponse.FromString,
        )
        with contextlib.suppress(grpc.RpcError):
            ask(v2_pb2.QueryRouteRequest(topic=v2_pb2.Resource(name=name)), timeout=PATIENCE_SECONDS)


def test_the_log_of_the_server(server: ServerProcess) -> None:
    text = Path(server._log).read_bytes().decode()
    assert acting_on_a_terminal(text) == ""
    assert "[red]" in text and r"\u202e" in text and r"\x1b" in text  # it was told, and escaped
    assert not [line for line in text.splitlines() if line.startswith("2026-01-01")]


def shown(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    run(arguments)
    sys.stdout.flush()
    out, err = capfd.readouterr()
    assert acting_on_a_terminal(out + err) == "", arguments
    if "--json" in arguments and out:
        json.loads(out)
    return out + err


def test_the_command_line(
    server: ServerProcess, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTREPOT_SERVER", f"http://{server.address('http')}")
    with RawClient(server.port("mqtt"), 4) as client:
        client.connect(MILD, clean_start=False)
        client.say(Publish(f"t/{MILD}", MILD.encode(), 1, 9, retain=True))
        client.expect(Puback)
        for noun in ("topic", "group", "session", "client", "retained", "user", "bridge", "namespace"):
            for form in ((), ("--json",)):
                told = shown(capfd, noun, "list", *form)
                assert noun not in ("session", "client", "retained") or "[red]" in told, noun
        assert "[red]" in shown(capfd, "message", "query", "t")
        assert "[red]" in shown(capfd, "message", "receive", "t", "g", "--create")
        assert "[red]" in shown(capfd, "client", "show", MILD)


def test_the_command_line_asked_for_one(
    server: ServerProcess, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENTREPOT_SERVER", f"http://{server.address('http')}")
    for name in (EVIL, MILD):
        for words in (("topic", "show"), ("session", "delete"), ("user", "show"), ("message", "show"), ()):
            assert "[red]" in shown(capfd, *words, name), words


def test_commands_of_a_store_show_names_as_they_are(server: ServerProcess, capfd: pytest.CaptureFixture[str]) -> None:
    server.stop()
    for words in (("verify",), ("dump", "--bodies"), ("rows",), ("dump",)):
        told = shown(capfd, "store", words[0], "--data-dir", str(server.data_dir), *words[1:])
        assert words == ("verify",) or "[red]" in told
    for command in ("verify", "rows", "dump"):
        capfd.readouterr()
        run(("store", command, "--data-dir", str(server.data_dir), "--json"))
        out = capfd.readouterr().out
        assert acting_on_a_terminal(out) == ""
        for line in [out] if command == "verify" else out.splitlines():
            json.loads(line)
