"""Bridges as all gateways know them: the state of who runs one, and the sums of all."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from entrepot.gateway.bridge.status import BridgeCounters, BridgeState, BridgeStatus
from entrepot.gateway.operations.nouns.bridges import Bridges
from entrepot.gateway.peers.gathered import Gathered


class Peers:
    """This gateway is `a`, and the others tell what they are given."""

    name = "a"

    def __init__(self, **others: list[dict[str, Any]]) -> None:
        self._others = others
        self.own: Any = None

    def serve(self, view: str, answer: Any) -> None:
        self.own = answer

    async def gather(self, view: str) -> Gathered:
        return Gathered({"a": await self.own({}), **self._others}, {"z": "no answer within 1.5 s"})


def status(state: BridgeState, received: int, *, is_here: bool) -> BridgeStatus:
    return BridgeStatus("plant", "mqtt://p", 5, state, 0, "b", is_here, "", BridgeCounters(received=received))


async def test_the_state_is_that_of_the_gateway_that_runs_it() -> None:
    running = status(BridgeState.CONNECTED, 4, is_here=True)
    other = Peers()
    Bridges(cast("Any", other), lambda: [running])
    peers = Peers(b=await other.own({}))
    bridges = Bridges(cast("Any", peers), lambda: [status(BridgeState.STANDBY, 3, is_here=False)])
    found = msgspec.to_builtins(await bridges.listed())
    [bridge] = found["value"]
    assert (bridge["state"], bridge["gateway"], bridge["isHere"]) == ("connected", "b", False)
    assert (bridge["received"], bridge["owner"], bridge["lastError"], bridge["version"]) == (7, "b", None, 5)
    assert [(each["gateway"], each["state"], each["received"]) for each in bridge["byGateway"]] == [
        ("a", "standby", 3),
        ("b", "connected", 4),
    ]
    assert found["answered"] == {
        "asked": 3, "answered": 2, "missing": [{"name": "z", "reason": "no answer within 1.5 s"}],
    }  # fmt: skip


async def test_a_bridge_that_nobody_runs_is_as_this_gateway_knows_it() -> None:
    peers = Peers()
    bridges = Bridges(cast("Any", peers), lambda: [status(BridgeState.BACK_OFF, 1, is_here=False)])
    [bridge] = (await bridges.listed()).value
    assert (bridge.state, bridge.gateway, bridge.is_here) == (BridgeState.BACK_OFF, None, False)
