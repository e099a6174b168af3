"""The journey of one event: published over HTTP, refused by its sink, buried, sent again, taken."""

from __future__ import annotations

import json
import sys

import pytest

from entrepot.domain.url import host_of
from entrepot.gateway.cli.app import run
from tests.e2e.http.steps import event, get, is_problem, publish, receive, settle
from tests.e2e.webhooks.conftest import Subscribe
from tests.support.processes.command_line import build_commands_once
from tests.support.waiting import wait_until

JOURNEYS = "/api/v1/journeys"


def kinds(journey: dict, lane: str = "", *, is_known: bool = True) -> list[str]:
    return [hop["kind"] for hop in journey["hops"] if lane in hop["lane"] and hop["isKnown"] is is_known]


def timed(journey: dict, lane: str) -> list[str]:
    return [hop["kind"] for hop in journey["hops"] if lane in hop["lane"] and hop["time"] is not None]


@pytest.fixture
def buried(client, receiver, topic, subscribe: Subscribe) -> dict:
    """A subscription whose sink has refused an event twice, and then takes everything."""
    receiver.behave(topic, steps=[{"status": 503}, {"status": 500}])
    made = subscribe(config={"maxattempts": 2})
    publish(client, topic, event(1, source="/a b/c", subject="line1"))
    group = f"webhook~{made['id']}"
    letters = f"/api/v1/groups/{group}/dead-letters"
    wait_until(lambda: client.get(letters).json().get("value"), "the event is a dead letter")
    return {**made, "group": group, "letters": letters}


def test_from_publishing_through_failures_to_a_resend(client, receiver, topic, buried, server, capfd, monkeypatch):
    lane = f"group/{buried['group']}"
    [letter] = get(client, buried["letters"])["value"]
    answer = client.post(f"{buried['letters']}:resend", json={"offsets": [letter["offset"]]})
    assert answer.json()["failedOffsets"] == []
    receiver.wait(topic, 3)
    [message] = get(client, "/api/v1/messages", topic=topic)["value"]

    def settled() -> dict | None:
        found = get(client, JOURNEYS, id=message["id"])
        return found if "acknowledged" in kinds(found, lane) else None

    wait_until(settled, "the group has settled it")
    journey = get(client, JOURNEYS, id=message["id"])
    assert timed(journey, lane) == ["failed", "delivered", "deadLettered", "resent"]
    failed, _, dead, _ = [hop for hop in journey["hops"] if hop["lane"] == lane and hop["time"]]
    assert failed["outcome"].startswith("HTTP 503") and "next try after" in failed["outcome"] and failed["attempt"] == 1
    assert (dead["outcome"], dead["attempt"]) == ("HTTP 500, after 2 attempts", 2)
    taken = [hop for hop in journey["hops"] if hop["kind"] == "acknowledged" and hop["lane"] == lane]
    assert [(hop["time"], hop["outcome"]) for hop in taken] == [(None, "settled")]
    assert "tracing is off" in taken[0]["detail"]
    assert {"delivered", "confirmed", "takenIn"} <= set(kinds(journey, is_known=False))
    assert kinds(journey)[:2] == ["takenIn", "stored"] and "queued" in kinds(journey)
    webhook = next(each for each in journey["lanes"] if each["id"] == lane)
    assert (webhook["kind"], webhook["name"]) == ("webhook", buried["id"])
    assert webhook["detail"] == host_of(receiver.hook(topic)), "its path may be a secret"
    assert journey["names"]["event"] == {"source": "/a b/c", "id": "e1", "type": "reading"}
    times = [hop["time"] for hop in journey["hops"] if hop["time"]]
    assert times == sorted(times)
    assert all(isinstance(hop["place"]["offset"], str) for hop in journey["hops"] if hop["place"])

    for name in ({"by": "event", "id": "e1", "source": "/a b/c"}, {"by": "key", "id": "e1", "topic": topic}):
        found = get(client, JOURNEYS, **name)
        assert found["message"]["id"] == message["id"] and timed(found, lane) == timed(journey, lane)

    build_commands_once(monkeypatch)
    monkeypatch.setenv("ENTREPOT_SERVER", server.url)
    capfd.readouterr()
    assert run(("message", "journey", message["id"])) == 0
    sys.stdout.flush()
    shown, remarks = capfd.readouterr()
    assert "HTTP 503" in shown and "deadLettered" in shown and "resent" in shown
    assert "not known" in remarks
    assert run(("message", "journey", "e1", "--by", "event", "--source", "/a b/c", "--json")) == 0
    sys.stdout.flush()
    out = [line for line in capfd.readouterr()[0].splitlines() if "http request" not in line]
    assert json.loads("\n".join(out))["message"]["id"] == message["id"]


def test_on_a_traced_topic_the_way_in_and_every_attempt_are_known(client, server, topic):
    server.run(server.parts.sender.provenance.introduce("gw-1:8080"))
    assert client.put(f"/api/v1/topics/{topic}", json={"trace": 1.0}).status_code in (200, 201)
    publish(client, topic, event(7))
    first = receive(client, topic, "workers")
    settle(client, "release", topic, first, "workers")
    wait_until(
        lambda: (
            (second := receive(client, topic, "workers"))
            and not settle(client, "acknowledge", topic, second, "workers")
        ),
        "it comes again",
    )
    [message] = get(client, "/api/v1/messages", topic=topic)["value"]
    journey = get(client, JOURNEYS, id=message["id"])
    lane = "group/workers"
    assert timed(journey, lane) == ["delivered", "failed", "delivered", "acknowledged"]
    assert kinds(journey, lane, is_known=False) == []
    first_hop = journey["hops"][0]
    assert (first_hop["kind"], first_hop["door"], first_hop["gateway"]) == ("takenIn", "http", "gw-1:8080")
    assert "127.0.0.1" in first_hop["client"]
    attempts = [hop for hop in journey["hops"] if hop["kind"] == "delivered"]
    assert [hop["outcome"] for hop in attempts] == ["given back", "acknowledged"]
    assert all("HTTP client" in hop["client"] and "gw-1:8080" in hop["client"] for hop in attempts)


def test_names_that_mean_nothing_or_are_hostile(client, topic):
    publish(client, topic, event(1))
    is_problem(client.get(JOURNEYS, params={"id": "nobody"}), 404, "no message has the messageId")
    is_problem(client.get(JOURNEYS, params={"id": "x" * 1025}), 400)
    is_problem(client.get(JOURNEYS), 400)
    is_problem(client.get(JOURNEYS, params={"id": "x", "by": "colour"}), 400)
    is_problem(client.get(JOURNEYS, params={"id": "x", "by": "amqpMessageId"}), 400, "name one")
    is_problem(client.get(JOURNEYS, params={"id": "x", "by": "key", "topic": "no-such-topic"}), 404)
    is_problem(client.get(JOURNEYS, params={"id": "x", "from": "yesterday"}), 400)
    hostile = "\u202e<script>\x00/../%2e%2e\n"
    answer = client.get(JOURNEYS, params={"id": hostile, "by": "key"})
    is_problem(answer, 404)
    assert "\u202e" not in answer.json()["detail"]
    [message] = get(client, "/api/v1/messages", topic=topic)["value"]
    is_problem(client.get(JOURNEYS, params={"id": message["id"], "at": "12345678901"}), 404, "lies at")
