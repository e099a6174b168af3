"""Times and outcomes of requests in `/metrics`: by route, whatever paths clients ask for."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version

import httpx2

from tests.e2e.http.steps import event, metrics_now, publish, receive
from tests.support.http.client import http_client
from tests.support.http.server import HttpServer

_SAMPLE = re.compile(r'entrepot_http_requests_total\{method="([^"]*)",route="([^"]*)",status="([^"]*)"\} (\S+)')
PUBLISH = "/topics/{topic}:publish"


def outcomes(client: httpx2.Client) -> dict[tuple[str, str, str], float]:
    text = metrics_now(client)
    return {(found[1], found[2], found[3]): float(found[4]) for found in _SAMPLE.finditer(text)}


def test_requests_count_by_route_and_status(client: httpx2.Client, topic: str) -> None:
    before = outcomes(client)
    publish(client, topic, event(1))  # by the way of all others: the topic is new
    for number in (2, 3):
        publish(client, topic, event(number))
    client.post(f"/topics/{topic}:publish", content=b"{", headers={"content-type": "application/cloudevents+json"})
    client.put("/namespaces/other")
    client.post(f"/namespaces/other/topics/{topic}:publish", headers={"ce-id": "1"})
    receive(client, topic)
    client.post(f"/topics/{topic}/eventsubscriptions/g:receive", params={"maxWaitTime": 0, "cesql": "TRUE"})
    client.get(f"/api/v1/topics/{topic}")
    client.get("/api/v1/topics/a%2Fb")
    client.get(f"/api/v1/topics/{topic}-not-there")
    for number in range(5):
        client.get(f"/nowhere/{topic}/{number}")
        client.request("PROPFIND", f"/nowhere/{number}")
    client.patch("/healthz")
    client.post("/api/v1/settings")
    after = outcomes(client)
    grown = {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}
    grown.pop(("PUT", "other", "404"), None)
    assert grown.pop(("GET", "/metrics", "200")) >= 1
    receiving = "/topics/{topic}/eventsubscriptions/{group}:receive"
    statuses = {key[2] for key in grown if key[1] == "/api/v1/topics/{name}"}
    assert statuses == {"200", "400", "404"} or statuses == {"200", "404"}
    assert sum(value for key, value in grown.items() if key[1] == "/api/v1/topics/{name}") == 3
    rest = {key: value for key, value in grown.items() if key[1] != "/api/v1/topics/{name}"}
    assert rest == {
        ("POST", PUBLISH, "200"): 3,
        ("POST", PUBLISH, "400"): 1,
        ("POST", "/namespaces/{namespace}" + PUBLISH, "400"): 1,
        ("POST", receiving, "200"): 2,
        ("GET", "other", "404"): 5,
        ("other", "other", "404"): 5,
        ("PATCH", "/healthz", "405"): 1,
        ("POST", "/api/v1/settings", "405"): 1,
    }


def test_times_are_those_of_the_answers(client: httpx2.Client, server: HttpServer, topic: str) -> None:
    publish(client, topic, event(1))
    with http_client(server.url) as other, other.stream("GET", f"/topics/{topic}/events") as live:
        assert live.status_code == 200  # a stream counts when it begins
        text = metrics_now(client)
    labels = 'method="GET",route="/topics/{topic}/events"'
    buckets = re.findall(rf"entrepot_http_request_seconds_bucket\{{le=\"[^\"]+\",{re.escape(labels)}\}} (\S+)", text)
    assert len(buckets) > 10 and float(buckets[-1]) >= 1
    assert float(buckets[-1]) == float(text.split(f"entrepot_http_request_seconds_count{{{labels}}} ")[1].split()[0])
    assert [float(each) for each in buckets] == sorted(map(float, buckets))
    assert 0 < float(text.split(f"entrepot_http_request_seconds_sum{{{labels}}} ")[1].split()[0]) < 60


def test_the_build_is_told(client: httpx2.Client) -> None:
    said = f'entrepot_build_info{{python="{platform.python_version()}",version="{version("entrepot")}"}} 1.0'
    assert said in client.get("/metrics").text.splitlines()
