"""Settings as their operation tells them: without HTTP, and without other gateways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from entrepot.gateway.operations.nouns.settings import VIEW, GatewaySettings, OtherValue, SettingsAsked
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.settings import SettingRow

ROWS = [
    SettingRow("mqtt.port", 1884, "environment", "Where MQTT listens", 1883, is_secret=False),
    SettingRow("http.port", 8080, "default", "Where HTTP listens", 8080, is_secret=False),
    SettingRow("store.url", "", "default", "Address of the store", "", is_secret=False),
]
SAME = {row.key: [row.value, row.origin] for row in ROWS}


class SomePeers:
    """This gateway, and the answers of others as a test gives them."""

    name = "gw-1"

    def __init__(self) -> None:
        self.others: dict[str, Any] = {}
        self.missing: dict[str, str] = {}
        self.own: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {}

    def serve(self, view: str, answer: Callable[[dict[str, Any]], Awaitable[Any]]) -> None:
        self.own[view] = answer

    async def gather(self, view: str) -> Gathered:
        return Gathered({self.name: await self.own[view]({}), **self.others}, self.missing)


@pytest.fixture
def peers() -> SomePeers:
    return SomePeers()


@pytest.fixture
def settings(peers: SomePeers) -> GatewaySettings:
    return GatewaySettings(ROWS, peers)  # type: ignore[arg-type]


async def keys(settings: GatewaySettings, query: SettingsAsked) -> list[str]:
    return [each.key for each in (await settings.listed(query)).value]


async def test_what_is_found_by_key_or_description(settings: GatewaySettings) -> None:
    assert await keys(settings, SettingsAsked()) == ["mqtt.port", "http.port", "store.url"]
    assert await keys(settings, SettingsAsked(find="PORT")) == ["mqtt.port", "http.port"]
    assert await keys(settings, SettingsAsked(find="address OF")) == ["store.url"]
    assert await keys(settings, SettingsAsked(only="set")) == ["mqtt.port"]
    assert await keys(settings, SettingsAsked(find="http", only="set")) == []


async def test_this_gateway_shows_its_own_and_tells_it_to_others(settings: GatewaySettings, peers: SomePeers) -> None:
    page = await settings.listed(SettingsAsked(find="mqtt"))
    assert (page.gateway, page.next, page.answered.asked, page.answered.missing) == ("gw-1", None, 1, [])
    (port,) = page.value
    assert (port.section, port.name, port.value, port.default, port.origin) == (
        "mqtt",
        "port",
        1884,
        1883,
        "environment",
    )
    assert (port.is_set, port.is_secret, port.different) == (True, False, [])
    assert await peers.own[VIEW]({}) == SAME


async def test_gateways_with_another_value_are_named(settings: GatewaySettings, peers: SomePeers) -> None:
    older = {key: value for key, value in SAME.items() if key != "store.url"}
    peers.others = {"gw-3": {**SAME, "mqtt.port": [1883, "default"]}, "gw-2": older, "gw-4": SAME}
    peers.missing = {"gw-5": "no answer"}
    page = await settings.listed(SettingsAsked(only="different"))
    assert [(each.key, each.different) for each in page.value] == [
        ("mqtt.port", [OtherValue("gw-3", 1883, "default")]),
        ("store.url", [OtherValue("gw-2", None, None)]),
    ]
    assert (page.answered.asked, page.answered.answered, page.answered.missing[0].name) == (5, 4, "gw-5")
