"""Peers: questions of replicas to each other: the present master, and promises of a later epoch.

So a replica learns of an appointment made while it was away, and a master of one that ended its time. Only a slave that
has joined its master need not ask.

In a group without a master, the replica with the lowest id holds the first election, once all configured ones have
answered. The longest log wins, and an empty directory never becomes master over one that has messages.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import structlog

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.broker.remoting.trust import WireTrust
from entrepot.broker.server.process import BrokerProcessSettings
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import GroupShape
from entrepot.domain.replication.election import ElectionError, first_election
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.authentication import Role

ASK_SECONDS: Final = 2.0
ALONE_SECONDS: Final = 3.0
"""Time for which the only replica in sync looks for others before it goes on without them, in seconds."""
REPLICA_CLIENT: Final = "replica"
"""Name in the greeting of replicas and electors: their connections outlive a mastership."""
PAUSE_SECONDS: Final = 0.3
"""Pause between two rounds of questions, in seconds."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of a group. `replica`: own id. `addresses`: host:port of every replica, this one included, by id; also
    of `observers`, which copy and do not count.

    `compare_rate`: bytes a second of sealed segments that a slave compares with the master's, 0 for none. `copy_rate`:
    bytes a second for copying by a replica that lacks much, 0 for no bound. `controllers`: host:port of those that
    elect its master; none where operators do. `lease`: seconds of silence after which a replica counts as gone for
    them. `elects_async`: also under the rule `async`.
    """

    replica: int
    addresses: Mapping[int, str]
    rule: Rule
    observers: frozenset[int] = frozenset()
    compare_rate: int = 0
    copy_rate: int = 0
    controllers: tuple[str, ...] = ()
    lease: float = 3.0
    elects_async: bool = False

    @property
    def shape(self) -> GroupShape:
        """The group without a name, as told to its controllers."""
        replicas, observers = tuple(sorted(self.addresses.items())), tuple(sorted(self.observers))
        return GroupShape("", replicas, self.rule, observers, self.elects_async)

    @property
    def counting(self) -> frozenset[int]:
        """Ids of the replicas under the rule."""
        return frozenset(self.addresses) - self.observers


def link_settings(process: BrokerProcessSettings, group: GroupSettings) -> LinkSettings:
    """Return the settings of a replica's connections to others: a silence is noticed well within a lease."""
    return LinkSettings(
        who=f"{REPLICA_CLIENT} {group.replica}",
        cluster=process.cluster,
        trust=WireTrust.of_client(process.trust),
        role=Role.BROKER,
        ping_seconds=min(1.0, group.lease / 4),
        silence_seconds=process.silence_seconds,
    )


class Peers:
    """The questions. `is_settled`: nothing is to be asked. `take`: takes an appointment that another knows.
    `hint`: takes the addresses of controllers that others know.  `nobody_later`: all others were heard, and none has
    promised an epoch above its own."""

    def __init__(
        self,
        group: GroupSettings,
        settings: LinkSettings,
        *,
        status: Callable[[], wire.ReplicaStatus],
        fence: Callable[[int, str], Awaitable[tuple[FenceAnswer | None, Any]]],
        is_settled: Callable[[], bool],
        hint: Callable[[Collection[str]], None],
        take: Callable[[Appointment], None],
        nobody_later: Callable[[], None],
    ) -> None:
        self._group = group
        self._status, self._fence = status, fence
        self._is_settled, self._hint, self._take, self._nobody_later = is_settled, hint, take, nobody_later
        self.links = {
            number: Link(address, settings) for number, address in group.addresses.items() if number != group.replica
        }
        self._task: asyncio.Task[None] | None = None
        self._alone_since = 0.0

    def start(self) -> None:
        for link in self.links.values():
            link.start()
        self._task = background().keep("questions to replicas", self._keep_asking)

    async def close(self) -> None:
        await cancel_tasks(self._task)
        await asyncio.gather(*(link.close() for link in self.links.values()))

    def announce(self, appointment: Appointment) -> None:
        """Tell all others of a grown set; absent ones ask for it."""
        payload = wire.APPOINT.encode_arguments(appointment)
        for link in self.links.values():
            link.send(wire.APPOINT, payload, ASK_SECONDS, lambda error, answer: None)

    async def status_of(self, replica: int) -> wire.ReplicaStatus | None:
        """Return another replica's report on itself; None where it does not answer."""
        link = self.links.get(replica)
        if link is None or not link.is_up:
            return None
        try:
            status: wire.ReplicaStatus = await link.ask(wire.REPLICA_STATUS, seconds=ASK_SECONDS)
        except EntrepotError:
            return None
        return status

    async def _keep_asking(self) -> None:
        while True:
            if not self._is_settled():
                try:
                    await self._ask_once()
                except EntrepotError as error:
                    log.debug("the other replicas are not all there", problem=error.message)
            await asyncio.sleep(PAUSE_SECONDS)

    async def _ask_once(self) -> None:
        counting = self._group.counting
        links = [link for replica, link in self.links.items() if replica in counting]
        told = await asyncio.gather(
            *(link.ask(wire.REPLICA_STATUS, seconds=ASK_SECONDS) for link in links), return_exceptions=True
        )
        heard: list[wire.ReplicaStatus] = [each for each in told if isinstance(each, wire.ReplicaStatus)]
        self._hint({address for each in heard for address in each.controllers})
        own = self._status()
        latest = max((each.appointment for each in heard), key=lambda each: each.order, default=own.appointment)
        if latest.order > own.appointment.order:
            self._take(latest)
            return
        if self._group.controllers:
            return  # their word decides
        if len(heard) < len(links):
            self._look_alone(own, heard)
            return
        if own.appointment.master != NOBODY:
            if all(each.promise.epoch <= own.appointment.epoch for each in heard):
                self._nobody_later()
        elif self._group.replica == min(counting) and latest.master == NOBODY:
            await self._elect_first(max([own.promise.epoch, *(each.promise.epoch for each in heard)]) + 1)

    def _look_alone(self, own: wire.ReplicaStatus, heard: list[wire.ReplicaStatus]) -> None:
        """Go on without the others after a while, as the only replica in sync: any replica there would know of an
        unclean election."""
        appointment = own.appointment
        is_lone = appointment.rule.kind is RuleKind.IN_SYNC and appointment.members == (own.member,)
        if not is_lone or any(each.promise.epoch > appointment.epoch for each in heard):
            return
        now = asyncio.get_running_loop().time()
        self._alone_since = self._alone_since or now
        if now - self._alone_since >= ALONE_SECONDS:
            self._nobody_later()

    async def _elect_first(self, epoch: int) -> None:
        token = secrets.token_hex(8)
        answers = [await self._fence(epoch, token)]
        links = [link for replica, link in self.links.items() if replica in self._group.counting]
        answers += await asyncio.gather(*(link.ask(wire.FENCE, epoch, token, seconds=ASK_SECONDS) for link in links))
        promised = [answer for answer, _ in answers if answer is not None]
        if len(promised) < len(self._group.counting):
            return
        election = first_election(epoch, token, self._group.rule, promised)
        for answer in promised:
            election.answered(answer)
        try:
            made = election.decide()
        except ElectionError as error:
            log.error("no first master can be elected", problem=str(error))
            return
        log.info("the first master is elected", epoch=made.epoch, master=made.master)
        self._take(made)
        told = (link.ask(wire.APPOINT, made, seconds=ASK_SECONDS) for link in self.links.values())
        await asyncio.gather(*told, return_exceptions=True)
