"""Verification finds every damage that is planted in a table, and names where it is."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.broker.tiered.verification import Problem, Verdict, roots, show, verify
from entrepot.domain.message import StoredMessage
from entrepot.domain.topic import Topic
from entrepot.gateway.cli.app import run
from entrepot.store_client.embedded import tables_verified
from tests.support.clock import ManualClock
from tests.support.tiered.rows import rows_of

TOPIC = Topic("factory.one")
ROOT = root_of(TOPIC.name, "a1b2", 7)
BASE = 20_000
"""Queues of broker 2."""
SEGMENTS = 4
ROWS = 10
"""Messages of a queue in a segment."""


def message(queue_id: int, offset: int) -> StoredMessage:
    return StoredMessage(
        TOPIC.name,
        b"%d/%d" % (queue_id, offset),
        queue_id=queue_id,
        message_id=b"id%d/%d" % (queue_id, offset),
        queue_offset=offset,
        store_time_ms=1_000_000 + offset,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of two queues, each with four runs of ten messages."""
    table = TopicTable(FolderStore(tmp_path), ROOT, ManualClock(), Random(1))
    table.open(create=True)
    for at in range(SEGMENTS):
        first, end = at * ROWS, (at + 1) * ROWS
        batch = [message(BASE + queue, offset) for queue in (0, 1) for offset in range(first, end)]
        starts = {BASE + queue: first if at else None for queue in (0, 1)}
        table.upload(rows_of(batch), starts, {BASE: end, BASE + 1: end})
    return tmp_path


def verdict_of(folder: Path, *, is_full: bool = False) -> Verdict:
    [root] = roots(FolderStore(folder))
    return verify(FolderStore(folder), root, ManualClock(), is_full=is_full)


def commit(folder: Path, version: int) -> Path:
    return folder / ROOT / "_delta_log" / f"{version:020}.json"


def segment(folder: Path, version: int) -> Path:
    """The one that a commit added."""
    lines = [json.loads(line) for line in commit(folder, version).read_text().splitlines()]
    [path] = [line["add"]["path"] for line in lines if "add" in line]
    return folder / ROOT / path


def forge(folder: Path, version: int, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the actions of a commit; it says how many lines it has."""
    path = commit(folder, version)
    lines = change([json.loads(line) for line in path.read_text().splitlines()])
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["lines"] = len(lines)
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def resized(folder: Path, version: int) -> None:
    """Have the log say of a segment which size it has now."""
    size = segment(folder, version).stat().st_size

    def change(lines: list[Any]) -> list[Any]:
        for line in lines:
            if "add" in line:
                line["add"]["size"] = size
        return lines

    forge(folder, version, change)


def places(problems: list[Problem]) -> list[tuple[int | None, int | None, int | None]]:
    assert all(problem.table == ROOT for problem in problems)
    return [(problem.queue_id, problem.first, problem.end) for problem in problems]


def of_version(version: int) -> list[tuple[int | None, int | None, int | None]]:
    first = (version - 1) * ROWS
    return [(BASE, first, first + ROWS), (BASE + 1, first, first + ROWS)]


def test_a_table_as_it_was_written_is_shown_and_has_no_problem(folder: Path) -> None:
    found = show(FolderStore(folder), ROOT, ManualClock())
    assert (found.topic, found.segments, found.rows, found.version) == (TOPIC.name, SEGMENTS, 80, SEGMENTS)
    assert (found.oldest_ms, found.newest_ms) == (1_000_000, 1_000_039)
    assert [(q.queue_id, q.first, q.next_offset, q.segments) for q in found.queues] == [
        (BASE, 0, 40, SEGMENTS),
        (BASE + 1, 0, 40, SEGMENTS),
    ]
    assert found.bytes == sum(each.stat().st_size for each in (folder / ROOT).rglob("*.parquet"))
    for is_full in (False, True):
        verdict = verdict_of(folder, is_full=is_full)
        assert (verdict.problems, verdict.notes, verdict.shown) == ([], [], found)
    assert verdict.rows_read == 80


def test_what_retention_removed_is_no_problem(folder: Path) -> None:
    table = TopicTable(FolderStore(folder), ROOT, ManualClock(), Random(2))
    table.open()
    assert table.expire(1_000_015) == 1
    verdict = verdict_of(folder, is_full=True)
    assert verdict.problems == []
    assert verdict.shown is not None and [queue.first for queue in verdict.shown.queues] == [ROWS, ROWS]
    assert any("1 objects are in no version" in note for note in verdict.notes)
    assert table.expire(10**9) == SEGMENTS - 1
    assert verdict_of(folder, is_full=True).problems == [], "it is empty, and its progress stays"


def test_a_segment_that_was_deleted(folder: Path) -> None:
    segment(folder, 2).unlink()
    problems = verdict_of(folder).problems
    assert places(problems) == of_version(2)
    assert all("is gone" in problem.text for problem in problems)
    assert places(verdict_of(folder, is_full=True).problems) == of_version(2)


def test_a_segment_that_was_cut_short(folder: Path) -> None:
    path = segment(folder, 2)
    path.write_bytes(path.read_bytes()[:-1])
    assert places(verdict_of(folder).problems) == of_version(2)


def test_a_segment_that_was_swapped_for_another(folder: Path) -> None:
    """With as many bytes: only reading tells."""
    there, other = segment(folder, 3), segment(folder, 2)
    shutil.copy(other, there)
    resized(folder, 3)
    assert verdict_of(folder).problems == []
    problems = verdict_of(folder, is_full=True).problems
    assert places(problems) == of_version(3)
    assert all("has offsets 10 to 20 of it" in problem.text for problem in problems)


def rewritten(folder: Path, version: int, change: Any) -> None:
    """A segment with other rows; the log says its new size."""
    path = segment(folder, version)
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    resized(folder, version)


def with_column(table: Any, name: str, at: int, value: Any) -> Any:
    values = table.column(name).to_pylist()
    values[at] = value
    number = table.schema.get_field_index(name)
    return table.set_column(number, table.schema.field(number), pa.array(values, table.schema.field(number).type))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: with_column(table, "body", 13, b"forged"), "digest"),
        (lambda table: with_column(table, "message_id", 13, "ff"), "digest"),
        (lambda table: with_column(table, "queue_offset", 13, 12), "out of order"),
        (lambda table: table.slice(0, 19), "has 9 messages of it, not 10"),
    ],
    ids=["body", "id", "offset", "missing"],
)
def test_a_row_that_was_changed(folder: Path, change: Any, said: str) -> None:
    rewritten(folder, 2, change)
    [problem] = verdict_of(folder, is_full=True).problems
    assert places([problem]) == [(BASE + 1, ROWS, 2 * ROWS)]
    assert said in problem.text


def test_rows_of_a_queue_of_which_the_table_does_not_know(folder: Path) -> None:
    rewritten(folder, 2, lambda table: with_column(table, "queue_id", 19, BASE + 5))
    problems = verdict_of(folder, is_full=True).problems
    assert places(problems) == [(BASE + 1, 10, 20), (BASE + 5, 19, 20)]
    assert "does not know" in problems[1].text


def test_a_file_that_another_program_added(folder: Path) -> None:
    extra = pq.read_table(segment(folder, 2))
    write_deltalake(str(folder / ROOT), extra, mode="append")
    verdict = verdict_of(folder)
    [problem] = verdict.problems
    assert "was not written by a broker" in problem.text
    assert any("was committed by" in note for note in verdict.notes)
    assert verdict.shown is not None and verdict.shown.foreign_commits == 1


def without_runs(folder: Path, version: int) -> None:
    """A log that has forgotten what a commit added."""
    forge(folder, version, lambda lines: [line for line in lines if "add" not in line])


def test_a_run_that_was_removed_from_the_log(folder: Path) -> None:
    without_runs(folder, 2)
    problems = verdict_of(folder).problems
    assert places(problems) == of_version(2)
    assert all("no segment of the table has them" in problem.text for problem in problems)


def test_the_last_run_that_was_removed_from_the_log(folder: Path) -> None:
    without_runs(folder, SEGMENTS)
    assert places(verdict_of(folder).problems) == of_version(SEGMENTS)


def test_a_segment_that_is_there_twice(folder: Path) -> None:
    again = segment(folder, 2)
    copy = again.with_name("again.parquet")
    shutil.copy(again, copy)
    [line] = [line for line in commit(folder, 2).read_text().splitlines() if '"add"' in line]
    forge(folder, SEGMENTS, lambda lines: [*lines, json.loads(line.replace(again.name, copy.name))])
    problems = verdict_of(folder).problems
    assert places(problems) == of_version(2)
    assert all("two segments" in problem.text for problem in problems)


def test_a_commit_that_lost_a_line(folder: Path) -> None:
    path = commit(folder, 2)
    path.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:-1]))
    [problem] = verdict_of(folder).problems
    assert "is corrupted" in problem.text


def test_a_commit_that_is_missing(folder: Path) -> None:
    commit(folder, 2).unlink()
    [problem] = verdict_of(folder).problems
    assert "is missing" in problem.text and problem.table == ROOT


def test_one_table_that_is_corrupted_does_not_hide_the_others(folder: Path) -> None:
    other = TopicTable(FolderStore(folder), root_of("lab/another", "a1b2", 9), ManualClock(), Random(3))
    other.open(create=True)
    commit(folder, 2).unlink()
    verdicts = list(tables_verified(folder.as_uri(), {}, ManualClock(), is_full=True))
    found = {each.shown.topic if each.shown else each.table: bool(each.problems) for each in verdicts}
    assert found == {"lab/another": False, ROOT: True}


def test_the_commands(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tier", "show", "--url", folder.as_uri(), "--json"]) == 0
    [shown] = json.loads(capfd.readouterr().out)
    assert (shown["topic"], shown["messages"], shown["oldest"]) == (TOPIC.name, 80, "1970-01-01T00:16:40.000Z")
    assert shown["queues"][1] == {
        "queueId": BASE + 1,
        "firstOffset": 0,
        "nextOffset": 40,
        "messages": 40,
        "segments": SEGMENTS,
    }
    assert run(["tier", "show", "--url", folder.as_uri()]) == 0
    assert TOPIC.name in capfd.readouterr().out
    assert run(["tier", "verify", "--url", folder.as_uri(), "--full"]) == 0
    assert "ok      " in (said := capfd.readouterr().out) and "80 messages read, 4 segments" in said
    segment(folder, 2).unlink()
    assert run(["tier", "verify", "--url", folder.as_uri()]) == 1
    assert f"PROBLEM {ROOT}, queue {BASE}, offsets 10 to 20: " in capfd.readouterr().out
    assert run(["tier", "verify", "--url", folder.as_uri(), "--json"]) == 1
    [found] = json.loads(capfd.readouterr().out)
    assert found["problems"][0]["firstOffset"] == 10 and found["problems"][0]["queueId"] == BASE


@pytest.mark.parametrize("url", ["s3://key:secret@bucket", "http://store/bucket", "folder"])
def test_a_url_that_is_none_is_refused_and_not_repeated(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tier", "show", "--url", url]) == 2
    said = capfd.readouterr().err
    assert said.startswith("entrepot: --url: ") and "secret" not in said


def test_a_folder_without_a_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["tier", "verify", "--url", tmp_path.as_uri()]) == 0
    assert capfd.readouterr().out == "there is no table\n"


def test_a_command_that_read_parquet_ends_without_waiting_for_its_threads() -> None:
    """They may abort a process that ends while they do: here something that ends with the interpreter does."""
    end = "import atexit, os, sys; atexit.register(os.abort)"
    command = "sys.argv = ['entrepot', 'version']; from entrepot.gateway.cli.app import main; main()"
    codes = [
        subprocess.run(
            [sys.executable, "-c", f"{end}; {reads}; {command}"], capture_output=True, check=False
        ).returncode
        for reads in ("import pyarrow", "pass")
    ]
    assert codes == [0, -signal.SIGABRT]
