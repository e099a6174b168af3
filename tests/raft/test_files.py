"""Files of a Raft member: synced bytes come back, a torn tail is cut, rot is a loud stop."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.raft.effects import HardState, Write
from entrepot.broker.raft.entry import Entry, EntryKind
from entrepot.broker.raft.files import OsDirectory, RaftFiles
from entrepot.broker.raft.membership import Configuration
from entrepot.broker.raft.records import (
    HEADER_BYTES,
    RaftDamageError,
    StoredState,
    decode_end,
    decode_log,
    decode_snapshot,
    decode_state,
    encode_end,
    encode_log,
    encode_records,
    encode_snapshot,
    encode_state,
)
from entrepot.broker.raft.snapshot import Snapshot
from entrepot.broker.raft.state import EMPTY, Stored, first_stored
from entrepot.domain.errors import StoreFailedError
from tests.raft.simulated_directory import SimulatedDirectory
from tests.simulation.disk import Crash, SimulatedDisk
from tests.support.seed import seeded
from tests.tiers.marks import scaled

NUMBERS = st.integers(0, 2**63)
ENTRIES = st.lists(st.tuples(st.integers(1, 9), st.binary(max_size=60)), max_size=12).map(
    lambda found: [Entry(at, term, EntryKind.COMMAND, data) for at, (term, data) in enumerate(found, 1)]
)


@given(st.integers(1, 2**31), NUMBERS, NUMBERS)
def test_a_state_comes_back(member: int, term: int, vote: int) -> None:
    stored = StoredState(member, HardState(term, vote))
    assert decode_state(encode_state(stored)) == stored


@given(NUMBERS, NUMBERS, st.binary(max_size=300))
def test_a_snapshot_comes_back(at: int, term: int, data: bytes) -> None:
    snapshot = Snapshot(at, term, Configuration((1, 2, 3), 4, 3, 4), data)
    assert decode_snapshot(encode_snapshot(snapshot)) == snapshot


@given(st.binary(max_size=100), st.data())
def test_a_corrupted_bit_of_state_and_snapshot_is_found(payload: bytes, data: st.DataObject) -> None:
    for whole, decode in (
        (encode_state(StoredState(1, HardState(5, 2))), decode_state),
        (encode_snapshot(Snapshot(7, 2, Configuration((1,)), payload)), decode_snapshot),
    ):
        corrupted = bytearray(whole)
        bit = data.draw(st.integers(0, len(whole) * 8 - 1))
        corrupted[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RaftDamageError):
            decode(bytes(corrupted))
        with pytest.raises(RaftDamageError):
            decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


def log_in_parts(parts: list[list[Entry]]) -> tuple[bytes, list[int]]:
    """A log written and synced part by part; offsets where each part begins."""
    data, places = encode_log(0, 0, ()), []
    for part in parts:
        places.append(len(data))
        data += encode_records(part, len(data), len(data))
    return data, [*places, len(data)]


def parts_of(entries: list[Entry], size: int) -> list[list[Entry]]:
    return [entries[at : at + size] for at in range(0, len(entries), size)]


@given(ENTRIES, st.integers(1, 5), st.data())
def test_a_torn_last_write_leaves_what_was_synced(entries: list[Entry], size: int, data: st.DataObject) -> None:
    """Sectors of the last write are there, or zeros, or the file ends before them."""
    parts = parts_of(entries, size)
    whole, places = log_in_parts(parts)
    synced = places[-2] if parts else len(whole)
    torn = bytearray(whole)
    sector = data.draw(st.integers(1, 64))
    for at in range(synced, len(whole), sector):
        if data.draw(st.booleans()):
            end = min(at + sector, len(whole))
            torn[at:end] = bytes(end - at)
    found = decode_log(bytes(torn[: data.draw(st.integers(synced, len(whole)))]))
    durable = [entry for part in parts[:-1] for entry in part]
    assert list(found.entries) == entries[: len(found.entries)]
    assert len(found.entries) >= len(durable)


@given(ENTRIES, st.integers(1, 5), st.data())
def test_rot_before_the_last_write_is_no_torn_tail(entries: list[Entry], size: int, data: st.DataObject) -> None:
    whole, places = log_in_parts(parts_of(entries, size))
    if len(places) > 2:
        corrupted = bytearray(whole)
        bit = data.draw(st.integers(0, places[-2] * 8 - 1))
        corrupted[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RaftDamageError):
            decode_log(bytes(corrupted))


@given(ENTRIES, st.data())
def test_rot_in_a_log_that_was_put_whole_is_found(entries: list[Entry], data: st.DataObject) -> None:
    whole = encode_log(0, 0, entries)
    corrupted = bytearray(whole)
    bit = data.draw(st.integers(0, len(whole) * 8 - 1))
    corrupted[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RaftDamageError):
        decode_log(bytes(corrupted))


@given(ENTRIES, ENTRIES, st.integers(1, 12))
def test_an_entry_takes_the_place_of_those_from_its_index_on(
    entries: list[Entry], others: list[Entry], first: int
) -> None:
    first = min(first, len(entries) + 1)
    moved = [Entry(first + at, each.term, each.kind, each.data) for at, each in enumerate(others)]
    whole, _ = log_in_parts([entries, moved])
    assert list(decode_log(whole).entries) == (entries[: first - 1] if moved else entries) + moved


# -- a directory ---------------------------------------------------------------------------------------------------


def made_writes(chance: Random) -> list[tuple[Write, Stored]]:
    """Writes as a machine makes them, with the contents that each leaves."""
    stored, writes = first_stored([1, 2, 3]), []
    entries, snapshot, state = list(stored.entries), stored.snapshot, stored.state
    for number in range(1, 15):
        new_state = new_snapshot = None
        added: tuple[Entry, ...] = ()
        kind = chance.choice(("state", "append", "append", "cut", "compact", "install"))
        last = snapshot.index + len(entries)
        if kind == "state":
            new_state = state = HardState(state.term + 1, chance.randint(0, 3))
        elif kind in ("append", "cut"):
            first = last + 1 if kind == "append" else chance.randint(snapshot.index + 1, last + 1)
            added = tuple(
                Entry(first + at, state.term, EntryKind.COMMAND, chance.randbytes(chance.randint(0, 40)))
                for at in range(chance.randint(1, 4))
            )
            entries = [*entries[: first - snapshot.index - 1], *added]
        elif kind == "compact" and entries:
            kept = chance.randrange(len(entries))
            at, term = entries[kept].index, entries[kept].term
            new_snapshot = snapshot = Snapshot(at, term, Configuration((1,)), chance.randbytes(50))
            entries = entries[kept + 1 :]
        elif kind == "install":
            new_snapshot = snapshot = Snapshot(last + 3, state.term, Configuration((1, 2)), chance.randbytes(50))
            entries = []
        writes.append((Write(number, new_state, new_snapshot, added), Stored(state, snapshot, tuple(entries))))
    return writes


@pytest.mark.scaled
def test_writes_come_back_from_the_operating_systems_files(tmp_path: Path) -> None:
    chance = seeded("files of a Raft member")
    for number in range(scaled(3, 300)):
        directory = OsDirectory(tmp_path / str(number))
        files = RaftFiles(directory, 1)
        files.create(first_stored([1, 2, 3]))
        for write, stored in made_writes(chance):
            files.perform([write])
            if write.number % 5 == 0:
                files = RaftFiles(directory, 1)
                assert files.load() == stored
        assert RaftFiles(directory, 1).load() == stored


@given(st.integers(0, 2**32))
def test_a_crash_at_any_step_leaves_what_was_durable(seed: int) -> None:
    """Contents found lie between the last write that was performed and the one under way."""
    chance = Random(seed)
    disk = SimulatedDisk()
    files = RaftFiles(SimulatedDirectory(disk), 1)
    files.create(first_stored([1, 2, 3]))
    before = first_stored([1, 2, 3])
    for write, stored in made_writes(chance):
        if chance.random() < 0.4:
            disk.crash_at = disk.steps + chance.randint(1, 9)
        try:
            files.perform([write])
            before = stored
            disk.crash_at = None
        except Crash:
            disk = disk.crash(chance)
            files = RaftFiles(SimulatedDirectory(disk), 1)
            found = files.load()
            assert found.state in (before.state, stored.state)
            assert found.snapshot in (before.snapshot, stored.snapshot)
            if found.snapshot == before.snapshot and not write.entries:
                assert found.entries == before.entries
            if found != stored:
                files.perform([write])  # the rest of the history goes on from there
            before = stored
    disk = disk.crash(chance)
    assert RaftFiles(SimulatedDirectory(disk), 1).load() == before


def test_an_empty_directory_is_no_old_member(tmp_path: Path) -> None:
    files = RaftFiles(OsDirectory(tmp_path), 1)
    with pytest.raises(StoreFailedError, match="new id"):
        files.load()
    files.create(EMPTY)
    with pytest.raises(StoreFailedError, match="not empty"):
        RaftFiles(OsDirectory(tmp_path), 2).create(EMPTY)
    with pytest.raises(StoreFailedError, match="of member 1"):
        RaftFiles(OsDirectory(tmp_path), 2).load()


@pytest.mark.parametrize("name", ["state", "log-00000000000000000000"])
def test_a_blank_file_is_damage(tmp_path: Path, name: str) -> None:
    RaftFiles(OsDirectory(tmp_path), 1).create(EMPTY)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(StoreFailedError, match="damaged"):
        RaftFiles(OsDirectory(tmp_path), 1).load()


def test_a_lost_snapshot_is_damage(tmp_path: Path) -> None:
    files = RaftFiles(OsDirectory(tmp_path), 1)
    files.create(first_stored([1]))
    files.perform([Write(1, None, Snapshot(1, 1, Configuration((1,)), b"x"), ())])
    (tmp_path / "snapshot-00000000000000000001").unlink()
    with pytest.raises(StoreFailedError, match="damaged"):
        RaftFiles(OsDirectory(tmp_path), 1).load()


def test_a_log_that_has_lost_what_was_durable_is_damage(tmp_path: Path) -> None:
    """It looks like a torn write, and what is lost was acknowledged: its member would vote without it."""
    files = RaftFiles(OsDirectory(tmp_path), 1)
    files.create(EMPTY)
    log = tmp_path / f"log-{0:020d}"
    ends = [log.stat().st_size]
    for index in range(1, 6):
        files.perform([Write(index, None, None, (Entry(index, 1, EntryKind.COMMAND, b"x" * 50),))])
        ends.append(log.stat().st_size)
    whole = log.read_bytes()
    for end in (*ends[:-1], ends[-1] - 1):
        log.write_bytes(whole[:end])
        with pytest.raises(StoreFailedError, match=f"and {len(whole)} were durable"):
            RaftFiles(OsDirectory(tmp_path), 1).load()
    log.write_bytes(whole + b"torn")
    assert len(RaftFiles(OsDirectory(tmp_path), 1).load().entries) == 5


@pytest.mark.parametrize("note", [b"", b"\0" * 20, b"?" * 20, encode_end(7, 1 << 40)])
def test_a_note_that_is_torn_or_of_another_log_says_nothing(tmp_path: Path, note: bytes) -> None:
    files = RaftFiles(OsDirectory(tmp_path), 1)
    files.create(first_stored([1]))
    (tmp_path / "end").write_bytes(note)
    assert RaftFiles(OsDirectory(tmp_path), 1).load() == first_stored([1])
    (tmp_path / "end").unlink()  # of an earlier version
    assert RaftFiles(OsDirectory(tmp_path), 1).load() == first_stored([1])


@given(NUMBERS, NUMBERS, st.data())
def test_a_note_comes_back_or_says_nothing(base: int, end: int, data: st.DataObject) -> None:
    note = encode_end(base, end)
    assert decode_end(note) == (base, end)
    corrupted = bytearray(note)
    bit = data.draw(st.integers(0, len(note) * 8 - 1))
    corrupted[bit // 8] ^= 1 << bit % 8
    assert decode_end(bytes(corrupted)) == decode_end(note[:-1]) == (0, 0)


def test_what_a_killed_process_wrote_is_synced_before_it_counts() -> None:
    """A process that dies leaves bytes that no sync has made durable: the next one makes them so."""
    disk = SimulatedDisk()
    files = RaftFiles(SimulatedDirectory(disk), 1)
    files.create(EMPTY)
    entry = Entry(1, 1, EntryKind.COMMAND, b"x")
    SimulatedDirectory(disk).write("log-" + "0" * 20, encode_records([entry], HEADER_BYTES, HEADER_BYTES), HEADER_BYTES)
    assert RaftFiles(SimulatedDirectory(disk), 1).load().entries == (entry,)
    assert RaftFiles(SimulatedDirectory(disk.crash(Random(1))), 1).load().entries == (entry,)
