"""Bridges to other MQTT brokers: their states at all gateways."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.domain.access.model import Action
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.operations.row.gathered import OfAll, answered, readable
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Part, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_text

if TYPE_CHECKING:
    from entrepot.gateway.bridge.status import BridgeStatus
    from entrepot.gateway.peers.gathered import Gathered
    from entrepot.gateway.peers.peers import Peers

VIEW: Final = "bridges"
COUNTS: Final = ("received", "sent", "refusedIn", "refusedOut", "ignored", "connects")
_COLUMNS: Final = ("bridge", "remote", "state", "since", "received", "sent", "refused", "owner", "last error")


class BridgeShown(Shown, frozen=True):
    """A bridge to another MQTT broker, as one gateway knows it"""

    name: str
    url: str
    version: int
    state: BridgeState
    since: Time
    owner: str | None
    is_here: bool
    last_error: str | None
    received: int
    sent: int
    refused_in: int
    refused_out: int
    ignored: int
    connects: int


class GatewayCounts(Part, frozen=True):
    gateway: str
    state: BridgeState
    received: int
    sent: int
    refused_in: int
    refused_out: int
    ignored: int
    connects: int


class WholeBridgeShown(BridgeShown, frozen=True):
    """A bridge to another MQTT broker, as its gateway knows it; counts are sums over the gateways"""

    gateway: str | None
    by_gateway: list[GatewayCounts]


_EXAMPLE: Final = (
    "plant",
    "mqtts://plant.example:8883",
    5,
    BridgeState.STANDBY,
    "2026-12-01T08:00:00.000Z",
    "gateway-1",
    True,
    "refused",
    12,
    40,
    0,
    0,
    0,
    1,
)
shown_as(BridgeShown(*_EXAMPLE))
_SHARE: Final = GatewayCounts("gateway-1", BridgeState.STANDBY, 12, 40, 0, 0, 0, 1)
shown_as(WholeBridgeShown(*_EXAMPLE, "gateway-1", [_SHARE]))

BRIDGES: Final = Noun("bridges", "/bridges", "bridge", "Bridges to other MQTT brokers.")


class Bridges:
    """The operation of bridges, which are in no namespace, and this gateway's answer to the others."""

    def __init__(self, peers: Peers, own: Callable[[], Sequence[BridgeStatus]]) -> None:
        self._peers, self._own = peers, own
        peers.serve(VIEW, self._told)

    async def _told(self, asked: dict[str, Any]) -> Any:
        return [msgspec.to_builtins(bridge_of(each)) for each in self._own()]

    @BRIDGES.get(
        "",
        "listBridges",
        "List all bridges with their state and the sum of all gateways' message counts",
        cluster(Action.LIST),
        words=Words(
            "list",
            "List every bridge with its state and the server's message counts.",
            columns=_COLUMNS,
            cells=lambda each: (
                each["name"],
                each["url"],
                each["state"],
                each["since"],
                each["received"],
                each["sent"],
                each["refusedIn"] + each["refusedOut"],
                each["owner"],
                each["lastError"],
            ),
        ),
    )
    async def listed(self) -> OfAll[WholeBridgeShown]:
        found = readable(await self._peers.gather(VIEW), BridgeShown, rows=lambda bridges: bridges)
        return OfAll(msgspec.convert(merged(self._peers.name, found, COUNTS), list[WholeBridgeShown]), answered(found))


def merged(here: str, found: Gathered, counts: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row for each bridge: the state as its gateway tells it, and the sums of `counts` over all."""
    by_name: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for gateway, bridges in sorted(found.answers.items()):
        for bridge in bridges:
            by_name.setdefault(bridge["name"], []).append((gateway, bridge))
    rows = []
    for _, several in sorted(by_name.items()):
        running = next((each for each in several if each[1]["isHere"]), None)
        told = running or next((each for each in several if each[0] == here), several[0])
        row = {**told[1], "isHere": running is not None and running[0] == here}
        row |= {name: sum(bridge[name] for _, bridge in several) for name in counts}
        row["gateway"] = None if running is None else running[0]
        row["byGateway"] = [
            {"gateway": gateway, "state": bridge["state"], **{name: bridge[name] for name in counts}}
            for gateway, bridge in several
        ]
        rows.append(row)
    return rows


def bridge_of(bridge: BridgeStatus) -> BridgeShown:
    """Return a bridge as this gateway knows it."""
    counters = bridge.counters
    return BridgeShown(
        bridge.name,
        bridge.url,
        bridge.version,
        bridge.state,
        time_text(bridge.since_ms),
        bridge.owner or None,
        bridge.is_here,
        bridge.last_error or None,
        counters.received,
        counters.sent,
        counters.refused_in,
        counters.refused_out,
        counters.ignored,
        counters.connects,
    )
