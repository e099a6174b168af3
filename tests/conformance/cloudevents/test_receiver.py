"""What a receiver of deliveries keeps to (HTTP 1.1 Web Hooks), asked of our publish path over real connections."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from entrepot.gateway.settings import Settings
from tests.conformance.cloudevents.case import BINARY
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.waiting import wait_until

ISSUER, AUDIENCE = "https://issuer.test", "entrepot"
KEY = RSAKey.generate_key(2048, {"kid": "k"})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """Lets in whom a token names."""
    directory: Path = tmp_path_factory.mktemp("data")
    (directory / "key.json").write_text(json.dumps(KeySet([KEY]).as_dict(private=False)))
    security = {
        **CHEAP_HASHES,
        "initial_admin": "root",
        "initial_admin_password": "root",
        "jwt_issuer": ISSUER,
        "jwt_audience": AUDIENCE,
        "jwt_key_file": directory / "key.json",
    }
    with serving("memory", directory / "store", Settings(security=security)) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with http_client(server.url) as running:
        yield running


@pytest.fixture
def token() -> str:
    """Of a super user."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "root", "exp": int(time.time()) + 600}
    return jwt.encode({"alg": "RS256", "kid": "k"}, claims, KEY)


def test_a_token_in_the_header(client: httpx2.Client, token: str) -> None:
    answer = client.post("/topics/a:publish", headers={**BINARY, "authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    assert "cache-control" not in answer.headers
    assert client.post("/topics/a:publish", headers=BINARY).status_code == 401


@pytest.mark.parametrize("query", ["access_token={}", "access_token={}&p=q", "p=q&access_token={}"])
def test_a_token_in_the_query(client: httpx2.Client, token: str, query: str) -> None:
    path = f"/topics/a:publish?{query.format(token)}"
    answer = client.post(path, headers=BINARY)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "private"
    topics = client.get(f"/api/v1/topics?{query.format(token)}")
    assert topics.status_code == 200 and topics.headers["cache-control"] == "private"
    both = client.post(path, headers={**BINARY, "authorization": f"Bearer {token}"})
    assert both.status_code == 401 and "cache-control" not in both.headers
    assert client.post(f"/topics/a:publish?{query.format(token + 'x')}", headers=BINARY).status_code == 401


def test_a_stream_with_a_token_in_the_query_is_private(client: httpx2.Client, token: str) -> None:
    with client.stream("GET", f"/topics/a/events?access_token={token}") as answer:
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize("path", ["/topics/a:publish/", "//topics/a:publish", "/topics/a", "/topics/a:publish?"])
def test_nothing_is_redirected(client: httpx2.Client, token: str, path: str) -> None:
    answer = client.post(path, headers={**BINARY, "authorization": f"Bearer {token}"}, follow_redirects=False)
    assert answer.status_code in (200, 404, 405), answer.text
    assert "location" not in answer.headers


def test_too_many_are_told_when_to_come_again(tmp_path: Path) -> None:
    with (
        serving("memory", tmp_path, Settings(topics={"max_auto_created": 1})) as server,
        http_client(server.url) as client,
    ):
        answers: list[httpx2.Response] = []

        def is_refused() -> bool:
            answers.append(client.post(f"/topics/t{len(answers)}:publish", headers=BINARY))
            return answers[-1].status_code != 200

        wait_until(is_refused, "a refusal")
        assert answers[-1].status_code == 429, answers[-1].text
        assert int(answers[-1].headers["retry-after"]) > 0


@pytest.mark.parametrize(("auto_create", "status"), [(True, 200), (False, 404)])
def test_a_topic_that_is_gone(tmp_path: Path, auto_create: bool, status: int) -> None:
    with (
        serving("memory", tmp_path, Settings(topics={"auto_create": auto_create})) as server,
        http_client(server.url) as client,
    ):
        assert client.put("/api/v1/topics/t", json={}).status_code in (200, 201)
        assert client.post("/topics/t:publish", headers=BINARY).status_code == 200
        assert client.delete("/api/v1/topics/t").status_code == 204
        assert client.post("/topics/t:publish", headers=BINARY).status_code == status


@pytest.mark.parametrize("rate", [None, "120"])
def test_a_sender_that_asks_is_told_origin_and_rate(client: httpx2.Client, rate: str | None) -> None:
    headers = {"webhook-request-origin": "sender.example"}
    if rate is not None:
        headers["webhook-request-rate"] = rate
    answer = client.options("/topics/a:publish", headers=headers)
    assert answer.headers["webhook-allowed-origin"] == "sender.example"
    assert answer.headers["webhook-allowed-rate"] == "*"
    assert "POST" in answer.headers["allow"]


def test_who_is_no_sender_is_not_consented_to(client: httpx2.Client) -> None:
    answer = client.options("/topics/a:publish", headers={"webhook-request-rate": "120"})
    assert not [name for name in answer.headers if name.startswith("webhook-")]


def test_paths_that_take_no_events_do_not_consent(client: httpx2.Client) -> None:
    answer = client.options("/api/v1/topics", headers={"webhook-request-origin": "sender.example"})
    assert "POST" not in answer.headers["allow"]
    assert not [name for name in answer.headers if name.startswith("webhook-")]
