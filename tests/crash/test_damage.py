"""Torn tails are cut at the last whole record; flipped bits are found, never served and never guessed at."""

from __future__ import annotations

from random import Random

import pytest

from entrepot.broker.store import record
from entrepot.broker.store.record import RecordKind
from entrepot.domain.errors import CorruptedError
from entrepot.domain.message import StoredMessage
from tests.crash.history_steps import log_of
from tests.simulation.disk import SimulatedDisk
from tests.support.cases import cases
from tests.support.stores.simulated_store import INVISIBLE_MS, ROOT, SMALL, SimulatedStore, World

SEGMENT = SMALL.segment_size_bytes


def records_of(data: bytes, end: int) -> list[tuple[int, record.RecordHeader]]:
    """(offset, header) of every record of a log."""
    found, offset = [], 0
    while offset < end:
        rest = SEGMENT - offset % SEGMENT
        if rest < record.HEADER_SIZE:
            offset += rest
            continue
        found.append((offset, record.decode_header(data, offset, offset)))
        offset += found[-1][1].length
    return found


def last_segment(disk: SimulatedDisk) -> str:
    return max(disk.files(f"{ROOT}/commitlog/"))


def small_log(*, batches: int = 4) -> tuple[SimulatedDisk, World, int]:
    """A store that was killed: topic, some messages, a pop, acknowledgements; each batch synced by itself."""
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.answer()
    for _ in range(batches):
        store.append("t", count=2, size=100)
        store.answer()
        store.pop("t", count=1)
        store.answer()
    store.acknowledge(store.take_held(1))
    store.answer()
    return disk.restart(), world, store.engine.end


@pytest.mark.failure_also("The power goes")
@pytest.mark.parametrize("filler", ["nothing", "zeros", "noise", "stale"])
def test_a_torn_tail_is_cut_at_the_last_whole_record(filler: str):
    """At every byte of the last three records.  Nothing behind them was synced after them."""
    disk, world, end = small_log()
    data = log_of(disk)[:end]
    ends = [offset + header.length for offset, header in records_of(data, end)]
    path = last_segment(disk)
    rng = Random(filler)
    for cut in range(ends[-4], end):
        torn = disk.copy()
        tail = {
            "nothing": b"",
            "zeros": bytes(5000),
            "noise": rng.randbytes(300),
            "stale": b"\0" * 7 + data[ends[-6] : ends[-4]],
        }[filler]
        torn.put(path, data[:cut] + tail)
        whole = max(e for e in ends if e <= cut)
        try:
            store = SimulatedStore(torn, world)
        except CorruptedError:
            # later records say that what was cut had been synced: refusing is right, guessing would not be
            assert filler == "stale"
            continue
        assert store.engine.end == whole, cut
        assert set(log_of(torn)[whole:]) <= {0}, "nothing stale is left behind the end"
        assert torn.files()[path][:whole] == data[:whole]


def test_what_is_written_after_a_cut_is_found_again():
    disk, world, end = small_log()
    path = last_segment(disk)
    disk.put(path, disk.files()[path][: end - 1])
    store = SimulatedStore(disk, world)
    store.append("t", count=3, size=500)
    store.answer()
    again = SimulatedStore(disk.restart(), world)
    assert again.engine.end == store.engine.end
    assert len(again.stored()["t", 0]) == 11


def segments_log() -> tuple[SimulatedDisk, World, int]:
    """Three segments, checkpointed at the end: the first two are sealed, recovery scans nothing of them."""
    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.put_topic("u", 1)
    for index in range(100):
        store.append("tu"[index % 2], count=1, size=2000 + index)
        store.answer()
    store.checkpoint()
    return disk, world, store.engine.end


FIELDS = {
    "magic": (0, 4),
    "checksum": (4, 4),
    "version": (8, 1),
    "kind": (9, 1),
    "flags": (10, 2),
    "length": (12, 4),
    "commit-log offset": (16, 8),
    "durable floor": (24, 8),
    "store time": (32, 8),
    "queue id": (40, 4),
    "queue offset": (44, 8),
    "born time": (52, 8),
    "filter hash": (60, 8),
    "lengths": (68, 18),
    "topic": (86, 1),
    "sub-topic": (87, 1),
    "message id": (88, 16),
    "body": (104, 1500),
}


@pytest.mark.failure(
    "A stored message is corrupted, and there are no replicas",
    group="Disks",
    does="It is an error at its place, never served. The other messages are read and consumed.",
    lost="that message",
    told="`entrepot store verify`",
)
@cases("field", FIELDS)
def test_a_flipped_bit_in_a_sealed_segment(field: str):
    disk, world, end = segments_log()
    messages = [
        offset
        for offset, header in records_of(log_of(disk)[:end], end)
        if header.kind == RecordKind.MESSAGE and offset < 2 * SEGMENT
    ]
    rng = Random(field)
    start, length = FIELDS[field]
    for offset in [messages[0], *rng.sample(messages[1:], 3)]:
        check_one_flip(disk, world, offset, offset + start + rng.randrange(length), rng.randrange(8))


def check_one_flip(disk: SimulatedDisk, world: World, corrupted: int, place: int, bit: int) -> None:
    flipped = disk.copy()
    flipped.flip(f"{ROOT}/commitlog/{place // SEGMENT * SEGMENT:020d}", place % SEGMENT * 8 + bit)
    store = SimulatedStore(flipped, World(world.clock))
    for topic in ("t", "u"):
        queue = store.queue(topic)
        entries = queue.entries(0, queue.visible_offset)
        items = store.engine.read(queue, 0, queue.visible_offset)
        bad = [index for index, entry in enumerate(entries) if entry[0] == corrupted]
        assert [index for index, item in enumerate(items) if isinstance(item, CorruptedError)] == bad
        good = [item for item in items if isinstance(item, StoredMessage)]
        assert all(item.body == world.history.sent[item.message_id].body for item in good)
        popped = store.pop(topic, count=1000)
        assert [(d.message.queue_offset, d.attempt) for d in popped] == [(m.queue_offset, 1) for m in good]
        assert store.pop(topic, count=1000) == [], "what follows the corrupted one is delivered once"
        outcomes = store.consumption.acknowledge(topic, "g", [d.receipt_handle for d in popped], store.now_ms)
        assert not any(outcomes)
        assert store.opened.progress.windows["g", topic][0].base == (bad[0] if bad else len(items))
        store.answer()
        world.clock.advance(INVISIBLE_MS * 2)
        assert store.pop(topic, count=1000) == []


def test_flipped_bits_anywhere_in_sealed_segments():
    disk, world, end = segments_log()
    records = records_of(log_of(disk)[:end], end)
    rng = Random(5)
    for _ in range(60):
        place = rng.randrange(2 * SEGMENT)
        corrupted, header = max((r for r in records if r[0] <= place), key=lambda r: r[0])
        check_one_flip(disk, world, corrupted if header.kind == RecordKind.MESSAGE else -1, place, rng.randrange(8))


def test_a_small_pop_is_not_stopped_by_a_corrupted_message():
    disk, world, _ = segments_log()
    disk.flip(f"{ROOT}/commitlog/{0:020d}", 8 * 700)
    store = SimulatedStore(disk.restart(), world)
    assert [d.message.queue_offset for d in store.pop("t", count=1)] == [1]
    assert [d.message.queue_offset for d in store.pop("t", count=2)] == [2, 3]


@pytest.mark.failure(
    "Records before the end of the log are corrupted, and the start has to read them",
    group="Disks",
    does="The store does not open, and changes nothing. Restore it from a copy or a backup.",
    lost="what came after the copy",
    told="log: the commit log is damaged at an offset; `store verify`",
)
@cases("seed", range(8))
def test_damage_below_synced_records_is_not_cut(seed: int):
    """Without a checkpoint the log is scanned: a bad record with synced ones behind it is damage, not a torn tail."""
    disk, world, end = small_log(batches=6)
    records = records_of(log_of(disk)[:end], end)
    rng = Random(seed)
    for offset, header in records[:-4]:
        corrupted = disk.copy()
        place = offset + rng.randrange(header.length)
        corrupted.flip(last_segment(disk), place * 8 + rng.randrange(8))
        before = corrupted.files(f"{ROOT}/commitlog/")
        with pytest.raises(CorruptedError):
            SimulatedStore(corrupted, world)
        assert corrupted.files(f"{ROOT}/commitlog/") == before, "the evidence is left alone"


@pytest.mark.failure_also("Records before the end of the log are corrupted, and the start has to read them")
def test_a_missing_segment_is_damage():
    disk, world, _ = segments_log()
    disk.delete(f"{ROOT}/state.db")
    disk.delete(f"{ROOT}/commitlog/{SEGMENT:020d}")
    before = disk.files(f"{ROOT}/commitlog/")
    with pytest.raises(CorruptedError):
        SimulatedStore(disk.restart(), world)
    assert disk.files(f"{ROOT}/commitlog/") == before
