"""Operations without HTTP: who asks, and the gateways that answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.ports import Store
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.peers.peers import Peers
from tests.support.clock import ManualClock
from tests.support.gateways.members import member_named
from tests.support.stores.replaced import replaced

NO_ANSWER: Mapping[str, str] = {"gw-9": "no answer within 1.5 s"}


def asked_by(name: str = "bob") -> Asked:
    """A request of a user, as a handler sees it."""
    return Asked({}, {}, Principal(name, Origin.PASSWORD, "192.0.2.7"))


def one_gateway(store: Store) -> Peers:
    """A gateway, `gw-1`, that knows no others."""
    return Peers(member_named(store, ManualClock(), "gw-1").others)


def beside(peers: Peers, others: Mapping[str, Any], missing: Mapping[str, str]) -> Peers:
    """The same among others: their answers to every question by name, and those without one."""

    async def gather(view: str, arguments: Mapping[str, Any] | None = None) -> Gathered:
        own = await peers.gather(view, arguments)
        return Gathered({**own.answers, **others}, missing)

    return replaced(peers, gather=gather)
