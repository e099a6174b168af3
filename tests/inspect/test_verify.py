"""`entrepot store`: a whole store is called so, planted damage is found and named, and nothing is written."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from entrepot.broker.broker import Broker
from entrepot.broker.cli.commands import app
from entrepot.broker.inspect import queue_checks, state_rows
from entrepot.broker.inspect.log_files import Gap, LogFiles, Record
from entrepot.broker.inspect.verification import verify
from entrepot.broker.retention.cleaner import Cleaner
from entrepot.broker.settings.store import BrokerSettings
from entrepot.broker.store.record import (
    MESSAGE_KINDS,
    RecordKind,
)
from entrepot.domain.message import Message
from entrepot.domain.topic import Cleanup, Topic
from tests.inspect import full_store
from tests.inspect.looking import (
    SEGMENT,
    a_queue_file,
    cut,
    cut_last_segments,
    drop_last_segments,
    execute,
    flip,
    last_segment,
    look,
    problems,
    replace_row,
    report_of,
    segment,
)
from tests.support.clock import ManualClock
from tests.support.soak_table import tell
from tests.support.stores.steps import append_all, eventually
from tests.tiers.marks import scaled

ROOT = Path(__file__).resolve().parents[2]


# -- healthy ones ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [(), ("--full",)])
def test_a_store_that_ended_cleanly_is_healthy(clean: Path, arguments: tuple[str, ...]):
    report = report_of(clean, *arguments)
    assert report["findings"] == []
    assert report["store"]["end"] == "clean"
    kinds = report["log"]["kinds"]
    assert set(kinds) == {kind.name.lower().replace("_", "-") for kind in RecordKind}, (
        "there is something of everything"
    )
    assert report["log"]["segments"] > 2
    assert report["log"]["segmentBytes"] == SEGMENT
    assert report["state"]["position"] == report["log"]["end"]
    assert set(report["state"]["kinds"]) >= {"topic", "group", "queue", "window", "key-value", "timers", "half message"}
    assert report["index"]["files"] > 2
    assert any(queue["inFiles"] for queue in report["queues"])
    assert any(window["unsettled"] for window in report["windows"])
    assert (report["timers"], report["halfMessages"]) == (7, 3)
    assert report["recovery"]["scannedBytes"] == 0


async def carried(directory: Path, *, is_kept: bool) -> Path:
    """A store whose oldest messages were carried forward; with `is_kept` their old records are still there."""
    clock = ManualClock()
    settings = replace(full_store.settings_of(directory), retention_seconds=3600, retention_interval_seconds=0.01)
    store = await Broker.open(settings, clock)
    await store.topology.put_topics([Topic("t", queues=1), Topic("kept", queues=2, cleanup=Cleanup.CONSUMED)])
    await append_all(store, *(Message("kept", b"%d" % n, queue_id=n % 2, message_id=b"id%d" % n) for n in range(6)))
    for at in range(120):
        await append_all(store, Message("t", b"%d" % at * 1500, queue_id=0))
    clock.advance(7_200_000)
    await append_all(store, Message("t", b"new", queue_id=0))
    with pytest.MonkeyPatch.context() as patch:
        if is_kept:
            patch.setattr(Cleaner, "_delete_segments", lambda cleaner, needed: iter(()))

        async def is_done() -> bool:
            return store.cleaner.carrying.carried >= 6 and (is_kept or store.cleaner.deleted_segments >= 2)

        await eventually(is_done)
        assert await store.condition.pins() == []
        for queue_id in range(2):
            read = await store.messages.read("kept", queue_id, 0, 10)
            assert [message.body for message in read] == [b"%d" % number for number in range(queue_id, 6, 2)]
        await store.close()
    return directory


@pytest.mark.parametrize("arguments", [(), ("--full",)])
@pytest.mark.parametrize("is_kept", [False, True])
async def test_a_store_with_carried_messages_is_healthy(tmp_path: Path, arguments: tuple[str, ...], is_kept: bool):
    report = report_of(await carried(tmp_path / "data", is_kept=is_kept), *arguments)
    what_retention_removed = "the state's queue t/0"  # the log alone has it, while its segments are there
    assert [found for found in report["findings"] if not found["text"].startswith(what_retention_removed)] == []
    assert sum(queue["maxOffset"] - queue["minOffset"] for queue in report["queues"] if queue["topic"] == "kept") == 6


@pytest.mark.parametrize("arguments", [(), ("--full",)])
def test_a_killed_store_is_healthy(killed: Path, arguments: tuple[str, ...]):
    report = report_of(killed, *arguments)
    assert problems(report) == []
    assert report["store"]["end"] == "unclean"
    assert report["recovery"]["scannedBytes"] > 0
    assert not any(queue["topic"] == "copies" for queue in report["queues"]), "as the log behind the state says"


def test_rows_that_are_in_the_write_ahead_log_alone(directory: Path, tmp_path: Path):
    """As they lie there when the machine went down: the state file as it was, and its log beside it."""
    connection = sqlite3.connect(directory / "state.db")
    connection.execute("UPDATE state SET crc = 1 WHERE key = ?", (b"torders",))
    connection.commit()
    copy = Path(shutil.copytree(directory, tmp_path / "copy"))
    connection.close()
    assert (copy / "state.db-wal").stat().st_size > 0
    (copy / "state.db-shm").unlink()
    assert any("topic orders fails its checksum" in f["text"] for f in report_of(copy)["findings"])


def test_a_process_that_still_writes_the_state_is_waited_for(directory: Path, monkeypatch: pytest.MonkeyPatch):
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT 1 FROM digest').fetchall();"
    script += "print(c.execute('BEGIN IMMEDIATE').fetchall(), flush=True); sys.stdin.read(); c.rollback(); c.close()"
    command = [sys.executable, "-c", script, str(directory / "state.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdout.readline()
        with monkeypatch.context() as patch:
            patch.setattr(state_rows, "WRITER_SECONDS", 0.1)
            code, _, err = look(directory, "verify")
        assert code == 2
        assert f"process {writer.pid} has the state file" in err
        writer.stdin.close()
        done = CliRunner().invoke(app, ["verify", "--data-dir", str(directory)])
    assert done.exit_code == 0


async def test_what_it_says_is_what_a_start_finds(killed: Path, tmp_path: Path):
    report = report_of(killed)
    copy = Path(shutil.copytree(killed, tmp_path / "data"))
    store = await Broker.open(full_store.settings_of(copy), ManualClock())
    found = {
        (queue.topic, queue.queue_id): (queue.min_offset, queue.max_offset)
        for queue in store.engine.dispatcher.queues.values()
    }
    end = store.engine.end
    await store.close()
    assert report["recovery"]["end"] == end
    assert {(q["topic"], q["queue"]): (q["minOffset"], q["maxOffset"]) for q in report["queues"]} == found


def test_verify_speaks_to_people(clean: Path):
    code, out, _ = look(clean, "verify")
    assert code == 0
    assert out.splitlines()[-1] == "healthy"
    assert "7 timers, 3 half messages" in out


# -- damage ------------------------------------------------------------------------------------------------------------


def flip_in_a_message(directory: Path) -> None:
    offset = next(
        found.header.commit_log_offset
        for found in LogFiles(str(directory)).scan(SEGMENT)
        if isinstance(found, Record) and found.header.kind in MESSAGE_KINDS
    )
    flip(segment(directory, 1), offset % SEGMENT + 150)


def flip_a_kept_one(kind: RecordKind) -> Callable[[Path], None]:
    def plant(directory: Path) -> None:
        *_, found = (f for f in LogFiles(str(directory)).scan() if isinstance(f, Record) and f.header.kind == kind)
        flip(
            segment(directory, found.header.commit_log_offset // SEGMENT), found.header.commit_log_offset % SEGMENT + 90
        )

    return plant


def make_foreign_files(directory: Path) -> None:
    for name in ("notes.txt", "index/readme", "consumequeue/orders/0/x", "filterindex/x"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"?")


def make_orphans(directory: Path) -> None:
    for name in ("consumequeue/gone/0", "consumequeue/orders/7", "filterindex/gone/0", "index"):
        (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / name / f"{(99 if name == 'index' else 0):020d}").write_bytes(bytes(20))


def append_noise(directory: Path) -> None:
    end = report_of(directory)["log"]["end"]
    path = last_segment(directory)
    data = bytearray(path.read_bytes())
    data[end % SEGMENT : end % SEGMENT + 9] = b"something"
    path.write_bytes(data)


def end_of(data: bytes) -> bytes:
    """A window row whose base lies far behind its queue."""
    return data[:24] + (10**6).to_bytes(8, "big") + (10**6).to_bytes(8, "big") + bytes(9)


PLANTED: dict[str, tuple[Callable[[Path], object], list[tuple[str, str]], str]] = {
    "a flip in a sealed segment": (flip_in_a_message, [("damage", "log")], "checksum"),
    "a cut segment": (lambda d: cut(segment(d, 1), 40_000), [("damage", "log"), ("damage", "segment")], "40000 of"),
    "a missing segment": (lambda d: segment(d, 1).unlink(), [("damage", "log")], "a segment is missing"),
    "the first segment missing": (
        lambda d: segment(d, 0).unlink(),
        [("damage", "beginning")],
        f"the first {SEGMENT} bytes of the log are missing",
    ),
    "the last segment cut": (cut_last_segments, [("damage", "position")], "knows the log up to"),
    "the last segment missing": (drop_last_segments, [("damage", "position")], "knows the log up to"),
    "noise behind the end": (append_noise, [("damage", "torn-tail")], "torn tail of 9 bytes"),
    "a flipped timed record": (
        flip_a_kept_one(RecordKind.TIMED),
        [("damage", "log"), ("damage", "timer")],
        "corrupted",
    ),
    "a flipped half record": (
        flip_a_kept_one(RecordKind.HALF),
        [("damage", "log"), ("damage", "half-message")],
        "waits for a record that is corrupted",
    ),
    "a foreign file in the log": (
        lambda d: (d / "commitlog/backup~").write_bytes(b""),
        [("stray", "foreign-file")],
        "commitlog/backup~",
    ),
    "a cut queue file": (lambda d: cut(a_queue_file(d), 200), [("derived", "queue-file")], "orders/1"),
    "a flip in a queue file": (lambda d: flip(a_queue_file(d), 333), [("derived", "queue-file")], "orders/1"),
    "a queue file missing": (lambda d: a_queue_file(d).unlink(), [("derived", "queue-file")], "orders/1"),
    "an index file missing": (
        lambda d: min((d / "index").iterdir()).unlink(),
        [("derived", "index-file")],
        "00000000000000000000",
    ),
    "a flip in an index file": (
        lambda d: flip(min((d / "index").iterdir()), 2000),
        [("derived", "index-file")],
        "corrupted",
    ),
    "a flip in the index's last file": (
        lambda d: flip(max((d / "index").iterdir()), 72 + 4 * 64 + 3),
        [("derived", "index-file")],
        "corrupted",
    ),
    "foreign files": (make_foreign_files, [("stray", "foreign-file")] * 4, "notes.txt"),
    "orphaned files": (make_orphans, [("stray", "orphaned-file")] * 4, "consumequeue/orders/7"),
    "a flipped state row": (
        lambda d: execute(d, "UPDATE state SET value = ? WHERE key = ?", b"[]", b"torders"),
        [("derived", "state-file")],
        "topic orders fails its checksum",
    ),
    "a state row missing": (
        lambda d: execute(d, "DELETE FROM state WHERE substr(key, 1, 1) = x'77'"),
        [("derived", "state-file")],
        "digest",
    ),
    "no state file": (lambda d: (d / "state.db").unlink(), [("derived", "state-file")], "is missing"),
    "a state file that is none": (
        lambda d: (d / "state.db").write_bytes(b"not a database" * 100),
        [("derived", "state-file")],
        "cannot be read",
    ),
    "no identity": (lambda d: (d / "store.json").unlink(), [("damage", "identity")], "store.json"),
    "a corrupted identity": (lambda d: cut(d / "store.json", 9), [("damage", "identity")], "store.json"),
    "a window behind its queue": (
        lambda d: replace_row(d, b"wworkers\0orders\0", end_of),
        [("derived", "window")],
        "ends at",
    ),
    "a topic's row missing": (
        lambda d: replace_row(d, b"tranked", lambda value: None),
        [("derived", "orphaned-queue")],
        "ranked/2",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_damage_is_named(directory: Path, name: str):
    plant, expected, words = PLANTED[name]
    plant(directory)
    report = report_of(directory)
    found = problems(report)
    assert set(expected) <= set(found)
    assert len(found) >= len(expected)
    assert any(words in finding["text"] for finding in report["findings"]), report["findings"]
    severities = ["damage", "derived", "stray", "note"]
    order = [severities.index(finding["severity"]) for finding in report["findings"]]
    assert order == sorted(order), "most severe first"
    _, out, _ = look(directory, "verify")
    assert words in out
    assert out.splitlines()[-1].endswith("found")
    look(directory, "dump")
    look(directory, "rows")


def test_only_what_is_corrupted_is_told(directory: Path):
    """Of the derived kinds: nothing else is made to look corrupted by it."""
    for name in (
        "a cut queue file",
        "an index file missing",
        "foreign files",
        "orphaned files",
        "noise behind the end",
    ):
        copy = Path(shutil.copytree(directory, directory.parent / name))
        plant, expected, _ = PLANTED[name]
        plant(copy)
        assert problems(report_of(copy)) == expected


def test_full_finds_every_entry_of_a_corrupted_record(directory: Path):
    flip_in_a_message(directory)
    report = report_of(directory, "--full")
    entries = [f["text"] for f in report["findings"] if f["kind"] == "queue-entry"]
    assert entries
    assert all("corrupted" in text for text in entries)


def test_full_finds_a_state_that_is_whole_and_says_another_thing(directory: Path):
    replace_row(directory, b"ksession/1", lambda value: value[:8] + b"never")
    assert report_of(directory)["healthy"]
    report = report_of(directory, "--full")
    assert problems(report) == [("derived", "state")]
    assert "key-value session/1" in report["findings"][0]["text"]


def test_a_torn_tail_after_a_kill_is_no_problem(killed: Path, tmp_path: Path):
    copy = Path(shutil.copytree(killed, tmp_path / "data"))
    end = report_of(copy)["log"]["end"]
    *_, last = (found for found in LogFiles(str(copy)).scan() if isinstance(found, Record))
    path = segment(copy, (end - 1) // SEGMENT)
    flip(path, end % SEGMENT - 1)
    report = report_of(copy)
    assert problems(report) == []
    [text] = [f["text"] for f in report["findings"] if f["severity"] == "note" and f["kind"] == "torn-tail"]
    assert "nothing here says whether it had been confirmed" in text
    assert report["log"]["end"] == last.header.commit_log_offset


def test_damage_behind_the_state_stops_a_start_and_is_named(killed: Path, tmp_path: Path):
    copy = Path(shutil.copytree(killed, tmp_path / "data"))
    position = report_of(copy)["state"]["position"]
    found = [f for f in LogFiles(str(copy)).scan(position) if isinstance(f, Record)]
    offset = found[0].header.commit_log_offset
    flip(segment(copy, offset // SEGMENT), offset % SEGMENT + 50)
    report = report_of(copy)
    assert {("damage", "log"), ("damage", "recovery")} <= set(problems(report))
    assert any(f"damaged from {offset} to" in f["text"] for f in report["findings"])


def test_harm_that_the_rows_do_not_show(directory: Path):
    """In the state file's own index of keys, which nobody needs to read all rows."""
    path = directory / "state.db"
    with sqlite3.connect(path) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index'").fetchall()
        [(size,)] = connection.execute("PRAGMA page_size").fetchall()
    connection.close()
    data = bytearray(path.read_bytes())
    place = data.index(b"torders", (page - 1) * size, page * size)
    data[place] ^= 1
    path.write_bytes(data)
    assert problems(report_of(directory)) == [("derived", "state-file")]


@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(scaled(16, 200)))
def test_whatever_is_corrupted_it_can_be_told(directory: Path, seed: int):
    rng = Random(seed)
    before = LogFiles(str(directory))
    used = [f.header for f in before.scan() if isinstance(f, Record)]
    path = rng.choice([p for p in sorted(directory.rglob("*")) if p.is_file() and p.stat().st_size])
    place = rng.randrange(path.stat().st_size)
    if seed % 2:
        cut(path, place)
    else:
        flip(path, place)
    if path.name == "store.json" and look(directory, "verify")[0] == 2:
        return  # of a format that is not known
    report = report_of(directory, *(["--full"] if seed % 3 == 0 else []))
    if path.parent.name == "commitlog" and any(
        0 <= int(path.name) + place - header.commit_log_offset < min(header.length, 1 << 20)
        for header in used
        if header.kind != RecordKind.PADDING
    ):
        assert any(severity == "damage" for severity, _ in problems(report))
    look(directory, "dump", "--bodies")
    look(directory, "rows")


def test_another_segment_size_is_found(directory: Path):
    """A store that was opened with smaller segments than it was made with."""
    first = segment(directory, 0)
    (directory / "commitlog" / f"{SEGMENT // 2:020d}").write_bytes(first.read_bytes()[SEGMENT // 2 :])
    report = report_of(directory)
    assert ("damage", "segment") in problems(report)
    assert any("another segment size" in f["text"] for f in report["findings"])


def test_the_scan_meets_every_record_and_gap(directory: Path):
    whole = [f.header.commit_log_offset for f in LogFiles(str(directory)).scan() if isinstance(f, Record)]
    flip(segment(directory, 0), whole[3] + 60)
    flip(segment(directory, 0), whole[7] + 2)
    found = list(LogFiles(str(directory)).scan())
    gaps = [(gap.start, gap.end) for gap in found if isinstance(gap, Gap)][:2]
    assert gaps == [(whole[3], whole[4]), (whole[7], whole[8])]
    met = [f.header.commit_log_offset for f in found if isinstance(f, Record)]
    assert met == [offset for offset in whole if offset not in (whole[3], whole[7])]


# -- size --------------------------------------------------------------------------------------------------------------


@pytest.mark.soak
async def test_memory_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """48 MB of log, and a fraction of that while it is looked into."""
    directory = tmp_path / "data"
    store = await Broker.open(BrokerSettings(directory), ManualClock())
    await store.topology.put_topic(Topic("t", queues=4))
    body = bytes(10_000)
    for start in range(0, 4800, 100):
        await append_all(store, *(Message("t", body, queue_id=n % 4) for n in range(start, start + 100)))
    await store.close()
    monkeypatch.setattr(queue_checks, "MOST_BLOCKS", 2)
    monkeypatch.setattr(queue_checks, "BLOCK", 16)
    tracemalloc.start()
    report = verify(str(directory), full=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    tell("memory while a store is verified", messages=4800)
    assert report.is_healthy, report.findings
    assert report.facts["entriesChecked"] == 4800
    assert peak < 24 << 20
