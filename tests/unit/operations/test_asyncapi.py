"""The AsyncAPI document: topics that its reader may consume, at the listeners there are; without HTTP."""

from __future__ import annotations

from typing import Any, cast

import orjson
import pytest

from entrepot.domain.names import qualified
from entrepot.domain.topic import Permission, Topic
from entrepot.gateway.events.rules import EventRules
from entrepot.gateway.operations.nouns.asyncapi import MEDIA_TYPE, AsyncApi, Listeners
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore

LISTENERS = Listeners({"mqtts": "0.0.0.0:8883", "ws": "[::]:8083", "peers": "0.0.0.0:1"}, "/mqtt", "/mqtt-here")


class Rights:
    """Everybody may consume all but one topic."""

    def allows(self, principal: Any, action: Any, kind: Any, name: str, protocol: str) -> bool:
        return "secret" not in name


async def document(
    listeners: Listeners = LISTENERS, scheme: str = "https", host: bytes = b"hub:8443"
) -> dict[str, Any]:
    store = MemoryStore(ManualClock())
    await store.topology.put_namespace("team")
    for topic in (
        Topic("shop", queues=1),
        Topic("secret", queues=1),
        Topic("closed", queues=1, permission=Permission.NONE),
        Topic("logs", queues=1, permission=Permission.READ),
        Topic(qualified("team", "own"), queues=1),
    ):
        await store.topology.put_topic(topic)
    request = asked()
    request.scope = {"scheme": scheme, "headers": [(b"host", host)] if host else []}
    operation = AsyncApi(store, cast("Any", Rights()), EventRules(store.key_values), listeners)
    answer = await operation.show(request)
    assert answer.media_type == MEDIA_TYPE
    await store.close()
    found: dict[str, Any] = orjson.loads(answer.body)
    return found


async def test_it_tells_what_its_reader_may_consume() -> None:
    found = await document()
    assert {each["title"] for each in found["channels"].values()} == {"shop", "logs", "own"}
    assert {"publish_shop", "consume_shop", "publish_shop.name", "consume_shop.stream", "consume_logs"} <= set(
        found["operations"]
    )
    assert "publish_logs" not in found["operations"]
    assert "shop.name" in found["channels"]
    assert not [name for name in found["channels"] if name.startswith("team") and name.endswith(".name")]


async def test_its_servers_are_the_listeners_by_the_name_that_was_asked_for() -> None:
    servers = (await document())["servers"]
    assert {name: (each["host"], each["protocol"], each.get("pathname")) for name, each in servers.items()} == {
        "http": ("hub:8443", "https", None),
        "events": ("hub:8443", "wss", None),
        "mqtt-http": ("hub:8443", "wss", "/mqtt-here"),
        "mqtts": ("hub:8883", "secure-mqtt", None),
        "ws": ("hub:8083", "ws", "/mqtt"),
    }


@pytest.mark.parametrize(("host", "told"), [(b"", "127.0.0.1"), (b"[::1]", "[::1]"), (b"hub", "hub")])
async def test_a_host_may_have_no_port(host: bytes, told: str) -> None:
    servers = (await document(Listeners({"mqtt": "0.0.0.0:1883"}, "/mqtt", ""), "http", host))["servers"]
    assert {name: each["host"] for name, each in servers.items()} == {
        "http": told, "events": told, "mqtt": f"{told}:1883",
    }  # fmt: skip
