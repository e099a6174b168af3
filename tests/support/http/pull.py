"""All that a topic of a server process keeps, read by its HTTP door."""

from __future__ import annotations

import base64
import http.client
import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

from tests.support.processes.deployment import Deployment, GatewayProcess
from tests.support.waiting import PATIENCE_SECONDS

SOON_SECONDS = 1.5
"""Less than what a broker is given to answer a request for what is there now."""


def http_json(
    server: Deployment | GatewayProcess,
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
) -> Any:
    """One request and its answer; fails unless it succeeded."""
    connection = http.client.HTTPConnection(server.ports["http"], timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, json.dumps(body), {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    assert answer.status < 300, content
    return json.loads(content) if content else None


def batches(receive: Callable[[], list[Any]]) -> Iterator[list[Any]]:
    """What is received, until nothing is left: a broker that is not in time for an answer leaves it empty, too."""
    while True:
        asked_at = time.monotonic()
        if batch := receive():
            yield batch
        elif time.monotonic() - asked_at < SOON_SECONDS:
            return


def events(server: Deployment | GatewayProcess, topic: str, group: str = "reader") -> list[dict[str, Any]]:
    """Every message as an event, acknowledged; in no order across names."""
    found: list[dict[str, Any]] = []
    path = f"/topics/{topic}/eventsubscriptions/{group}"
    for batch in batches(lambda: http_json(server, "POST", f"{path}:receive?maxEvents=100&maxWaitTime=0")["value"]):
        found += [item["event"] for item in batch]
        tokens = [item["brokerProperties"]["lockToken"] for item in batch]
        answer = http_json(server, "POST", f"{path}:acknowledge", {"lockTokens": tokens})
        assert answer["failedLockTokens"] == []
    return found


def kept(server: Deployment | GatewayProcess, topic: str, group: str = "reader") -> list[bytes]:
    """The payloads of `events`, sorted."""
    return sorted(map(payload_of, events(server, topic, group)))


def mqtt_connections(server: Deployment | GatewayProcess) -> int:
    """How many MQTT connections the server has, by its metrics."""
    with urllib.request.urlopen(f"http://{server.ports['http']}/metrics", timeout=PATIENCE_SECONDS) as answer:
        text = answer.read().decode()
    found = re.search(r'^entrepot_connections\{[^}]*"mqtt"\} (\S+)$', text, re.MULTILINE)
    assert found is not None, text
    return int(float(found[1]))


def payload_of(event: dict[str, Any]) -> bytes:
    """The data of an event as its publisher sent it."""
    if "data_base64" in event:
        return base64.b64decode(event["data_base64"])
    data = event.get("data", "")
    return (data if isinstance(data, str) else json.dumps(data)).encode()


def journey_of(server: Deployment | GatewayProcess, **name: str) -> dict[str, Any]:
    """Where a message went; `name`: its id, or what else finds it."""
    found: dict[str, Any] = http_json(server, "GET", f"/api/v1/journeys?{urlencode(name)}")
    return found
