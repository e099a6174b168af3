"""Subscriptions over several gateways: what is stored after the answer is delivered, by whichever gateway it came."""

from __future__ import annotations

import httpx2
import pytest

from tests.support.doors.load import door, event_headers
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.processes.deployment import ClusterProcesses
from tests.support.waiting import wait_until
from tests.tiers.marks import scaled

ROUNDS = scaled(4, 15)


@pytest.mark.scaled
@pytest.mark.xdist_group("cluster")
def test_a_subscription_holds_at_every_gateway_when_it_is_answered(shared: ClusterProcesses) -> None:
    receiver = WebhookReceiver()
    try:
        with door(shared.gateways[0]) as one, door(shared.gateways[1]) as two:
            made: list[str] = []
            for number in range(ROUNDS):
                first, second = (one, two) if number % 2 else (two, one)
                answer = first.post("/subscriptions", json=body(receiver, number))
                assert answer.status_code == 201, answer.text
                made.append(answer.json()["id"])
                publish(second, number)
            wait_until(lambda: len(set(paths(receiver))) == ROUNDS, lambda: str(paths(receiver)))
            for number, subscription in enumerate(made):
                other = {**body(receiver, number), "filters": [{"exact": {"subject": f"after{number}"}}]}
                first, second = (one, two) if number % 2 else (two, one)
                path = f"/subscriptions/{subscription}"
                wait_until(lambda at=first, path=path: at.get(path).status_code == 200, "it has been told")
                assert first.put(path, json=other).status_code == 200
                publish(second, number)  # what it wanted before
                publish(second, number, "after")
            wait_until(lambda: len(paths(receiver)) >= 2 * ROUNDS, lambda: str(paths(receiver)))
            assert sorted(paths(receiver)) == sorted(
                [f"s{n}" for n in range(ROUNDS)] + [f"after{n}" for n in range(ROUNDS)]
            )
            for subscription in made:
                assert one.delete(f"/subscriptions/{subscription}").status_code == 204
            wait_until(lambda: leftovers(two) == [], lambda: str(leftovers(two)))
    finally:
        receiver.stop()


def body(receiver: WebhookReceiver, number: int) -> dict:
    filters = [{"exact": {"subject": f"s{number}"}}]
    config = {"handshake": "off"}
    return {"source": "jobs", "sink": receiver.hook("all"), "protocol": "HTTP", "filters": filters, "config": config}


def publish(client: httpx2.Client, number: int, kind: str = "s") -> None:
    headers = {**event_headers(f"e{number}"), "ce-subject": f"{kind}{number}"}
    assert client.post("/topics/jobs:publish", content=b"{}", headers=headers).status_code == 200


def paths(receiver: WebhookReceiver) -> list[str]:
    """Subjects of what came."""
    return [request["headers"]["ce-subject"] for request in receiver.seen("all")]


def leftovers(client: httpx2.Client) -> list[str]:
    """Groups of subscriptions that are gone."""
    names = [group["name"] for group in client.get("/api/v1/groups").json()["value"]]
    return [name for name in names if name.startswith(("webhook~", "dispatch~", "catchup~"))]
