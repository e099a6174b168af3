"""ControllerServer: a controller behind a listening socket, alone or in a name server.

replicas -> attach, report, obey, change their set      `Controller` decides
other controllers -> Raft's messages                    `Member` agrees
operators -> elect, view, change the controllers
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import structlog

from entrepot.broker.controller.agreement import ControllerOptions, Effect, Propose, Reply, Tell
from entrepot.broker.controller.clocks import CONTROLLERS, MemberClock
from entrepot.broker.controller.commands import NameController
from entrepot.broker.controller.controller import NOT_LEADER, Controller
from entrepot.broker.controller.directory import REPLACE, ControllerDirectory
from entrepot.broker.controller.founding import Founding
from entrepot.broker.controller.member import Member
from entrepot.broker.controller.members_known import MembersKnown
from entrepot.broker.controller.peers import ControllerPeers
from entrepot.broker.controller.raft_codec import ANSWERS, Sender, decode_messages
from entrepot.broker.raft.effects import Role
from entrepot.broker.raft.membership import Add, Change, Remove, Replace
from entrepot.broker.raft.state import Options
from entrepot.broker.remoting.link import LinkSettings
from entrepot.broker.remoting.listener import ServerChannel, ServerStream
from entrepot.broker.remoting.service import Service
from entrepot.domain.background import background, cancel_tasks
from entrepot.domain.clock import Clock, error_ms
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError
from entrepot.domain.replication.control import (
    ControllerView,
    GroupShape,
    GroupView,
    OrderAnswer,
    ReplicaChange,
    Report,
    ReportAnswer,
    SetChange,
)
from entrepot.domain.replication.mastership import Appointment
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.connection import Requested
from entrepot.protocols.wire.values import encode

MAX_REQUESTS: Final = 1000
"""Most requests that wait for the others' agreement."""
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Settings of a controller. `addresses`: host:port of every controller, this one included, by id. `cluster`: name
    of the deployment."""

    controller: int
    addresses: Mapping[int, str]
    data_dir: Path
    cluster: str = ""
    options: ControllerOptions = field(default_factory=ControllerOptions)
    raft: Options = field(default_factory=Options)


class ControllerServer:
    """A controller's server. `stopped` is done with the reason when it cannot go on. First `install` its operations in
    a listener, then `start`."""

    def __init__(self, settings: ControllerSettings, links: LinkSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._loop = asyncio.get_running_loop()
        self.stopped: asyncio.Future[EntrepotError] = self._loop.create_future()
        self._directory = ControllerDirectory(settings.data_dir, settings.controller)
        addresses = {**self._directory.identity.addresses, **settings.addresses}
        self._peers = ControllerPeers(settings.controller, addresses, links)
        self._founding = Founding(self._directory, self._peers.links)
        self._member: Member | None = None
        self._controller: Controller | None = None
        self._streams: dict[tuple[str, int], ServerStream] = {}
        self._requests: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._beginning: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._known = MembersKnown(self._peers)

    # -- life ----------------------------------------------------------------------------------------------------

    def install(self, service: Service) -> None:
        service.direct[wire.RAFT] = self._raft
        service.direct[wire.REPORT] = self._report
        service.direct[wire.CLOCK] = self._clock_told
        service.streams[wire.ATTACH] = self._attach
        service.calls[wire.OBEYED] = self._obeyed
        service.calls[wire.CHANGE_SET] = self._change_set
        service.calls[wire.ELECT] = self._elect
        service.calls[wire.GROUPS] = self._groups
        service.calls[wire.CONTROLLER] = self._view
        service.calls[wire.CHANGE_CONTROLLERS] = self._change_controllers
        service.calls[wire.CHANGE_REPLICAS] = self._change_replicas

    def start(self) -> None:
        self._peers.start()
        self._beginning = background(self._loop).start("founding of controllers", self._begin())

    async def _begin(self) -> None:
        try:
            await self._founding.run()
            self._open()
        except StoreFailedError as error:
            self._failed(StoreFailedError(f"{error.message}; {REPLACE}"))
        except EntrepotError as error:
            self._failed(error)
        except OSError as error:
            self._failed(StoreFailedError(f"the controller's disk: {error}"))

    def _open(self) -> None:
        from entrepot.broker.controller.register import Register

        register = Register()
        identity = self._directory.identity
        self._controller = Controller(
            register,
            identity.cluster,
            Random(),
            self._clock.now_ms,
            self._settings.options,
            identity.controller,
        )
        self._peers.sender = Sender(identity.cluster, identity.controller, identity.start)
        self._member = Member(
            identity.controller,
            self._directory.files(),
            self._settings.raft,
            register,
            send=self._peers.send,
            on_led=self._led,
            on_followed=self._followed,
            on_ended=self._ended,
            on_failure=self._failed,
        )
        self._member.start()
        self._tick()
        log.info("controller started", controller=identity.controller, cluster=identity.cluster)

    async def close(self) -> None:
        await cancel_tasks(self._beginning)
        if self._ticking is not None:
            self._ticking.cancel()
        if self._member is not None:
            await self._member.close()
        await self._peers.close()
        for request in self._requests.values():
            request.cancel()
        self._directory.close()

    def _failed(self, error: EntrepotError) -> None:
        """Count for nothing from now on, and say why: the process may go on, as a name server."""
        if self.stopped.done():
            return
        self.stopped.set_result(error)
        if self._ticking is not None:
            self._ticking.cancel()
        if self._member is not None:
            self._member.fail(error.message)

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(self._settings.options.tick, self._tick)
        self._perform(self._ready.tick(self._loop.time()))
        self._follow_members()
        own = MemberClock(CONTROLLERS, self._settings.controller)
        self._ready.clock_told(own, self._clock.now_ms(), error_ms(self._clock), self._loop.time())
        self._peers.tell_clock(self._clock)

    @property
    def _ready(self) -> Controller:
        if self._controller is None:
            raise EntrepotError(Code.UNAVAILABLE, f"this controller has no group yet: {self._founding.problem}")
        return self._controller

    @property
    def _leading(self) -> Member:
        if self._member is None or not self._member.is_leader:
            raise EntrepotError(Code.UNAVAILABLE, NOT_LEADER)
        return self._member

    # -- Raft ----------------------------------------------------------------------------------------------------

    def _raft(self, channel: ServerChannel, request: Requested) -> None:
        sender, target, messages = decode_messages(request.payload)
        if self.stopped.done():
            channel.refuse(request.id, EntrepotError(Code.UNAVAILABLE, self.stopped.result().message))
            return
        if self._member is not None and (problem := self._objection(sender)):
            log.warning("refused the messages of a controller", seldom="controller", problem=problem)
            self._peers.problems[sender.controller] = problem
            channel.refuse(request.id, EntrepotError(Code.PRECONDITION_FAILED, problem))
            return
        channel.answer(request.id, encode(None))
        if self._member is None:
            return
        self._peers.problems.pop(sender.controller, None)
        if target not in ("", self._directory.identity.start.token):  # the question was for another process
            messages = [each for each in messages if not isinstance(each, ANSWERS)]
        self._member.received(sender.controller, messages)

    def _objection(self, sender: Sender) -> str:
        own = self._directory.identity
        if sender.cluster != own.cluster:
            return f"controller {sender.controller} is of another group of controllers: {sender.cluster}"
        if sender.controller == own.controller:
            return f"two controllers have the id {own.controller}: one of them has to stop"
        problem = self._ready.register.old_copy(sender.controller, sender.start)
        if problem:
            self._peers.forget(sender)
        return problem or self._peers.hear(sender)

    def _led(self) -> None:
        self._perform(self._ready.led(self._loop.time()))

    def _followed(self) -> None:
        self._perform(self._ready.followed(self._loop.time()))

    def _ended(self, token: int, reason: str | None) -> None:
        controller, now = self._ready, self._loop.time()
        effects = controller.not_applied(token, now) if reason is None else controller.applied(token, reason, now)
        self._perform(effects)

    def _follow_members(self) -> None:
        """Have all members known to each other."""
        member = self._member
        if member is None:
            return
        own = self._directory.identity
        self._known.look(member, own.controller, own.start)
        try:
            self._directory.note_refused(bool(self._peers.refusals))
            if member.is_leader or member.leader:
                self._directory.note_addresses(self._known.addresses(member))
        except OSError as error:
            self._failed(StoreFailedError(f"the controller's disk: {error}"))

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Propose(token, command) if self._member is not None:
                    self._loop.call_soon(self._member.propose, token, command)
                case Tell(group, replica, order):
                    stream = self._streams.get((group, replica))
                    if stream is not None:
                        stream.send(encode(order))
                case Reply(request, result, error):
                    self._reply(request, result, error)

    # -- replicas ------------------------------------------------------------------------------------------------

    def _attach(self, stream: ServerStream, shape: GroupShape, report: Report) -> None:
        key = shape.name, report.member.replica
        effects = self._ready.attached(shape, report, self._loop.time())
        self._streams[key] = stream
        stream.on_close = lambda: self._detached(key, stream)
        self._perform(effects)

    def _detached(self, key: tuple[str, int], stream: ServerStream) -> None:
        if self._streams.get(key) is stream:
            del self._streams[key]
            self._perform(self._ready.detached(*key, self._loop.time()))

    def _report(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.REPORT.arguments is not None
        name, report = wire.REPORT.arguments.decode(request.payload)
        controller = self._ready
        self._perform(controller.reported(name, report, self._loop.time()))
        decided = controller.decided(name)
        answer = ReportAnswer(
            controller.cluster,
            controller.is_leader,
            decided if decided is None or decided.order != report.known else None,
            controller.wanted(name),
        )
        channel.answer(request.id, encode(answer))

    def _clock_told(self, channel: ServerChannel, request: Requested) -> None:
        assert wire.CLOCK.arguments is not None
        group, number, clock_ms, error = wire.CLOCK.arguments.decode(request.payload)
        verdict = self._ready.clock_told(MemberClock(group, number), clock_ms, error, self._loop.time())
        channel.answer(request.id, encode(verdict))

    async def _obeyed(self, name: str, replica: int, answer: OrderAnswer) -> None:
        self._perform(self._ready.obeyed(name, replica, answer, self._loop.time()))

    async def _change_set(self, name: str, change: SetChange) -> Appointment:
        controller = self._ready
        found: Appointment = await self._asked(
            lambda request: controller.change_set(request, name, change, self._loop.time())
        )
        return found

    # -- operators -----------------------------------------------------------------------------------------------

    async def _elect(self, name: str, to: int, lost: list[int], is_unclean: bool) -> Appointment:
        controller = self._ready
        found: Appointment = await self._asked(
            lambda request: controller.elect(request, name, to, lost, self._loop.time(), is_unclean=is_unclean)
        )
        return found

    async def _change_replicas(self, name: str, replica: int, change: ReplicaChange) -> GroupView:
        controller = self._ready
        found: GroupView = await self._asked(
            lambda request: controller.change_replicas(request, name, replica, change, self._loop.time())
        )
        return found

    async def _asked(self, ask: Any) -> Any:
        if len(self._requests) >= MAX_REQUESTS:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "too many requests wait for the controllers")
        self._count += 1
        request, answer = self._count, self._loop.create_future()
        self._requests[request] = answer
        try:
            self._perform(ask(request))
            return await answer
        finally:
            self._requests.pop(request, None)

    def _reply(self, request: int, result: Any, error: EntrepotError | None) -> None:
        answer = self._requests.get(request)
        if answer is None or answer.done():
            return
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    async def _groups(self) -> list[GroupView]:
        await self._leading.read()
        return self._ready.views()

    async def _view(self) -> ControllerView:
        own, member = self._directory.identity, self._member
        if member is None:
            members = tuple(sorted(self._settings.addresses.items()))
            told = self.stopped.result().message if self.stopped.done() else self._founding.problem
            of_group = own.cluster, own.founders
            return ControllerView(own.controller, own.incarnation, *of_group, members=members, problem=told)
        state = member.machine.state
        role, leader = (Role.FOLLOWER, 0) if member.problem else (state.role, state.leader)
        return ControllerView(
            own.controller,
            own.incarnation,
            own.cluster,
            own.founders,
            role.value,
            state.term,
            leader,
            tuple((number, self._peers.address(number)) for number in member.committed_configuration.members),
            state.applied,
            self._problem(member),
        )

    def _problem(self, member: Member) -> str:
        if member.problem:
            return member.problem
        peers = self._peers
        problems = [problem for _, problem in sorted(peers.problems.items())]
        problems += [f"controller {each} does not listen: {why}" for each, why in sorted(peers.refusals.items())]
        if problems:
            return "; ".join(problems)
        if member.number not in member.committed_configuration.members:
            return "it is not a member: add it (entrepot cluster controller add)"
        if member.is_leader and (problem := self._ready.clocks.problem(self._loop.time())):
            return problem
        return "" if member.leader else "no controller leads: a majority of them does not answer"

    async def _change_controllers(self, old: int, new: int, address: str) -> None:
        """Add, remove or replace a controller; returns once the change has begun, which is then carried through."""
        member = self._leading
        change: Change = Replace(old, new) if old and new else Add(new) if new else Remove(old)
        if new:
            member.propose(0, NameController(new, address))
        await member.change(change)
