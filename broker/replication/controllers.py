"""Controllers: a replica's connections to the controllers of its cluster.

It reports to each of them, several times a lease, and obeys the leading one. A master has its set changed by them.
Messages never wait for this: without controllers a group goes on as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import structlog

from entrepot.broker.cancelling import cancel_tasks
from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.broker.remoting.listener import Service
from entrepot.broker.replication.controlling import Controlling
from entrepot.broker.replication.peers import GroupSettings
from entrepot.broker.replication.set_keeping import SetKeeping
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.control import Order, OrderAnswer, ReportAnswer
from entrepot.domain.replication.mastership import NOBODY, Appointment, Promise
from entrepot.protocols.remoting import operations as wire
from entrepot.protocols.remoting.values import Codec

ASK_SECONDS: Final = 2.0
BEATS: Final = 8
"""Reports in the time of a lease."""
MOST_BEAT_SECONDS: Final = 0.5
LEAST_SECONDS: Final = 0.1
"""Least time between two proposals of a master, in seconds."""
HAND_OVER_SECONDS: Final = 5.0
"""Longest time for which a stopping master waits for the next one, in seconds."""
_ORDER: Final[Codec[Order]] = Codec(Order)
_ANSWER: Final[Codec[ReportAnswer]] = Codec(ReportAnswer)
_APPOINTMENT: Final[Codec[Appointment]] = Codec(Appointment)
log = structlog.get_logger(__name__)


class Controllers:
    """The connections of a group's replica; none where operators elect its masters. `name`: of the group. `now_ms`: the
    clock that its master decides by."""

    def __init__(
        self, group: GroupSettings, name: str, settings: LinkSettings, replica: Controlling, now_ms: Callable[[], int]
    ) -> None:
        self._shape, self._lease, self._replica = replace(group.shape, name=name), group.lease, replica
        self._now_ms = now_ms
        addresses = group.controllers
        replica.machine.is_controlled = bool(addresses)
        self._loop = asyncio.get_running_loop()
        self.keeping = SetKeeping(replica.machine)
        self._links = [Link(each, settings, partial(self._attach, number)) for number, each in enumerate(addresses)]
        self._streams: dict[int, ClientStream] = {}
        self._attaching: dict[int, asyncio.TimerHandle] = {}
        self._leader: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._beating: asyncio.TimerHandle | None = None
        self._is_reporting = False
        self._heard_at = 0.0
        self._proposed_at = 0.0
        self.problem = "its controllers do not answer" if addresses else ""

    def install(self, service: Service) -> None:
        """Register the operations that slaves ask of their master."""
        service.calls[wire.PART] = self._parted

    def start(self) -> None:
        for link in self._links:
            link.start()
        if self._links:
            self._beat()

    async def close(self) -> None:
        for timer in (self._beating, *self._attaching.values()):
            if timer is not None:
                timer.cancel()
        await cancel_tasks(*self._tasks)
        await asyncio.gather(*(link.close() for link in self._links))

    # -- orders --------------------------------------------------------------------------------------------------

    def _attach(self, number: int) -> None:
        """Take orders of a controller."""
        self._attaching.pop(number, None)
        link = self._links[number]
        if not link.is_up:
            return
        payload = wire.ATTACH.encode_arguments(self._shape, self._replica.report(self.keeping.known))
        self._streams[number] = link.open_stream(
            wire.ATTACH, payload, partial(self._ordered, number), partial(self._refused, number)
        )

    def _refused(self, number: int, error: EntrepotError) -> None:
        self._streams.pop(number, None)
        if self._links[number].is_up:
            if error.code != Code.UNAVAILABLE:
                self._note(error.message)
            self._attaching[number] = self._loop.call_later(self._lease / BEATS, self._attach, number)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            if problem:
                log.warning("the controllers", problem=problem)

    def _ordered(self, number: int, item: bytes) -> None:
        order = _ORDER.decode(item)
        if not self._is_ours(order.cluster):
            return
        self._leader = number
        if order.appointment is not None:
            self._decided(order.cluster, order.appointment)
            return
        task = background(self._loop).start("orders to controllers", self._obey(self._links[number], order))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _obey(self, link: Link, order: Order) -> None:
        try:
            if order.fence is not None:
                said = await self._replica.promise(order.fence)
                is_refusal = isinstance(said, Promise)
                answer = OrderAnswer(order.number, None if is_refusal else said, said if is_refusal else None)  # type: ignore[arg-type]
            else:
                assert order.quiesce is not None
                answer = OrderAnswer(order.number, is_even=await self._replica.quiesce(*order.quiesce))
            name, replica = self._shape.name, self._replica.machine.state.replica
            await link.ask(wire.OBEYED, name, replica, answer, seconds=ASK_SECONDS)
        except EntrepotError as error:
            log.warning("an order of the controllers is not obeyed", problem=error.message)
        self.report_soon()

    def _is_ours(self, cluster: str) -> bool:
        known = self._replica.machine.state.controllers
        if known in ("", cluster):
            return True
        self._note(
            f"these controllers are of group {cluster}, and {known} decided here before: if that one is gone for good, "
            "stop the replica, and: entrepot store rebind"
        )
        return False

    def _decided(self, cluster: str, appointment: Appointment) -> None:
        self._replica.bind(cluster)
        self._replica.perform(self.keeping.heard(appointment))
        self._note("")

    # -- reports -------------------------------------------------------------------------------------------------

    def report_soon(self) -> None:
        """Report a change at the end of this tick of the event loop."""
        if not self._is_reporting and self._links:
            self._is_reporting = True
            self._loop.call_soon(self._report)

    def _beat(self) -> None:
        self._beating = self._loop.call_later(min(self._lease / BEATS, MOST_BEAT_SECONDS), self._beat)
        self._replica.observe(self.keeping)
        self._report()
        self._tell_clock()

    def _tell_clock(self) -> None:
        """Tell the controllers what the clock says: they compare those of all."""
        payload = wire.CLOCK.encode_arguments(self._shape.name, self._replica.machine.state.replica, self._now_ms())
        for link in self._links:
            if link.is_up:
                link.send(wire.CLOCK, payload, ASK_SECONDS, lambda error, payload: None)

    def _report(self) -> None:
        self._is_reporting = False
        self.change_set()
        payload = None
        for number, link in enumerate(self._links):
            if link.is_up and number in self._streams:
                payload = payload or wire.REPORT.encode_arguments(
                    self._shape.name, self._replica.report(self.keeping.known)
                )
                link.send(wire.REPORT, payload, ASK_SECONDS, partial(self._answered, number))

    def _answered(self, number: int, error: EntrepotError | None, payload: bytes) -> None:
        if error is not None:
            return
        self._heard_at = self._loop.time()
        answer = _ANSWER.decode(payload)
        if not self._is_ours(answer.cluster):
            return
        if answer.is_leader:
            self._leader = number
            self.keeping.counting = frozenset(answer.counting)
        if answer.appointment is not None:
            self._decided(answer.cluster, answer.appointment)
        elif self._replica.machine.state.controllers:
            self._note("")
        elif answer.is_leader:
            self._note("its controllers have not taken its group in: each replica has to name them")

    # -- the set -------------------------------------------------------------------------------------------------

    def change_set(self) -> None:
        """Propose the register's missing changes, if the last proposal is some time ago."""
        link = None if self._leader is None else self._links[self._leader]
        now = self._loop.time()
        if now - self._heard_at > self._lease:
            self.keeping.away()
        if link is None or not link.is_up or now - self._proposed_at < min(self._lease / BEATS, LEAST_SECONDS):
            return
        effects, change = self.keeping.proposal()
        self._replica.perform(effects)
        if change is None:
            return
        self._proposed_at = now
        payload = wire.CHANGE_SET.encode_arguments(self._shape.name, change)
        link.send(wire.CHANGE_SET, payload, ASK_SECONDS, self._set_answered)

    def _set_answered(self, error: EntrepotError | None, payload: bytes) -> None:
        if error is None:
            self._replica.perform(self.keeping.answered(_APPOINTMENT.decode(payload)))
        else:
            self.keeping.not_answered()

    async def _parted(self, replica: int) -> None:
        """Have a slave that is about to stop leave the set now."""
        self._replica.observe(self.keeping)
        self._replica.parted(replica)
        self._replica.observe(self.keeping)
        self.report_soon()

    async def hand_over(self, wanted: int) -> None:
        """Have another replica elected, before this master stops."""
        if wanted == NOBODY or self._leader is None or not self._links[self._leader].is_up:
            return
        arguments: tuple[Any, ...] = (self._shape.name, wanted, [], False)
        try:
            await self._links[self._leader].ask(wire.ELECT, *arguments, seconds=HAND_OVER_SECONDS)
        except EntrepotError as error:
            log.warning("the mastership is not handed over", problem=error.message)
