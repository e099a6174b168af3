"""The overview: what it says of this server, its history, and its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import orjson
import pytest

from tests.e2e.http.steps import event, publish, receive
from tests.support.http.server import HttpServer
from tests.support.waiting import wait_until


def door(client: httpx2.Client, name: str) -> dict[str, Any]:
    found = {each["door"]: each for each in client.get("/api/v1/overview").json()["doors"]}
    return dict(found[name])


def test_rates_come_from_what_is_published(server: HttpServer, client: httpx2.Client, topic: str) -> None:
    def is_seen() -> bool:
        publish(client, topic, *(event(number) for number in range(20)))
        rate = door(client, "http")["in"]
        return rate is not None and rate > 1

    wait_until(is_seen, "the rate is shown")
    assert client.get("/api/v1/overview").json()["counts"]["topics"] >= 1

    def has_history() -> bool:
        history = client.get("/api/v1/overview/history?span=300").json()
        values = history["series"].get("in.http", [])
        return len(values) in (0, 300) and any(value for value in values)

    wait_until(has_history, "the history has it")


def test_open_files_and_their_limit_are_told(client: httpx2.Client) -> None:
    [gateway] = client.get("/api/v1/overview").json()["gateways"]
    files = gateway["openFiles"]
    assert 0 < files["used"] < files["refusedFrom"] < files["limit"]


def test_a_group_that_is_behind_is_told_in_messages_and_seconds(
    server: HttpServer, client: httpx2.Client, topic: str
) -> None:
    publish(client, topic, *(event(number) for number in range(3)))
    assert len(receive(client, topic, "late", 1)) == 1
    server.clock.advance(1000)
    server.run(server.door.app.sampler.take_cluster())
    wait_until(lambda: lag_of(client, topic) is not None, "the lag is in the overview")
    lag = lag_of(client, topic)
    assert lag is not None
    assert (lag["group"], lag["messages"]) == ("late", "3")
    assert lag["seconds"] >= 1000
    alarms = client.get("/api/v1/overview").json()["alarms"]
    assert any(alarm["link"] == "#/groups/late" and alarm["severity"] == "critical" for alarm in alarms)


def lag_of(client: httpx2.Client, topic: str) -> dict[str, Any] | None:
    lags = client.get("/api/v1/overview").json()["lags"] or []
    return next((each for each in lags if each["topic"] == topic), None)


@pytest.mark.parametrize("span", ["0", "1", "x", "7200"])
def test_other_spans_are_refused(client: httpx2.Client, span: str) -> None:
    assert client.get(f"/api/v1/overview/history?span={span}").status_code == 400


def test_a_stream_tells_it_again_and_again(client: httpx2.Client) -> None:
    with client.stream("GET", "/api/v1/overview:watch") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-accel-buffering"] == "no"
        told = events_of(answer.iter_lines())
        first, second = next(told), next(told)
    assert first["gateway"] == second["gateway"]
    assert first["time"] < second["time"]


def events_of(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield orjson.loads(line.removeprefix("data: "))
