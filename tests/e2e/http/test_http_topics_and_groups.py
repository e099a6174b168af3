"""Every field of topics and groups, many topics at once, and where groups go on."""

from __future__ import annotations

import json

import pytest

from tests.e2e.http.steps import event, get, ids, is_problem, publish, receive, settle
from tests.support.cases import cases

TOPICS, GROUPS = "/api/v1/topics", "/api/v1/groups"
HUGE = 2**63


# topics


def test_every_field_of_a_topic(client, topic):
    path = f"{TOPICS}/{topic}"
    wanted = {
        "queues": 6,
        "writeQueues": 2,
        "type": "PRIORITY",
        "permission": "WRITE",
        "cleanup": "CONSUMED",
        "retentionSeconds": 60,
        "retentionBytes": 1000,
        "maxMessageBytes": 100,
        "maxBacklog": 5,
        "trace": 0.25,
    }
    assert client.put(path, json=wanted).json().items() >= wanted.items()
    assert get(client, path).items() >= wanted.items()
    nothing = dict.fromkeys(["writeQueues", "retentionSeconds", "retentionBytes", "maxMessageBytes", "maxBacklog"])
    assert client.put(path, json=nothing).json().items() >= {**wanted, **nothing}.items()


def test_a_topic_of_the_tier(client, topic):
    path = f"{TOPICS}/{topic}"
    assert client.put(path, json={"tierSeconds": 86_400}).json()["tierSeconds"] == 86_400
    assert get(client, path)["tierSeconds"] == 86_400
    assert client.put(path, json={"queues": 5}).json()["tierSeconds"] == 86_400
    refused = client.put(path, json={"cleanup": "COMPACT"})
    is_problem(refused, 400, "tierSeconds needs cleanup DELETE: a COMPACT topic stays on the broker's disk")
    assert client.put(path, json={"cleanup": "CONSUMED", "tierSeconds": None}).json()["tierSeconds"] is None
    is_problem(client.put(path, json={"tierSeconds": 1}), 400, "a CONSUMED topic")


def test_a_topic_that_came_by_use_is_changed_like_any(client, topic):
    publish(client, topic, event(1))
    assert client.put(f"{TOPICS}/{topic}", json={"trace": 1, "queues": 5}).json()["queues"] == 5
    assert get(client, f"{TOPICS}/{topic}")["trace"] == 1


@pytest.mark.everywhere
def test_limits_of_a_topic_hold(client, topic):
    client.put(f"{TOPICS}/{topic}", json={"queues": 4, "writeQueues": 1, "maxMessageBytes": 10, "maxBacklog": 2})
    publish(client, topic, event(1), event(2, partitionkey="p"))
    assert {queue["maxOffset"] for queue in get(client, f"{TOPICS}/{topic}")["offsets"][1:]} == {0}
    large = client.post(
        f"/topics/{topic}:publish",
        content=json.dumps(event(3, data="x" * 20)),
        headers={"content-type": "application/cloudevents+json"},
    )
    is_problem(large, 413, "10")
    assert len(receive(client, topic)) == 2
    full = client.post(
        f"/topics/{topic}:publish",
        content=json.dumps(event(3)),
        headers={"content-type": "application/cloudevents+json"},
    )
    is_problem(full, 429)
    assert full.headers["retry-after"]


def test_many_topics_in_one_call(client, topic):
    client.put(f"{TOPICS}/{topic}-old", json={"queues": 3, "maxBacklog": 9})
    answer = client.put(
        TOPICS,
        json={
            "value": [
                {"name": f"{topic}-new", "queues": 2},
                {"name": f"{topic}-old", "queues": 5, "maxBacklog": None},
                {"name": "a.b"},
                {"name": "a/b"},
                {"name": "%system"},
                {"name": f"{topic}-none", "queues": 0},
            ]
        },
    )
    assert answer.status_code == 200, answer.text
    outcomes = answer.json()["value"]
    assert outcomes[:2] == [{"name": f"{topic}-new", "created": True}, {"name": f"{topic}-old", "created": False}]
    assert [(one["name"], one["error"]["code"]) for one in outcomes[2:]] == [
        ("a.b", "ILLEGAL_TOPIC"),
        ("a/b", "ILLEGAL_TOPIC"),
        ("%system", "FORBIDDEN"),
        (f"{topic}-none", "BAD_REQUEST"),
    ]
    assert get(client, f"{TOPICS}/{topic}-new")["queues"] == 2
    old = get(client, f"{TOPICS}/{topic}-old")
    assert (old["queues"], old["maxBacklog"]) == (5, None)


@cases(
    "body, word",
    [
        ({}, "value"),
        ({"value": []}, "value"),
        ({"value": {}}, "value"),
        ({"value": [{}]}, "name"),
        ({"value": [{"name": 1}]}, "name"),
        ({"value": [{"name": "a", "size": 1}]}, "size"),
        ({"value": [{"name": "a"}, {"name": "a"}]}, "twice"),
        ({"value": [{"name": "a"}] * 10_001}, "value"),
        ([], ""),
    ],
)
def test_bad_lists_of_topics(client, body, word):
    is_problem(client.put(TOPICS, json=body), 400, word)


@cases(
    "body",
    [
        {"writeQueues": 0},
        {"writeQueues": 5},
        {"writeQueues": "1"},
        {"cleanup": "COMPACTION"},
        {"cleanup": None},
        {"maxMessageBytes": 0},
        {"maxMessageBytes": -1},
        {"maxBacklog": 1.5},
        {"maxBacklog": True},
        {"maxBacklog": HUGE},
        {"retentionSeconds": HUGE},
        {"retentionBytes": 10**400},
        {"tierSeconds": 0},
        {"tierSeconds": "1"},
        {"tierSeconds": 60, "cleanup": "COMPACT"},
        {"queues": HUGE},
        {"queues": 1025},
    ],
)
def test_bad_fields_of_a_topic(client, topic, body):
    is_problem(client.put(f"{TOPICS}/{topic}", content=json.dumps(body)), 400)
    is_problem(client.get(f"{TOPICS}/{topic}"), 404)


# groups


def test_every_field_of_a_group(client, topic):
    path = f"{GROUPS}/{topic}"
    wanted = {
        "maxAttempts": 3,
        "invisibleSeconds": 7,
        "start": "latest",
        "retry": {"kind": "exponential", "initialMs": 10, "maxMs": 500, "multiplier": 3.0, "delaysMs": []},
        "maxInFlight": 8,
        "fifo": True,
        "filter": {"kind": "SQL92", "text": "price > 3"},
    }
    assert client.put(path, json=wanted).json().items() >= wanted.items()
    assert get(client, path).items() >= wanted.items()
    changed = client.put(path, json={"retry": {"kind": "list", "delaysMs": [1, 20]}, "maxInFlight": None})
    assert changed.json()["retry"]["delaysMs"] == [1, 20]
    assert changed.json()["retry"]["initialMs"] == 1000  # a policy is replaced as a whole
    assert (changed.json()["maxInFlight"], changed.json()["filter"]) == (None, wanted["filter"])
    assert client.put(path, json={"filter": None, "fifo": False}).json()["filter"] is None


def test_a_group_of_a_shared_subscription_is_reached_by_its_name(client, topic):
    """Such names have a `~`."""
    name = f"{topic}~0123456789abcdef"
    assert client.put(f"{GROUPS}/{name}", json={"maxAttempts": 1}).status_code == 201
    publish(client, topic, event(1))
    received = receive(client, topic, name)
    assert ids(received) == ["e1"]
    settle(client, "reject", topic, received, name)
    [dead] = receive(client, f"%25DLQ%25{name}", "reader")
    assert dead["event"]["id"] == "e1"
    assert get(client, f"{GROUPS}/{name}")["name"] == name
    assert client.delete(f"{GROUPS}/{name}").status_code == 204


def test_a_group_gets_what_its_filter_wants(client, topic):
    client.put(f"{GROUPS}/{topic}", json={"filter": {"kind": "SUB_TOPIC", "text": f"{topic}/+/temp"}})
    publish(client, topic, event(1, subject="line1/temp"), event(2, subject="line1/speed"), event(3))
    assert ids(receive(client, topic, topic)) == ["e1"]


def test_a_release_waits_as_the_retry_policy_says(client, topic):
    client.put(f"{GROUPS}/{topic}", json={"retry": {"kind": "list", "delaysMs": [60_000]}, "maxInFlight": 1})
    client.put(f"{TOPICS}/{topic}", json={"queues": 1})
    publish(client, topic, event(1), event(2))
    first = receive(client, topic, topic)
    assert ids(first) == ["e1"]
    base = f"/topics/{topic}/eventsubscriptions/{topic}:receive?maxWaitTime=0"
    is_problem(client.post(base), 429)


@cases(
    "body",
    [
        {"retry": None},
        {"retry": {}},
        {"retry": {"kind": "EXPONENTIAL"}},
        {"retry": {"kind": "exponential", "initialMs": -1}},
        {"retry": {"kind": "exponential", "initialMs": HUGE}},
        {"retry": {"kind": "exponential", "maxMs": None}},
        {"retry": {"kind": "exponential", "multiplier": 0}},
        {"retry": {"kind": "exponential", "multiplier": "2"}},
        {"retry": {"kind": "list"}},
        {"retry": {"kind": "list", "delaysMs": []}},
        {"retry": {"kind": "list", "delaysMs": [1] * 65}},
        {"retry": {"kind": "list", "delaysMs": ["1"]}},
        {"retry": {"kind": "immediate", "more": 1}},
        {"maxInFlight": 0},
        {"maxInFlight": HUGE},
        {"fifo": None},
        {"fifo": 1},
        {"filter": "a"},
        {"filter": {"kind": "TAG"}},
        {"filter": {"kind": "REGEX", "text": "a"}},
        {"filter": {"kind": "SQL92", "text": "price >"}},
        {"filter": {"kind": "SUB_TOPIC", "text": "a/#/b"}},
        {"filter": {"kind": "SQL92", "text": "(" * 3000}},
        {"start": 5},
        {"invisibleSeconds": HUGE},
    ],
)
def test_bad_fields_of_a_group(client, topic, body):
    is_problem(client.put(f"{GROUPS}/{topic}", json=body), 400)
    is_problem(client.get(f"{GROUPS}/{topic}"), 404)


# positions


@pytest.mark.parametrize(
    ("to", "again"),
    [
        ("earliest", ["e0", "e1", "e2", "e3"]),
        ("latest", []),
        ("2", ["e2", "e3"]),
        (3, ["e3"]),
        (10**18, []),
        ("2000-01-01T00:00:00Z", ["e0", "e1", "e2", "e3"]),
        ("1900-01-01T00:00:00Z", ["e0", "e1", "e2", "e3"]),
        ("2999-01-01T00:00:00+01:00", []),
    ],
)
def test_a_group_goes_on_from_a_position(client, topic, to, again):
    client.put(f"{TOPICS}/{topic}", json={"queues": 1})
    publish(client, topic, *(event(number) for number in range(4)))
    settle(client, "acknowledge", topic, receive(client, topic, topic), topic)
    answer = client.post(f"{GROUPS}/{topic}:reset", json={"topic": topic, "to": to})
    assert (answer.status_code, answer.json()["name"]) == (200, topic), answer.text
    assert answer.json()["progress"][0]["lag"] == len(again)
    assert ids(receive(client, topic, topic)) == again


@pytest.mark.everywhere
def test_one_queue_goes_on_from_a_position(client, topic):
    client.put(f"{TOPICS}/{topic}", json={"queues": 2})
    publish(client, topic, *(event(number) for number in range(4)))
    settle(client, "acknowledge", topic, receive(client, topic, topic), topic)
    client.post(f"{GROUPS}/{topic}:reset", json={"topic": topic, "to": "earliest", "queueId": 1})
    progress = get(client, f"{GROUPS}/{topic}")["progress"]
    assert [queue["lag"] for queue in progress] == [0, progress[1]["maxOffset"]]


@cases(
    "body, status",
    [
        ({}, 400),
        ({"topic": "{topic}"}, 400),
        ({"to": "latest"}, 400),
        ({"topic": "{topic}", "to": "soon"}, 400),
        ({"topic": "{topic}", "to": ""}, 400),
        ({"topic": "{topic}", "to": "-1"}, 400),
        ({"topic": "{topic}", "to": -1}, 400),
        ({"topic": "{topic}", "to": HUGE}, 400),
        ({"topic": "{topic}", "to": str(HUGE)}, 400),
        ({"topic": "{topic}", "to": "9" * 5000}, 400),
        ({"topic": "{topic}", "to": "2026-01-01T00:00:00"}, 400),
        ({"topic": "{topic}", "to": None}, 400),
        ({"topic": "{topic}", "to": True}, 400),
        ({"topic": "{topic}", "to": "latest", "queueId": -1}, 400),
        ({"topic": "{topic}", "to": "latest", "queueId": "0"}, 400),
        ({"topic": "{topic}", "to": "latest", "queueId": 9}, 404),
        ({"topic": "{topic}", "to": "latest", "queueId": HUGE}, 400),
        ({"topic": "{topic}", "to": "latest", "more": 1}, 400),
        ({"topic": "unknown", "to": "latest"}, 404),
        ({"topic": "a/b", "to": "latest"}, 400),
    ],
)
def test_bad_positions(client, topic, body, status):
    client.put(f"{TOPICS}/{topic}")
    client.put(f"{GROUPS}/{topic}")
    content = json.dumps(body).replace("{topic}", topic)
    is_problem(client.post(f"{GROUPS}/{topic}:reset", content=content), status)
    is_problem(client.post(f"{GROUPS}/{topic}-none:reset", json={"topic": topic, "to": "latest"}), 404)
    is_problem(client.get(f"{GROUPS}/{topic}:reset"), 404)
