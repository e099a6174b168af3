"""Sinks and token endpoints behind an authority of their own that ask for a certificate."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest

from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import event, is_problem, publish
from tests.e2e.webhooks.conftest import WEBHOOKS
from tests.support.http.client import http_client
from tests.support.http.server import serving
from tests.support.processes.certificates import TestAuthority
from tests.support.waiting import wait_until

TOKEN = {"access_token": "granted", "token_type": "Bearer", "expires_in": 3600}
QUICK = {"handshake": "off", "initialbackoffseconds": 0.05, "maxbackoffseconds": 0.2}


class Sinks:
    """A server that takes certificates of one authority alone.  `seen`: path, authorization and shown name."""

    def __init__(self, own: TestAuthority, certificate: Path) -> None:
        self.seen: list[tuple[str, str | None, str]] = []
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                names = dict(part for each in self.connection.getpeercert()["subject"] for part in each)  # type: ignore[attr-defined]
                seen.append((self.path, self.headers.get("authorization"), names["commonName"]))
                body = json.dumps(TOKEN).encode() if self.path == "/token" else b""
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.load_verify_locations(own.file)
        context.verify_mode = ssl.CERT_REQUIRED
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def own(tmp_path: Path) -> TestAuthority:
    return TestAuthority(tmp_path)


@pytest.fixture
def sinks(own: TestAuthority) -> Iterator[Sinks]:
    made = Sinks(own, own.issue("sink"))
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@contextmanager
def serving_with(tmp_path: Path, own: TestAuthority, name: str, *topics: str) -> Iterator[httpx2.Client]:
    """A client of a gateway that shows a certificate of that name for these topics."""
    certificate = own.issue(name, f"{name}.example", common_name=name)
    tls = [{"name": "partner", "topics": list(topics), "ca": str(own.file), "certificate": str(certificate)}]
    settings = Settings(webhooks={**WEBHOOKS, "tls": tls})
    with serving("memory", tmp_path / "data", settings) as running, http_client(running.url) as client:
        yield client


def subscription(sinks: Sinks, topic: str, config: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"source": topic, "sink": f"{sinks.url}/hook", "protocol": "HTTP", "config": {**QUICK, **config}, **more}


def test_a_sink_sees_the_certificate_that_the_subscription_names(
    tmp_path: Path, own: TestAuthority, sinks: Sinks
) -> None:
    credential = {
        "credentialtype": "OAUTH2",
        "identifier": "me",
        "secret": "pw",
        "tokenendpoint": f"{sinks.url}/token",
    }
    with serving_with(tmp_path, own, "gateway", "mine", "many-*") as client:
        named = {"tls": "partner", "tokentls": "partner"}
        made = client.post("/subscriptions", json=subscription(sinks, "mine", named, sinkcredential=credential))
        assert made.status_code == 201, made.text
        assert made.json()["config"]["tls"] == made.json()["config"]["tokentls"] == "partner"
        publish(client, "mine", event(0))
        wait_until(lambda: len(sinks.seen) == 2, lambda: str(sinks.seen))
        assert [each[0] for each in sinks.seen] == ["/token", "/hook"]
        assert sinks.seen[1] == ("/hook", "Bearer granted", "gateway")
        own.issue("gateway", "gateway.example", common_name="renewed")
        publish(client, "mine", event(1))
        wait_until(lambda: len(sinks.seen) == 3, lambda: str(sinks.seen))
        assert sinks.seen[2][2] == "renewed", "the file is read again"


def test_without_it_the_sink_is_not_reached(tmp_path: Path, own: TestAuthority, sinks: Sinks) -> None:
    with serving_with(tmp_path, own, "gateway", "mine") as client:
        made = client.post("/subscriptions", json=subscription(sinks, "mine", {"maxattempts": 1}))
        assert made.status_code == 201, made.text
        publish(client, "mine", event(0))
        letters = f"/api/v1/groups/webhook~{made.json()['id']}/dead-letters"
        found: list[dict[str, Any]] = []

        def is_dead() -> bool:
            answer = client.get(letters)
            found[:] = answer.json()["value"] if answer.status_code == 200 else []
            return bool(found)

        wait_until(is_dead, "it is a dead letter")
        assert "its certificate is not good" in found[0]["reason"] and not sinks.seen


def test_only_what_the_settings_give_a_topic_may_be_named(tmp_path: Path, own: TestAuthority, sinks: Sinks) -> None:
    """A path is no name, and the refusal tells not which names there are."""
    with serving_with(tmp_path, own, "gateway", "mine", "many-*") as client:
        for topic, name in (("other", "partner"), ("mine", "none"), ("mine", str(own.file)), ("mine2", "partner")):
            for member in ("tls", "tokentls"):
                answer = client.post("/subscriptions", json=subscription(sinks, topic, {member: name[-60:]}))
                is_problem(answer, 400, f"config.{member}: there is no ")
        made = client.post("/subscriptions", json=subscription(sinks, "many-1", {"tls": "partner"}))
        assert made.status_code == 201
        path = f"/subscriptions/{made.json()['id']}"
        assert client.put(path, json=subscription(sinks, "many-1", {})).json()["config"]["tls"] is None
        is_problem(client.put(path, json=subscription(sinks, "many-1", {"tls": "x"})), 400, "config.tls")
