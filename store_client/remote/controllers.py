"""ControllerClients: the controllers of a cluster, as a gateway asks them for its operators.

Connections come into being when somebody asks.  Addresses are those of the settings, those that replicas name, and
those that controllers name themselves: members that came later are in no settings yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from broker.remoting.link import Link, LinkSettings
from domain.cluster import AWAY, FOLLOWS, LEADS, WAITS, ControllerStatus, ElectionView
from domain.errors import Code, EntrepotError
from domain.replication.control import ControllerView, GroupView, ReplicaChange
from protocols.remoting import operations as wire

LOOK_SECONDS: Final = 1.0
"""Longest wait for a connection to a controller, and for a look at it."""
LEADER_SECONDS: Final = 5.0
"""Longest wait of an order for a controller that leads."""
PAUSE_SECONDS: Final = 0.1
ELECT_SECONDS: Final = 35.0
"""Longest time of an election: to catch up, to promise, and to open."""
CHANGE_SECONDS: Final = 5.0
NO_ANSWER: Final = "it does not answer"


class ControllerClients:
    """`named`: host:port by id, as the settings have them."""

    def __init__(self, named: Mapping[int, str], settings: LinkSettings) -> None:
        self._named, self._settings = dict(named), settings
        self._links: dict[str, Link] = {}
        self._addresses = set(named.values())

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def learn(self, addresses: Iterable[str]) -> None:
        """Ask those at these addresses, too."""
        self._addresses |= set(addresses)

    # -- looking -------------------------------------------------------------------------------------------------

    async def statuses(self) -> list[ControllerStatus]:
        """Every member, and others that answer, by id."""
        return statuses_of(await self._views(), self._named, self._addresses)

    async def elections(self) -> dict[str, ElectionView]:
        """By broker; none where no controller leads."""
        leader = leader_of(await self._views())
        if leader is None:
            return {}
        try:
            groups: list[GroupView] = await self._links[leader].ask(wire.GROUPS, seconds=LOOK_SECONDS)
        except EntrepotError:
            return {}
        return {group.name: _election(group) for group in groups}

    async def _views(self) -> dict[str, ControllerView]:
        """Views that controllers have of themselves, of those that answer, by address."""
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
        """A controller that is to come has to run, and to belong to no other group: it would hold up each change."""
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
    """Address of the controller that leads; None where none does."""
    leading = {address: view.term for address, view in views.items() if view.role == "leader"}
    return max(leading, key=lambda address: leading[address]) if leading else None


def statuses_of(
    views: Mapping[str, ControllerView], named: Mapping[int, str], addresses: Iterable[str]
) -> list[ControllerStatus]:
    """Controllers out of what each says of itself, by address.  `named`: those of the settings."""
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
