"""Namespaces: made, kept apart, refused, deleted."""

from __future__ import annotations

import pytest

from tests.e2e.http.steps import event, get, ids, is_problem, publish, receive, settle
from tests.support.cases import cases

TOPICS, NAMESPACES = "/api/v1/topics", "/api/v1/namespaces"


@pytest.fixture
def namespace(client, topic):
    name = f"ns-{topic}"
    answer = client.put(f"{NAMESPACES}/{name}")
    assert answer.status_code == 201
    made = answer.json()
    assert (made["name"], made["topics"], made["groups"]) == (name, 0, 0)
    return name


def test_a_namespace_from_put_to_delete(client, topic, namespace):
    path = f"{NAMESPACES}/{namespace}"
    assert client.put(path, json={}).status_code == 200
    names = [one["name"] for one in get(client, NAMESPACES)["value"]]
    assert names[0] == "default" and namespace in names
    assert client.put(f"{path}/topics/{topic}").status_code == 201
    assert client.put(f"{path}/groups/{topic}").status_code == 201
    found = get(client, path)
    assert (found["name"], found["topics"], found["groups"]) == (namespace, 1, 1)
    is_problem(client.delete(path), 409)
    assert client.delete(f"{path}/topics/{topic}").status_code == 204
    assert client.delete(f"{path}/groups/{topic}").status_code == 204
    assert client.delete(path).status_code == 204
    is_problem(client.get(path), 404, namespace)
    is_problem(client.delete(path), 404)
    is_problem(client.delete(f"{NAMESPACES}/default"), 409)


def test_namespaces_do_not_see_each_other(client, topic, namespace):
    below = f"/namespaces/{namespace}"
    client.put(f"/api/v1{below}/topics/{topic}", json={"queues": 2})
    assert get(client, f"/api/v1{below}/topics/{topic}")["namespace"] == namespace
    assert [one["name"] for one in get(client, f"/api/v1{below}/topics")["value"]] == [topic]
    is_problem(client.get(f"{TOPICS}/{topic}"), 404)
    is_problem(client.get(f"{TOPICS}/{namespace}%2F{topic}"), 400)
    assert topic not in [one["name"] for one in get(client, TOPICS)["value"]]
    publish(client, topic, event(1, subject="a"), event(2), below=below)
    publish(client, topic, event(3))
    assert sorted(ids(receive(client, topic, below=below))) == ["e1", "e2"]
    assert ids(receive(client, topic)) == ["e3"]
    path = f"{namespace}%2F{topic}"
    is_problem(client.post(f"/topics/{path}:publish", headers={f"ce-{k}": str(v) for k, v in event().items()}), 400)
    is_problem(client.post(f"/topics/{path}/eventsubscriptions/g:receive?maxWaitTime=0"), 400)
    [group] = get(client, f"/api/v1{below}/groups")["value"]
    assert (group["name"], group["namespace"]) == ("g", namespace)
    assert {queue["topic"] for queue in group["progress"]} == {topic}
    answer = client.post(f"/api/v1{below}/groups/g:reset", json={"topic": topic, "to": "latest"})
    assert {queue["lag"] for queue in answer.json()["progress"]} == {0}


def test_settling_in_a_namespace(client, topic, namespace):
    below = f"/namespaces/{namespace}"
    publish(client, topic, event(1), below=below)  # the topic comes into being
    settle(client, "release", topic, receive(client, topic, below=below), below=below)
    settle(client, "renewLock", topic, held := receive(client, topic, below=below), below=below)
    settle(client, "reject", topic, held, below=below)
    [dead] = receive(client, "%25DLQ%25g", "h", below=below)
    settle(client, "acknowledge", "%25DLQ%25g", [dead], "h", below=below)
    listed = get(client, f"/api/v1{below}/groups/g/dead-letters")["value"]
    assert [one["origin"]["namespace"] for one in listed] == [namespace]


def test_events_of_other_doors_name_their_namespace(server, client, topic, namespace):
    from entrepot.domain.message import Message

    publish(client, topic, below=f"/namespaces/{namespace}")
    publish(client, topic, event(1), below=f"/namespaces/{namespace}")
    message = Message(topic=f"{namespace}/{topic}", body=b"1", sub_topic=f"{topic}/line1")
    assert server.run(server.parts.sender.send_and_wait([message])) is None
    received = receive(client, topic, below=f"/namespaces/{namespace}")
    [made] = [one["event"] for one in received if one["event"]["id"] != "e1"]
    assert (made["source"], made["subject"]) == (f"/{namespace}/{topic}", "line1")


def test_many_topics_of_a_namespace(client, topic, namespace):
    answer = client.put(f"{NAMESPACES}/{namespace}/topics", json={"value": [{"name": topic}]})
    assert answer.json() == {"value": [{"name": topic, "created": True}]}
    assert get(client, f"{NAMESPACES}/{namespace}/topics/{topic}")["name"] == topic


@cases(
    "method, path, status",
    [
        ("PUT", "a.b", 400),
        ("PUT", "a%2Fb", 400),
        ("PUT", "n" * 65, 400),
        ("PUT", "%25a", 400),
        ("GET", "nowhere", 404),
        ("DELETE", "nowhere", 404),
        ("GET", "nowhere/topics", 404),
        ("GET", "nowhere/groups", 404),
        ("PUT", "nowhere/topics/t", 404),
        ("PUT", "nowhere/groups/g", 404),
        ("GET", "nowhere/messages?topic=t", 404),
        ("GET", "nowhere/timers", 404),
        ("POST", "nowhere", 405),
    ],
)
def test_bad_namespaces(client, method, path, status):
    is_problem(client.request(method, f"{NAMESPACES}/{path}"), status)


def test_publishing_and_receiving_in_no_namespace(client):
    headers = {f"ce-{name}": str(value) for name, value in event().items()}
    is_problem(client.post("/namespaces/nowhere/topics/t:publish", headers=headers), 404, "nowhere")
    is_problem(client.post("/namespaces/nowhere/topics/t/eventsubscriptions/g:receive"), 404, "nowhere")
    is_problem(client.get("/namespaces/default/topics/t:publish"), 405)
    is_problem(client.post("/namespaces/default/topics/a.b:publish", headers=headers), 400)
    is_problem(client.post("/namespaces/default/topics/%25DLQ%25g:publish", headers=headers), 403)
    is_problem(client.put(f"{NAMESPACES}/x", json={"more": 1}), 400, "more")


def test_the_default_namespace_may_be_named(client, topic):
    publish(client, topic, event(1), below="/namespaces/default")
    assert ids(receive(client, topic)) == ["e1"]
