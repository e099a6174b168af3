"""What goes wrong with one event, one answer or one credential concerns nobody else, and no other sink."""

from __future__ import annotations

import json

import httpx2
import pytest

from entrepot.domain.message import Message, SystemProperty
from tests.e2e.http.steps import event, publish
from tests.e2e.webhooks.conftest import Subscribe
from tests.e2e.webhooks.test_webhook_delivery import dead_letters, delivered
from tests.support.http.server import HttpServer
from tests.support.http.webhook_receiver import WebhookReceiver
from tests.support.waiting import wait_until


def store(server: HttpServer, topic: str, **attributes: object) -> None:
    """An event as MQTT and AMQP bring it: nobody asks whether it could be published over HTTP."""
    body = {"specversion": "1.0", "id": "odd", "source": "/s", "type": "t", **attributes}
    message = Message(topic, json.dumps(body).encode(), f"{topic}/line1")
    message.system = {SystemProperty.CONTENT_TYPE: "application/cloudevents+json"}
    told: list[object] = []
    server.call(lambda: server.parts.sender.send([message], lambda *outcome: told.append(outcome)))
    wait_until(lambda: bool(told), "the outcome")
    assert told == [(None, None)]


@pytest.mark.parametrize(
    "attributes",
    [{"deliverytime": "soon"}, {"subject": "/".join("a" * 300)}, {"level": "0" * 5000 + "1"}],
    ids=["no time", "too many levels", "many zeros"],
)
def test_an_event_that_nobody_could_publish_here_is_delivered_like_others(
    server: HttpServer, client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe,
    attributes: dict[str, str],
) -> None:  # fmt: skip
    made = subscribe(config={"mode": "structured"})
    subscribe(sink=receiver.hook(topic + "-level"), filters=[{"sql": "level > 5"}])
    store(server, topic, **attributes)
    publish(client, topic, event(1))
    assert sorted(delivered(receiver.wait(topic, 2))) == ["e1", "odd"]
    assert client.delete(f"/subscriptions/{made['id']}").status_code == 204


def test_every_url_is_requested_and_shown_as_it_was_given(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    query = "?sp=%2Ftriggers%2Frun&to=a%2Cb,c&sig=a-_%7E&mail=%40%28"
    before = len(receiver.seen("token"))
    credential = {
        "credentialtype": "OAUTH2", "identifier": "me", "secret": "s", "tokenendpoint": f"{receiver.url}/token{query}",
    }  # fmt: skip
    sink = receiver.hook(topic) + query
    made = subscribe(sink=sink, sinkcredential=credential, config={"handshake": "required"})
    publish(client, topic, event(1))
    delivery = receiver.wait(topic, 1)[0]
    assert delivery["target"] == f"/hook/{topic}{query}" == receiver.seen(topic + ":options")[0]["target"]
    assert receiver.seen("token")[before]["target"] == "/token" + query
    shown = client.get(f"/subscriptions/{made['id']}").json()
    assert (shown["sink"], shown["sinkcredential"]["tokenendpoint"]) == (sink, credential["tokenendpoint"])


# -- secrets -----------------------------------------------------------------------------------------------------------


def test_secrets_go_to_no_other_sink(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    headers = {"headers": {"x-api-key": "key"}}
    plain = {"credentialtype": "PLAIN", "identifier": "me", "secret": "pw"}
    other = "http://127.0.0.2:9/elsewhere"
    for fields in ({"protocolsettings": headers}, {"sinkcredential": plain}):
        made = subscribe(**fields)
        path, shown = f"/subscriptions/{made['id']}", client.get(f"/subscriptions/{made['id']}").json()
        assert client.put(path, json={**shown, "sink": other}).status_code == 400
        left_out = {name: value for name, value in shown.items() if name != "sinkcredential"}
        assert client.put(path, json={**left_out, "sink": other}).status_code == 400
        assert client.put(path, json={**shown, "sink": receiver.hook(topic + "-moved")}).status_code == 200
        assert client.put(path, json={**shown, **fields, "sink": other}).status_code == 200


def test_nor_to_another_token_endpoint(client: httpx2.Client, receiver: WebhookReceiver, subscribe: Subscribe) -> None:
    credential = {
        "credentialtype": "OAUTH2", "identifier": "client", "secret": "s", "tokenendpoint": f"{receiver.url}/token",
    }  # fmt: skip
    made = subscribe(sinkcredential=credential)
    path, shown = f"/subscriptions/{made['id']}", client.get(f"/subscriptions/{made['id']}").json()
    shown["sinkcredential"]["tokenendpoint"] = "http://127.0.0.2:9/token"
    assert client.put(path, json=shown).status_code == 400
    credential["tokenendpoint"] = "http://127.0.0.2:9/token"
    assert client.put(path, json={**shown, "sinkcredential": credential}).status_code == 200


def test_what_is_read_may_be_written_back(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    token = {"credentialtype": "ACCESSTOKEN", "accesstoken": "abc", "accesstokentype": "Token"}
    made = subscribe(sinkcredential=token)
    path = f"/subscriptions/{made['id']}"
    assert client.put(path, json=client.get(path).json()).status_code == 200
    publish(client, topic, event(1))
    [one] = receiver.wait(topic, 1)
    assert one["headers"]["authorization"] == "Token abc"


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_revoked_token_costs_no_event_that_was_sent_with_it(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    before = len(receiver.seen("token"))
    first = f"Bearer t{before + 1}"
    credential = {
        "credentialtype": "OAUTH2", "identifier": "client", "secret": "s", "tokenendpoint": f"{receiver.url}/token",
    }  # fmt: skip
    made = subscribe(sinkcredential=credential)
    publish(client, topic, *[event(n) for n in range(8)])
    assert {one["headers"]["authorization"] for one in receiver.wait(topic, 8)} == {first}  # asked for once
    receiver.behave(topic, then={"status": 200, "stall": 0.2}, refuses=[first])
    publish(client, topic, *[event(n) for n in range(8, 16)])

    def all_came(found: list[dict]) -> bool:
        good = {one["headers"]["ce-id"] for one in found[8:] if one["headers"]["authorization"] != first}
        return good == {f"e{n}" for n in range(8, 16)}

    receiver.wait_until(topic, all_came)
    assert dead_letters(client, made) == []


def test_a_token_that_came_with_a_refresh_token_may_be_revoked(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, refuses=["Bearer given"])
    credential = {
        "credentialtype": "REFRESHTOKEN", "refreshtoken": "r0", "tokenendpoint": f"{receiver.url}/rotating/{topic}",
        "accesstoken": "given", "accesstokenexpiresutc": "2099-01-01T00:00:00Z",
    }  # fmt: skip
    subscribe(sinkcredential=credential)
    publish(client, topic, event(1))
    found = receiver.wait(topic, 2)
    assert [one["headers"]["authorization"] for one in found] == ["Bearer given", "Bearer t1"]


def test_a_refresh_token_that_comes_in_place_of_another_is_used(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, expires_in=0)
    credential = {
        "credentialtype": "REFRESHTOKEN", "refreshtoken": "r0", "tokenendpoint": f"{receiver.url}/rotating/{topic}",
    }  # fmt: skip
    subscribe(sinkcredential=credential)
    for n in range(3):
        publish(client, topic, event(n))
        assert receiver.wait(topic, n + 1)[n]["headers"]["authorization"] == f"Bearer t{n + 1}"


# -- another sink ------------------------------------------------------------------------------------------------------


def moved(client: httpx2.Client, made: dict, sink: str) -> None:
    assert client.put(f"/subscriptions/{made['id']}", json={**made, "sink": sink}).status_code == 200


def test_the_sink_before_does_not_speak_for_the_one_after_it(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, then={"status": 410, "holds": True})
    made = subscribe()
    publish(client, topic, event(1))
    receiver.wait(topic, 1)
    moved(client, made, receiver.hook(topic + "-new"))
    receiver.behave(topic)
    receiver.wait(topic + "-new", 1)  # e1 comes to it when the old one has said that it is gone
    publish(client, topic, event(2))
    assert delivered(receiver.wait(topic + "-new", 2)) == ["e1", "e2"]
    assert client.get(f"/subscriptions/{made['id']}").json()["status"]["state"] == "active"


def test_nor_does_it_consent_for_it(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, options_stall=1)
    receiver.behave(topic + "-new", consent=False)
    made = subscribe(config={"handshake": "required"})
    receiver.wait(topic + ":options", 1)
    moved(client, made, receiver.hook(topic + "-new"))
    receiver.wait(topic + "-new:options", 1)

    def is_denied() -> bool:
        status = client.get(f"/subscriptions/{made['id']}").json()["status"]
        assert status["consent"] != "granted"
        return status["consent"] == "denied"

    wait_until(is_denied, "the refusal of the consent")
    other = subscribe(sink=receiver.hook(topic + "-other"))
    publish(client, topic, event(1))
    receiver.wait(topic + "-other", 1)
    assert client.get(f"/subscriptions/{made['id']}").json()["status"]["consent"] == "denied"
    assert receiver.seen(topic + "-new") == [] == receiver.seen(topic), other


def test_a_trial_of_a_sink_that_is_left_meanwhile_ends_for_the_others_too(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, steps=[{"status": 500}] * 3, then={"status": 200, "stall": 1})
    made = subscribe(config={"maxattempts": 1000})
    publish(client, topic, event(1))
    receiver.wait(topic, 4)  # the last of them is the trial of a circuit that is open
    subscribe()
    moved(client, made, receiver.hook(topic + "-new"))
    receiver.behave(topic)
    publish(client, topic, event(2))
    receiver.wait_until(topic, lambda found: "e2" in delivered(found))


def test_a_token_that_cannot_be_got_is_not_the_sink_s_fault(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    made = subscribe()
    credential = {
        "credentialtype": "OAUTH2", "identifier": "client", "secret": "s", "tokenendpoint": f"{receiver.url}/nowhere",
    }  # fmt: skip
    other = subscribe(sinkcredential=credential, config={"maxattempts": 6})
    publish(client, topic, event(1))
    wait_until(lambda: len(dead_letters(client, other)) == 1, "the dead letter")
    assert client.get(f"/subscriptions/{made['id']}").json()["status"]["circuitopen"] is False
