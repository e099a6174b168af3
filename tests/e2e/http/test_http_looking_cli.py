"""Commands that look without consuming, against a running door."""

from __future__ import annotations

import json
import threading

from tests.e2e.http.steps import event, publish, receive, settle
from tests.e2e.http.test_http_cli import entrepot, ok
from tests.support.http.client import http_client

__all__ = ["entrepot"]


def test_pages_of_topics_and_groups(entrepot, client, topic):
    for letter in "ab":
        ok(entrepot("topic", "create", topic + letter, "--queues", "1"))
        ok(entrepot("group", "create", topic + letter))
    publish(client, f"{topic}a", event(1), event(2))
    code, out, err = entrepot("topic", "list", "--prefix", topic, "--sort=-messages", "--limit", "1")
    assert code == 0 and f"{topic}a" in out and "2" in out and f"{topic}b" not in out
    assert f"more: --after 2:{topic}a" in err
    rest = json.loads(
        ok(entrepot("topic", "list", "--prefix", topic, "--sort=-messages", "--after", f"2:{topic}a", "--json"))
    )
    assert [row["name"] for row in rest["value"]] == [f"{topic}b"]
    groups = json.loads(ok(entrepot("group", "list", "--contains", topic[3:], "--kind", "normal", "--json")))
    assert [row["name"] for row in groups["value"]] == [f"{topic}a", f"{topic}b"]
    assert f"{topic}b" in ok(entrepot("group", "list", "--prefix", topic))
    code, _, err = entrepot("topic", "list", "--kind", "odd")
    assert code == 1 and "kind:" in err


def test_a_group_in_detail(entrepot, client, topic):
    ok(entrepot("topic", "create", topic, "--queues", "1"))
    publish(client, topic, event(1), event(2))
    settle(client, "acknowledge", topic, receive(client, topic, topic, 1), topic)
    client.post(f"/api/v1/groups/{topic}/topics/{topic}/members/m1", json={})
    found = json.loads(ok(entrepot("group", "lag", topic, "--json")))
    assert [(row["lag"], row["committedOffset"]) for row in found["value"]] == [("1", "1")]
    assert topic in ok(entrepot("group", "lag", topic, "--lagging"))
    table = ok(entrepot("group", "consumers", topic))
    assert "member" in table and "m1" in table
    assert json.loads(ok(entrepot("group", "consumers", topic, "--json")))["value"][0]["queues"] == [0]


def test_messages_are_listed_and_saved(entrepot, client, topic, tmp_path):
    ok(entrepot("topic", "create", topic, "--queues", "1"))
    publish(client, topic, *(event(n, data={"n": n}) for n in range(3)))
    out = ok(entrepot("message", "list", topic))
    assert out.index('"n": 2') < out.index('"n": 0')
    code, out, err = entrepot("message", "list", topic, "--queue", "0", "--limit", "2")
    assert code == 0 and '"n": 0' in out and '"n": 2' not in out and "more: --offset 2" in err
    found = json.loads(ok(entrepot("message", "list", topic, "--body-text", '"n": 1', "--json")))
    assert [row["offset"] for row in found["value"]] == ["1"]
    assert json.loads(ok(entrepot("message", "list", topic, "--filter", "TAG:x", "--json")))["value"] == []
    assert json.loads(ok(entrepot("message", "body", topic, "0", "1"))) == {"n": 1}
    saved = tmp_path / "body"
    ok(entrepot("message", "body", topic, "0", "2", "-o", str(saved)))
    assert json.loads(saved.read_bytes()) == {"n": 2}
    code, _, err = entrepot("message", "body", topic, "0", "9", "-o", str(tmp_path / "none"))
    assert code == 1 and "offset 9" in err and not (tmp_path / "none").exists()


def test_a_test_message_and_a_watch(entrepot, server, client, topic):
    ok(entrepot("topic", "create", topic, "--queues", "1"))
    sent = json.dumps(event(1, data={"n": 1}))
    assert f"{topic} queue 0 offset 0" in ok(entrepot("message", "try", "http", "--topic", topic, "--event", sent))
    found = json.loads(ok(entrepot("message", "try", "http", "--topic", topic, "--event", sent, "--json")))
    assert found["places"][0]["offset"] == "1"
    assert entrepot("message", "try", "smtp")[0] == 2
    assert entrepot("message", "try", "http", "--topic", topic, "--event", "{")[0] == 2
    code, _, err = entrepot("message", "try", "mqtt", "--name", "a/b")
    assert code == 1 and "no MQTT listener" in err

    published = threading.Event()

    def publish_on() -> None:
        with http_client(server.url) as other:
            while not published.wait(0.02):
                publish(other, topic, event(2, data={"n": 2}))

    publishing = threading.Thread(target=publish_on)
    publishing.start()
    try:
        line = ok(entrepot("message", "watch", topic, "--count", "1", "--json")).splitlines()[-1]
        assert json.loads(line)["keys"] == ["e2"]
        assert "e2" in ok(entrepot("message", "watch", topic, "--count", "1"))
    finally:
        published.set()
        publishing.join()
    assert entrepot("message", "watch", f"none-{topic}")[0] == 1
