"""Watching a topic live: a bounded sample, for who may subscribe, and never consumed."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

from entrepot.gateway.operations.nouns.watching import MAX_WATCHES
from entrepot.gateway.operations.row.streams import Streams
from tests.e2e.http.steps import event, get, is_problem, publish, receive
from tests.support.waiting import wait_until

Event = tuple[str, dict[str, Any]]


def events(lines: Iterator[str]) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield fields["event"], json.loads(fields["data"])
            fields = {}


@contextmanager
def watching_of(client: httpx2.Client, topic: str, **query: str | int) -> Iterator[Iterator[Event]]:
    with client.stream("GET", f"/api/v1/topics/{topic}:watch", params=query) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        found = events(answer.iter_lines())
        name, begun = next(found)
        assert (name, begun["topic"]) == ("begun", topic)
        yield found


def test_new_messages_come_as_the_viewer_shows_them(server, client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    client.put(f"/api/v1/groups/{topic}", json={})
    publish(client, topic, event(0))
    with watching_of(client, topic) as live:
        publish(client, topic, event(1, data={"n": 1}))
        name, row = next(live)
    assert (name, row["offset"], row["keys"]) == ("message", "1", ["e1"])
    assert json.loads(base64.b64decode(row["body"])) == {"n": 1}
    [viewed] = get(client, f"/api/v1/topics/{topic}/messages", queue=0, limit=1)["value"]
    assert viewed == row
    assert len(receive(client, topic, topic)) == 2, "nothing was consumed"
    entry = next(each for each in server.parts.security.audit.newest(20) if "watch" in each.detail)
    assert (entry.event, entry.resource) == ("contents seen", f"Topic:{topic}")


def test_what_is_left_out_is_counted(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    with watching_of(client, topic, rate=5, bodyBytes=0) as live:
        publish(client, topic, *(event(n) for n in range(100)))
        shown, left_out = 0, 0
        for name, value in live:
            if name == "message":
                shown += 1
                assert value["body"] is None
            else:
                left_out += value["count"]
            if shown + left_out == 100:
                break
    assert (shown % 5, left_out > 80) == (0, True)


def test_a_search_leaves_the_others_out_silently(client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    with watching_of(client, topic, text="WANTED") as live:
        publish(client, topic, *(event(n, data="WaNted" if n == 7 else "other") for n in range(10)))
        name, row = next(live)
    assert (name, row["keys"]) == ("message", ["e7"])


def test_a_watch_ends_with_its_topic_and_its_reader(server, client, topic):
    client.put(f"/api/v1/topics/{topic}", json={})
    with watching_of(client, topic) as live:
        client.delete(f"/api/v1/topics/{topic}")
        assert list(live) == []
    is_problem(client.get(f"/api/v1/topics/{topic}:watch"), 404)
    is_problem(client.get(f"/api/v1/topics/{topic}:watch", params={"rate": 1000}), 400, "rate")


def test_watches_are_limited(server, client, topic, monkeypatch):
    client.put(f"/api/v1/topics/{topic}", json={})
    watches = next(
        callback.__self__
        for callback in server.door.app.on_drain
        if getattr(callback, "__self__", None).__class__ is Streams and callback.__self__.most == MAX_WATCHES
    )
    monkeypatch.setattr(watches, "most", 1)
    with watching_of(client, topic):
        is_problem(client.get(f"/api/v1/topics/{topic}:watch"), 429)
        publish(client, topic, event(1))  # so that a reader that has gone is noticed at once
    wait_until(lambda: watches.count == 0 or publish(client, topic, event(2)), "the end of the first")
    with watching_of(client, topic):
        pass
