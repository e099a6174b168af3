"""`/api/v1/webhooks`: subscriptions with how their delivery goes."""

from __future__ import annotations

import socket
from typing import Any

import httpx2
from typer.testing import CliRunner

from entrepot.gateway.cli.noun_commands import commands_of
from entrepot.gateway.events.webhooks.last_answers import KEPT_ANSWERS
from entrepot.gateway.operations.nouns.webhooks import WEBHOOKS
from tests.e2e.http.steps import event, publish
from tests.e2e.webhooks.conftest import MAX_WAITING, Subscribe
from tests.support.http.server import HttpServer
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.waiting import wait_until

V1 = "/api/v1/webhooks"


def shown(client: httpx2.Client, made: dict[str, Any]) -> dict[str, Any]:
    answer = client.get(f"{V1}/{made['id']}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def answers(client: httpx2.Client, made: dict[str, Any]) -> list[dict[str, Any]]:
    return [answer for delivery in shown(client, made)["deliveries"] for answer in delivery["answers"]]


def test_the_last_answers_are_kept_newest_first(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 503}], then={"status": 204})
    made = subscribe()
    assert answers(client, made) == []
    publish(client, topic, event(1))
    wait_until(lambda: len(answers(client, made)) == 2, "the retry is answered")
    second, first = answers(client, made)
    assert (first["status"], first["outcome"], first["attempt"], first["events"]) == (503, "retry", 1, 1)
    assert (second["status"], second["outcome"], second["attempt"], second["fault"]) == (204, "delivered", 2, None)
    assert first["time"] <= second["time"]
    assert 0 <= first["durationMs"] < 60_000
    whole = shown(client, made)
    assert whole["answered"] == {"asked": 1, "answered": 1, "missing": []}
    assert (whole["topic"], whole["namespace"], whole["status"]["state"]) == (topic, "default", "active")
    assert whole["retryDelaysSeconds"][:4] == [0.05, 0.1, 0.2, 0.2]
    [delivery] = whole["deliveries"]
    assert delivery["circuit"] == {"state": "closed", "failures": 0, "openSeconds": 0}
    assert delivery["retryAt"] is None

    publish(client, topic, *(event(number) for number in range(2, KEPT_ANSWERS + 12)))
    receiver.wait(topic, KEPT_ANSWERS + 12)
    wait_until(lambda: shown(client, made)["waiting"] == 0, "all is delivered")
    assert len(answers(client, made)) == KEPT_ANSWERS


def test_a_sink_that_fails_shows_its_circuit_its_lag_and_the_next_try(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, then={"status": 500})
    made = subscribe(config={"maxattempts": 1000})
    publish(client, topic, *(event(number) for number in range(5)))
    wait_until(lambda: len(answers(client, made)) >= 3, "it has failed")
    whole = shown(client, made)
    [delivery] = whole["deliveries"]
    assert delivery["circuit"]["failures"] >= 3
    assert delivery["retryAt"] is not None
    failed = delivery["answers"][0]
    assert (failed["status"], failed["outcome"], failed["fault"]) == (500, "retry", None)
    wait_until(lambda: shown(client, made)["waiting"] == 5, "all wait")


def test_a_receiver_that_is_asked_for_consent(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, consent=False)
    made = subscribe(config={"handshake": "required"})
    wait_until(lambda: shown(client, made)["status"]["consent"] == "denied", "it has answered")
    whole = shown(client, made)
    assert (whole["status"]["state"], whole["handshake"]["tries"]) == ("unverified", 1)
    assert whole["handshake"]["askedAt"] < whole["handshake"]["nextAt"]


def test_what_waits_for_a_consent_is_told_with_its_limit(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    receiver.behave(topic, consent=False)
    held = subscribe(config={"handshake": "required"})
    free = subscribe(sink=receiver.hook(topic + "-free"))
    publish(client, topic, event(1), event(2))
    wait_until(lambda: shown(client, held)["waiting"] == 2, "both wait, though nothing was ever read")
    wait_until(lambda: shown(client, free)["waiting"] == 0, "they are delivered")
    assert (shown(client, held)["waitingLimit"], shown(client, free)["waitingLimit"]) == (MAX_WAITING, None)
    told = CliRunner().invoke(
        commands_of(WEBHOOKS), ["list", "--topic", topic, "--server", server.url], env={"COLUMNS": "300"}
    )
    assert told.exit_code == 0, told.output
    [of_held] = [line for line in told.output.splitlines() if held["id"] in line]
    assert "unverified" in of_held and f"2, at most {MAX_WAITING}" in of_held
    [of_free] = [line for line in told.output.splitlines() if free["id"] in line]
    assert "at most" not in of_free


def test_pages_and_filters(client: httpx2.Client, topic: str, subscribe: Subscribe) -> None:
    made = sorted(subscribe()["id"] for _ in range(3))
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = client.get(V1, params={"source": topic, "limit": 2, "after": after}).json()
        seen += [each["id"] for each in page["value"]]
        after = page["next"]
    assert seen == made
    assert client.get(V1, params={"source": topic, "state": "suspended"}).json()["value"] == []
    assert client.get("/api/v1/namespaces/default/webhooks", params={"source": topic}).json()["value"] != []
    assert client.get(f"{V1}/none").status_code == 404


def test_an_answer_that_did_not_come_has_its_reason(client: httpx2.Client, topic: str, subscribe: Subscribe) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        made = subscribe(
            sink=f"http://127.0.0.1:{silent.getsockname()[1]}/", config={"timeoutseconds": 0.1, "maxattempts": 1}
        )
        publish(client, topic, event(1))
        wait_until(lambda: answers(client, made), "it was given up")
        [answer] = answers(client, made)
        assert (answer["status"], answer["outcome"], answer["attempt"]) == (None, "retry", 1)
        assert answer["fault"]
        assert answer["durationMs"] >= 100
