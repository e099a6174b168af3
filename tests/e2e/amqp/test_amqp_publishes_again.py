"""A client publishes the same again and again while others change what it means: the very next publish heeds that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pika  # type: ignore[import-untyped]
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError  # type: ignore[import-untyped]

from tests.support.cheap_hashes import CHEAP_FLAGS
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

USERS = {
    **CHEAP_FLAGS,
    "security.initial_admin": "root",
    "security.initial_admin_password": "root",
}
PROPERTIES = pika.BasicProperties(content_type="text/plain", headers={"n": 1}, delivery_mode=2)


class Shop:
    """A running server: `api` is its super user's, `root` the super user's channel, with exchange `shop`."""

    def __init__(self, server: ServerProcess, api: httpx2.Client) -> None:
        self._server, self._api = server, api
        self._connections: list[pika.BlockingConnection] = []
        self.root = self.channel("root")
        self.root.exchange_declare("shop", "direct", durable=True)
        for name in ("old", "new"):
            self.root.queue_declare(name, durable=True)
        self.root.queue_bind("old", "shop", "k")

    def channel(self, user: str) -> Any:
        where = pika.ConnectionParameters(
            "127.0.0.1", self._server.port("amqp"), credentials=pika.PlainCredentials(user, user)
        )
        self._connections.append(pika.BlockingConnection(where))
        channel = self._connections[-1].channel()
        channel.confirm_delivery()
        return channel

    def put(self, path: str, **body: object) -> None:
        answer = self._api.put(path, json=body)
        assert answer.status_code in (200, 201, 204), answer.text

    def delete(self, path: str) -> None:
        answer = self._api.delete(path)
        assert answer.status_code in (200, 204), answer.text

    def waiting(self) -> tuple[int, int]:
        """Counts of messages that `old` and `new` had: both are empty then."""
        return tuple(self.root.queue_purge(name).method.message_count for name in ("old", "new"))  # type: ignore[return-value]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with ServerProcess(tmp_path, USERS) as server:
        url = f"http://{server.address('http')}"
        with httpx2.Client(base_url=url, auth=("root", "root"), timeout=PATIENCE_SECONDS, trust_env=False) as api:
            shop = Shop(server, api)
            yield shop
            shop.close()


def publish(channel: Any, times: int = 3, *, exchange: str = "shop", key: str = "k", mandatory: bool = False) -> None:
    for _ in range(times):
        channel.basic_publish(exchange, key, b"body", PROPERTIES, mandatory=mandatory)


def test_what_is_bound_and_deleted_counts_at_once(shop: Shop) -> None:
    publisher = shop.channel("root")
    publish(publisher)
    assert shop.waiting() == (3, 0)
    shop.root.queue_bind("new", "shop", "k")
    publish(publisher, 1)
    assert shop.waiting() == (1, 1)
    shop.root.queue_unbind("old", "shop", "k")
    publish(publisher, 1)
    assert shop.waiting() == (0, 1)
    shop.root.exchange_delete("shop")
    shop.root.exchange_declare("shop", "fanout", durable=True)
    shop.root.queue_bind("old", "shop")
    publish(publisher, 1)
    assert shop.waiting() == (1, 0)
    publish(publisher, exchange="", key="new", mandatory=True)
    assert shop.waiting() == (0, 3)
    shop.root.queue_delete("new")
    with pytest.raises(UnroutableError):
        publish(publisher, 1, exchange="", key="new", mandatory=True)
    shop.root.queue_declare("new", durable=True)
    publish(publisher, 1, exchange="", key="new", mandatory=True)
    assert shop.waiting() == (0, 1)


def test_policies_count_at_once(shop: Shop) -> None:
    publisher = shop.channel("root")
    publish(publisher, exchange="shop", key="nowhere")
    shop.root.exchange_declare("lost", "fanout", durable=True)
    shop.root.queue_bind("new", "lost")
    shop.put(
        "/api/policies/%2F/p", pattern="^shop$", definition={"alternate-exchange": "lost"}, **{"apply-to": "exchanges"}
    )
    publish(publisher, 1, key="nowhere")
    assert shop.waiting() == (0, 1)
    shop.delete("/api/policies/%2F/p")
    publish(publisher, 1, key="nowhere")
    assert shop.waiting() == (0, 0)
    publish(publisher)
    shop.put(
        "/api/policies/%2F/p",
        pattern="^old$",
        definition={"max-length": 1, "overflow": "reject-publish"},
        **{"apply-to": "queues"},
    )
    shop.waiting()
    publish(publisher, 1)
    with pytest.raises(pika.exceptions.NackError):
        publish(publisher, 1)
    assert shop.waiting() == (1, 0)


def test_rights_count_at_once_and_for_their_user_alone(shop: Shop) -> None:
    for name in ("ann", "bob"):
        shop.put(f"/api/users/{name}", password=name, tags="")
        shop.put(f"/api/permissions/%2F/{name}", configure="", write="^shop$", read="")
    ann, bob = shop.channel("ann"), shop.channel("bob")
    publish(ann)
    publish(bob)
    assert shop.waiting() == (6, 0)
    shop.put("/api/permissions/%2F/ann", configure="", write="^other$", read="")
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        publish(ann, 1)
    publish(bob, 1)
    ann = shop.channel("ann")
    shop.put("/api/permissions/%2F/ann", configure="", write="^shop$", read="")
    publish(ann)
    assert shop.waiting() == (4, 0)
    shop.put("/api/v1/acls/ann", statements=[{"effect": "DENY", "actions": ["PUB"], "resources": ["Topic:shop/k"]}])
    with pytest.raises(ChannelClosedByBroker, match="ACCESS_REFUSED"):
        publish(ann, 1)
    publish(bob, 1)
    assert shop.waiting() == (1, 0)
