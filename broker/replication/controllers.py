"""Controllers: a replica's connections to the controllers of its cluster.

It reports to each of them, several times a lease, and obeys the leading one. A master has its set changed by them. Now
and then it asks them who else is there: a controller that came later is in no settings (`known_controllers.py`).
Messages never wait for this: without controllers a group goes on as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.broker.remoting.service import Service
from entrepot.broker.replication.controlling import Controlling
from entrepot.broker.replication.judged_clock import JudgedClock
from entrepot.broker.replication.known_controllers import KnownControllers
from entrepot.broker.replication.peers import GroupSettings
from entrepot.broker.replication.set_keeping import SetKeeping
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.control import ControllerView, Order, OrderAnswer, ReportAnswer
from entrepot.domain.replication.mastership import NOBODY, Appointment, Promise
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import Codec

ASK_SECONDS: Final = 2.0
BEATS: Final = 8
"""Reports in the time of a lease."""
MOST_BEAT_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 2.0
"""Interval between questions for the members of the controllers' group."""
UNLED_LEASES: Final = 2
"""Leases without a word of a controller that leads, after which that is told."""
LEAST_SECONDS: Final = 0.1
"""Least time between two proposals of a master, in seconds."""
HAND_OVER_SECONDS: Final = 5.0
"""Longest time for which a stopping master waits for the next one, in seconds."""
_ORDER: Final[Codec[Order]] = Codec(Order)
_ANSWER: Final[Codec[ReportAnswer]] = Codec(ReportAnswer)
_APPOINTMENT: Final[Codec[Appointment]] = Codec(Appointment)
log = structlog.get_logger(__name__)


class Controllers:
    """The connections of a group's replica; none where operators elect its masters. `name`: of the group. `data_dir`:
    its directory. `clock`: the one that its master decides by."""

    def __init__(
        self,
        group: GroupSettings,
        name: str,
        settings: LinkSettings,
        replica: Controlling,
        data_dir: Path,
        clock: Clock,
    ) -> None:
        self._shape, self._lease, self._replica = replace(group.shape, name=name), group.lease, replica
        self._settings = settings
        self.clock = JudgedClock(clock, name, group.replica, UNLED_LEASES * group.lease)
        self._known = KnownControllers(data_dir, group.controllers)
        replica.machine.is_controlled = bool(group.controllers)
        self._loop = asyncio.get_running_loop()
        self.keeping = SetKeeping(replica.machine)
        self._links: dict[str, Link] = {each: self._link(each) for each in self.addresses}
        self._streams: dict[str, ClientStream] = {}
        self._attaching: dict[str, asyncio.TimerHandle] = {}
        self._leader = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._beating: asyncio.TimerHandle | None = None
        self._is_reporting = False
        self._heard_at = self._led_at = self._loop.time()
        self._proposed_at = 0.0
        self._refusal = "its controllers do not answer" if self._links else ""

    def install(self, service: Service) -> None:
        """Register the operations that slaves ask of their master."""
        service.calls[wire.PART] = self._parted

    def start(self) -> None:
        for link in self._links.values():
            link.start()
        if self._links:
            self._beat()
            self._tasks.add(background(self._loop).keep("members of the controllers", self._keep_looking))

    async def close(self) -> None:
        for timer in (self._beating, *self._attaching.values()):
            if timer is not None:
                timer.cancel()
        await cancel_tasks(*self._tasks)
        await asyncio.gather(*(link.close() for link in self._links.values()))

    @property
    def addresses(self) -> tuple[str, ...]:
        """host:port of the controllers that it knows."""
        return self._known.addresses

    @property
    def problem(self) -> str:
        """The reason why the controllers would not replace its master, or nothing."""
        if self._refusal or not self._links:
            return self._refusal
        if self.is_led:
            return ""
        return f"none of the controllers that it knows leads: {', '.join(self.addresses)}"

    @property
    def is_led(self) -> bool:
        """True unless none of the controllers that it knows has led for some leases."""
        return not self._links or self._loop.time() - self._led_at <= UNLED_LEASES * self._lease

    def hint(self, addresses: Iterable[str]) -> None:
        """Look for controllers at these addresses as well, which other replicas know."""
        if not self.is_led and self._known.hint(addresses):
            self._reach()

    # -- who they are --------------------------------------------------------------------------------------------

    def _link(self, address: str) -> Link:
        return Link(address, self._settings, partial(self._attach, address))

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_SECONDS, self._lease))
            asked = [link.ask(wire.CONTROLLER, seconds=ASK_SECONDS) for link in self._links.values() if link.is_up]
            answers = await asyncio.gather(*asked, return_exceptions=True)
            views = [each for each in answers if isinstance(each, ControllerView)]
            if self._known.learn(views, self._replica.machine.state.controllers):
                self._reach()

    def _reach(self) -> None:
        """Connect to all that are known now, and to no others."""
        log.info("controllers changed", addresses=self.addresses)
        for address in [each for each in self._links if each not in self.addresses]:
            link = self._links.pop(address)
            self._streams.pop(address, None)
            if (timer := self._attaching.pop(address, None)) is not None:
                timer.cancel()
            background(self._loop).start("close of a link", link.close())
        for address in [each for each in self.addresses if each not in self._links]:
            self._links[address] = self._link(address)
            self._links[address].start()

    # -- orders --------------------------------------------------------------------------------------------------

    def _attach(self, address: str) -> None:
        """Take orders of a controller."""
        self._attaching.pop(address, None)
        link = self._links.get(address)
        if link is None or not link.is_up:
            return
        self.clock.tell(link)  # before it can be elected
        payload = wire.ATTACH.encode_arguments(self._shape, self._replica.report(self.keeping.known))
        self._streams[address] = link.open_stream(
            wire.ATTACH, payload, partial(self._ordered, address), partial(self._refused, address)
        )

    def _refused(self, address: str, error: EntrepotError) -> None:
        self._streams.pop(address, None)
        if (link := self._links.get(address)) is not None and link.is_up:
            if error.code != Code.UNAVAILABLE:
                self._note(error.message)
            self._attaching[address] = self._loop.call_later(self._lease / BEATS, self._attach, address)

    def _note(self, problem: str) -> None:
        if problem != self._refusal:
            self._refusal = problem
            if problem:
                log.warning("controllers cannot be used", problem=problem)

    def _ordered(self, address: str, item: bytes) -> None:
        order, link = _ORDER.decode(item), self._links.get(address)
        if link is None or not self._is_ours(order.cluster):
            return
        self._leader, self._led_at = address, self._loop.time()
        if order.appointment is not None:
            self._decided(order.cluster, order.appointment)
            return
        task = background(self._loop).start("orders to controllers", self._obey(link, order))
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
            log.warning("could not obey an order of the controllers", problem=error.message)
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
        for link in self._links.values():
            if link.is_up:
                self.clock.tell(link)

    def _report(self) -> None:
        self._is_reporting = False
        self.change_set()
        payload = None
        for address, link in self._links.items():
            if link.is_up and address in self._streams:
                payload = payload or wire.REPORT.encode_arguments(
                    self._shape.name, self._replica.report(self.keeping.known)
                )
                link.send(wire.REPORT, payload, ASK_SECONDS, partial(self._answered, address))

    def _answered(self, address: str, error: EntrepotError | None, payload: bytes) -> None:
        if error is not None:
            return
        self._heard_at = self._loop.time()
        answer = _ANSWER.decode(payload)
        if not self._is_ours(answer.cluster):
            return
        if answer.is_leader:
            self._leader, self._led_at = address, self._heard_at
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
        link = self._links.get(self._leader)
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
        link = self._links.get(self._leader)
        if wanted == NOBODY or link is None or not link.is_up:
            return
        self._report()  # they may not have heard yet that it is open
        for each in (wanted, NOBODY):  # the controllers may know why that one is not to lead
            arguments: tuple[Any, ...] = (self._shape.name, each, [], False)
            try:
                await link.ask(wire.ELECT, *arguments, seconds=HAND_OVER_SECONDS)
                return
            except EntrepotError as error:
                log.warning("could not hand over the mastership", to=each, problem=error.message)
                if error.code is not Code.PRECONDITION_FAILED:
                    return
