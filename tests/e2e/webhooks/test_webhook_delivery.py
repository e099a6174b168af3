"""Deliveries to a receiver that is a process of its own: modes, order, retries, ends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import time

import httpx2
import pytest

from entrepot.gateway.events.webhooks import deliverer
from entrepot.gateway.messaging.incidents import Outcome
from tests.e2e.http.steps import event, ids, publish, receive
from tests.e2e.webhooks.conftest import CIRCUIT_SECONDS, MAX_WAITING, Subscribe
from tests.support.cases import cases
from tests.support.http.server import HttpServer
from tests.support.http.webhook_receiver import WebhookReceiver, body_of, events_of
from tests.support.waiting import wait_until


def delivered(requests: list[dict]) -> list[str]:
    return [one["id"] for request in requests for one in events_of(request)]


def dead_letters(client: httpx2.Client, subscription: dict) -> list[dict]:
    answer = client.get(f"/api/v1/groups/webhook~{subscription['id']}/dead-letters")
    return answer.json()["value"] if answer.status_code == 200 else []


def listed(client: httpx2.Client, subscription: dict) -> dict:
    """The subscription with its delivery."""
    answer = client.get(f"/api/v1/webhooks/{subscription['id']}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_binary_mode(client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe) -> None:
    subscribe()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    publish(client, topic, event(1, data={"n": 1}, subject="über", unit="°C", flag=True, traceparent=parent))
    [request] = receiver.wait(topic, 1)
    headers = request["headers"]
    assert request["method"] == "POST" and json.loads(body_of(request)) == {"n": 1}
    assert headers["content-type"] == "application/json"
    assert (headers["ce-id"], headers["ce-source"], headers["ce-type"]) == ("e1", "/line1", "reading")
    assert (headers["ce-specversion"], headers["ce-subject"]) == ("1.0", "%C3%BCber")
    assert headers["ce-flag"] == "true"
    assert headers["webhook-request-origin"] == "events.example"
    assert headers["traceparent"] == parent == headers["ce-traceparent"]
    assert headers["user-agent"].startswith("entrepot/")


def test_structured_mode_and_put(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    subscribe(config={"mode": "structured"}, protocolsettings={"method": "PUT", "headers": {"X-Api-Key": "k"}})
    publish(client, topic, event(1, data={"n": 1}, level=3))
    [request] = receiver.wait(topic, 1)
    assert request["method"] == "PUT" and request["headers"]["x-api-key"] == "k"
    assert request["headers"]["content-type"] == "application/cloudevents+json; charset=utf-8"
    assert json.loads(body_of(request)) == {**event(1), "datacontenttype": None, "data": {"n": 1}, "level": 3} or (
        json.loads(body_of(request))["level"] == 3 and json.loads(body_of(request))["data"] == {"n": 1}
    )


def test_batched_mode(client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe) -> None:
    subscribe(config={"mode": "batched", "batchsize": 10})
    publish(client, topic, *[event(n) for n in range(35)])
    requests = receiver.wait_until(topic, lambda found: len(delivered(found)) >= 35)
    assert sorted(delivered(requests)) == sorted(f"e{n}" for n in range(35))
    assert {request["headers"]["content-type"] for request in requests} == {
        "application/cloudevents-batch+json; charset=utf-8"
    }
    assert max(len(events_of(request)) for request in requests) <= 10
    assert len(requests) < 35


def test_only_what_the_filters_want(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    subscribe(
        types=["reading", "alarm"],
        filters=[{"prefix": {"subject": "line1/"}}, {"not": {"suffix": {"subject": "/noise"}}}, {"sql": "level > 2"}],
    )
    publish(
        client,
        topic,
        event(1, subject="line1/temp", level=3),
        event(2, subject="line1/noise", level=3),
        event(3, subject="line2/temp", level=3),
        event(4, subject="line1/temp", level=2),
        event(5, subject="line1/temp"),
        {**event(6, subject="line1/temp", level=9), "type": "other"},
        {**event(7, subject="line1/temp", level=9), "type": "alarm"},
    )
    receiver.wait(topic, 2)
    publish(client, topic, event(8, subject="line1/temp", level=3))
    assert sorted(delivered(receiver.wait(topic, 3))) == ["e1", "e7", "e8"]


def test_many_subscriptions_of_one_topic_each_get_their_own(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    for n in range(30):
        subscribe(sink=receiver.hook(f"{topic}-{n % 10}"), filters=[{"exact": {"subject": f"s{n}"}}])
    publish(client, topic, *[event(n, subject=f"s{n}") for n in range(30)])
    for n in range(10):
        found = receiver.wait(f"{topic}-{n}", 3)
        assert sorted(delivered(found)) == sorted([f"e{n}", f"e{n + 10}", f"e{n + 20}"])


def test_a_subscription_is_for_what_comes_after_it(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    publish(client, topic, *[event(n) for n in range(20)])
    subscribe()
    publish(client, topic, event(100))
    receiver.wait(topic, 1)
    subscribe(sink=receiver.hook(topic + "-second"))
    publish(client, topic, event(101))
    assert delivered(receiver.wait(topic + "-second", 1)) == ["e101"]
    assert delivered(receiver.wait(topic, 2)) == ["e100", "e101"]


@pytest.mark.parametrize("start", ["earliest", "2000-01-01T00:00:00Z", "0"])
def test_or_for_what_was_before_it_too(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, start: str
) -> None:
    publish(client, topic, *[event(n, subject=f"s{n % 2}") for n in range(40)])
    made = subscribe(config={"start": start}, filters=[{"exact": {"subject": "s1"}}])
    publish(client, topic, *[event(n, subject=f"s{n % 2}") for n in range(40, 50)])
    found = receiver.wait(topic, 25)
    wait_until(
        lambda: not client.get(f"/subscriptions/{made['id']}").json()["status"]["catchingup"], "the end of catching up"
    )
    assert sorted(delivered(found)) == sorted(f"e{n}" for n in range(1, 50, 2))

    def groups() -> list[str]:
        names = [group["name"] for group in client.get("/api/v1/groups").json()["value"]]
        return [name for name in names if "catchup" in name and made["id"] in name]

    wait_until(lambda: not groups(), "the end of its group")


def test_failures_are_tried_again_later_and_later(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 500}, {"status": 503}, {"status": 301, "headers": {"location": "/x"}}])
    subscribe(config={"initialbackoffseconds": 0.2, "maxbackoffseconds": 10})
    publish(client, topic, event(1))
    found = receiver.wait(topic, 4)
    gaps = [after["at"] - before["at"] for before, after in itertools.pairwise(found)]
    assert gaps[0] >= 0.1 and gaps[1] >= 0.2 and gaps[2] >= 0.4
    assert {request["path"] for request in found} == {f"/hook/{topic}"}


def test_a_receiver_that_stalls_is_left_after_the_time_limit(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 200, "stall": 100_000}])
    made = subscribe(config={"timeoutseconds": 0.5})
    publish(client, topic, event(1))
    receiver.wait(topic, 2)
    wait_until(lambda: client.get(f"/subscriptions/{made['id']}").json()["status"]["lastanswer"] == "200", "the answer")


def test_retry_after_is_obeyed(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 429, "headers": {"retry-after": "1"}}])
    made = subscribe()
    publish(client, topic, event(1))
    wait_until(lambda: client.get(f"/subscriptions/{made['id']}").json()["status"]["lastanswer"] == "429", "the answer")
    publish(client, topic, event(2))
    found = receiver.wait(topic, 3)
    assert all(later["at"] - found[0]["at"] >= 0.9 for later in found[1:])


@pytest.mark.everywhere
def test_after_the_last_attempt_it_is_a_dead_letter_with_the_reason(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, then={"status": 500})
    made = subscribe(config={"maxattempts": 3})
    publish(client, topic, event(1, data={"n": 1}))
    wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
    [letter] = dead_letters(client, made)
    assert letter["reason"] == "HTTP 500, after 3 attempts" and letter["attempts"] == 3
    assert len(receiver.seen(topic)) == 3
    [read] = receive(client, f"%25DLQ%25webhook~{made['id']}", "inspector")
    assert read["event"]["id"] == "e1" and read["event"]["source"] == "/line1"
    assert read["event"]["deadletterreason"] == "HTTP 500, after 3 attempts"


@pytest.mark.parametrize("status", [400, 403, 413, 415])
def test_what_is_refused_is_a_dead_letter_at_once(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, status: int
) -> None:
    receiver.behave(topic, steps=[{"status": status}])
    made = subscribe()
    publish(client, topic, event(1))
    wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
    assert dead_letters(client, made)[0]["reason"] == f"HTTP {status}"
    publish(client, topic, event(2))
    assert delivered(receiver.wait(topic, 2)) == ["e1", "e2"]


def test_dead_letters_can_be_delivered_again(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 400}])
    made = subscribe()
    publish(client, topic, event(1))
    wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
    again = client.post(f"/api/v1/groups/webhook~{made['id']}/dead-letters:resend", json={"all": True})
    assert again.status_code == 200, again.text
    assert delivered(receiver.wait(topic, 2)) == ["e1", "e1"]


@pytest.mark.everywhere
def test_who_is_gone_is_sent_nothing_until_the_subscription_is_changed(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 410}])
    made = subscribe(config={"ordered": True})
    path = f"/subscriptions/{made['id']}"
    publish(client, topic, event(1, partitionkey="k"))
    wait_until(lambda: client.get(path).json()["status"]["state"] == "suspended", "the suspension")
    assert client.get(path).json()["status"]["reason"] == "HTTP 410"
    publish(client, topic, event(2, partitionkey="k"))
    other = topic + "-other"
    subscribe(sink=receiver.hook(other))
    publish(client, topic, event(3, partitionkey="k"))
    receiver.wait(other, 1)
    assert len(receiver.seen(topic)) == 1
    wait_until(lambda: listed(client, made)["waiting"] == 2, "both wait")
    assert listed(client, made)["waitingLimit"] == MAX_WAITING
    body = client.get(path).json()
    assert client.put(path, json=body).json()["status"]["state"] == "active"
    publish(client, topic, event(4, partitionkey="k"))
    assert delivered(receiver.wait(topic, 4)) == ["e1", "e2", "e3", "e4"]
    assert [each["reason"] for each in dead_letters(client, made)] == ["HTTP 410"]
    assert listed(client, made)["waitingLimit"] is None


@pytest.mark.everywhere
@cases("handshake, state", [("off", "suspended"), ("required", "unverified")])
def test_above_the_limit_the_oldest_waiting_events_are_dead_letters(
    client: httpx2.Client,
    topic: str,
    receiver: WebhookReceiver,
    subscribe: Subscribe,
    server: HttpServer,
    monkeypatch: pytest.MonkeyPatch,
    handshake: str,
    state: str,
) -> None:
    monkeypatch.setattr(deliverer, "LOOK_SECONDS", 0.05)
    counts = server.parts.sender.incidents.counts
    noted = counts["webhook", Outcome.DEAD_LETTERED]
    name = f"{topic}-{handshake}"
    receiver.behave(name, steps=[{"status": 410}] if state == "suspended" else [], consent=False)
    made = subscribe(source=name, sink=receiver.hook(name), config={"handshake": handshake, "ordered": True})
    path = f"/subscriptions/{made['id']}"
    publish(client, name, event(0, partitionkey="k"))
    wait_until(lambda: client.get(path).json()["status"]["state"] == state, "nothing may be sent")
    before = len(receiver.seen(name))
    for first in range(1, 25, 6):
        publish(client, name, *[event(number, partitionkey="k") for number in range(first, first + 6)])
    wait_until(lambda: len(dead_letters(client, made)) == 15, lambda: str(listed(client, made)))
    wait_until(lambda: listed(client, made)["waiting"] == MAX_WAITING == 10, "the newest wait")
    assert ids(receive(client, f"%25DLQ%25webhook~{made['id']}", "inspector")) == [f"e{n}" for n in range(15)]
    over = [each for each in dead_letters(client, made) if each["reason"] == "over the limit of 10 waiting events"]
    assert len(over) == 15 - before == counts["webhook", Outcome.DEAD_LETTERED] - noted
    body = client.get(path).json()
    assert body["status"]["state"] == state and len(receiver.seen(name)) == before
    body["config"]["handshake"] = "off"
    assert client.put(path, json=body).json()["status"]["state"] == "active"
    assert delivered(receiver.wait(name, before + 10))[before:] == [f"e{number}" for number in range(15, 25)]


def test_a_sink_that_fails_is_left_alone_for_a_while(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    receiver.behave(topic, steps=[{"status": 500}] * 6)
    made = subscribe(config={"maxattempts": 50, "initialbackoffseconds": 0.01, "maxbackoffseconds": 0.02})
    publish(client, topic, event(1))
    found = receiver.wait(topic, 7)
    gaps = [after["at"] - before["at"] for before, after in itertools.pairwise(found)]
    assert min(gaps[2:]) >= 0.97 * CIRCUIT_SECONDS, gaps
    assert gaps[4] > 1.5 * CIRCUIT_SECONDS, gaps  # it doubles
    wait_until(
        lambda: client.get(f"/subscriptions/{made['id']}").json()["status"]["circuitopen"] is False,
        "the circuit to close",
    )


def test_one_bad_sink_does_not_hold_up_another(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, then={"status": 200, "stall": 100_000})
    subscribe(config={"timeoutseconds": 100})
    subscribe(sink=receiver.hook(topic + "-good"))
    for start in range(0, 200, 50):
        publish(client, topic, *[event(n) for n in range(start, start + 50)])
    receiver.wait(topic + "-good", 200)


@pytest.mark.everywhere
def test_order_by_key_holds_through_retries(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    steps = [{"status": 500 if n in (1, 2, 8, 13) else 200} for n in range(40)]
    receiver.behave(topic, steps=steps)
    subscribe(config={"ordered": True, "maxattempts": 50})
    publish(client, topic, *[event(n, partitionkey=f"k{n % 3}") for n in range(30)])
    found = receiver.wait(topic, 34)
    good = [one for number, one in enumerate(found) if steps[number]["status"] == 200]
    for key in range(3):
        mine = [int(one["headers"]["ce-id"][1:]) for one in good if one["headers"]["ce-partitionkey"] == f"k{key}"]
        assert mine == sorted(mine) and len(mine) == 10


def test_signatures_are_those_of_standard_webhooks(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    key = bytes(range(32))
    secret = "whsec_" + base64.b64encode(key).decode()
    receiver.behave(topic, steps=[{"status": 500}])
    made = subscribe(config={"signingsecret": secret, "mode": "structured"})
    assert made["config"]["signingsecret"] == "***"
    publish(client, topic, event(1))
    found = receiver.wait(topic, 2)
    assert found[0]["headers"]["webhook-id"] == found[1]["headers"]["webhook-id"]
    for request in found:
        headers = request["headers"]
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body_of(request)
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 30


def test_credentials(client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe) -> None:
    plain = {"credentialtype": "PLAIN", "identifier": "me", "secret": "pw"}
    subscribe(sink=receiver.hook(topic + "-plain"), sinkcredential=plain)
    token = {"credentialtype": "ACCESSTOKEN", "accesstoken": "abc"}
    subscribe(sink=receiver.hook(topic + "-token"), sinkcredential=token)
    publish(client, topic, event(1))
    [one] = receiver.wait(topic + "-plain", 1)
    assert one["headers"]["authorization"] == "Basic " + base64.b64encode(b"me:pw").decode()
    [two] = receiver.wait(topic + "-token", 1)
    assert two["headers"]["authorization"] == "Bearer abc"


def test_oauth_tokens_are_got_kept_and_got_anew(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    before = len(receiver.seen("token"))
    credential = {
        "credentialtype": "OAUTH2", "identifier": "client", "secret": "s&cret", "scope": "events",
        "tokenendpoint": f"{receiver.url}/token",
    }  # fmt: skip
    receiver.behave(topic, steps=[{"status": 200}, {"status": 200}, {"status": 401}])
    subscribe(sinkcredential=credential)
    for n in range(3):
        publish(client, topic, event(n))
        receiver.wait(topic, n + 1)
    found = receiver.wait(topic, 4)
    tokens = [one["headers"]["authorization"] for one in found]
    assert tokens[0] == tokens[1] == tokens[2] == f"Bearer t{before + 1}"
    assert tokens[3] == f"Bearer t{before + 2}" and found[3]["headers"]["ce-id"] == "e2"
    asked = receiver.seen("token")[before]
    assert asked["body"] == "grant_type=client_credentials&scope=events"
    assert base64.b64decode(asked["headers"]["authorization"].split()[1]) == b"client:s%26cret"


def test_events_that_are_too_old_are_dead_letters(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, then={"status": 500})
    made = subscribe(config={"maxageseconds": 1, "maxattempts": 1000})
    publish(client, topic, event(1))
    wait_until(lambda: len(dead_letters(client, made)) == 1, "the dead letter")
    assert dead_letters(client, made)[0]["reason"] == "expired"


def test_answers_are_read_no_further_than_the_limit(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 200, "size": 20_000_000}])
    subscribe()
    publish(client, topic, event(1))
    receiver.wait(topic, 1)
    publish(client, topic, event(2))
    assert delivered(receiver.wait(topic, 2)) == ["e1", "e2"]


@pytest.mark.everywhere
def test_a_deleted_subscription_gets_nothing_more_and_leaves_nothing(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    made = subscribe()
    publish(client, topic, event(1))
    receiver.wait(topic, 1)
    assert client.delete(f"/subscriptions/{made['id']}").status_code == 204
    assert client.get(f"/subscriptions/{made['id']}").status_code == 404
    publish(client, topic, event(2))
    assert "e2" in ids(receive(client, topic))
    assert len(receiver.seen(topic)) == 1

    def leftovers() -> list[str]:
        groups = [group.name for group in server.store.topology.groups()]
        topics = [each.name for each in server.store.topology.topics()]
        return [name for name in (*groups, *topics) if made["id"] in name or (topic in name and "dispatch" in name)]

    wait_until(lambda: server.call(leftovers) == [], "the end of what is left")
