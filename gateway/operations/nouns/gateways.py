"""Gateways: the processes of the cluster that clients connect to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.row.gathered import AnsweredShown, answered
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Part, Shown, Time, shown_as
from entrepot.gateway.operations.row.times import time_text

if TYPE_CHECKING:
    from entrepot.gateway.member.others import OtherMembers
    from entrepot.gateway.member.record import MemberRecord
    from entrepot.gateway.peers.peers import Peers

_PING: Final = "ping"


class GatewayShown(Shown, frozen=True):
    """A gateway process"""

    name: str
    version: str
    started_at: Time
    is_this: bool
    silent_seconds: float | None


shown_as(GatewayShown("gw-1", "1.0.0", "2026-12-01T08:00:00.000Z", is_this=True, silent_seconds=28.5))


class GatewaysShown(Part, frozen=True):
    value: list[GatewayShown]
    answered: AnsweredShown


GATEWAYS: Final = Noun("gateways", "/gateways", "gateway")


class Gateways:
    """The operation of gateways, which are in no namespace."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    @GATEWAYS.get("", "listGateways", "List all gateways, and whether they answer", cluster(Action.LIST))
    async def listed(self) -> GatewaysShown:
        gathered = await self._peers.gather(_PING)
        return GatewaysShown(gateways_of(self._peers), answered(gathered))


def gateways_of(peers: Peers) -> list[GatewayShown]:
    """Return all gateways as they are shown, by name."""
    members = peers.members
    found = [(members.own_id, members.own), *members.others()]
    return sorted((_gateway_of(members, *each) for each in found), key=lambda each: each.name)


def _gateway_of(members: OtherMembers, member: str, record: MemberRecord) -> GatewayShown:
    silent_ms = members.silent_ms(member)
    return GatewayShown(
        record.name,
        record.version,
        time_text(record.started_ms),
        member == members.own_id,
        silent_ms / 1000 if silent_ms else None,
    )
