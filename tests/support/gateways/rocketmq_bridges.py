"""Settings of bridges to RocketMQ clusters, and how to look at bridges of a server and at what they carried."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import Store
from tests.support.http.pull import http_json
from tests.support.waiting import PATIENCE_SECONDS


def rocketmq_remote(port: int, *rules: dict[str, Any], name: str = "old", **options: Any) -> dict[str, Any]:
    """The settings of one cluster, by the port of its name server."""
    place = {"name": name, "name_servers": [f"127.0.0.1:{port}"], "max_backoff_seconds": 1}
    return {**place, "rules": list(rules), **options}


def rocketmq_bridge_settings(*remotes: dict[str, Any]) -> dict[str, str]:
    return {"rocketmq_bridge.remotes": json.dumps(remotes)}


def rocketmq_bridge(server: Any, name: str = "old") -> dict[str, Any]:
    """The state of a bridge, as the server tells it."""
    found = http_json(server, "GET", "/api/v1/rocketmq-bridges")["value"]
    shape: dict[str, Any] = next(each for each in found if each["name"] == name)
    return shape


def queue_of(server: Any, topic: str, queue_id: int) -> list[dict[str, Any]]:
    """All messages of a queue here, in their order."""
    found: list[dict[str, Any]] = []
    at = 0
    while True:
        path = f"/api/v1/topics/{topic}/queues/{queue_id}/messages?offset={at}&limit=1000"
        page = http_json(server, "GET", path)
        found += page["value"]
        if page["nextOffset"] == at:
            return found
        at = page["nextOffset"]


async def carried(
    server: Any, wanted: Callable[[dict[str, Any]], bool], timeout: float = PATIENCE_SECONDS
) -> dict[str, Any]:
    """The bridge, once it is as wanted; the event loop goes on meanwhile."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while not wanted(told := await asyncio.to_thread(rocketmq_bridge, server)):
        assert loop.time() < end, told
    return told


async def appended(store: Store, messages: Sequence[Message]) -> None:
    """Append at a cluster, as its own producers do."""
    refusals: Sequence[EntrepotError | None] | None = await store.messages.append(messages).wait(0, len(messages))
    assert not any(refusals or ()), refusals
