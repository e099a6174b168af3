"""A batch of which some events are refused: nothing of it is stored, and the answer names all that are at fault."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.e2e.http.steps import BATCH, event, ids, is_problem, receive
from tests.support.cases import cases

SCHEMA = {"type": "object", "required": ["celsius"], "properties": {"celsius": {"type": "number"}}}
GOOD = {"celsius": 1}
FAR = "2099-01-01T00:00:00Z"

CASES: dict[str, tuple[int, dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "schema": (400, {}, {"schema": SCHEMA}, {"data": {"celsius": "warm"}}, "does not conform"),
    "size": (413, {"maxMessageBytes": 100}, {}, {"data": {**GOOD, "x": "y" * 100}}, "the limit is 100"),
    "time": (400, {}, {}, {"deliverytime": FAR}, "400 days ahead"),
    "deduplicated": (400, {}, {"dedupSeconds": 60, "schema": SCHEMA}, {"data": {}}, "does not conform"),
}


def post(client: httpx2.Client, path: str, events: list[dict[str, Any]]) -> httpx2.Response:
    return client.post(path, content=json.dumps(events), headers={"content-type": BATCH})


@pytest.mark.everywhere
@cases("at", ["", "/namespaces/ns"])
@cases("case", CASES)
def test_a_refusal_is_of_the_whole_batch(client: httpx2.Client, topic: str, case: str, at: str) -> None:
    status, definition, rules, harm, words = CASES[case]
    topic = f"{topic}-{case}"
    if at:
        client.put("/api/v1/namespaces/ns")
    api = f"/api/v1{at}/topics/{topic}"
    assert client.put(api, json=definition).is_success
    if rules:
        assert client.put(f"{api}/event-rules", json=rules).is_success
    good = [event(n, data=GOOD) for n in range(6)]
    bad = [{**one, **harm} if n in (1, 3, 4) else one for n, one in enumerate(good)]
    answer = post(client, f"{at}/topics/{topic}:publish", bad)
    is_problem(answer, status, "events 1, 3-4 of the batch", "3 of 6 were refused, nothing of it is stored", words)
    assert ids(receive(client, topic, below=at)) == []
    answer = post(client, f"{at}/topics/{topic}:publish", [one for n, one in enumerate(bad) if n in (1, 3, 4)])
    is_problem(answer, status, "all 3 events of the batch were refused", words)
    assert post(client, f"{at}/topics/{topic}:publish", good).status_code == 200
    assert sorted(ids(receive(client, topic, below=at))) == [f"e{n}" for n in range(6)]


def test_every_event_that_is_none_is_named(client: httpx2.Client, topic: str) -> None:
    client.put(f"/api/v1/topics/{topic}", json={})
    answer = post(
        client,
        f"/topics/{topic}:publish",
        [event(0), {"specversion": "1.0"}, event(2), {**event(3), "id": ""}, {**event(4), "x-y": "z"}],
    )
    is_problem(answer, 400, "events 1, 3-4 of the batch (counted from 0)")
    assert ids(receive(client, topic)) == []
