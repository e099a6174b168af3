"""Half messages: listed with their age and checks, by pages."""

from __future__ import annotations

import json

from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.transaction import TransactionEnd
from tests.e2e.http.steps import get, is_problem
from tests.e2e.http.test_http_cli import entrepot, ok
from tests.support.http.client import http_client
from tests.support.http.server import serving

TRANSACTIONS = "/api/v1/transactions"
__all__ = ["entrepot"]


def prepare(server, topic: str, *names: str) -> None:
    """Store half messages with these transaction ids."""

    async def store() -> None:
        halves = [
            Message(
                topic,
                name.encode(),
                topic,
                queue_id=0,
                system={SystemProperty.TRANSACTION_ID: name, SystemProperty.BORN_HOST: "10.0.0.7"},
            )
            for name in names
        ]
        confirmation = server.store.transactions.append_half(halves)
        assert await server.store.messages.bounds(topic)
        await server.store.transactions.end_transactions([])  # behind the write
        assert not any(confirmation.refusals or ())

    server.run(store())


def test_pages_of_half_messages(server, client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    prepare(server, topic, "a", "b", "c")
    first = get(client, TRANSACTIONS, topic=topic, limit=2)
    rest = get(client, TRANSACTIONS, topic=topic, limit=2, cursor=first["next"])
    rows = [*first["value"], *rest["value"]]
    assert ([row["transactionId"] for row in rows], rest["next"]) == (["a", "b", "c"], None)
    assert (rows[0]["topic"], rows[0]["checks"], rows[0]["producer"], rows[0]["size"]) == (topic, 0, "10.0.0.7", 1)
    assert rows[0]["nextCheckAt"] and rows[0]["ageSeconds"] >= 0 and "queueOffset" not in rows[0]
    server.run(server.store.transactions.end_transactions([TransactionEnd(topic, "b", True)]))
    assert [row["transactionId"] for row in get(client, TRANSACTIONS, topic=topic)["value"]] == ["a", "c"]
    is_problem(client.get(TRANSACTIONS, params={"topic": f"none-{topic}"}), 404)
    is_problem(client.get(TRANSACTIONS, params={"cursor": "x"}), 400, "cursor")


def test_age_goes_on(tmp_path):
    with serving("memory", tmp_path) as server, http_client(server.url) as client:
        client.put("/api/v1/topics/shop", json={"queues": 1})
        client.put("/api/v1/namespaces/plant", json={})
        prepare(server, "shop", "a")
        server.clock.advance(90)
        [row] = get(client, TRANSACTIONS)["value"]
        assert 90 <= row["ageSeconds"] < 100
        assert get(client, "/api/v1/namespaces/plant/transactions")["value"] == []


def test_the_command(entrepot, server, client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    prepare(server, topic, "order-1")
    assert "order-1" in ok(entrepot("transaction", "list", "--topic", topic))
    [row] = json.loads(ok(entrepot("transaction", "list", "--topic", topic, "--json")))["value"]
    assert row["transactionId"] == "order-1"
