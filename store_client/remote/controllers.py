"""ControllerClients: a cluster's controllers, as a gateway asks them for its operators.  Connections are made on
demand.  Addresses come from the settings, from replicas, and from controllers: later members are in no settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports.cluster import AWAY, FOLLOWS, LEADS, OUTSIDE, WAITS, ControllerStatus, ElectionView
from entrepot.domain.replication.control import ControllerView, GroupView, ReplicaChange
from entrepot.protocols.wire import operations as wire

LOOK_SECONDS: Final = 1.0
"""Longest wait for a connection to a controller, and for its view."""
LEADER_SECONDS: Final = 5.0
"""Longest wait of an order for a leading controller."""
PAUSE_SECONDS: Final = 0.1
ELECT_SECONDS: Final = 35.0
"""Longest time of an election: to catch up, to promise, and to open."""
CHANGE_SECONDS: Final = 5.0
NO_ANSWER: Final = "it does not answer"


class ControllerClients:
    """The controllers of a cluster.  `named`: host:port by id, from the settings."""

    def __init__(self, named: Mapping[int, str], settings: LinkSettings) -> None:
        self._named, self._settings = dict(named), settings
        self._links: dict[str, Link] = {}
        self._addresses = set(named.values())

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def learn(self, addresses: Iterable[str]) -> None:
        """Add the controllers at these addresses."""
        self._addresses |= set(addresses)

    # -- views ---------------------------------------------------------------------------------------------------

    async def statuses(self) -> list[ControllerStatus]:
        """Return every member, and others that answer, by id."""
        return statuses_of(await self._views(), self._named, self._addresses)

    async def elections(self) -> dict[str, ElectionView]:
        """Return elections by broker; empty where no controller leads."""
        leader = leader_of(await self._views())
        if leader is None:
            return {}
        try:
            groups: list[GroupView] = await self._links[leader].ask(wire.GROUPS, seconds=LOOK_SECONDS)
        except EntrepotError:
            return {}
        return {group.name: _election(group) for group in groups}

    async def _views(self) -> dict[str, ControllerView]:
        """Return the views of controllers that answer, by address."""
        found: dict[str, ControllerView] = {}
        asked: set[str] = set()
        while new := self._addresses - asked:
            asked |= new
            answers = await asyncio.gather(*map(self._view, sorted(new)))
            found |= {address: view for address, view in zip(sorted(new), answers, strict=True) if view is not None}
            led = [view for view in found.values() if view.leader]
            self.learn(address for view in led for _, address in view.members if address)
        return found

    async def _view(self, address: str) -> ControllerView | None:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address, self._settings)
            link.start()
        if not await link.wait_tried(LOOK_SECONDS):
            return None
        try:
            view: ControllerView = await link.ask(wire.CONTROLLER, seconds=LOOK_SECONDS)
        except EntrepotError:
            return None
        return view

    # -- orders --------------------------------------------------------------------------------------------------

    async def elect(self, name: str, to: int, lost: Sequence[int], *, is_unclean: bool) -> None:
        """Have a master elected; 0: the best replica.  Raises UNAVAILABLE, PRECONDITION_FAILED, REQUEST_TIMEOUT."""
        await self._order(wire.ELECT, name, to, list(lost), is_unclean, seconds=ELECT_SECONDS)

    async def change_replica(self, name: str, replica: int, change: ReplicaChange) -> None:
        """As `ClusterControl.change_replica`."""
        await self._order(wire.CHANGE_REPLICAS, name, replica, change, seconds=CHANGE_SECONDS)

    async def change(self, old: int, new: int, address: str) -> None:
        """As `ClusterControl.change_controllers`."""
        if new:
            await self._check_new(new, address)
        await self._order(wire.CHANGE_CONTROLLERS, old, new, address, seconds=CHANGE_SECONDS)

    async def _order(self, operation: wire.Operation, *arguments: Any, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + LEADER_SECONDS
        while True:
            views = await self._views()
            if (leader := leader_of(views)) is not None:
                await self._links[leader].ask(operation, *arguments, seconds=seconds)
                return
            if asyncio.get_running_loop().time() > end:
                raise EntrepotError(Code.UNAVAILABLE, self._why_none_leads(views))
            await asyncio.sleep(PAUSE_SECONDS)

    def _why_none_leads(self, views: Mapping[str, ControllerView]) -> str:
        if not self._addresses:
            return "no controllers are known: cluster.controllers names them"
        if not views:
            return f"no controller answers: asked {', '.join(sorted(self._addresses))}"
        return next((view.problem for view in views.values() if view.problem), "no controller leads")

    async def _check_new(self, number: int, address: str) -> None:
        """Check that a new controller runs, and belongs to no other group: it would delay every change."""
        clusters = {view.cluster for view in (await self._views()).values() if view.leader}
        link = Link(address, self._settings)
        link.start()
        try:
            end = asyncio.get_running_loop().time() + LEADER_SECONDS
            view = await _ask_new(link)
            while not view.cluster and asyncio.get_running_loop().time() < end:  # it looks for the others
                await asyncio.sleep(PAUSE_SECONDS)
                view = await _ask_new(link)
        except EntrepotError as error:
            raise _unfit(number, address, error.message) from error
        finally:
            await link.close()
        if view.controller != number:
            raise _unfit(number, address, f"controller {view.controller} is there")
        if not view.cluster:
            raise _unfit(number, address, view.problem)
        if clusters and view.cluster not in clusters:
            raise _unfit(number, address, "it belongs to another group of controllers")


async def _ask_new(link: Link) -> ControllerView:
    if not await link.wait_tried(LOOK_SECONDS):
        raise EntrepotError(Code.UNAVAILABLE, f"start it first, it does not answer ({link.problem})")
    view: ControllerView = await link.ask(wire.CONTROLLER, seconds=LOOK_SECONDS)
    return view


def _unfit(number: int, address: str, problem: str) -> EntrepotError:
    return EntrepotError(Code.PRECONDITION_FAILED, f"{address} cannot be controller {number}: {problem}")


def leader_of(views: Mapping[str, ControllerView]) -> str | None:
    """Return the address of the leading controller, or None."""
    leading = {address: view.term for address, view in views.items() if view.role == "leader"}
    return max(leading, key=lambda address: leading[address]) if leading else None


def statuses_of(
    views: Mapping[str, ControllerView], named: Mapping[int, str], addresses: Iterable[str]
) -> list[ControllerStatus]:
    """Return the statuses of controllers from their own views, by address.  `named`: those of the settings."""
    leader = leader_of(views)
    if leader is not None:
        members = dict(views[leader].members)
    else:
        members = {**named, **{number: each for view in views.values() for number, each in view.members}}
    told = {view.controller: (address, view) for address, view in views.items()}
    found = []
    for number in sorted(members.keys() | told.keys()):
        address, view = told.get(number, ("", None))
        state, problem = (AWAY, NO_ANSWER) if view is None else _state(view, is_leader=address == leader)
        if number not in members:
            state = OUTSIDE
        found.append(ControllerStatus(number, members.get(number) or address, state, problem))
    known = {each.address for each in found}
    if not views:
        found += [ControllerStatus(0, each, AWAY, NO_ANSWER) for each in sorted(addresses) if each not in known]
    return found


def _state(view: ControllerView, *, is_leader: bool) -> tuple[str, str]:
    if is_leader:
        return LEADS, view.problem
    return FOLLOWS if view.leader not in (0, view.controller) else WAITS, view.problem


def _election(group: GroupView) -> ElectionView:
    made = group.appointment
    given = max(made.epoch, group.electing)
    return ElectionView(made.epoch, group.reason, group.decided_ms, given, len(made.members), group.problem)
