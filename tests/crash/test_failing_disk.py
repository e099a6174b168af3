"""After an error of write or sync nothing is confirmed any more; a full disk refuses messages and nothing else."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.broker import Broker
from entrepot.broker.opening.opened_store import OpenedStore, assemble
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store import consume_queue
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.state_file import SqliteStateFile
from entrepot.broker.store.sync_channel import start_sync_process
from entrepot.domain.errors import Code, EntrepotError, StorageFullError, StoreFailedError
from entrepot.domain.message import SystemProperty, SystemValue
from entrepot.domain.topic import Topic
from tests.crash.history_steps import Life
from tests.simulation.disk import Fault, SimulatedDisk
from tests.support.cases import cases
from tests.support.clock import ManualClock
from tests.support.stores.simulated_store import SMALL, SimulatedStore, World
from tests.support.stores.steps import LONG_POLL_MS, append, codes, handles, message, pop, settled
from tests.support.waiting import PATIENCE_SECONDS


def fault(operation: str, code: int, part: str = "") -> Fault:
    return lambda op, path: OSError(code, "injected") if op == operation and part in path else None


def no_fault(operation: str, path: str) -> OSError | None:
    return None


def assert_dead(store: SimulatedStore) -> None:
    """Whatever is asked, nothing is confirmed; not even when the disk is well again."""
    store.disk.fault = no_fault
    confirmed = set(store.world.history.confirmed)
    durable = store.engine.confirmed_offset
    calls: list[Callable[[], object]] = [
        lambda: store.append("t"),
        lambda: store.pop("t"),
        lambda: store.put_topic("new"),
        store.engine.begin_sync,
        store.engine.finish_sync,
        store.engine.sync_now,
    ]
    for call in calls * 2:
        with pytest.raises(StoreFailedError):
            call()
    assert not store.engine.begin_checkpoint()
    store._answer()
    assert store.world.history.confirmed == confirmed
    assert store.engine.confirmed_offset == durable
    store.close()
    assert store.world.history.confirmed == confirmed


@pytest.mark.failure(
    "A disk refuses a write or a sync (EIO)",
    group="Disks",
    does=(
        "The store confirms nothing more and ends. The next start has all that was confirmed. A master with "
        "controllers is replaced."
    ),
    lost="nothing confirmed",
    told="its log",
)
@cases("deferred", [False, True])
@cases(
    ("operation", "code"),
    [
        ("sync", errno.EIO),
        ("sync", errno.ENOSPC),
        ("write", errno.EIO),
        ("write", errno.ENOSPC),
        ("allocate", errno.EIO),
    ],
)
def test_an_error_is_final(operation: str, code: int, deferred: bool):
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world, deferred=deferred)
    store.put_topic("t", 1)
    store.append("t", count=3)
    store.answer()
    promised = len(world.history.confirmed)
    disk.fault = fault(operation, code, "/commitlog/")
    with pytest.raises(StoreFailedError):  # noqa: PT012
        for _ in range(8):
            store.append("t", count=3, size=3000)
            store.answer()
    assert operation == "allocate" or len(world.history.confirmed) == promised
    assert_dead(store)
    for seed in range(10):
        again = SimulatedStore(disk.crash(Random(seed)), deepcopy(world))
        assert again.check().is_clean
        again.append("t")
        again.answer()
        assert again.check().is_clean


def test_an_error_while_a_sync_is_under_way_voids_its_answer():
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.answer()
    store.append("t")
    store.begin_sync()
    disk.fault = fault("allocate", errno.EIO)
    with pytest.raises(StoreFailedError):
        store.append("t", count=20, size=3000)
    assert_dead(store)


def test_an_error_of_a_checkpoint_is_final():
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.append("t")
    store.answer()
    disk.fault = fault("sync", errno.EIO, "state.db")
    store.begin_checkpoint()
    with pytest.raises(StoreFailedError):
        store.finish_checkpoint()
    assert_dead(store)


def full_disk(limit: int, disk: SimulatedDisk) -> Fault:
    """ENOSPC for what would reserve more than `limit` bytes of log."""

    def check(operation: str, path: str) -> OSError | None:
        used = sum(map(len, disk.files("/data/commitlog/").values()))
        return OSError(errno.ENOSPC, "full") if operation == "allocate" and used >= limit else None

    return check


def filled_store() -> SimulatedStore:
    """One whose disk has become full."""
    disk = SimulatedDisk()
    store = SimulatedStore(disk, World())
    store.put_topic("t", 1)
    disk.fault = full_disk(48 * 1024, disk)
    while not store.refused:
        store.append("t", count=3, size=1000)
        store.answer()
    return store


@pytest.mark.failure_also("A disk is full")
def test_a_full_disk_refuses_messages_and_lets_consumers_go_on():
    store = filled_store()
    disk, world = store.disk, store.world
    assert len(world.history.confirmed) > 30
    refused = store.refused
    store.append("t", count=2, size=1000)
    assert store.refused == refused + 2, "each message by itself"
    store.answer()
    found = store.pop("t", count=1000)
    assert len(found) == len(world.history.confirmed)
    store.answer()
    for _ in range(len(found) // 2):
        assert store.acknowledge(store.take_held(1)) == [None]
    store.answer()
    assert store.engine.failure is None
    disk.fault = no_fault
    before = len(world.history.confirmed)
    store.append("t", count=2, size=1000)
    store.answer()
    assert len(world.history.confirmed) == before + 2, "it recovers without a restart"
    again = SimulatedStore(disk.crash(Random(1)), world)
    assert again.check().is_clean
    again.drain()
    assert again.check(drained_by=["g"]).is_clean


def killed_on_a_full_disk(seed: int | None) -> tuple[SimulatedDisk, World, int]:
    """What a store leaves whose process (or, with a seed, whose machine) ends while its disk is full; and how much of
    the disk its log has."""
    store = filled_store()
    disk, world = store.disk, store.world
    store.pop("t", count=5)
    store.answer()
    after = disk.restart() if seed is None else disk.crash(Random(seed))
    return after, world, sum(map(len, after.files("/data/commitlog/").values()))


@cases("seed", [None, *range(6)])
def test_a_store_that_was_killed_on_a_full_disk_opens_with_its_reserve(seed: int | None):
    """Others would have taken the room at once: what is given back to a full disk is gone."""
    disk, world, size = killed_on_a_full_disk(seed)
    for _ in range(3):  # nor does it shrink from start to start
        disk.fault = full_disk(0, disk)
        store = SimulatedStore(disk, world)
        assert store.check().is_clean
        assert sum(map(len, disk.files("/data/commitlog/").values())) == size
        store.append("t", size=1000)
        assert store.refused, "publishing is refused"
        world.clock.advance(60_000)
        world.held.clear()
        assert len(store.pop("t", count=5)) == 5, "consuming goes on from the reserve"
        store.answer()
        assert store.acknowledge(store.take_held(5)) == [None] * 5
        store.answer()
        disk = disk.restart()
    store = SimulatedStore(disk, world)
    before = len(world.history.confirmed)
    store.append("t", count=2, size=1000)
    store.answer()
    assert len(world.history.confirmed) == before + 2, "publishing comes back with the room"
    store.drain()
    assert store.check(drained_by=["g"]).is_clean


def test_a_store_without_any_reserve_opens_on_a_full_disk():
    """As a copy of a data directory, or one of an earlier version, has none."""
    disk, world, _ = killed_on_a_full_disk(None)
    for path, data in disk.files("/data/commitlog/").items():
        disk.put(path, data.rstrip(b"\0"))
    disk.fault = full_disk(0, disk)
    store = SimulatedStore(disk, world)
    assert store.check().is_clean
    assert store.stored()
    world.clock.advance(60_000)
    with pytest.raises(StorageFullError):
        store.pop("t", count=5)
    disk.fault = no_fault
    assert store.pop("t", count=5)
    store.answer()
    assert store.check().is_clean


def test_consuming_takes_the_last_room_and_publishing_leaves_it():
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world, max_attempts=10_000)
    store.put_topic("t", 1)
    store.append("t")
    store.answer()

    def reserved() -> int:
        return sum(map(len, disk.files("/data/commitlog/").values()))

    room = reserved() + SMALL.preallocate_bytes - 1
    disk.room = {"/data/commitlog/": room}
    while not store.refused:
        store.append("t", size=500)
        store.answer()
    assert reserved() <= room - SMALL.preallocate_bytes + 1
    with pytest.raises(StorageFullError):  # noqa: PT012
        for _ in range(1000):
            world.clock.advance(1000)
            assert store.pop("t", count=1, invisible_ms=1000)
            store.answer()
    assert room - 200 < reserved() <= room
    assert store.check().is_clean


def test_when_the_reserve_is_used_up_as_well_nothing_is_lost():
    """Pops that cannot be recorded are refused, and what they claimed is delivered when there is room again."""
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world, max_attempts=10_000)
    store.put_topic("t", 1)
    store.append("t", count=10, size=1000)
    store.answer()
    store.pop("t", count=10, invisible_ms=1000)
    store.answer()
    disk.fault = full_disk(1, disk)
    with pytest.raises(StorageFullError):  # noqa: PT012
        for _ in range(1000):
            world.clock.advance(1000)
            store.pop("t", count=10, invisible_ms=1000)
            store.answer()
    with pytest.raises(StorageFullError):  # noqa: PT012
        for _ in range(1000):  # a small record may fit where a larger one does not
            store.change(store.world.held[-1:], 1000, release=False)
    with pytest.raises(StorageFullError):
        store.acknowledge(store.world.held[-1:])
    disk.fault = no_fault
    world.clock.advance(1000)
    assert len(store.pop("t", count=10)) == 10
    store.answer()
    store.world.held.clear()
    store.drain()
    assert store.check(drained_by=["g"]).is_clean


def test_no_room_for_queue_files_does_not_stop_the_log(monkeypatch: pytest.MonkeyPatch):
    """They are derived: they stay in memory until there is room."""
    monkeypatch.setattr(consume_queue, "FLUSH_BYTES", 100)
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    disk.fault = fault("write", errno.ENOSPC, "/consumequeue/")
    for _ in range(5):
        store.append("t", count=10)
        store.answer()
    assert len(world.history.confirmed) == 50
    assert not store.engine.begin_checkpoint()
    assert len(store.pop("t", count=100)) == 50
    store.answer()
    disk.fault = no_fault
    store.append("t")
    store.checkpoint()
    assert store.queue("t").flushed_entries == 51
    assert store.check().is_clean
    store.close()
    again = SimulatedStore(disk.restart(), world)
    assert again.engine.report.rebuilt_queues == 0
    assert again.check().is_clean


@pytest.mark.parametrize("harm", ["queue", "draft"])
def test_a_checkpoint_without_room_is_tried_again(harm: str):
    life = Life()
    life.play([("topic", 0, 0), ("append", 0, 6), ("answer", 0, 0)])
    store = life.store
    assert store is not None
    life.disk.fault = fault("write", errno.ENOSPC, "/consumequeue/" if harm == "queue" else "state.db.draft")
    store.checkpoint()
    assert store.engine.checkpointer.position == 0
    life.disk.fault = no_fault
    store.checkpoint()
    assert store.engine.checkpointer.position == store.engine.end
    life.crash(Random(3))
    life.check_recovered()


# -- the broker on a failing disk ----------------------------------------------------------------------------------


class FailingDisk(OsDisk):
    """The real one, until it is told to fail."""

    error: OSError | None = None
    operation = "write"

    def write(self, descriptor: int, data: bytes, offset: int) -> None:
        if self.error is not None and self.operation == "write":
            raise self.error
        super().write(descriptor, data, offset)

    def allocate(self, descriptor: int, offset: int, length: int) -> None:
        if self.error is not None and self.operation == "allocate":
            raise self.error
        super().allocate(descriptor, offset, length)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> FailingDisk:
    disk = FailingDisk()

    def open_store(settings: BrokerSettings, lock_descriptor: int | None = None) -> OpenedStore:
        log_channel, checkpoint_channel = start_sync_process()
        return assemble(
            settings, disk, log_channel, checkpoint_channel, SqliteStateFile(f"{settings.data_dir}/state.db")
        )

    monkeypatch.setattr("entrepot.broker.broker.open_store", open_store)
    return disk


@pytest.mark.failure_also("A disk refuses a write or a sync (EIO)")
@pytest.mark.parametrize("operation", ["write", "allocate"])
async def test_a_failed_broker_answers_everybody(tmp_path: Path, failing: FailingDisk, operation: str):
    store = await Broker.open(BrokerSettings(tmp_path, layout=SMALL), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "kept")
    found = await pop(store, "t")
    polling = asyncio.create_task(pop(store, "t", wait_ms=LONG_POLL_MS))
    await asyncio.sleep(0)
    under_way = store.messages.append([message("t", "a")])
    failing.operation, failing.error = operation, OSError(errno.EIO, "injected")
    with pytest.raises(EntrepotError):  # noqa: PT012 - one of the two meets the error
        for index in range(30):
            later = store.messages.append([message("t", f"{index}".ljust(3000))])
            await asyncio.sleep(0)
        raise await settled(later) or AssertionError("confirmed")
    failure = store.condition.failure
    assert isinstance(failure, StoreFailedError)
    outcome = await settled(under_way)
    assert outcome is None or outcome.code is Code.OUTCOME_UNKNOWN, "confirmed before the failure, or nobody knows"
    failing.error = None
    calls: list[Callable[[], object]] = [
        lambda: pop(store, "t"),
        lambda: store.consumption.acknowledge("t", "g", handles(found)),
        lambda: store.consumption.acknowledge("t", "g", ["nonsense"]),
        lambda: store.topology.put_topic(Topic("u")),
    ]
    for call in calls:
        with pytest.raises(StoreFailedError):
            await asyncio.wait_for(call(), PATIENCE_SECONDS)  # type: ignore[arg-type]
    with pytest.raises(StoreFailedError):
        store.messages.append([message("t", "b")])
    with pytest.raises(StoreFailedError):
        await asyncio.wait_for(polling, PATIENCE_SECONDS)
    await store.close()
    again = await Broker.open(BrokerSettings(tmp_path, layout=SMALL), ManualClock())
    assert (await again.messages.read("t", 0, 0, 1))[0].body == b"kept"
    assert codes(await again.consumption.acknowledge("t", "g", handles(found))) == [None]
    await again.close()


@pytest.mark.failure_also("The process that syncs the store's files is killed")
async def test_the_end_of_the_sync_process_stops_the_broker(tmp_path: Path):
    store = await Broker.open(BrokerSettings(tmp_path, layout=SMALL), ManualClock())
    await store.topology.put_topic(Topic("t", queues=1))
    await append(store, "t", "kept")
    channel = store.engine.log_channel
    channel._process.kill()  # type: ignore[attr-defined]
    channel._process.wait()  # type: ignore[attr-defined]
    try:
        assert isinstance(await settled(store.messages.append([message("t", "a")])), StoreFailedError)
    except StoreFailedError:
        pass  # the store had already seen it
    assert isinstance(store.condition.failure, StoreFailedError)
    with pytest.raises(StoreFailedError):
        await pop(store, "t")
    await store.close()


@pytest.mark.parametrize("kind", ["timed", "half"])
def test_an_error_while_a_message_is_kept_aside_is_the_stores_and_no_refusal(kind: str):
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.answer()
    system: dict[str, SystemValue] = {SystemProperty.DELIVER_AT_MS: store.now_ms + 1000}
    if kind == "half":
        system = {SystemProperty.TRANSACTION_ID: "x"}
    [kept] = world.new_messages("t", 0, 1, 40_000)
    disk.fault = fault("allocate", errno.EIO)
    append = store.engine.append_half if kind == "half" else store.engine.append_messages
    with pytest.raises(StoreFailedError):
        append([replace(kept, system=system)], store._queue_for, store.now_ms)
    assert_dead(store)
