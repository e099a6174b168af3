"""Retained messages over HTTP and from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from urllib.parse import quote

import pytest
from prometheus_client.parser import text_string_to_metric_families

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.cli.app import run
from tests.e2e.http.steps import get, is_problem, metrics_now
from tests.support.cases import cases
from tests.support.http.server import HttpServer
from tests.support.processes.command_line import build_commands_once

RETAINED = "/api/v1/retained"
BORN = 1_767_225_600_000


def path(name: str) -> str:
    return f"{RETAINED}/{quote(name, safe='')}"


@pytest.fixture
def keep(server: HttpServer):
    """Have messages kept, as a subscriber's door does it."""

    def kept(*messages: Message) -> None:
        async def work() -> EntrepotError | None:
            outcome = asyncio.get_running_loop().create_future()
            server.parts.retained.keep(messages, outcome.set_result)
            return await outcome

        assert server.run(work()) is None

    return kept


def message(name: str, body: bytes = b"x", **fields: object) -> Message:
    system = fields.pop("system", {})
    return Message("t", body, name, born_time_ms=BORN, message_id=b"i" * 16, system=system, qos=1, **fields)  # type: ignore[arg-type]


def names(listing: dict) -> list[str]:
    return [one["name"] for one in listing["value"]]


@pytest.mark.everywhere
def test_listing_what_is_retained(client, topic, keep):
    expires = int(time.time() * 1000) + 3_600_000
    system = {SystemProperty.EXPIRES_AT_MS: expires, SystemProperty.CONTENT_TYPE: "text/plain"}
    keep(message(f"{topic}/b", b"12345", system=system), message(f"{topic}/a"), message(f"{topic}/a/c"))
    listing = get(client, RETAINED, filter=f"{topic}/#")
    assert names(listing) == [f"{topic}/a", f"{topic}/a/c", f"{topic}/b"]
    assert listing["next"] is None
    told = listing["value"][2]
    assert told.pop("expiresAt")[:13] == time.strftime("%Y-%m-%dT%H", time.gmtime(expires / 1000))
    assert told == {
        "name": f"{topic}/b",
        "topic": "t",
        "id": "69" * 16,
        "size": 5,
        "qos": 1,
        "contentType": "text/plain",
        "bornTime": "2026-01-01T00:00:00.000Z",
    }
    assert listing["value"][0]["expiresAt"] is None
    assert set(names(listing)) <= set(names(get(client, RETAINED, limit=1000)))


@pytest.mark.everywhere
def test_pages_go_on_behind_the_last_name(client, topic, keep):
    wanted = sorted((f"{topic}/{n % 3}/{n}/temp" for n in range(40)), key=lambda name: name.split("/"))
    keep(*(message(name) for name in wanted), message(f"{topic}/1/2/other"))
    found: list[str] = []
    after = ""
    while True:
        listing = get(client, RETAINED, filter=f"{topic}/+/+/temp", limit=7, after=after)
        found += names(listing)
        if listing["next"] is None:
            break
        assert len(names(listing)) == 7
        after = listing["next"]
    assert found == wanted


@cases("name", ["{}/a", "{}//", "{}/größe °C", "{}/a\x01b", "{}/" + "n" * 2000, "{}/.."])
def test_a_body_comes_as_it_was_published(client, topic, keep, name):
    name = name.format(topic)
    keep(message(name, b"\x00\xff{}"))
    answer = client.get(path(name))
    assert (answer.status_code, answer.content) == (200, b"\x00\xff{}")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert client.delete(path(name)).status_code == 204
    is_problem(client.get(path(name)), 404)
    is_problem(client.delete(path(name)), 404)


@cases(
    "system, told",
    [
        ({SystemProperty.CONTENT_TYPE: "application/json"}, "application/json"),
        ({SystemProperty.CONTENT_TYPE: "text/plain; charset=utf-8"}, "text/plain; charset=utf-8"),
        ({SystemProperty.CONTENT_TYPE: "text/plain\r\nset-cookie: a=b"}, "application/octet-stream"),
        ({SystemProperty.CONTENT_TYPE: "grün/blau"}, "application/octet-stream"),
        ({SystemProperty.PAYLOAD_IS_TEXT: "1"}, "text/plain; charset=utf-8"),
    ],
)
def test_the_type_of_a_body(client, topic, keep, system, told):
    keep(message(f"{topic}/a", b"{}", system=system))
    answer = client.get(path(f"{topic}/a"))
    assert answer.headers["content-type"] == told
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in answer.headers


@pytest.mark.everywhere
def test_deleting_by_filter(client, topic, keep):
    keep(*(message(f"{topic}/a/{n}") for n in range(2500)), message(f"{topic}/b"))
    answer = client.delete(RETAINED, params={"filter": f"{topic}/a/#"})
    assert (answer.status_code, answer.json()) == (200, {"deleted": 2500})
    assert names(get(client, RETAINED, filter=f"{topic}/#")) == [f"{topic}/b"]
    assert client.delete(RETAINED, params={"filter": f"{topic}/a/#"}).json() == {"deleted": 0}


def test_what_expired_is_not_there(client, topic, keep):
    keep(message(f"{topic}/a", system={SystemProperty.EXPIRES_AT_MS: int(time.time() * 1000) - 1}))
    assert get(client, RETAINED, filter=f"{topic}/#")["value"] == []
    is_problem(client.get(path(f"{topic}/a")), 404)


@cases("query", ["filter=a%2F%23%2Fb", "filter=a%2B", "filter=", "limit=0", "limit=1001", "limit=x"])
def test_bad_listings(client, query):
    is_problem(client.get(f"{RETAINED}?{query}"), 400)


def test_nothing_is_deleted_without_a_filter(client, topic, keep):
    keep(message(f"{topic}/a"))
    is_problem(client.delete(RETAINED), 400)
    is_problem(client.delete(RETAINED, params={"filter": "a#"}), 400)
    assert client.get(path(f"{topic}/a")).status_code == 200


def test_metrics(server, client, topic, keep):
    def gauges() -> tuple[float, float]:
        families = {family.name: family for family in text_string_to_metric_families(metrics_now(client))}
        told = ("entrepot_mqtt_retained_messages", "entrepot_mqtt_retained_bytes")
        return families[told[0]].samples[0].value, families[told[1]].samples[0].value

    server.run(server.parts.retained.sweep())  # else it comes in between, for what others left to expire
    count, size = gauges()
    keep(message(f"{topic}/a", b"x" * 1000), message(f"{topic}/b", b"x" * 1000))
    later_count, later_size = gauges()
    assert later_count == count + 2
    assert size + 2000 < later_size < size + 2600


@pytest.fixture
def entrepot(server, capfdbinary, monkeypatch):
    """Run a command; gives its exit code and standard output."""
    build_commands_once(monkeypatch)
    monkeypatch.setenv("ENTREPOT_SERVER", server.url)

    def command(*arguments: str) -> tuple[int, bytes]:
        capfdbinary.readouterr()
        code = run(arguments)
        sys.stdout.flush()
        return code, capfdbinary.readouterr().out

    return command


def test_the_command(entrepot, topic, keep):
    keep(message(f"{topic}/a", b"\x00\xffbody"), *(message(f"{topic}/b/{n}") for n in range(3)))
    code, out = entrepot("retained", "get", f"{topic}/a")
    assert (code, out.rpartition(b"suppressed=0\n")[2]) == (0, b"\x00\xffbody"), "behind the server's own log"
    code, out = entrepot("retained", "list", "--filter", f"{topic}/#", "--limit", "2", "--json")
    listing = json.loads(out[out.index(b"{") :])
    assert (code, names(listing), listing["next"]) == (0, [f"{topic}/a", f"{topic}/b/0"], f"{topic}/b/0")
    code, out = entrepot("retained", "list", "--filter", f"{topic}/#", "--after", f"{topic}/b/0")
    assert code == 0 and f"{topic}/b/2".encode() in out and f"{topic}/b/0".encode() not in out
    assert entrepot("retained", "delete", f"{topic}/a", "--yes")[0] == 0
    assert entrepot("retained", "get", f"{topic}/a")[0] == 1
    assert entrepot("retained", "delete", f"{topic}/a", "--yes")[0] == 1
    assert b"3 deleted" in entrepot("retained", "delete", "--filter", f"{topic}/#", "--yes")[1]
    assert entrepot("retained", "delete")[0] == 2
    assert entrepot("retained", "delete", "a", "--filter", "b")[0] == 2
