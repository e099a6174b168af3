"""A store on a simulated disk, driven by hand, that writes the history of what its clients saw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from entrepot.broker.commit.decision_step import Decided
from entrepot.broker.metadata import registry as changes
from entrepot.broker.opening.opened_store import OpenedStore, assemble
from entrepot.broker.ports.popping import Pop
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.consume_queue import ConsumeQueue
from entrepot.broker.store.log_reading import CommitLogLayout
from entrepot.broker.store.record import RecordKind
from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.delivery import Delivery
from entrepot.domain.errors import CorruptedError, EntrepotError, StorageFullError
from entrepot.domain.expression.filter import FilterExpression
from entrepot.domain.message import Message, StoredMessage
from entrepot.domain.ports import PopRequest
from entrepot.domain.topic import Topic
from tests.simulation.disk import SimulatedDisk, SimulatedStateFile, SimulatedSyncChannel
from tests.support.clock import ManualClock
from tests.support.stores.checker import History, Report, check
from tests.support.stores.stepped_ports import SteppedPorts, done
from tests.support.stores.steps import message

ROOT = "/data"
SMALL = CommitLogLayout(segment_size_bytes=64 * 1024, preallocate_bytes=16 * 1024, reserve_bytes=4096)
INVISIBLE_MS = 10_000


@dataclass(slots=True)
class Held:
    """A delivery that a consumer has in hand."""

    topic: str
    group: str
    delivery: Delivery

    @property
    def message_id(self) -> bytes:
        return self.delivery.message.message_id


@dataclass(slots=True)
class World:
    """What outlives a crash: clients, their history and clock."""

    clock: ManualClock = field(default_factory=ManualClock)
    history: History = field(default_factory=History)
    held: list[Held] = field(default_factory=list)
    count: int = 0

    def new_messages(self, topic: str, queue_id: int, count: int, size: int, **fields: object) -> list[Message]:
        made = []
        for _ in range(count):
            self.count += 1
            made.append(message(topic, f"{self.count:016d}".encode().ljust(size, b"."), queue_id, **fields))
        return made


class SimulatedStore:
    """See the module.  Answers are given when the log is durable, as the broker does it."""

    def __init__(
        self,
        disk: SimulatedDisk,
        world: World,
        *,
        deferred: bool = False,
        max_attempts: int = 16,
        layout: CommitLogLayout = SMALL,
        flush_async: bool = False,
        hold_back_limit: int = 32_768,
    ) -> None:
        self.disk, self.world, self.hold_back_limit = disk, world, hold_back_limit
        self.channel = SimulatedSyncChannel(disk, deferred=deferred)
        self.checkpoint_channel = SimulatedSyncChannel(disk, deferred=deferred)
        settings = BrokerSettings(
            Path(ROOT),
            layout=layout,
            flush_async=flush_async,
            hold_back_limit=hold_back_limit,
            group_defaults=ConsumerGroup("defaults", max_attempts=max_attempts, invisible_seconds=INVISIBLE_MS // 1000),
        )
        self.opened: OpenedStore = assemble(
            settings, disk, self.channel, self.checkpoint_channel, SimulatedStateFile(disk, f"{ROOT}/state.db")
        )
        self.engine, self.consumption = self.opened.engine, self.opened.consumption
        self.registry = self.opened.registry
        self.ports = SteppedPorts(settings, world.clock, self.opened)
        self.refused = 0
        self._waiting: list[tuple[int, Callable[[], None]]] = []
        self._gathered: list[Callable[[], None]] | None = None
        """Answers of a step that is under way: its record comes at its end."""

    # -- clients ---------------------------------------------------------------------------------------------------

    def put_topic(self, name: str, queues: int = 2) -> None:
        self._record(changes.put_topic(Topic(name, queues=queues)))

    def drop_topic(self, name: str) -> None:
        if name in self.registry.topics:
            self.world.history.forgive(name)
            self.world.held = [held for held in self.world.held if held.topic != name]
            done(self.ports.topology.delete_topic(name))

    def shrink_topic(self, name: str, queues: int) -> None:
        """Raises EntrepotError where it may not be."""
        topic = self.registry.topics[name]
        done(self.ports.topology.put_topic(replace(topic, queues=queues)))
        for queue_id in range(queues, topic.queues):
            self.world.history.forgive(name, queue_id)

    def put_group(self, group: ConsumerGroup) -> None:
        self._record(changes.put_group(group))

    def append_all(self, messages: Sequence[Message]) -> list[EntrepotError | None] | None:
        """Append without a word to the history."""
        return self.engine.append_messages(messages, self._queue_for, self.now_ms)

    def append(self, topic: str, queue_id: int = 0, count: int = 1, size: int = 16, **fields: object) -> None:
        """`fields`: of the messages, such as `tag` and `further_queues`."""
        messages = self.world.new_messages(topic, queue_id, count, size, **fields)
        history = self.world.history
        history.send(messages)
        refusals = self.engine.append_messages(messages, self._queue_for, self.now_ms) or [None] * count
        taken = [m.message_id for m, refusal in zip(messages, refusals, strict=True) if refusal is None]
        self.refused += sum(isinstance(refusal, StorageFullError) for refusal in refusals)
        self._when_durable(lambda: history.confirm(taken))

    def pop(
        self,
        topic: str,
        group: str = "g",
        count: int = 10,
        invisible_ms: int = INVISIBLE_MS,
        wanted: FilterExpression | None = None,
    ) -> Sequence[Delivery]:
        """Claim; what is claimed is handed out when it is durable."""
        now = self.now_ms
        found = done(self.ports.consumption.pop(PopRequest(topic, group, count, 0, invisible_ms, wanted)))
        self._when_durable(lambda: self._hand_out(topic, group, found, now, invisible_ms))
        return found

    def _hand_out(
        self, topic: str, group: str, found: Sequence[Delivery], now: int, invisible_ms: int = INVISIBLE_MS
    ) -> None:
        for delivery in found:
            message_id = delivery.message.message_id
            self.world.history.deliver(group, message_id, delivery.attempt, now, now + invisible_ms)
            self.world.held.append(Held(topic, group, delivery))

    def decide_together(self, topic: str, settled: int, count: int, size: int) -> None:
        """One decision step right before a write that has new messages, too: their deliveries to both groups, and
        settlements of what is in hand; what it did is told when the write is durable."""
        core, now = self.ports.core, self.now_ms
        self.append(topic, 0, count, size)
        held = self.take_held(settled)
        self._gathered = []
        core.step.add(Decided(lambda: self.acknowledge(held[::2])))
        core.step.add(Decided(lambda: self.change(held[1::2], 0, release=True)))
        pops = [Pop(core, PopRequest(topic, group, count, 0, INVISIBLE_MS), 0.0, Counter()) for group in "gh"]
        for pop in pops:
            core.step.add(pop)
        try:
            core.step.run()
        finally:
            gathered, self._gathered = self._gathered, None
            for callback in gathered:
                self._when_durable(callback)
        self.engine.commit_log.write()
        for group, pop in zip("gh", pops, strict=True):
            found = pop.hand_out()
            self._when_durable(partial(self._hand_out, topic, group, found, now))

    def acknowledge(self, held: Sequence[Held]) -> list[EntrepotError | None]:
        return [self._settle(one, self.consumption.acknowledge, self.world.history.acknowledge) for one in held]

    def reject(self, held: Sequence[Held]) -> list[EntrepotError | None]:
        return [self._settle(one, self.consumption.reject, lambda group, message_id: None) for one in held]

    def _settle(
        self,
        held: Held,
        call: Callable[[str, str, list[str], int], list[EntrepotError | None]],
        answered: Callable[[str, bytes], None],
    ) -> EntrepotError | None:
        was_open = self.world.history.ask_to_settle(held.group, held.message_id)
        [outcome] = call(held.topic, held.group, [held.delivery.receipt_handle], self.now_ms)
        if outcome is None:
            self._when_durable(lambda: answered(held.group, held.message_id))
        elif not was_open:
            self.world.history.open_settling.discard((held.group, held.message_id))
        return outcome

    def change(self, held: Sequence[Held], invisible_ms: int, *, release: bool) -> list[EntrepotError | None]:
        outcomes = []
        for one in held:
            self.world.history.change_visibility(one.group, one.message_id, self.now_ms + invisible_ms)
            handle = [one.delivery.receipt_handle]
            outcomes += self.consumption.change_invisible(
                one.topic, one.group, handle, invisible_ms, release=release, now_ms=self.now_ms
            )
        return outcomes

    def take_held(self, count: int) -> list[Held]:
        """The oldest deliveries in hand."""
        taken, self.world.held = self.world.held[:count], self.world.held[count:]
        return taken

    # -- durability ------------------------------------------------------------------------------------------------

    def begin_sync(self) -> None:
        self.engine.begin_sync()

    def finish_sync(self) -> None:
        if self.engine.syncing_to is not None:
            self.engine.finish_sync()
            self._answer()

    def answer(self) -> None:
        """Make everything durable and give all answers."""
        self.engine.sync_now()
        self._answer()

    def begin_checkpoint(self) -> None:
        self.engine.begin_checkpoint()

    def finish_checkpoint(self) -> None:
        if self.engine.checkpointer.is_under_way:
            self.engine.finish_checkpoint()

    def checkpoint_slice(self) -> None:
        """Save the next slice of what has changed."""
        self.answer()
        self.finish_checkpoint()
        self.begin_checkpoint()
        self.finish_checkpoint()

    def checkpoint(self) -> None:
        """Save all that has changed, unless there is no room."""
        self.answer()
        self.finish_checkpoint()
        while self.engine.begin_checkpoint() and self.engine.finish_checkpoint():
            pass

    def close(self) -> None:
        self.engine.close()
        self._answer()

    # -- reading back ----------------------------------------------------------------------------------------------

    def stored(self) -> dict[tuple[str, int], list[StoredMessage]]:
        """Everything that can be read.  Raises CorruptedError."""
        found: dict[tuple[str, int], list[StoredMessage]] = {}
        for key, queue in self.engine.dispatcher.queues.items():
            messages = self.engine.read(queue, queue.min_offset, queue.visible_offset - queue.min_offset)
            for item in messages:
                if isinstance(item, CorruptedError):
                    raise item
            found[key] = [item for item in messages if isinstance(item, StoredMessage)]
            assert len(found[key]) == queue.visible_offset - queue.min_offset
        return found

    def drain(self, group: str = "g", *, acknowledge: bool = True) -> None:
        """Consume until nothing is left, as `group`, waiting for what is invisible."""
        topics = [name for name in self.registry.topics if name[0] != "%"]
        for _ in range(200):
            self.world.clock.advance(INVISIBLE_MS * 10)
            self.world.held.clear()
            found = [delivery for name in topics for delivery in self.pop(name, group, 1000)]
            self.answer()
            if acknowledge:
                assert not any(self.acknowledge(self.take_held(len(self.world.held))))
                self.answer()
            if not found:
                return
        raise AssertionError("it never ends")

    def check(self, *, drained_by: Sequence[str] = (), deliveries: bool = True) -> Report:
        return check(self.world.history, self.stored(), drained_by, deliveries=deliveries)

    @property
    def now_ms(self) -> int:
        return self.world.clock.now_ms()

    def queue(self, topic: str, queue_id: int = 0) -> ConsumeQueue:
        return self.engine.dispatcher.queues[topic, queue_id]

    def _queue_for(self, topic: str, queue_id: int, body_bytes: int) -> ConsumeQueue:
        return self.engine.existing_queue(topic, queue_id)

    def _record(self, payload: bytes) -> None:
        self.engine.append_record(RecordKind.METADATA, payload, self.now_ms)

    def _when_durable(self, callback: Callable[[], None]) -> None:
        if self._gathered is not None:
            self._gathered.append(callback)
        else:
            self._waiting.append((self.engine.end, callback))

    def _answer(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.engine.confirmed_offset:
            self._waiting.pop(0)[1]()
