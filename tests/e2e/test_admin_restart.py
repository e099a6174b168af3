"""What was said over HTTP is there after the server was killed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2

from tests.e2e.http.steps import event, get, ids, publish, receive, settle
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import PATIENCE_SECONDS

NAMESPACE = "/api/v1/namespaces/team"


def door(server: Deployment) -> httpx2.Client:
    return httpx2.Client(base_url=f"http://{server.ports['http']}", timeout=PATIENCE_SECONDS, trust_env=False)


def test_topics_groups_and_positions_survive_a_kill(deploy: Deploy, tmp_path: Path) -> None:
    topic = {"queues": 3, "writeQueues": 2, "maxBacklog": 50, "maxMessageBytes": 1000, "cleanup": "CONSUMED"}
    group = {
        "retry": {"kind": "list", "initialMs": 1000, "maxMs": 7_200_000, "multiplier": 2.0, "delaysMs": [5, 60]},
        "maxInFlight": 9,
        "filter": {"kind": "TAG", "text": "*"},
    }
    with deploy(tmp_path) as server:
        with door(server) as client:
            assert client.put(NAMESPACE).status_code == 201
            assert client.put(f"{NAMESPACE}/topics/orders", json=topic).status_code == 201
            assert client.put(f"{NAMESPACE}/groups/workers", json=group).status_code == 201
            publish(client, "orders", event(1), event(2), below="/namespaces/team")
            held = receive(client, "orders", "workers", below="/namespaces/team")
            settle(client, "reject", "orders", held, "workers", below="/namespaces/team")
            reset = {"topic": "orders", "to": "earliest"}
            assert client.post(f"{NAMESPACE}/groups/workers:reset", json=reset).status_code == 200
            before = [get(client, f"{NAMESPACE}/{path}") for path in ("topics/orders", "groups/workers")]
            dead = get(client, f"{NAMESPACE}/groups/workers/dead-letters")
        server.kill()
        server.restart()
        with door(server) as client:
            assert [get(client, f"{NAMESPACE}/{path}") for path in ("topics/orders", "groups/workers")] == before
            assert before[0].items() >= topic.items() and before[1].items() >= group.items()
            assert get(client, f"{NAMESPACE}/groups/workers/dead-letters") == dead
            assert sorted(ids(receive(client, "orders", "workers", below="/namespaces/team"))) == ["e1", "e2"]


def test_timers_and_found_messages_survive_a_kill(deploy: Deploy, tmp_path: Path) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    with deploy(tmp_path) as server:
        with door(server) as client:
            publish(client, "orders", event(1), event(2, deliverytime=later))
            waiting = get(client, "/api/v1/timers")
            found = get(client, "/api/v1/messages", topic="orders", key="e1")
            assert (len(waiting["value"]), len(found["value"])) == (1, 1)
        server.kill()
        server.restart()
        with door(server) as client:
            assert get(client, "/api/v1/timers") == waiting
            assert get(client, "/api/v1/messages", topic="orders", key="e1") == found
            path = f"/api/v1/timers/{waiting['value'][0]['handle']}"
            assert client.put(path, json={"deliverAt": "2000-01-01T00:00:00Z"}).status_code == 200
            assert sorted(ids(receive(client, "orders"))) == ["e1", "e2"]
