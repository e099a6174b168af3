"""What topics ask of their events: schemas, at every door, and deduplication by source and id."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx2

from tests.e2e.http.steps import BATCH, event, get, ids, is_problem, publish, receive
from tests.support.cases import cases

SCHEMA = {"type": "object", "required": ["celsius"], "properties": {"celsius": {"type": "number"}}}


def rules(client: httpx2.Client, topic: str, **fields: object) -> httpx2.Response:
    client.put(f"/api/v1/topics/{topic}", json={})
    return client.put(f"/api/v1/topics/{topic}/event-rules", json=fields)


def test_an_event_that_came_before_is_not_stored_again(client: httpx2.Client, topic: str) -> None:
    assert rules(client, topic, dedupSeconds=600).json()["dedupSeconds"] == 600
    publish(client, topic, event(1), event(1), event(2))
    publish(client, topic, event(2), event(3))
    publish(client, topic, {**event(1), "source": "/line2"})
    received = receive(client, topic)
    assert sorted(ids(received)) == ["e1", "e1", "e2", "e3"]
    assert {one["event"]["source"] for one in received if one["event"]["id"] == "e1"} == {"/line1", "/line2"}


def test_the_same_event_twice_in_a_batch_has_one_outcome(client: httpx2.Client, topic: str) -> None:
    assert rules(client, topic, dedupSeconds=600, schema=SCHEMA).status_code == 200
    bad, good = event(1, data={"celsius": "warm"}), event(2, data={"celsius": 1})
    answer = client.post(
        f"/topics/{topic}:publish", content=json.dumps([bad, bad, good]), headers={"content-type": BATCH}
    )
    is_problem(answer, 400)
    assert "2 of 3 were refused, nothing of it is stored" in answer.json()["detail"]
    assert ids(receive(client, topic)) == []
    publish(client, topic, good)
    assert ids(receive(client, topic)) == ["e2"], "it was not stored, so it may come again"


def test_topics_with_rules_are_listed_in_pages(client: httpx2.Client, topic: str) -> None:
    for number in range(3):
        rules(client, f"{topic}-{number}", dedupSeconds=number, schema=SCHEMA)
    client.put(f"/api/v1/topics/{topic}-without", json={})
    rules(client, f"{topic}-gone", dedupSeconds=1)
    assert client.delete(f"/api/v1/topics/{topic}-gone").status_code == 204
    first = get(client, "/api/v1/event-rules", name=topic, limit=2)
    assert [each["topic"] for each in first["value"]] == [f"{topic}-0", f"{topic}-1"]
    assert first["value"][1] == {
        "topic": f"{topic}-1",
        "dedupSeconds": 1,
        "dataschema": None,
        "onInvalid": "refuse",
        "divertTo": None,
        "schemaBytes": len(json.dumps(SCHEMA, separators=(",", ":"))),
    }
    last = get(client, "/api/v1/event-rules", name=topic, limit=2, after=first["next"])
    assert ([each["topic"] for each in last["value"]], last["next"]) == ([f"{topic}-2"], None)


def test_no_pattern_of_a_schema_stops_the_server(client: httpx2.Client, topic: str) -> None:
    rules(client, topic, schema={"type": "object", "properties": {"text": {"pattern": "^(a+)+$"}}})
    refused = json.dumps([event(1) | {"data": {"text": "a" * 100_000 + "!"}}])
    is_problem(client.post(f"/topics/{topic}:publish", content=refused, headers={"content-type": BATCH}), 400)
    publish(client, topic, event(2) | {"data": {"text": "a" * 100_000}})


def test_without_a_window_it_is(client: httpx2.Client, topic: str) -> None:
    publish(client, topic, event(1))
    publish(client, topic, event(1))
    assert ids(receive(client, topic)) == ["e1", "e1"]


def test_tries_at_the_same_moment_store_it_once(client: httpx2.Client, topic: str) -> None:
    rules(client, topic, dedupSeconds=600)
    batches = [[event(n) for n in order] for order in ((1, 2, 3), (3, 2, 1), (2, 1, 3), (1, 3, 2))] * 4

    def send(batch: list[dict[str, object]]) -> int:
        path = f"/topics/{topic}:publish"
        return client.post(path, content=json.dumps(batch), headers={"content-type": BATCH}).status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(send, batches)) == {200}
    assert sorted(ids(receive(client, topic))) == ["e1", "e2", "e3"]


def test_what_was_refused_may_come_again(client: httpx2.Client, topic: str) -> None:
    rules(client, topic, dedupSeconds=600, schema=SCHEMA)
    path = f"/topics/{topic}:publish"
    bad = client.post(path, json={**event(1), "data": {}}, headers={"content-type": "application/cloudevents+json"})
    is_problem(bad, 400, "celsius")
    publish(client, topic, {**event(1), "data": {"celsius": 1}})
    assert ids(receive(client, topic)) == ["e1"]


def test_a_second_process_knows_what_the_first_stored(server, client: httpx2.Client, topic: str) -> None:
    """As a gateway does that has just started: the memory of this one is emptied."""
    rules(client, topic, dedupSeconds=600)
    publish(client, topic, event(1))
    server.call(server.door.events.deduplication._stored.clear)
    publish(client, topic, event(1), event(2))
    assert sorted(ids(receive(client, topic))) == ["e1", "e2"]


def test_what_does_not_conform_is_refused_and_says_where(client: httpx2.Client, topic: str) -> None:
    rules(client, topic, schema=SCHEMA, dataschema="urn:celsius:1")
    publish(client, topic, {**event(1), "data": {"celsius": 21.5}})
    answer = client.post(
        f"/topics/{topic}:publish",
        content=json.dumps([{**event(2), "data": {"celsius": 1}}, {**event(3), "data": {"celsius": "warm"}}]),
        headers={"content-type": BATCH},
    )
    is_problem(answer, 400, "event 1 of the batch", "celsius", "number")
    for wrong in (
        {"data": "text", "datacontenttype": "text/plain"},
        {"data_base64": "AAEC"},
        {"data": {"celsius": 1}, "dataschema": "urn:other"},
        {},
    ):
        answer = client.post(
            f"/topics/{topic}:publish",
            content=json.dumps({**event(9), **wrong}),
            headers={"content-type": "application/cloudevents+json"},
        )
        is_problem(answer, 400, "does not conform")
    assert sorted(ids(receive(client, topic))) == ["e1"]


def test_or_it_goes_to_another_topic(client: httpx2.Client, topic: str) -> None:
    aside = topic + "-aside"
    answer = rules(client, topic, schema=SCHEMA, onInvalid="divert", divertTo=aside)
    assert answer.status_code == 200, answer.text
    publish(client, topic, {**event(1), "data": {}}, {**event(2), "data": {"celsius": 1}})
    assert ids(receive(client, topic)) == ["e2"]
    [diverted] = receive(client, aside)
    assert diverted["event"]["id"] == "e1"
    assert diverted["event"]["divertedfrom"] == topic and "celsius" in diverted["event"]["schemafault"]


@cases(
    "fields, words",
    [
        ({"schema": {"type": "nonsense"}}, "schema"),
        ({"schema": {"$ref": "http://127.0.0.1:1/schema"}}, "outside"),
        ({"schema": {"pattern": "^(?!a)"}}, "no look-around"),
        ({"schema": {"patternProperties": {r"(a)\1": {}}}}, "no reference back"),
        ({"dedupSeconds": -1}, "dedupSeconds"),
        ({"onInvalid": "divert"}, "divertTo"),
        ({"onInvalid": "ignore"}, "onInvalid"),
        ({"onInvalid": "divert", "divertTo": "no topic"}, "topic name"),
    ],
)
def test_rules_that_are_none_are_refused(client: httpx2.Client, topic: str, fields: dict, words: str) -> None:
    is_problem(rules(client, topic, **fields), 400, words)


def test_rules_can_be_read_and_taken_away(client: httpx2.Client, topic: str) -> None:
    rules(client, topic, schema=SCHEMA)
    path = f"/api/v1/topics/{topic}/event-rules"
    assert client.get(path).json() == {
        "dedupSeconds": 0,
        "schema": SCHEMA,
        "dataschema": None,
        "onInvalid": "refuse",
        "divertTo": None,
    }
    assert client.delete(path).status_code == 204
    publish(client, topic, event(1))
    assert client.get(path).json()["schema"] is None


def test_the_trace_context_of_a_request_is_the_events(client: httpx2.Client, topic: str) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"traceparent": parent, "tracestate": "a=1", "ce-specversion": "1.0", "ce-type": "t", "ce-source": "/s"}
    assert client.post(f"/topics/{topic}:publish", headers={**headers, "ce-id": "1"}).status_code == 200
    own = {**headers, "ce-id": "2", "ce-traceparent": parent.replace("b7", "c8")}
    assert client.post(f"/topics/{topic}:publish", headers=own).status_code == 200
    first, second = sorted((one["event"] for one in receive(client, topic)), key=lambda event: event["id"])
    assert (first["traceparent"], first["tracestate"]) == (parent, "a=1")
    assert second["traceparent"] == parent.replace("b7", "c8")
    assert "tracestate" not in second
