"""Virtual hosts whose names have `/`, `.`, `:` and more: by clients, rights, definitions, metrics and namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pika.exceptions  # type: ignore[import-untyped]
import pytest

from tests.support.amqp.management import Managed
from tests.support.waiting import PATIENCE_SECONDS, wait_until

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture(params=["plant/a.b", "a:b@c", "ü%2F #?", "--a_2Fb"])
def vhost(request: pytest.FixtureRequest, managed: Managed) -> Iterator[str]:
    """A virtual host where guest may do everything."""
    name = f"{request.param}{uuid4().hex[:6]}"
    assert managed.do("PUT", f"/vhosts/{path(name)}", {}) == 201
    managed.do("PUT", f"/permissions/{path(name)}/guest", EVERYTHING)
    yield name
    managed.ask("DELETE", f"/vhosts/{path(name)}")


def path(name: str) -> str:
    return quote(name, safe="")


def round_trip(connection: Any, queue: str) -> bytes:
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True)
    channel.exchange_declare("to", "topic", durable=True)
    channel.queue_bind(queue, "to", "k.#")
    channel.basic_publish("to", "k.a", b"x")
    _, _, body = channel.basic_get(queue, auto_ack=True)
    return bytes(body)


def test_clients_use_it(managed: Managed, vhost: str) -> None:
    with managed.amqp(vhost=vhost) as connection:
        assert round_trip(connection, "q") == b"x"
        assert vhost in [each["vhost"] for each in managed.get("/connections")] if managed.is_ours else True
    assert managed.get(f"/vhosts/{path(vhost)}")["name"] == vhost
    assert vhost in [each["name"] for each in managed.get("/vhosts")]
    assert [(each["name"], each["vhost"]) for each in managed.get(f"/queues/{path(vhost)}")] == [("q", vhost)]
    with pytest.raises(pika.exceptions.AMQPError), managed.amqp(vhost=f"{vhost}/other"):
        pass


def test_rights_are_of_it_alone(managed: Managed, vhost: str) -> None:
    user = f"n{uuid4().hex[:10]}"
    managed.do("PUT", f"/users/{user}", {"password": user, "tags": ""})
    managed.do("PUT", "/queues/%2F/q", {"durable": True})
    row = {"user": user, "vhost": vhost, "configure": "^(q|to)$", "write": "q$|^to", "read": "^(q|to)$"}
    managed.do("PUT", f"/permissions/{path(vhost)}/{user}", {key: row[key] for key in EVERYTHING})
    assert managed.get(f"/permissions/{path(vhost)}/{user}") == row
    assert managed.get(f"/users/{user}/permissions") == [row]
    with managed.amqp(user, vhost=vhost) as connection:
        assert round_trip(connection, "q") == b"x"
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
            connection.channel().queue_declare("other")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError), managed.amqp(user):
        pass  # it has no right in /
    managed.do("DELETE", f"/users/{user}")


def test_definitions_go_out_and_come_in(managed: Managed, vhost: str) -> None:
    with managed.amqp(vhost=vhost) as connection:
        round_trip(connection, "q")
    told = managed.get("/definitions")
    assert {"name": vhost} in [{"name": each["name"]} for each in told["vhosts"]]
    of = {
        kind: [each for each in told[kind] if each["vhost"] == vhost]
        for kind in ("queues", "exchanges", "bindings", "permissions")
    }
    assert [len(of[kind]) for kind in of] == [1, 1, 1, 1]
    managed.do("DELETE", f"/vhosts/{path(vhost)}")
    managed.do("POST", "/definitions", {"vhosts": [{"name": vhost}], **of})
    assert [each["name"] for each in managed.get(f"/queues/{path(vhost)}")] == ["q"]
    assert managed.get(f"/permissions/{path(vhost)}/guest") == {"user": "guest", "vhost": vhost, **EVERYTHING}
    with managed.amqp(vhost=vhost) as connection:
        assert round_trip(connection, "q") == b"x"


def test_metrics_name_it(managed: Managed, vhost: str) -> None:
    with managed.amqp(vhost=vhost) as connection:
        round_trip(connection, "q")
        asked: dict[str, Any] = {"auth": ("guest", "guest"), "trust_env": False}

        def is_told() -> bool:
            told = httpx2.get(f"{managed.metrics}/per-object", timeout=PATIENCE_SECONDS, **asked).text
            return any(f'vhost="{vhost}"' in line and 'queue="q"' in line for line in told.splitlines())

        wait_until(is_told, "the queue is in the metrics")


def test_other_doors_have_it_as_a_namespace(managed: Managed, vhost: str) -> None:
    if not managed.is_ours:
        pytest.skip("there are no namespaces at RabbitMQ")
    managed.do("PUT", f"/queues/{path(vhost)}/q", {"durable": True})
    asked: dict[str, Any] = {"auth": ("guest", "guest"), "trust_env": False, "timeout": PATIENCE_SECONDS}
    names = [each["name"] for each in httpx2.get(f"{managed.url}/api/v1/namespaces", **asked).json()["value"]]
    (namespace,) = [each for each in names if each.endswith(vhost[-6:])]
    group = httpx2.get(f"{managed.url}/api/v1/namespaces/{namespace}/groups/q", **asked)
    assert group.status_code == 200, group.text
