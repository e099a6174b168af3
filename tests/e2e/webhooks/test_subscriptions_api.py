"""The Subscriptions API: what it takes, what it refuses and where, what it never shows."""

from __future__ import annotations

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from entrepot.gateway.events.subscriptions.record import Subscription, SubscriptionRecord
from entrepot.gateway.settings import Settings
from tests.e2e.http.steps import event, is_problem, publish
from tests.e2e.webhooks.conftest import WEBHOOKS, Subscribe
from tests.support.cases import cases
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer, serving
from tests.support.http.webhook_receiver import WebhookReceiver, events_of
from tests.support.waiting import wait_until


def body(topic: str, sink: str = "http://127.0.0.1:1/hook", **fields: object) -> dict:
    return {"source": topic, "sink": sink, "protocol": "HTTP", "config": {"handshake": "off"}, **fields}


def test_a_subscription_is_made_shown_changed_and_ended(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver
) -> None:
    filters = [{"any": [{"exact": {"type": "reading"}}, {"sql": "EXISTS unit"}]}]
    made = client.post("/subscriptions", json=body(topic, receiver.hook(topic), filters=filters, types=["reading"]))
    assert made.status_code == 201
    shown = made.json()
    path = made.headers["location"]
    assert path == f"/subscriptions/{shown['id']}"
    assert client.get(path).json() == shown
    assert (shown["source"], shown["sink"], shown["protocol"]) == (f"/default/{topic}", receiver.hook(topic), "HTTP")
    assert shown["filters"] == filters and shown["types"] == ["reading"]
    assert shown["status"]["state"] == "active" and shown["status"]["created"]
    assert [one["id"] for one in client.get("/subscriptions", params={"source": topic}).json()] == [shown["id"]]
    again = client.post("/subscriptions", json=shown)
    assert again.status_code == 201 and again.json()["id"] != shown["id"], "the server makes the id, whatever is given"
    assert client.delete(again.headers["location"]).status_code == 204
    is_problem(client.put(path, json={**shown, "id": "another"}), 400, "id")
    changed = client.put(path, json={**shown, "types": [], "filters": [], "sink": receiver.hook(topic + "-b")})
    assert changed.status_code == 200, changed.text
    assert changed.json()["sink"] == receiver.hook(topic + "-b")
    publish(client, topic, event(1))
    assert [one["id"] for one in events_of(receiver.wait(topic + "-b", 1)[0])] == ["e1"]
    assert receiver.seen(topic) == []
    assert client.delete(path).status_code == 204
    assert client.get(path).status_code == client.delete(path).status_code == 404
    assert client.get("/subscriptions", params={"source": topic}).json() == []


def test_a_change_of_filters_counts_from_its_answer_on(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    made = subscribe(filters=[{"exact": {"subject": "a"}}])
    for n, subject in enumerate("bababab"):
        answer = client.put(f"/subscriptions/{made['id']}", json={**made, "filters": [{"exact": {"subject": subject}}]})
        assert answer.status_code == 200, answer.text
        publish(client, topic, event(n, subject=subject))
        receiver.wait(topic, n + 1)


def test_lists_go_page_by_page(client: httpx2.Client, topic: str, subscribe: Subscribe) -> None:
    made = sorted(subscribe()["id"] for _ in range(5))
    first = client.get("/subscriptions", params={"source": topic, "limit": 3}).json()
    rest = client.get("/subscriptions", params={"source": topic, "after": first[-1]["id"]}).json()
    assert [one["id"] for one in first + rest] == made


SECRETS = ("pw-123", "tok-456", "key-789")


def test_secrets_are_never_shown_again_and_kept(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    signing = "whsec_" + base64.b64encode(b"k" * 32).decode()
    made = subscribe(
        sinkcredential={"credentialtype": "PLAIN", "identifier": "me", "secret": "pw-123"},
        protocolsettings={"headers": {"X-Api-Key": "key-789"}},
        config={"signingsecret": signing},
    )
    path = f"/subscriptions/{made['id']}"
    for shown in (made, client.get(path).json(), client.get("/subscriptions", params={"source": topic}).json()):
        text = json.dumps(shown)
        assert not any(secret in text for secret in (*SECRETS, signing)), text
    again = client.put(path, json=client.get(path).json())
    assert again.status_code == 200, again.text
    publish(client, topic, event(1))
    headers = receiver.wait(topic, 1)[0]["headers"]
    assert headers["x-api-key"] == "key-789" and headers["webhook-signature"]
    assert base64.b64decode(headers["authorization"].split()[1]) == b"me:pw-123"
    shown = client.get(path).json()
    del shown["sinkcredential"]
    assert client.put(path, json=shown).json()["sinkcredential"]["credentialtype"] == "PLAIN"
    assert "sinkcredential" not in client.put(path, json={**shown, "sinkcredential": None}).json()
    publish(client, topic, event(2))
    assert "authorization" not in receiver.wait(topic, 2)[1]["headers"]


@cases(
    "fields, words",
    [
        ({"filters": [{"exact": {"type": "a"}}, {"sql": "type = "}]}, ("filters[1].sql",)),
        ({"filters": [{"all": [{"prefix": {"type": ""}}]}]}, ("filters[0].all[0].prefix.type",)),
        ({"filters": [{"regex": {"type": "a"}}]}, ("filters[0]", "dialect")),
        ({"filters": [{"any": []}]}, ("filters[0].any",)),
        ({"filters": [{"sql": "1 + 1"}]}, ("filters[0].sql", "Boolean")),
        ({"protocol": "MQTT5"}, ("protocol",)),
        ({"sink": "ftp://example.com/"}, ("sink",)),
        ({"sink": "not a url"}, ("sink", "no blanks")),
        ({"sink": "http://127.0.0.1/a b"}, ("sink", "no blanks")),
        ({"sink": " http://127.0.0.1/"}, ("sink", "no blanks")),
        ({"sink": "http://127.0.0.1/\u3000"}, ("sink", "no blanks")),
        ({"sink": "http://127.0.0.1/\n"}, ("sink", "no blanks")),
        ({"sink": "http://127.0.0.1/\x01"}, ("sink", "no control characters")),
        ({"sink": "http://"}, ("sink", "no host")),
        ({"sink": "http://:80/"}, ("sink", "no host")),
        ({"sink": "http://127.0.0.1:0/"}, ("sink", "port")),
        ({"sink": "http://127.0.0.1:x/"}, ("sink", "port")),
        ({"sink": "http://[::1/"}, ("sink", "brackets")),
        (
            {
                "sinkcredential": {
                    "credentialtype": "OAUTH2",
                    "identifier": "a",
                    "secret": "b",
                    "tokenendpoint": "http://127.0.0.1/to ken",
                }
            },
            ("sinkcredential.tokenendpoint", "no blanks"),
        ),
        ({"sink": "http://user:pw@127.0.0.1/"}, ("sink", "password")),
        ({"sink": "http://@127.0.0.1/"}, ("sink", "user")),
        ({"sink": "http://127.0.0.1/#part"}, ("sink", "fragment")),
        ({"sink": "http://127.0.0.1/#"}, ("sink", "fragment")),
        ({"sink": "http://h\u00f6rer.example/"}, ("sink", "ASCII", "xn--")),
        ({"sink": "http://10.0.0.1/"}, ("sink", "10.0.0.1", "public")),
        ({"sink": "http://169.254.169.254/latest/meta-data"}, ("sink", "169.254.169.254")),
        ({"sink": "http://[::ffff:10.0.0.1]/"}, ("sink",)),
        ({"sink": "http://[fe80::1]/"}, ("sink",)),
        ({"config": {"mode": "fast"}}, ("config.mode",)),
        ({"config": {"unknown": 1}}, ("config.unknown",)),
        ({"config": {"signingsecret": "abc"}}, ("signingsecret", "whsec_")),
        ({"config": {"start": "yesterday"}}, ("start",)),
        ({"config": {"initialbackoffseconds": 10, "maxbackoffseconds": 1}}, ("maxbackoffseconds",)),
        ({"protocolsettings": {"headers": {"Host": "x"}}}, ("headers.Host",)),
        ({"protocolsettings": {"headers": {"x": "a\r\nb"}}}, ("headers.x",)),
        ({"protocolsettings": {"headers": {"ce-id": "1"}}}, ("headers.ce-id",)),
        ({"protocolsettings": {"method": "DELETE"}}, ("method",)),
        ({"sinkcredential": {"credentialtype": "PLAIN", "identifier": "a"}}, ("sinkcredential.secret",)),
        ({"sinkcredential": {"credentialtype": "KERBEROS"}}, ("credentialtype",)),
        ({"source": "/other/t"}, ("source",)),
        ({"source": "no topic!"}, ("topic name",)),
        ({"source": "%SYS"}, ()),
        ({"more": 1}, ("more",)),
    ],
)  # fmt: skip
def test_what_is_refused_says_where(client: httpx2.Client, topic: str, fields: dict, words: tuple[str, ...]) -> None:
    given = {**body(topic), **fields}
    if "config" in fields:
        given["config"] = {"handshake": "off", **fields["config"]}
    answer = client.post("/subscriptions", json=given)
    assert answer.status_code in (400, 403), answer.text
    is_problem(answer, answer.status_code, *words)
    assert client.get("/subscriptions", params={"source": topic}).json() == []


def test_names_that_lie_inside_are_refused_when_they_are_resolved(
    client: httpx2.Client, topic: str, subscribe: Subscribe, receiver: WebhookReceiver, tmp_path
) -> None:
    """`localhost` is no address, so it is looked at when it is connected to: here nothing of loopback is allowed."""
    settings = Settings(webhooks={**WEBHOOKS, "allowed_networks": []})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as inner,
    ):
        for host in ("localhost", "0x7f.1", "2130706433"):
            name = f"t-{host.replace('.', '-')}"
            made = inner.post("/subscriptions", json=body(name, f"http://{host}:{receiver.port}/hook/{name}"))
            if made.status_code == 400:  # its text says it already
                assert "public" in made.text
                continue
            publish(inner, name, event(1))
            path = f"/api/v1/groups/webhook~{made.json()['id']}/dead-letters"
            wait_until(lambda path=path: bool(inner.get(path).json().get("value")), "something to list")  # type: ignore[misc]
            reason = inner.get(path).json()["value"][0]["reason"]
            assert "no address that is public" in reason or "not a canonical" in reason
            assert receiver.seen(name) == []


def test_https_alone_unless_a_setting_says_more(tmp_path, receiver: WebhookReceiver) -> None:
    settings = Settings(webhooks={**WEBHOOKS, "allow_http": False})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        is_problem(client.post("/subscriptions", json=body("t", receiver.hook("t"))), 400, "https")


def test_more_subscriptions_than_the_limit_are_refused(tmp_path, receiver: WebhookReceiver) -> None:
    settings = Settings(webhooks={**WEBHOOKS, "max_subscriptions": 2})
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        for _ in range(2):
            assert client.post("/subscriptions", json=body("t", receiver.hook("t"))).status_code == 201
        is_problem(client.post("/subscriptions", json=body("t", receiver.hook("t"))), 429)


def test_subscriptions_of_a_namespace(client: httpx2.Client, receiver: WebhookReceiver, topic: str) -> None:
    assert client.put("/api/v1/namespaces/plant", json={}).status_code in (200, 201)
    below = "/namespaces/plant"
    made = client.post(below + "/subscriptions", json=body(topic, receiver.hook(topic)))
    assert made.status_code == 201, made.text
    assert made.json()["source"] == f"/plant/{topic}"
    assert client.get(f"/subscriptions/{made.json()['id']}").status_code == 404
    publish(client, topic, event(1))
    publish(client, topic, event(2), below=below)
    assert [one["id"] for one in events_of(receiver.wait(topic, 1)[0])] == ["e2"]
    assert client.delete(f"{below}/subscriptions/{made.json()['id']}").status_code == 204


# -- the handshake -----------------------------------------------------------------------------------------------------


def status(client: httpx2.Client, made: dict) -> dict:
    return client.get(f"/subscriptions/{made['id']}").json()["status"]


def test_a_receiver_is_asked_and_consents(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, rate=6000)
    made = subscribe(config={"handshake": "required", "ratelimit": 12000})
    publish(client, topic, event(1))
    receiver.wait(topic, 1)
    [asked] = receiver.seen(topic + ":options")
    assert asked["headers"]["webhook-request-origin"] == "events.example"
    assert asked["headers"]["webhook-request-rate"] == "12000"
    assert asked["headers"]["webhook-request-callback"].startswith("https://events.example/webhooks/consent/")
    assert (status(client, made)["consent"], status(client, made)["allowedrate"]) == ("granted", 6000)


@pytest.mark.parametrize(
    "told", [{"consent": False}, {"origin": "other.example"}, {"rate": 0}, {"rate": "many"}, {"options_status": 405}]
)
def test_without_consent_nothing_is_sent(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, told: dict
) -> None:
    receiver.behave(topic, **told)
    made = subscribe(config={"handshake": "required"})
    publish(client, topic, event(1))
    wait_until(lambda: status(client, made)["consent"] == "denied", "the refusal of the consent")
    assert status(client, made)["state"] == "unverified"
    subscribe(sink=receiver.hook(topic + "-other"))
    publish(client, topic, event(2))
    receiver.wait(topic + "-other", 1)
    assert receiver.seen(topic) == [] and len(receiver.seen(topic + ":options")) == 1


def test_consent_by_a_callback(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe
) -> None:
    receiver.behave(topic, consent=False)
    made = subscribe(config={"handshake": "required"})
    publish(client, topic, event(1))
    wait_until(lambda: status(client, made)["consent"] == "denied", "the refusal of the consent")
    callback = receiver.seen(topic + ":options")[0]["headers"]["webhook-request-callback"]
    path = callback.removeprefix("https://events.example")
    assert client.get(path[:-1] + ("a" if path[-1] != "a" else "b")).status_code == 404
    is_problem(client.post(path, headers={"webhook-allowed-rate": "-1"}), 400)
    assert client.head(path).status_code == 204
    assert status(client, made)["consent"] == "denied", "who only looks does not consent"
    assert receiver.seen(topic) == []
    assert client.post(path, headers={"webhook-allowed-rate": "1200"}).status_code == 204
    receiver.wait(topic, 1)
    assert status(client, made)["allowedrate"] == 1200


def test_who_did_not_consent_is_sent_to_slowly_where_that_is_optional(
    tmp_path, receiver: WebhookReceiver, topic: str
) -> None:
    settings = Settings(webhooks={**WEBHOOKS, "unconfirmed_rate_per_minute": 300})
    receiver.behave(topic, consent=False)
    with (
        serving("memory", tmp_path, settings) as server,
        http_client(server.url) as client,
    ):
        given = body(topic, receiver.hook(topic), config={"handshake": "optional"})
        assert client.post("/subscriptions", json=given).status_code == 201
        wait_until(lambda: len(receiver.seen(topic + ":options")) == 1, "the question for consent")
        began = time.monotonic()
        publish(client, topic, *[event(n) for n in range(6)])
        receiver.wait(topic, 6)
        assert time.monotonic() - began >= 0.7  # five a second, and one ahead


def test_another_sink_is_asked_anew(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    made = subscribe(config={"handshake": "required"})
    wait_until(lambda: status(client, made)["consent"] == "granted", "the consent")
    other = topic + "-b"
    receiver.behave(other, consent=False)
    changed = client.put(f"/subscriptions/{made['id']}", json={**made, "sink": receiver.hook(other)})
    assert changed.status_code == 200, changed.text
    wait_until(lambda: status(client, made)["consent"] == "denied", "the refusal of the consent")
    assert status(client, made)["state"] == "unverified"


def test_our_own_publish_path_consents(client: httpx2.Client, topic: str) -> None:
    answer = client.options(f"/topics/{topic}:publish", headers={"webhook-request-origin": "sender.example"})
    assert answer.status_code == 200
    assert answer.headers["webhook-allowed-origin"] == "sender.example"
    assert answer.headers["webhook-allowed-rate"] == "*" and "POST" in answer.headers["allow"]
    assert "webhook-allowed-origin" not in client.options(f"/topics/{topic}:publish").headers


# -- topics ------------------------------------------------------------------------------------------------------------


def test_a_topic_that_goes_and_comes_back_is_delivered_again(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    publish(client, topic, *[event(n) for n in range(50)])
    made = subscribe()
    publish(client, topic, event(100))
    receiver.wait(topic, 1)
    assert client.delete(f"/api/v1/topics/{topic}").status_code == 204
    known = server.door.events.subscriptions
    wait_until(lambda: known.get("default", made["id"]).record.begins == {}, "the end of catching up")  # type: ignore[union-attr]
    publish(client, topic, event(101))
    found = receiver.wait(topic, 2)
    assert events_of(found[1])[0]["id"] == "e101"


def test_messages_of_another_door_come_as_events(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    from entrepot.domain.message import Message

    subscribe(config={"mode": "structured"}, filters=[{"sql": "subject LIKE 'line1/%' AND EXISTS unit"}])
    message = Message(topic, b'{"n": 1}', sub_topic=f"{topic}/line1/temp", properties=(("unit", "c"),))
    assert server.run(server.parts.sender.send_and_wait([message])) is None
    [event_] = events_of(receiver.wait(topic, 1)[0])
    assert (event_["source"], event_["subject"], event_["type"]) == (
        f"/default/{topic}",
        "line1/temp",
        "dev.entrepot.message",
    )
    assert event_["data"] == {"n": 1} and event_["unit"] == "c" and event_["id"] and event_["time"]


def test_what_a_gateway_left_that_died_in_the_middle_is_deleted(
    client: httpx2.Client, topic: str, receiver: WebhookReceiver, subscribe: Subscribe, server: HttpServer
) -> None:
    made = subscribe()
    own = Subscription(SubscriptionRecord("00112233445566aa", "default", topic, "http://127.0.0.1/", 0))
    known, orphans = server.door.events.subscriptions, server.door.events.webhooks.orphans
    server.run(known._make_feed(own))
    left = server.run(known._new_dispatch_group(topic))
    assert server.run(orphans.sweep()) == 0
    assert server.store.topology.topic(own.feed) is not None
    assert server.run(orphans.sweep()) >= 3
    assert server.store.topology.topic(own.feed) is None
    assert server.store.topology.group(own.group) is server.store.topology.group(left) is None
    publish(client, topic, event(1))
    assert [one["id"] for one in events_of(receiver.wait(topic, 1)[0])] == ["e1"]
    assert client.get(f"/subscriptions/{made['id']}").status_code == 200


def test_many_are_made_and_ended_at_one_time(client: httpx2.Client, topic: str, server: HttpServer) -> None:
    def make(_: int) -> str:
        answer = client.post("/subscriptions", json=body(topic))
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    with ThreadPoolExecutor(32) as pool:
        made = list(pool.map(make, range(100)))
        assert len(set(made)) == 100
        assert set(pool.map(lambda each: client.delete(f"/subscriptions/{each}").status_code, made)) == {204}
    assert client.get("/subscriptions", params={"source": topic}).json() == []
