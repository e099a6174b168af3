"""DeltaLog: commits that exist or do not, whatever the store does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.broker.tiered.delta_actions import AddFile, OwnAction, RemoveFile, Transaction, decode_commit
from entrepot.broker.tiered.delta_log import (
    LOG_RETENTION_MS,
    MAX_SNAPSHOT_AGE_MS,
    ConflictError,
    DeltaLog,
    next_maintenance,
)
from entrepot.broker.tiered.objects import TierError
from tests.support.cases import cases
from tests.support.tiered.failing_objects import Fault
from tests.tiered.delta.tables import DAY_MS, SCHEMA, add, grow, memory_table, remove

LOG = "topics/t-1/_delta_log/"


def once(fault: Fault, call: str) -> Callable[[str, str], Fault]:
    """A plan that fails the first such call."""
    left = [fault]
    return lambda asked, path: left.pop() if asked == call and left else Fault.NONE


def test_a_table_is_made_once_and_met_by_the_second_who_makes_it() -> None:
    _, objects, clock, made = memory_table()
    clock.advance(5)
    other = DeltaLog(objects, "topics/t-1", clock).create(SCHEMA, {"a": "b"}, "another creation")
    assert other == made
    assert made.version == 0
    assert made.metadata.schema_string == SCHEMA
    assert DeltaLog(objects, "topics/t-2", clock).load() is None
    for fault in (Fault.AFTER, Fault.LATE):
        objects.plan = once(fault, "put_new")
        root = f"topics/{fault.name}"
        if fault is Fault.LATE:
            with pytest.raises(TierError, match="no answer"):
                DeltaLog(objects, root, clock).create(SCHEMA, {}, "c")
            objects.settle()
        assert DeltaLog(objects, root, clock).create(SCHEMA, {}, "c").version == 0


def test_a_commit_is_seen_by_a_refresh_and_by_a_load() -> None:
    delta, objects, clock, first = memory_table()
    other = DeltaLog(objects, "topics/t-1", clock)
    second = delta.commit(first, [add("a"), Transaction("q", 7)], "x", expected={"q": None})
    assert (second.version, dict(second.transactions), list(second.files)) == (1, {"q": 7}, ["a"])
    assert not first.files
    assert other.refresh(first) == second == other.load()
    third = delta.commit(second, [remove("a", 5), add("b"), next_maintenance(second)], "y")
    assert (dict(third.tombstones), list(third.files), third.is_foreign) == ({"a": 5}, ["b"], False)
    assert other.refresh(first) == third
    assert list(second.files) == ["a"]


def test_the_second_at_a_version_is_told_what_the_table_is_now() -> None:
    delta, objects, clock, start = memory_table()
    won = grow(delta, start, 3)
    with pytest.raises(ConflictError) as caught:
        DeltaLog(objects, "topics/t-1", clock).commit(start, [add("late")], "late")
    assert caught.value.snapshot == won
    assert len(objects.paths(LOG)) == 4


def test_after_a_lost_answer_ones_own_commit_is_known_again() -> None:
    delta, objects, _, start = memory_table()
    objects.plan = once(Fault.AFTER, "put_new")
    done = delta.commit(start, [add("a")], "x")
    assert (done.version, list(done.files)) == (1, ["a"])
    assert delta.commit(start, [add("a")], "x") == done, "the same call again is the same commit"
    assert len(objects.paths(LOG)) == 2


def test_a_put_that_arrives_late_is_met_by_the_repetition() -> None:
    delta, objects, _, start = memory_table()
    objects.plan = once(Fault.LATE, "put_new")
    with pytest.raises(TierError, match="no answer"):
        delta.commit(start, [add("a")], "x")
    objects.settle()
    assert delta.commit(start, [add("a")], "x").version == 1
    with pytest.raises(ConflictError):
        delta.commit(start, [add("b")], "y")
    objects.plan = once(Fault.BEFORE, "put_new")
    with pytest.raises(TierError, match="refused"):
        delta.commit(delta.refresh(start), [add("b")], "y")
    assert len(objects.paths(LOG)) == 2


def test_a_table_that_is_not_as_expected_is_not_written_to() -> None:
    delta, objects, _, start = memory_table()
    snapshot = grow(delta, start, 2)
    calls = objects.calls
    for expected in ({"queue/0": 1}, {"queue/0": None}, {"queue/0": 2, "epoch": 1}):
        with pytest.raises(ConflictError) as caught:
            delta.commit(snapshot, [add("x"), Transaction("queue/0", 3)], "x", expected=expected)
        assert caught.value.snapshot is snapshot
    assert objects.calls == calls


BROKEN_RULES = {
    "an add of a file that is there": ([add("f-00000.parquet")], "is in the table"),
    "a remove of one that is not": ([remove("x"), Transaction("maintenance", 1)], "is not in the table"),
    "a remove without maintenance": ([remove("f-00000.parquet")], "maintenance to 1, not to None"),
    "a remove with a stale one": (
        [remove("f-00000.parquet"), Transaction("maintenance", 0)],
        "maintenance to 1, not to 0",
    ),
    "maintenance that leaps": ([Transaction("maintenance", 2)], "to 1, not to 2"),
    "progress of which nothing is expected": ([Transaction("queue/0", 9)], "nothing is expected"),
    "a path twice": ([add("x"), add("x")], "twice"),
    "a path outside": ([add("../x")], "not a path in the table"),
    "an absolute path": ([add("/x")], "not a path in the table"),
}


@cases("actions, text", BROKEN_RULES.values(), list(BROKEN_RULES))
def test_commits_that_break_a_rule_are_refused(actions: list[OwnAction], text: str) -> None:
    delta, objects, _, start = memory_table()
    snapshot = grow(delta, start, 1)
    with pytest.raises(ValueError, match=text):
        delta.commit(snapshot, actions, "x")
    assert len(objects.paths(LOG)) == 2


FEATURES = {
    "a reader": (b'{"protocol":{"minReaderVersion":2,"minWriterVersion":5}}', "column mapping"),
    "a writer": (b'{"protocol":{"minReaderVersion":1,"minWriterVersion":4}}', "change data feed"),
    "features": (
        b'{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["v2Checkpoint"],'
        b'"writerFeatures":["v2Checkpoint","rowTracking"]}}',
        "rowTracking, v2Checkpoint",
    ),
    "a deletion vector": (
        b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true,'
        b'"deletionVector":{"storageType":"u","pathOrInlineDv":"x","sizeInBytes":1,"cardinality":1}}}',
        "deletion vectors",
    ),
    "column mapping": (
        b'{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{}",'
        b'"partitionColumns":[],"configuration":{"delta.columnMapping.mode":"name"}}}',
        "column mapping",
    ),
    "partitions": (
        b'{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"{}",'
        b'"partitionColumns":["day"],"configuration":{}}}',
        "partition columns",
    ),
}


@cases("line, text", FEATURES.values(), list(FEATURES))
def test_a_table_of_other_features_is_named_and_left_alone(line: bytes, text: str) -> None:
    delta, objects, _, start = memory_table()
    objects.put_new(LOG + "00000000000000000001.json", line)
    for call in (delta.load, lambda: delta.refresh(start), lambda: delta.commit(start, [add("x")], "x")):
        with pytest.raises(TierError, match=f"memory:/topics/t-1 uses .*{text}.*left alone"):
            call()
    assert len(objects.paths(LOG)) == 2


def test_a_corrupted_or_cut_commit_is_named() -> None:
    delta, objects, _, start = memory_table()
    delta.commit(start, [add("a"), add("b")], "x")
    name = LOG + "00000000000000000001.json"
    whole = objects.get(name)
    for length in range(len(whole) - 1):
        objects.overwrite(name, whole[:length])
        with pytest.raises(TierError, match=r"0{19}1\.json is corrupted"):
            delta.load()
    objects.overwrite(name, whole.replace(b'"path":"a"', b'"path":"s3://elsewhere/a"'))
    with pytest.raises(TierError, match=r"1\.json is corrupted: s3://elsewhere/a is not a path in the table"):
        delta.refresh(start)


def test_foreign_commits_are_counted_and_named() -> None:
    delta, objects, _, start = memory_table()
    snapshot = grow(delta, start, 1)
    objects.put_new(
        LOG + "00000000000000000002.json",
        b'{"commitInfo":{"engineInfo":"Apache-Spark/4.1","operation":"DELETE","attemptId":"x"}}\n'
        b'{"remove":{"path":"f-00000.parquet","deletionTimestamp":9,"dataChange":true,"partitionValues":null}}\n'
        b'{"cdc":{"path":"_change_data/x"}}',
    )
    with pytest.raises(ConflictError) as caught:
        delta.commit(snapshot, [add("x")], "x")
    now = caught.value.snapshot
    assert (now.is_foreign, now.foreign_commits, now.foreign[0].version) == (True, 1, 2)
    assert (now.foreign[0].engine, now.foreign[0].operation) == ("Apache-Spark/4.1", "DELETE")
    assert not now.files


def test_old_log_goes_below_an_old_checkpoint_and_nobody_is_misled() -> None:
    delta, objects, clock, start = memory_table(10)
    snapshot = grow(delta, start, 10)
    assert delta.checkpoint(snapshot)
    assert not delta.checkpoint(snapshot)
    snapshot = grow(delta, snapshot, 3, "g")
    sleeper = snapshot
    assert not delta.vacuum(snapshot, DAY_MS, clock.now_ms()).log
    clock.advance(LOG_RETENTION_MS // 2)
    snapshot = grow(delta, delta.refresh(snapshot), 7, "h")
    assert delta.checkpoint(snapshot)
    clock.advance(LOG_RETENTION_MS // 2 + 1)
    found = delta.vacuum(snapshot, DAY_MS, clock.now_ms())
    assert [path[-25:] for path in found.log] == [f"{version:020d}.json" for version in range(1, 10)]
    clock.advance(LOG_RETENTION_MS)
    delta.delete(snapshot, delta.vacuum(snapshot, DAY_MS, clock.now_ms()))
    assert objects.paths(LOG) == [
        LOG + name
        for name in (
            "00000000000000000000.json",
            "00000000000000000020.checkpoint.parquet",
            "00000000000000000020.json",
            "_last_checkpoint",
        )
    ]
    with pytest.raises(ConflictError) as caught:
        delta.commit(sleeper, [add("late")], "late")
    assert caught.value.snapshot == snapshot == delta.refresh(sleeper)
    assert delta.create(SCHEMA, {}, "again") == snapshot
    objects.delete([LOG + "00000000000000000020.checkpoint.parquet"])
    with pytest.raises(TierError, match=r"0{19}1\.json is missing"):
        delta.load()


def test_a_snapshot_of_some_age_is_read_anew_and_goes_on() -> None:
    delta, _, clock, start = memory_table()
    clock.advance(MAX_SNAPSHOT_AGE_MS + 1)
    assert delta.commit(start, [add("a")], "x").version == 1


def test_a_repetition_that_comes_very_late_still_knows_its_commit() -> None:
    delta, objects, clock, start = memory_table()
    objects.plan = once(Fault.LATE, "put_new")
    with pytest.raises(TierError, match="no answer"):
        delta.commit(start, [add("a")], "x")
    objects.settle()
    latest = grow(delta, delta.refresh(start), 2)
    clock.advance(MAX_SNAPSHOT_AGE_MS + 1)
    assert delta.commit(start, [add("a")], "x") == latest
    with pytest.raises(ConflictError):
        delta.commit(start, [add("a")], "y")


def test_vacuum_finds_what_was_removed_and_orphans_and_spares_the_young() -> None:
    delta, objects, clock, start = memory_table()
    objects.put_new("topics/t-10/other", b"another table's")
    for name in ("live", "merged", "orphan", "late", "_hidden/x"):
        objects.put_new(f"topics/t-1/{name}", b"")
    snapshot = delta.commit(start, [add("live"), add("merged")], "1")
    snapshot = delta.commit(snapshot, [remove("merged", clock.now_ms()), next_maintenance(snapshot)], "2")
    none = delta.vacuum(snapshot, 1000, clock.now_ms() + 1000)
    assert not (*none.tombstoned, *none.orphans)
    clock.advance(1001)
    objects.put_new("topics/t-1/young", b"")
    found = delta.vacuum(snapshot, 1000, clock.now_ms())
    assert (found.tombstoned, found.orphans) == (("topics/t-1/merged",), ("topics/t-1/late", "topics/t-1/orphan"))
    assert len(objects.paths("topics/t-1/")) == 9, "nothing is deleted yet"
    latest = delta.commit(snapshot, [add("late")], "3")
    delta.delete(snapshot, found)
    left = [path for path in objects.paths() if "_delta_log" not in path]
    assert left == [
        "topics/t-1/_hidden/x",
        "topics/t-1/late",
        "topics/t-1/live",
        "topics/t-1/young",
        "topics/t-10/other",
    ]
    assert sorted(latest.files) == ["late", "live"]


def test_a_commit_says_whose_it_is_in_the_protocols_words() -> None:
    delta, objects, clock, start = memory_table()
    delta.commit(start, [add("ä b.parquet", 5), Transaction("q", 1, 2)], "attempt-1", expected={"q": None})
    assert objects.get(LOG + "00000000000000000001.json").decode().splitlines() == [
        f'{{"commitInfo":{{"timestamp":{clock.now_ms()},"operation":"WRITE","engineInfo":"entrepot",'
        '"attemptId":"attempt-1","lines":3}}',
        '{"add":{"path":"%C3%A4%20b.parquet","size":5,"modificationTime":1700000000000,"dataChange":true,"stats":'
        '"{\\"numRecords\\":1,\\"minValues\\":{\\"n\\":0},\\"maxValues\\":{\\"n\\":0},\\"nullCount\\":{\\"n\\":0}}",'
        '"partitionValues":{}}}',
        '{"txn":{"appId":"q","version":1,"lastUpdated":2}}',
    ]
    commit = decode_commit(objects.get(LOG + "00000000000000000001.json"), "x")
    assert isinstance(commit.actions[0], AddFile) and commit.actions[0].path == "ä b.parquet"
    assert not any(isinstance(action, RemoveFile) for action in commit.actions)
