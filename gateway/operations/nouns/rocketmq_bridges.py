"""Bridges to RocketMQ clusters: their states at all gateways, and how far each topic is carried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.domain.access.model import Action
from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.operations.nouns.bridges import merged
from entrepot.gateway.operations.row.gathered import OfAll, answered, readable
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Part, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_text

if TYPE_CHECKING:
    from entrepot.gateway.bridge.rocketmq.status import RocketMqBridgeStatus
    from entrepot.gateway.peers.peers import Peers

VIEW: Final = "rocketmqBridges"
COUNTS: Final = ("received", "sent", "refusedIn", "refusedOut", "ignored", "gone", "unknown", "connects")
_COLUMNS: Final = (
    "bridge",
    "state",
    "since",
    "received",
    "waiting",
    "sent",
    "refused",
    "gone",
    "unknown",
    "last error",
)


class CarriedTopicShown(Part, frozen=True):
    topic: str
    local_topic: str
    queues: int
    position: int
    waiting: int


class RocketMqBridgeShown(Shown, frozen=True):
    """A bridge to a RocketMQ cluster, as one gateway knows it"""

    name: str
    name_servers: list[str]
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
    gone: int
    unknown: int
    connects: int
    topics: list[CarriedTopicShown]


class RocketMqGatewayCounts(Part, frozen=True):
    gateway: str
    state: BridgeState
    received: int
    sent: int
    refused_in: int
    refused_out: int
    ignored: int
    gone: int
    unknown: int
    connects: int


class WholeRocketMqBridgeShown(RocketMqBridgeShown, frozen=True):
    """A bridge to a RocketMQ cluster, as its gateway knows it; counts are sums over the gateways"""

    gateway: str | None
    by_gateway: list[RocketMqGatewayCounts]


_EXAMPLE: Final = (
    "old",
    ["ns-1:9876", "ns-2:9876"],
    BridgeState.CONNECTED,
    "2026-12-01T08:00:00.000Z",
    "gateway-1",
    True,
    "refused",
    12,
    40,
    0,
    0,
    0,
    0,
    0,
    1,
    [CarriedTopicShown("orders", "orders", 8, 12, 3)],
)
shown_as(RocketMqBridgeShown(*_EXAMPLE))
_SHARE: Final = RocketMqGatewayCounts("gateway-1", BridgeState.CONNECTED, 12, 40, 0, 0, 0, 0, 0, 1)
shown_as(WholeRocketMqBridgeShown(*_EXAMPLE, "gateway-1", [_SHARE]))

ROCKETMQ_BRIDGES: Final = Noun(
    "bridges", "/rocketmq-bridges", "bridge", "Bridges to RocketMQ clusters.", group="rocketmq-bridge"
)


class RocketMqBridges:
    """The operation of bridges to RocketMQ clusters, and this gateway's answer to the others."""

    def __init__(self, peers: Peers, own: Callable[[], Sequence[RocketMqBridgeStatus]]) -> None:
        self._peers, self._own = peers, own
        peers.serve(VIEW, self._told)

    async def _told(self, asked: dict[str, Any]) -> Any:
        return [msgspec.to_builtins(bridge_of(each)) for each in self._own()]

    @ROCKETMQ_BRIDGES.get(
        "",
        "listRocketMqBridges",
        "List all bridges to RocketMQ clusters with their topics and the sum of all gateways' message counts",
        cluster(Action.LIST),
        words=Words(
            "list",
            "List every bridge to a RocketMQ cluster with its state and the server's message counts.",
            columns=_COLUMNS,
            cells=lambda each: (
                each["name"],
                each["state"],
                each["since"],
                each["received"],
                sum(topic["waiting"] for topic in each["topics"]),
                each["sent"],
                each["refusedIn"] + each["refusedOut"],
                each["gone"],
                each["unknown"],
                each["lastError"],
            ),
        ),
    )
    async def listed(self) -> OfAll[WholeRocketMqBridgeShown]:
        found = readable(await self._peers.gather(VIEW), RocketMqBridgeShown, rows=lambda bridges: bridges)
        rows = merged(self._peers.name, found, COUNTS)
        return OfAll(msgspec.convert(rows, list[WholeRocketMqBridgeShown]), answered(found))


def bridge_of(bridge: RocketMqBridgeStatus) -> RocketMqBridgeShown:
    """Return a bridge as this gateway knows it."""
    counters = bridge.counters
    return RocketMqBridgeShown(
        bridge.name,
        [*bridge.name_servers],
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
        counters.gone,
        counters.unknown,
        counters.connects,
        [CarriedTopicShown(t.topic, t.local_topic, t.queues, t.position, t.waiting) for t in bridge.topics],
    )
