"""What the tests of this door do again and again."""

from __future__ import annotations

import json

import httpx2

from tests.support.waiting import wait_until

BATCH = "application/cloudevents-batch+json"


def event(number: int = 1, **members: object) -> dict[str, object]:
    return {"specversion": "1.0", "id": f"e{number}", "source": "/line1", "type": "reading", **members}


def publish(client: httpx2.Client, topic: str, *events: dict[str, object], below: str = "") -> None:
    answer = client.post(f"{below}/topics/{topic}:publish", content=json.dumps(events), headers={"content-type": BATCH})
    assert (answer.status_code, answer.json()) == (200, {}), answer.text


def receive(client: httpx2.Client, topic: str, group: str = "g", count: int = 100, *, below: str = "") -> list[dict]:
    answer = client.post(
        f"{below}/topics/{topic}/eventsubscriptions/{group}:receive", params={"maxEvents": count, "maxWaitTime": 0}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["value"]


def settle(
    client: httpx2.Client, verb: str, topic: str, received: list[dict], group: str = "g", *, below: str = ""
) -> None:
    tokens = [one["brokerProperties"]["lockToken"] for one in received]
    answer = client.post(f"{below}/topics/{topic}/eventsubscriptions/{group}:{verb}", json={"lockTokens": tokens})
    assert answer.json()["failedLockTokens"] == [], answer.text


def ids(received: list[dict]) -> list[str]:
    return [one["event"]["id"] for one in received]


def get(client: httpx2.Client, path: str, **query: object) -> dict:
    answer = client.get(path, params={name.rstrip("_"): value for name, value in query.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def is_problem(answer: httpx2.Response, status: int, *words: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == status
    assert problem["type"] and problem["title"] and problem["detail"]
    if answer.url.path.startswith("/api/") and not answer.url.path.startswith("/api/v1/"):
        assert problem["error"] and problem["reason"] == problem["detail"], "as RabbitMQ's clients read it"
        return
    assert problem["error"]["code"] and problem["error"]["message"] == problem["detail"], "as Azure's clients read it"
    for word in words:
        assert word in problem["detail"]


def metrics_now(client: httpx2.Client) -> str:
    """The present text of `/metrics`: a dear one is shared for a second, and each scrape counts the one before."""
    shared = client.get("/metrics").text
    answer = wait_until(lambda: found if (found := client.get("/metrics")).text != shared else None, "it is made anew")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return answer.text
