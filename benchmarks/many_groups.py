"""A hundred groups that lose their masters at once: the time of three controllers to appoint new ones.

The controllers are processes with their disks. The replicas are simulated in this process: each has a connection to
every controller, reports itself, promises and takes appointments, as a real one. They have no log, so the opening of
one is not included. The time begins with the kill and ends when the last new master has heard its appointment.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.processes import ENTREPOT, BenchmarkError, free_port, start, stop, wait_until
from benchmarks.report import Report
from entrepot.broker.remoting.link import ClientStream, Link, LinkSettings
from entrepot.domain.errors import EntrepotError
from entrepot.domain.replication.confirmation_rule import Rule, RuleKind
from entrepot.domain.replication.control import NEVER, GroupShape, Order, OrderAnswer, ReportAnswer
from entrepot.domain.replication.control import Report as Heartbeat
from entrepot.domain.replication.mastership import Appointment, FenceAnswer, Member, Promise
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.values import Codec

GROUPS: Final = 100
REPLICAS: Final = 3
CONTROLLERS: Final = 3
LEASE_SECONDS: Final = 3.0
BEAT_SECONDS: Final = LEASE_SECONDS / 8
ASK_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 60.0
_ORDER: Final[Codec[Order]] = Codec(Order)
_ANSWER: Final[Codec[ReportAnswer]] = Codec(ReportAnswer)


def measure(report: Report, console: Console, *, quick: bool) -> None:
    """Add the rows."""
    groups, rounds = (20, 1) if quick else (GROUPS, 3)
    console.print(f"failover of {groups} groups at once, {rounds} rounds", style="dim")
    with _controllers() as addresses:
        halves, alls = asyncio.run(_rounds(groups, rounds, addresses))
    what = f"{groups} groups lose their masters at once"
    report.add(f"{what}: all have new ones after, median of {rounds}", "s", statistics.median(alls))
    report.add(f"{what}: half of them have new ones after", "s", statistics.median(halves))
    report.notes.append(
        f"groups at once: {groups} groups of {REPLICAS} simulated replicas without a log, each with real connections "
        f"to {CONTROLLERS} controllers, which are processes; it ends when the last new master has heard that it is"
    )


@contextmanager
def _controllers() -> Iterator[list[str]]:
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="entrepot-bench-")))
        ports = {number: free_port() for number in range(1, CONTROLLERS + 1)}
        named = json.dumps([f"{number}=127.0.0.1:{port}" for number, port in ports.items()])
        started = []
        for number, port in ports.items():
            ready = directory / f"{number}.json"
            settings = {"cluster.controllers": named, "cluster.lease_seconds": LEASE_SECONDS, "controller.id": number}
            settings |= {"controller.port": port, "controller.data_dir": directory / str(number), "log.level": "error"}
            flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
            process = start([*ENTREPOT, "controller", "--ready-file", str(ready), *flags])
            stack.callback(stop, process)
            started.append((ready, process))
        for ready, process in started:
            wait_until(ready.exists, process, "a controller")
        yield [f"127.0.0.1:{port}" for port in ports.values()]


async def _rounds(groups: int, rounds: int, addresses: list[str]) -> tuple[list[float], list[float]]:
    """Seconds until half of the groups had new masters, and all, of each round."""
    made = [SimulatedGroup(f"group-{number}", addresses) for number in range(groups)]
    halves, alls = [], []
    for group in made:
        for replica in group.replicas.values():
            replica.start()
    await _all_led(made, "they have their first masters")
    for _ in range(rounds):
        await asyncio.sleep(2 * LEASE_SECONDS)  # the newly elected are left in peace for a while
        gone = [group.replicas[group.master] for group in made]
        for group in made:
            group.led_at = 0.0
        killed = time.monotonic()
        await asyncio.gather(*(replica.end() for replica in gone))
        await _all_led(made, "they have new masters")
        times = sorted(group.led_at - killed for group in made)
        halves.append(times[len(times) // 2])
        alls.append(times[-1])
        for replica in gone:
            replica.start()
    await asyncio.gather(*(replica.end() for group in made for replica in group.replicas.values()))
    return halves, alls


async def _all_led(groups: list[SimulatedGroup], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while missing := [group.shape.name for group in groups if not group.led_at]:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{what}: {len(missing)} do not, {missing[0]} among them")
        await asyncio.sleep(0.01)


class SimulatedGroup:
    """A group; `master` is the id of the leading replica, `led_at` the time when it heard so, 0 until then."""

    def __init__(self, name: str, controllers: list[str]) -> None:
        numbers = range(1, REPLICAS + 1)
        self.shape = GroupShape(name, tuple((number, f"{name}:{number}") for number in numbers), _RULE)
        self.replicas = {number: SimulatedReplica(self, number, controllers) for number in numbers}
        self.master, self.led_at = 0, 0.0

    def leads(self, number: int) -> None:
        """Note that a replica has heard that it is master."""
        self.master, self.led_at = number, time.monotonic()
        for replica in self.replicas.values():
            replica.report()

    @property
    def has_master(self) -> bool:
        """True while slaves have a connection to a master."""
        return self.master != 0 and self.replicas[self.master].runs > 0


_RULE: Final = Rule(RuleKind.IN_SYNC, REPLICAS)


@dataclass(slots=True)
class SimulatedReplica:
    """A replica as its controllers see it. `runs` is its starts so far, negative while it is dead."""

    group: SimulatedGroup
    number: int
    controllers: list[str]
    runs: int = 0
    promise: Promise = field(default_factory=Promise)
    appointment: Appointment = field(default_factory=Appointment)
    _links: list[Link] = field(default_factory=list)
    _streams: dict[int, ClientStream] = field(default_factory=dict)
    _beating: asyncio.TimerHandle | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(self) -> None:
        self.runs = abs(self.runs) + 1
        settings = LinkSettings(who=f"{self.group.shape.name} replica {self.number}")
        self._links = [
            Link(address, settings, on_up=partial(self._attach, at)) for at, address in enumerate(self.controllers)
        ]
        for link in self._links:
            link.start()
        self._beat()

    async def end(self) -> None:
        """End as if killed: all its connections end, and its slaves notice."""
        self.runs = -abs(self.runs)
        if self._beating is not None:
            self._beating.cancel()
        links, self._links = self._links, []
        self._streams.clear()
        for other in self.group.replicas.values():
            other.report()
        await asyncio.gather(*(link.close() for link in links))

    def _attach(self, at: int) -> None:
        if at < len(self._links) and self._links[at].is_up:
            payload = wire.ATTACH.encode_arguments(self.group.shape, self._heartbeat())
            ordered, refused = partial(self._ordered, at), partial(self._refused, at)
            self._streams[at] = self._links[at].open_stream(wire.ATTACH, payload, ordered, refused)

    def _refused(self, at: int, error: EntrepotError) -> None:
        self._streams.pop(at, None)
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._attach, at)

    def _beat(self) -> None:
        self._beating = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)
        self.report()

    def report(self) -> None:
        """Report to every controller."""
        payload = None
        for at, link in enumerate(self._links):
            if link.is_up and at in self._streams:
                payload = payload or wire.REPORT.encode_arguments(self.group.shape.name, self._heartbeat())
                link.send(wire.REPORT, payload, ASK_SECONDS, self._answered)

    def _heartbeat(self) -> Heartbeat:
        leads = self.appointment.master == self.number
        role = "master" if leads else "slave"
        silence = 0.0 if self.group.has_master and not leads else NEVER
        return Heartbeat(self._fenced(), role, self.promise.epoch, leads, "", silence, known=self.appointment.order)

    def _fenced(self) -> FenceAnswer:
        member = Member(self.number, f"{self.group.shape.name}-{self.number}")
        name = f"id of {self.group.shape.name}"
        tokens = tuple(str(run) for run in range(self.runs))
        return FenceAnswer(member, self.runs, (1, 1), 0, 0, self.appointment, name, tokens)

    def _answered(self, error: EntrepotError | None, payload: bytes) -> None:
        if error is None and (decided := _ANSWER.decode(payload).appointment) is not None:
            self._take(decided)

    def _ordered(self, at: int, item: bytes) -> None:
        order = _ORDER.decode(item)
        if order.appointment is not None:
            self._take(order.appointment)
        elif order.fence is not None:
            is_promised = self.promise.epoch >= order.fence.epoch and self.promise != order.fence
            if not is_promised:
                self.promise = order.fence
            answer = OrderAnswer(
                order.number, None if is_promised else self._fenced(), self.promise if is_promised else None
            )
            task = asyncio.get_running_loop().create_task(self._obey(at, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _obey(self, at: int, answer: OrderAnswer) -> None:
        if at < len(self._links):
            await self._links[at].ask(wire.OBEYED, self.group.shape.name, self.number, answer, seconds=ASK_SECONDS)

    def _take(self, decided: Appointment) -> None:
        if decided.order <= self.appointment.order:
            return
        is_new = decided.epoch > self.appointment.epoch
        self.appointment = decided
        if is_new and decided.master == self.number:
            self.group.leads(self.number)
