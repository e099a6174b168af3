"""`entrepot store`: a whole store is called so, planted damage is found and named, and nothing is written."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tomllib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c
from typer.testing import CliRunner

from broker.broker import Broker
from broker.cli import app
from broker.inspect import queue_checks, state_rows
from broker.inspect.log_files import Gap, LogFiles, Record
from broker.inspect.verification import verify
from broker.settings import BrokerSettings
from broker.store.record import MESSAGE_KINDS, RecordKind
from broker.store.state_file import row_checksum
from domain.message import Message
from domain.topic import Topic
from tests.crash import full_store
from tests.support.clock import ManualClock
from tests.support.store_steps import append_all

ROOT = Path(__file__).resolve().parents[2]
SEGMENT = full_store.LAYOUT.segment_size_bytes


def fingerprint(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Every path with its size, time of change and content."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }


def look(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command; gives (exit code, standard output, standard error)."""
    before = fingerprint(directory)
    command, *rest = arguments
    done = CliRunner().invoke(app, [command, "--data-dir", str(directory), *rest])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert fingerprint(directory) == before, "nothing is written"
    return done.exit_code, done.stdout, done.stderr


def report_of(directory: Path, *arguments: str) -> dict[str, Any]:
    code, out, _ = look(directory, "verify", "--json", *arguments)
    report: dict[str, Any] = json.loads(out)
    assert code == (0 if report["healthy"] else 1)
    return report


def problems(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f["severity"], f["kind"]) for f in report["findings"] if f["severity"] != "note"]


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clean") / "data"
    asyncio.run(full_store.make(directory))
    return directory


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("killed") / "data"
    command = [sys.executable, "-m", "tests.crash.full_store", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "filled\n" in iter(child.stdout.readline, "")
        child.send_signal(signal.SIGKILL)
    state_rows.wait_for_writer(str(directory / "state.db"))
    return directory


@pytest.fixture
def directory(clean: Path, tmp_path: Path) -> Path:
    """A copy to be harmed."""
    return Path(shutil.copytree(clean, tmp_path / "data"))


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


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def segment(directory: Path, number: int) -> Path:
    return sorted((directory / "commitlog").iterdir())[number]


def last_segment(directory: Path) -> Path:
    """The one where the log ends: space may be taken in the next one already."""
    return segment(directory, report_of(directory)["log"]["end"] // SEGMENT)


def drop_last_segments(directory: Path) -> None:
    first = last_segment(directory)
    for path in (directory / "commitlog").iterdir():
        if path >= first:
            path.unlink()


def cut_last_segments(directory: Path) -> None:
    first = last_segment(directory)
    drop_last_segments(directory)
    first.write_bytes(b"")


def a_queue_file(directory: Path) -> Path:
    return directory / "consumequeue/orders/1/00000000000000000000"


def execute(directory: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(directory / "state.db")
    connection.execute(statement, values)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def replace_row(directory: Path, prefix: bytes, change: Callable[[bytes], bytes | None]) -> None:
    """Another value of a row, with the checksum and digest to match: a state that is wrong and not harmed."""
    connection = sqlite3.connect(directory / "state.db")
    [(key, crc, value)] = connection.execute(
        "SELECT key, crc, value FROM state WHERE substr(key, 1, ?) = ? LIMIT 1", (len(prefix), prefix)
    ).fetchall()
    changed = change(value)
    if changed is None:
        connection.execute("DELETE FROM state WHERE key = ?", (key,))
        connection.execute("UPDATE digest SET rows = rows - 1, sum = (sum | ?) - (sum & ?)", (crc, crc))
    else:
        new = row_checksum(key, changed)
        connection.execute("UPDATE state SET crc = ?, value = ? WHERE key = ?", (new, changed, key))
        both = crc ^ new
        connection.execute("UPDATE digest SET sum = (sum | ?) - (sum & ?)", (both, both))
    connection.commit()
    connection.close()


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
    "the last segment cut": (cut_last_segments, [("damage", "position")], "knows the log up to"),
    "the last segment missing": (drop_last_segments, [("damage", "position")], "knows the log up to"),
    "noise behind the end": (append_noise, [("damage", "torn-tail")], "torn tail of 9 bytes"),
    "a flipped timed record": (flip_a_kept_one(RecordKind.TIMED), [("damage", "log"), ("damage", "timer")], "harmed"),
    "a flipped half record": (
        flip_a_kept_one(RecordKind.HALF),
        [("damage", "log"), ("damage", "half-message")],
        "waits for a record that is harmed",
    ),
    "a foreign file in the log": (
        lambda d: (d / "commitlog/backup~").write_bytes(b""),
        [("damage", "foreign-file")],
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
        "harmed",
    ),
    "a flip in the index's last file": (
        lambda d: flip(max((d / "index").iterdir()), 72 + 4 * 64 + 3),
        [("derived", "index-file")],
        "harmed",
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
    "a harmed identity": (lambda d: cut(d / "store.json", 9), [("damage", "identity")], "store.json"),
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


def test_only_what_is_harmed_is_told(directory: Path):
    """Of the derived kinds: nothing else is made to look harmed by it."""
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


def test_full_finds_every_entry_of_a_harmed_record(directory: Path):
    flip_in_a_message(directory)
    report = report_of(directory, "--full")
    entries = [f["text"] for f in report["findings"] if f["kind"] == "queue-entry"]
    assert entries
    assert all("harmed" in text for text in entries)


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
    assert [f["kind"] for f in report["findings"] if f["severity"] == "note"].count("torn-tail") == 1
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


def test_the_scan_meets_every_record_and_gap(directory: Path):
    whole = [f.header.commit_log_offset for f in LogFiles(str(directory)).scan() if isinstance(f, Record)]
    flip(segment(directory, 0), whole[3] + 60)
    flip(segment(directory, 0), whole[7] + 2)
    found = list(LogFiles(str(directory)).scan())
    gaps = [(gap.start, gap.end) for gap in found if isinstance(gap, Gap)][:2]
    assert gaps == [(whole[3], whole[4]), (whole[7], whole[8])]
    met = [f.header.commit_log_offset for f in found if isinstance(f, Record)]
    assert met == [offset for offset in whole if offset not in (whole[3], whole[7])]
    assert all(crc32c(b"") == 0 for _ in gaps)


# -- dump and rows -----------------------------------------------------------------------------------------------------


def dumped(directory: Path, *arguments: str) -> list[dict[str, Any]]:
    code, out, _ = look(directory, "dump", "--json", *arguments)
    assert code == 0
    return [json.loads(line) for line in out.splitlines()]


def test_dump_shows_every_record(clean: Path):
    records = dumped(clean)
    assert len(records) == report_of(clean)["log"]["records"]
    assert not any("unreadable" in record or "gap" in record for record in records)
    assert {record["kind"] for record in records} == {k.name.lower().replace("_", "-") for k in RecordKind}
    by_op = {record["op"]: record for record in records if record["kind"] == "consumption"}
    assert by_op["deliver"]["group"]
    assert by_op["attempt"]["attemptId"] == "try-1"
    [first, *_] = [r for r in records if r.get("keys") == ["order-0"] and r["kind"] == "message"]
    assert (first["topic"], first["queue"], first["queueOffset"], first["tag"]) == ("orders", 0, 0, "even")
    assert first["further"] == [{"topic": "copies", "queue": 0, "queueOffset": 0}]
    assert first["properties"] == [["number", "0"]]
    assert "body" not in first
    assert any(r.get("change", {}).get("op") == "drop_topic" for r in records)
    assert any(r.get("changes", {}).get("session/1") for r in records)
    assert any(r["kind"] == "aside" and r["op"] == "drop" for r in records)


def test_dump_of_some(clean: Path):
    everything = dumped(clean)
    some = dumped(clean, "--topic", "copies", "--kind", "message", "--limit", "3")
    assert [[p["queueOffset"] for p in r["further"]] for r in some] == [[0], [1], [2]]
    low, high = everything[10]["offset"], everything[20]["offset"]
    assert dumped(clean, "--from", str(low), "--to", str(high)) == everything[10:20]
    assert dumped(clean, "--from", str(low + 1), "--limit", "1") == everything[11:12]
    assert {r["queue"] for r in dumped(clean, "--topic", "orders", "--queue", "1", "--kind", "message")} == {1}
    assert "body" in dumped(clean, "--kind", "message", "--limit", "1", "--bodies")[0]


def test_dump_for_people(clean: Path):
    code, out, _ = look(clean, "dump", "--limit", "200")
    assert code == 0
    assert len(out.splitlines()) == 200
    assert "orders/0/0" in out


def test_rows(clean: Path):
    code, out, _ = look(clean, "rows", "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert len(rows) == report_of(clean)["state"]["rows"]
    assert not any("unreadable" in row for row in rows)
    code, out, _ = look(clean, "rows", "--kind", "q,w")
    assert code == 0
    assert "queue orders/1 " in out
    assert "window workers on orders/0 " in out
    assert "topic" not in {line.split()[0] for line in out.splitlines()}


def test_secrets_are_not_shown(clean: Path):
    key = json.loads((clean / "store.json").read_text())["handle_key"]
    for command in (("verify", "--json"), ("dump", "--bodies"), ("rows",)):
        assert key not in look(clean, *command)[1]


# -- wrong usage -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["verify", "dump", "rows"])
async def test_a_directory_in_use_is_refused(tmp_path: Path, command: str):
    store = await Broker.open(full_store.settings_of(tmp_path / "data"), ManualClock())
    code, out, err = look(tmp_path / "data", command)
    await store.close()
    assert (code, out) == (2, "")
    assert (
        err == f"entrepot: the data directory {tmp_path / 'data'} is in use by process {os.getpid()}: stop it first\n"
    )
    assert look(tmp_path / "data", command)[0] == 0


@pytest.mark.parametrize("command", ["verify", "dump", "rows"])
def test_what_is_no_data_directory_is_refused(tmp_path: Path, command: str):
    (tmp_path / "file").write_text("?")
    for path in (tmp_path, tmp_path / "nothing"):
        code, out, err = look(path, command)
        assert (code, out) == (2, "")
        assert err.startswith("entrepot: ")
    assert not (tmp_path / "lock").exists()


def test_unknown_kinds_are_refused(clean: Path):
    assert look(clean, "dump", "--kind", "message,other")[0] == 2
    assert look(clean, "rows", "--kind", "z")[0] == 2


def test_another_format_is_refused(directory: Path):
    identity = json.loads((directory / "store.json").read_text())
    (directory / "store.json").write_text(json.dumps(identity | {"format": 99}))
    code, _, err = look(directory, "verify")
    assert code == 2
    assert "format 99" in err


def test_it_is_a_command_of_entrepot():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["entrepot.commands"]["store"] == "broker.cli:app"


def test_as_a_process(directory: Path):
    command = [sys.executable, "-m", "broker.cli", "verify", "--data-dir", str(directory)]
    for plant, code in ((lambda: None, 0), (lambda: cut(a_queue_file(directory), 0), 1)):
        plant()
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")


# -- size --------------------------------------------------------------------------------------------------------------


async def test_memory_stays_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """48 MB of log, and a fraction of that while it is looked into."""
    directory = tmp_path / "data"
    store = await Broker.open(BrokerSettings(directory), ManualClock())
    await store.put_topic(Topic("t", queues=4))
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
    assert report.is_healthy, report.findings
    assert report.facts["entriesChecked"] == 4800
    assert peak < 24 << 20
