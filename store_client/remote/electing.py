"""Electing by hand: an operator's command moves the mastership of a broker group.

    look at all replicas -> let the wanted one catch up -> fence -> choose -> appoint -> wait until it is open

A planned move, to a replica that can catch up, loses nothing; without the old master the group's rule decides
(`domain.replication.election`).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import structlog

from entrepot.broker.remoting.link import Link, LinkSettings
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.election import Election, ElectionError, caught_up, not_moved
from entrepot.domain.replication.mastership import NOBODY, Appointment, FenceAnswer, Promise
from entrepot.protocols.wire import operations as wire
from entrepot.store_client.remote.asking import ask_all

ASK_SECONDS: Final = 3.0
FENCE_SECONDS: Final = 30.0
"""Longest time for a replica to promise: a master opens its store again as a slave's."""
CATCH_UP_SECONDS: Final = 5.0
"""Longest hold of messages in a planned move, for its target to have them all."""
OPEN_SECONDS: Final = 15.0
"""Longest time for an elected master to open."""
WHO: Final = "replica election"
log = structlog.get_logger(__name__)


class Electing:
    """One election, over connections of its own.  `addresses`: those of all replicas, by id.  `seconds`: longest wait
    for a connection."""

    def __init__(self, addresses: Mapping[int, str], settings: LinkSettings, seconds: float = ASK_SECONDS) -> None:
        self._seconds = seconds
        self._links = {replica: Link(address, settings) for replica, address in addresses.items()}

    async def __aenter__(self) -> Electing:
        for link in self._links.values():
            link.start()
        await asyncio.gather(*(link.wait_tried(self._seconds) for link in self._links.values()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))

    async def _ask_all(
        self,
        operation: wire.Operation,
        *arguments: Any,
        seconds: float = ASK_SECONDS,
        counts: Callable[[int], bool] = lambda replica: True,
    ) -> dict[int, Any]:
        """Return the answers by replica, of those that count and answer."""
        up = {replica: link for replica, link in self._links.items() if link.is_up and counts(replica)}
        answers = await ask_all(list(up), lambda replica: up[replica].ask(operation, *arguments, seconds=seconds))
        return {replica: answer for replica, answer in answers if not isinstance(answer, EntrepotError)}

    async def statuses(self) -> dict[int, wire.ReplicaStatus]:
        """Return each replica's own view, of those that answer."""
        return await self._ask_all(wire.REPLICA_STATUS)

    async def elect(self, wanted: int, lost: Sequence[int], *, is_unclean: bool) -> Appointment:
        """Elect a master; NOBODY wanted: the best that is not master now, or with lost ones the best.  Raises
        PRECONDITION_FAILED with the reason if nobody can be elected."""
        told = await self.statuses()
        if not told:
            raise EntrepotError(Code.UNAVAILABLE, "no replica answers")
        serving = [each for replica, each in told.items() if each.is_open and replica not in lost]
        master = max(serving, key=lambda each: each.epoch, default=None)
        avoided = NOBODY if master is None or lost else master.member.replica
        if master is not None:
            present = master.member.replica
            target = wanted or _next(told, present, avoided, lost, is_unclean=is_unclean)
            if target == avoided:
                raise EntrepotError(Code.PRECONDITION_FAILED, str(not_moved(present, wanted)))
            if target != present:
                await self._let_catch_up(present, target, master.appointment.rule)
                told = await self.statuses()
        epoch = 1 + max(max(each.promise.epoch, each.appointment.epoch) for each in told.values())
        token = secrets.token_hex(8)

        def election(of: int) -> Election:
            return Election(epoch, token, lost=lost, wanted=of, avoided=avoided, is_unclean=is_unclean)

        decide(election(wanted), map(_as_promised, told.values()))  # nobody is fenced for an impossible election
        latest = max((each.appointment for each in told.values()), key=lambda each: each.order)
        asked = await self._ask_all(wire.FENCE, epoch, token, seconds=FENCE_SECONDS, counts=latest.counts)
        answers = [a or p for a, p in asked.values()]
        try:
            made, problem = decide(election(wanted), answers), None
        except EntrepotError as error:
            made, problem = decide(election(NOBODY), answers), error
        await self._ask_all(wire.APPOINT, made)
        if problem is not None:
            raise EntrepotError(problem.code, f"{problem.message}; replica {made.master} is master instead")
        await self._wait_until_open(made)
        log.info("a master is elected", epoch=made.epoch, replica=made.master)
        return made

    async def _let_catch_up(self, master: int, wanted: int, rule: Rule) -> None:
        """Let the wanted replica catch up.  Under a rule with confirming slaves it may be elected without: the master
        may be cut off from its slaves."""
        if wanted not in self._links or not self._links[wanted].is_up:
            raise EntrepotError(Code.PRECONDITION_FAILED, f"replica {wanted} does not answer")
        is_even = await self._links[master].ask(
            wire.QUIESCE, wanted, CATCH_UP_SECONDS, seconds=CATCH_UP_SECONDS + ASK_SECONDS
        )
        if not is_even and rule.kind is RuleKind.ASYNC:
            raise EntrepotError(
                Code.PRECONDITION_FAILED,
                f"replica {wanted} has not caught up in {CATCH_UP_SECONDS:.0f} s: what it lacks would be lost "
                "(--without the master, if that is lost)",
            )

    async def _wait_until_open(self, made: Appointment) -> None:
        end = asyncio.get_running_loop().time() + OPEN_SECONDS
        link = self._links[made.master]
        while asyncio.get_running_loop().time() < end:
            status: wire.ReplicaStatus = await link.ask(wire.REPLICA_STATUS, seconds=ASK_SECONDS)
            if status.is_open and status.epoch == made.epoch:
                return
            if status.appointment.epoch > made.epoch:
                raise EntrepotError(Code.PRECONDITION_FAILED, "somebody else has elected meanwhile")
            await asyncio.sleep(0.01)
        raise EntrepotError(
            Code.REQUEST_TIMEOUT,
            f"replica {made.master} is master in epoch {made.epoch}, and not open yet: it waits for the disks that its "
            "rule asks for",
        )


def _next(
    told: Mapping[int, wire.ReplicaStatus], master: int, avoided: int, lost: Sequence[int], *, is_unclean: bool
) -> int:
    """Return the replica that would be elected beside a master that lets it catch up."""
    answers = caught_up(map(_as_promised, told.values()), master)
    return decide(Election(0, "", lost=lost, avoided=avoided, is_unclean=is_unclean), answers).master


def _as_promised(status: wire.ReplicaStatus) -> FenceAnswer:
    """Return the answer that a replica would give now."""
    return FenceAnswer(
        status.member,
        status.run,
        status.last,
        status.synced,
        status.confirmed,
        status.appointment,
        status.group,
        status.tokens,
    )


def decide(election: Election, answers: Iterable[FenceAnswer | Promise]) -> Appointment:
    """Return the appointment of an election.  Raises PRECONDITION_FAILED with the reason if nobody can be elected."""
    for answer in answers:
        election.answered(answer)
    try:
        return election.decide()
    except ElectionError as error:
        raise EntrepotError(Code.PRECONDITION_FAILED, str(error)) from error
