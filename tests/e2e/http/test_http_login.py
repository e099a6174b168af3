"""Logins of browsers: the cookie, what it opens, and what ends it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from entrepot.gateway.http.requests.login_cookie import COOKIE, HOST_PREFIX
from entrepot.gateway.settings import HttpSettings, SecuritySettings, Settings
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving

OURS = {"x-entrepot-dashboard": "1"}
ROOT = httpx2.BasicAuth("root", "rootpw")
FEW = 3
"""Failed logins that are allowed here."""
SETTINGS = Settings(
    security=SecuritySettings(argon2_memory_bytes=8192, argon2_iterations=1, max_failed_logins=FEW),
    http=HttpSettings(trusted_proxies=["127.0.0.1/32"], login_seconds=600),
)
Person = Callable[..., httpx2.Client]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with serving("embedded", tmp_path_factory.mktemp("data"), SETTINGS) as running:
        token = running.parts.security.setup_token.value
        with http_client(running.url) as first:
            setup = first.post("/api/v1/session", json={"token": token})
            assert setup.json()["user"] == "setup"
            defined = first.put("/api/v1/users/root", json={"password": "rootpw", "super": True}, headers=OURS)
            assert defined.status_code == 201
            assert first.get("/api/v1/session").json()["user"] is None, "the setup token is over"
        yield running


@pytest.fixture
def browser(server: HttpServer) -> Iterator[Person]:
    """Makes browsers, with a login if a name is given."""
    with ExitStack() as opened:

        def make(name: str = "", password: str = "pw") -> httpx2.Client:
            client = opened.enter_context(http_client(server.url))
            if name:
                found = client.post("/api/v1/session", json={"name": name, "password": password})
                assert found.status_code == 200, found.text
            return client

        yield make


@pytest.fixture
def person(server: HttpServer) -> str:
    """A user who may see topics."""
    name = f"u{uuid.uuid4().hex[:8]}"
    statement = {"effect": "ALLOW", "actions": ["LIST", "GET"], "resources": ["Topic:*"]}
    with http_client(server.url, auth=ROOT) as root:
        assert root.put(f"/api/v1/users/{name}", json={"password": "pw"}).status_code == 201
        assert root.put(f"/api/v1/acls/{name}", json={"statements": [statement]}).status_code == 201
    return name


def may_see(client: httpx2.Client) -> bool:
    status = client.get("/api/v1/topics").status_code
    assert status in (200, 401)
    return status == 200


def test_a_login_opens_what_its_user_may(browser: Person, person: str) -> None:
    client = browser(person)
    assert may_see(client)
    told = client.get("/api/v1/session").json()
    assert (told["user"], told["isSuper"], told["isAnonymous"]) == (person, False, False)
    assert set(told["may"]) == {"Topic:LIST", "Topic:GET"}
    assert client.put("/api/v1/topics/x", json={}, headers=OURS).status_code == 403
    assert client.get("/api/v1/users").status_code == 403


def test_the_cookie_is_closed_to_scripts_and_other_sites(browser: Person, person: str) -> None:
    client = browser()
    plain = client.post("/api/v1/session", json={"name": person, "password": "pw"})
    cookie = plain.headers["set-cookie"].lower()
    assert cookie.startswith(f"{COOKIE}=")
    assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "secure" not in cookie
    proxied = {"x-forwarded-proto": "https", "x-forwarded-for": "192.0.2.1"}
    secure = client.post("/api/v1/session", json={"name": person, "password": "pw"}, headers=proxied)
    assert secure.headers["set-cookie"].startswith(f"{HOST_PREFIX}{COOKIE}=")
    assert "secure" in secure.headers["set-cookie"].lower()
    assert secure.json()["tls"] is True


def test_a_change_needs_the_header_that_other_pages_cannot_set(browser: Person) -> None:
    client = browser("root", "rootpw")
    refused = client.put("/api/v1/topics/by-login", json={})
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert client.put("/api/v1/topics/by-login", json={}, headers=OURS).status_code == 201
    foreign = {**OURS, "origin": "https://evil.example"}
    assert client.put("/api/v1/topics/by-login", json={}, headers=foreign).status_code == 403
    assert client.post("/topics/by-login:publish", json={}).status_code == 403


def test_a_page_s_scripts_get_no_basic_challenge(browser: Person) -> None:
    client = browser()
    assert client.get("/api/v1/topics").headers["www-authenticate"].startswith("Basic")
    for said in (OURS, {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}):
        refused = client.get("/api/v1/topics", headers=said)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="entrepot"')


def test_a_logout_ends_every_copy_of_the_cookie(browser: Person, person: str) -> None:
    client, copy = browser(person), browser()
    copy.cookies = httpx2.Cookies(client.cookies)
    assert may_see(copy)
    assert client.delete("/api/v1/session", headers=OURS).status_code == 204
    assert not client.cookies
    assert not may_see(copy)
    assert copy.get("/api/v1/session").json()["user"] is None


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("/api/v1/users/{}", {"password": "another"}),
        ("/api/v1/users/{}", {"enabled": False}),
        ("/api/v1/acls/{}", {"statements": []}),
        ("/api/v1/users/{}", None),
    ],
)
def test_another_password_or_right_ends_it(
    server: HttpServer, browser: Person, person: str, path: str, change: dict[str, object] | None
) -> None:
    client = browser(person)
    assert may_see(client)
    with http_client(server.url, auth=ROOT) as root:
        method = "DELETE" if change is None else "PUT"
        assert root.request(method, path.format(person), json=change).is_success
    assert not may_see(client)


def test_a_user_who_is_enabled_again_has_to_log_in_again(server: HttpServer, browser: Person, person: str) -> None:
    client = browser(person)
    assert may_see(client)
    with http_client(server.url, auth=ROOT) as root:
        for is_enabled in (False, True):
            assert root.put(f"/api/v1/users/{person}", json={"enabled": is_enabled}).status_code == 200
            assert not may_see(client)
    assert may_see(browser(person))


def test_no_cache_keeps_what_tells_of_a_login(browser: Person, person: str) -> None:
    client, path = browser(person), "/api/v1/session"
    answers = [
        client.get(path),
        client.post(path, json={"name": person, "password": "pw"}),
        client.post(path, json={"name": person, "password": "wrong"}),
        client.delete(path, headers=OURS),
    ]
    assert [each.status_code for each in answers] == [200, 200, 401, 204]
    assert {each.headers["cache-control"] for each in answers} == {"no-store"}


def test_a_login_ends_by_itself(server: HttpServer, browser: Person, person: str) -> None:
    client = browser(person)
    server.clock.advance(599)
    assert may_see(client)
    server.clock.advance(2)
    assert not may_see(client)


def test_a_changed_cookie_is_none(browser: Person, person: str) -> None:
    client = browser(person)
    token = client.cookies[COOKIE]
    content, _, mac = token.partition(".")
    for other in (
        f"{content}.{mac[:-2]}AA",
        f"{content[:-2]}AA.{mac}",
        f"{content}=.{mac}",
        "x",
        f".{mac}",
        "a" * 5000,
    ):
        client.cookies = httpx2.Cookies({COOKIE: other})
        assert not may_see(client), other


@pytest.mark.failure(
    "Somebody tries passwords",
    group="Strangers and floods",
    does=(
        "After a few, that user's logins are refused unchecked for a while, at every door. Other users are not touched."
    ),
    lost="nothing",
    told="HTTP 429",
)
def test_many_wrong_passwords_are_refused_unchecked(
    server: HttpServer, browser: Person, person: str, tmp_path: Path
) -> None:
    client = browser()

    def tried(password: str, name: str = person) -> int:
        return client.post("/api/v1/session", json={"name": name, "password": password}).status_code

    right = httpx2.BasicAuth(person, "pw")
    assert client.get("/api/v1/topics", auth=right).status_code in (200, 403), "it is remembered"
    assert [tried(f"no{number}") for number in range(FEW)] == [401] * FEW
    before = server.parts.security._passwords.checks
    refused = client.post("/api/v1/session", json={"name": person, "password": "pw"})
    assert refused.status_code == 429
    assert 1 < int(refused.headers["retry-after"]) <= 60
    assert f"try again in {refused.headers['retry-after']} s" in refused.json()["detail"]
    assert client.get("/api/v1/topics", auth=right).status_code == 429, "else guesses would find it"
    assert client.get("/api/v1/topics", auth=httpx2.BasicAuth(person, "other")).status_code == 429, "at every door"
    assert server.parts.security._passwords.checks == before
    assert tried("rootpw", "root") == 200, "others are not touched"
    server.clock.advance(61)
    assert tried("pw") == 200


@pytest.mark.parametrize("body", [{}, {"name": "root"}, {"password": "x"}, {"name": 1}, {"user": "root"}, [], "x"])
def test_no_credentials_are_a_bad_request(browser: Person, body: object) -> None:
    refused = browser().post("/api/v1/session", json=body)
    assert refused.status_code == 400
    assert "set-cookie" not in refused.headers


def test_logins_are_in_the_audit(server: HttpServer, browser: Person, person: str) -> None:
    browser(person)
    browser().post("/api/v1/session", json={"name": person, "password": "no"})
    with http_client(server.url, auth=ROOT) as root:
        told = [(each["event"], each["subject"]) for each in root.get("/api/v1/audit").json()["value"]]
    assert ("logged in", person) in told
    assert ("login refused", person) in told


def test_a_visit_is_no_refused_login(server: HttpServer, browser: Person, person: str) -> None:
    with http_client(server.url, auth=ROOT) as root:
        before = root.get("/api/v1/audit", params={"limit": 1}).json()["value"][0]["number"]
        client = browser()
        assert client.get("/api/v1/session").json()["user"] is None
        assert client.post("/api/v1/session", json={"name": person, "password": "pw"}).status_code == 200
        new = [each["event"] for each in root.get("/api/v1/audit").json()["value"] if each["number"] > before]
    assert new == ["logged in"]
