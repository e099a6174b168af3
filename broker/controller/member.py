"""Member: one controller's part in Raft: the machine, its files, its clock, and the register made by its log.

The machine asks for durable writes. A thread does them, batch after batch, and the machine hears when they are done.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

import msgspec
import structlog

from entrepot.broker.controller.commands import Command, decode_command, encode_command
from entrepot.broker.controller.questions import Questions
from entrepot.broker.controller.register import Register
from entrepot.broker.raft import effects as raft
from entrepot.broker.raft.entry import EntryKind
from entrepot.broker.raft.files import RaftFiles
from entrepot.broker.raft.membership import Change, Configuration
from entrepot.broker.raft.messages import Message
from entrepot.broker.raft.raft import Raft
from entrepot.broker.raft.state import Options
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError, StoreFailedError

SNAPSHOT_ENTRIES: Final = 2000
"""Entries in the log after a snapshot before the next one is made."""
NOT_LEADER: Final = "this controller does not lead the others"
log = structlog.get_logger(__name__)


class Member:
    """A member. `send`: brings messages to another member. `on_led`: its leadership begins, with everything committed
    applied. `on_followed`: it ends. `on_ended` gets a proposal's token and the reason why it changed nothing (None:
    unknown). `on_failure`: it cannot go on."""

    def __init__(
        self,
        number: int,
        files: RaftFiles,
        options: Options,
        register: Register,
        *,
        send: Callable[[int, Message], None],
        on_led: Callable[[], None],
        on_followed: Callable[[], None],
        on_ended: Callable[[int, str | None], None],
        on_failure: Callable[[EntrepotError], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.number, self._files, self.register = number, files, register
        self.machine = Raft(number, files.load(), Random(), self._now(), options)
        self._options = options
        self._send, self._on_led, self._on_followed = send, on_led, on_followed
        self._on_ended, self._on_failure = on_ended, on_failure
        self._writes: list[raft.Write] = []
        self._writing: asyncio.Task[None] | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._questions = Questions(self.step)
        self._results: dict[int, str] = {}  # of the step under way, by index
        self._events: deque[raft.Event] = deque()
        self._is_stepping = False
        self._leads = self._is_closed = False
        self.problem = ""  # reason of its stop
        self.is_leader = False
        """True once it leads and its register has everything committed before."""

    @property
    def leader(self) -> int:
        """Id of the leader if known, else 0."""
        return self.machine.state.leader

    @property
    def configuration(self) -> Configuration:
        return self.machine.state.log.configuration

    @property
    def committed_configuration(self) -> Configuration:
        """The last one that no crash takes back: who has left it may end."""
        return self.machine.state.log.configuration_at(self.machine.state.commit)

    def start(self) -> None:
        self._tick()

    async def close(self) -> None:
        self._is_closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        self._questions.cancel_all()

    def _now(self) -> float:
        return self._loop.time() * 1000

    def _tick(self) -> None:
        self._ticking = self._loop.call_later(self._options.heartbeat_ms / 2000, self._tick)
        self.step(raft.Tick())

    # -- requests ------------------------------------------------------------------------------------------------

    def received(self, source: int, messages: list[Message]) -> None:
        """Take another member's messages."""
        for message in messages:
            self.step(raft.Receive(source, message))

    def propose(self, token: int, command: Command) -> None:
        """Have a command committed; `on_ended` reports it."""
        self.step(raft.Propose(token, encode_command(command)))

    async def read(self) -> None:
        """Return when the register has everything committed before. Raises UNAVAILABLE on a follower."""
        await self._ask(lambda token: raft.Read(token))

    async def change(self, change: Change) -> None:
        """Change the members; returns once the change has begun.  Raises PRECONDITION_FAILED, UNAVAILABLE."""
        await self._ask(lambda token: raft.ChangeMembers(token, change))

    async def _ask(self, question: Callable[[int], raft.Event]) -> None:
        if self._is_closed:
            raise EntrepotError(Code.UNAVAILABLE, self.problem or "the controller stops")
        await self._questions.ask(question)

    # -- the machine ---------------------------------------------------------------------------------------------

    def step(self, event: raft.Event) -> None:
        """Process an event, and then those that follow from it."""
        if self._is_closed:
            return
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and not self._is_closed:
                for effect in self.machine.step(self._events.popleft(), self._now()):
                    self._perform(effect)
                self._results.clear()
        except msgspec.DecodeError as error:
            self.fail(f"the controllers' log has what this version cannot read: {error}")
        finally:
            self._is_stepping = False

    def _perform(self, effect: raft.Effect) -> None:
        match effect:
            case raft.Send(target, message):
                self._send(target, message)
            case raft.Write():
                self._write(effect)
            case raft.Apply(entries):
                for entry in entries:
                    if entry.kind is EntryKind.COMMAND:
                        self._results[entry.index] = self.register.apply(decode_command(entry.data))
                self._compact(entries[-1].index)
            case raft.Restore(snapshot):
                self.register.restore(snapshot.data)
            case raft.Done(token, index):
                self._done(token, self._results.get(index, ""))
            case raft.ReadReady(token, _):
                self._done(token, "")
            case raft.Refused(token, reason, _):
                self._refused(token, reason)
            case raft.Unknown(token):
                self._refused(token, "another controller leads now: the outcome is not known")
            case raft.RoleChanged(role, term, leader):
                log.info("the controller's role changed", role=role.value, term=term, leader=leader)
                self._role_changed(role)
            case raft.Halt(reason):
                self.fail(reason)

    def fail(self, problem: str) -> None:
        """Stop for good: nothing more is written, sent or told as durable."""
        if not self._is_closed:
            self._is_closed = True
            self.problem = problem
            self._questions.refuse_all(lambda: EntrepotError(Code.UNAVAILABLE, problem))
            if self.is_leader:
                self.is_leader = False
                self._on_followed()
            self._on_failure(StoreFailedError(problem))

    def _done(self, token: int, reason: str) -> None:
        if not self._questions.settle(token):
            self._on_ended(token, reason)

    def _refused(self, token: int, reason: str) -> None:
        code = Code.UNAVAILABLE if self.machine.state.role is not raft.Role.LEADER else Code.PRECONDITION_FAILED
        if not self._questions.settle(token, EntrepotError(code, reason)):
            self._on_ended(token, None)

    def _role_changed(self, role: raft.Role) -> None:
        """Change the role. A leader begins once it has applied everything committed: a read tells when."""
        leads = role is raft.Role.LEADER
        if leads and not self._leads:
            beginning = partial(self._begin_leading, self.machine.state.term)
            background(self._loop).keep("begin of a leader", beginning)
        elif self._leads and not leads and self.is_leader:
            self.is_leader = False
            self._on_followed()
        self._leads = leads

    async def _begin_leading(self, term: int) -> None:
        while self._leads and self.machine.state.term == term and not self._is_closed:
            try:
                await self.read()
            except (EntrepotError, asyncio.CancelledError):
                await asyncio.sleep(self._options.heartbeat_ms / 1000)
                continue
            if self._leads and self.machine.state.term == term:
                self.is_leader = True
                self._on_led()
            return

    # -- the disk ------------------------------------------------------------------------------------------------

    def _write(self, effect: raft.Write) -> None:
        self._writes.append(effect)
        if self._writing is None:
            self._writing = background(self._loop).start("writes of a controller", self._keep_writing())

    async def _keep_writing(self) -> None:
        while self._writes and not self._is_closed:
            writes, self._writes = self._writes, []
            try:
                await asyncio.to_thread(self._files.perform, writes)
            except Exception as error:  # noqa: BLE001 - whatever it was, what is not written counts for nothing
                self.fail(f"the controller's disk: {error}")
                break
            self.step(raft.Synced(writes[-1].number))
        self._writing = None

    def _compact(self, index: int) -> None:
        snapshot = self.machine.state.log.snapshot
        if index - snapshot.index >= SNAPSHOT_ENTRIES:
            data = self.register.snapshot()
            self._loop.call_soon(self.step, raft.Compact(index, data))
