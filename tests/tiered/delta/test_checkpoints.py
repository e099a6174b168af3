"""Checkpoints make a load shorter, and never another one."""

from __future__ import annotations

import io

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.tiered.checkpoints import decode_hint
from entrepot.broker.tiered.delta_actions import (
    AddFile,
    CommitInfo,
    OwnAction,
    RemoveFile,
    Transaction,
    decode_commit,
    decode_path,
    encode_commit,
    encode_path,
)
from entrepot.broker.tiered.delta_log import DeltaLog, next_maintenance
from entrepot.broker.tiered.objects import TierError
from tests.support.tiered.failing_objects import FailingObjects, Fault, Plan
from tests.tiered.delta.tables import add, grow, memory_table, remove

LOG = "topics/t-1/_delta_log/"
POINT = LOG + "00000000000000000010.checkpoint.parquet"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
paths = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30).filter(
    lambda path: path[0] != "/" and ".." not in path.split("/")
)
numbers = st.integers(0, 2**63 - 1)
adds = st.builds(
    AddFile, paths, numbers, numbers, st.booleans(), st.none() | texts, st.none() | st.dictionaries(texts, texts)
)
removes = st.builds(RemoveFile, paths, st.booleans(), st.none() | numbers)
transactions = st.builds(Transaction, texts, numbers, st.none() | numbers)


@given(st.lists(st.one_of(adds, removes, transactions)), texts)
def test_actions_come_back_as_they_went(actions: list[OwnAction], attempt: str) -> None:
    info = CommitInfo(5, "WRITE", "entrepot", attempt, len(actions) + 1)
    commit = decode_commit(encode_commit(info, actions), "x")
    assert (commit.info, list(commit.actions)) == (info, actions)


@given(paths)
def test_an_encoded_path_is_plain_ascii_and_comes_back(path: str) -> None:
    encoded = encode_path(path)
    assert encoded.isascii()
    assert not set(encoded) & set(' "<>\\^`{|}#?:\n\t\r')
    assert decode_path(encoded) == path


@given(st.lists(st.lists(st.tuples(st.integers(0, 12), adds), max_size=3), min_size=1, max_size=6), st.integers(0, 5))
def test_a_checkpoint_and_its_tail_are_the_log(steps: list[list[tuple[int, AddFile]]], at: int) -> None:
    delta, objects, clock, snapshot = memory_table(1)
    for number, step in enumerate(steps):
        actions: dict[str, OwnAction] = {}
        for choice, file in step:
            clock.advance(1)
            live = sorted(set(snapshot.files) - set(actions))
            if choice < len(live):
                actions[live[choice]] = remove(live[choice], clock.now_ms())
            elif file.path not in snapshot.files and file.path not in actions:
                actions[file.path] = file
        given_actions = [*actions.values(), next_maintenance(snapshot), Transaction("q", number)]
        expected = {"q": snapshot.transactions.get("q")}
        snapshot = delta.commit(snapshot, given_actions, f"{number}", expected=expected)
        if number == at:
            assert delta.checkpoint(snapshot)
            for path in objects.paths(LOG):
                if path.endswith(".json") and int(path[-25:-5]) in range(1, snapshot.version):
                    objects.put_new(f"kept/{path}", objects.get(path))
                    objects.delete([path])
    loaded = DeltaLog(objects, "topics/t-1", clock).load()
    assert loaded == snapshot
    objects.delete([path for path in objects.paths(LOG) if "checkpoint" in path])
    for path in objects.paths("kept/"):
        objects.put_new(path.removeprefix("kept/"), objects.get(path))
    assert DeltaLog(objects, "topics/t-1", clock).load() == snapshot


def in_parts(objects: FailingObjects, count: int) -> None:
    """Cut the checkpoint in parts."""
    table = pq.read_table(io.BytesIO(objects.get(POINT)))
    objects.delete([POINT])
    size = -(-len(table) // count)
    for part in range(count):
        sink = io.BytesIO()
        pq.write_table(table.slice(part * size, size), sink)
        objects.put_new(f"{LOG}00000000000000000010.checkpoint.{part + 1:010d}.{count:010d}.parquet", sink.getvalue())


@pytest.mark.parametrize(
    "hint", [None, b'{"version":10,"size":13,"parts":4}', b'{"version":3,"size":1}', b"{corrupted"]
)
def test_parts_and_any_hint_lead_to_the_same_table(hint: bytes | None) -> None:
    delta, objects, clock, start = memory_table(10)
    snapshot = grow(delta, start, 10)
    assert delta.checkpoint(snapshot)
    in_parts(objects, 4)
    snapshot = grow(delta, snapshot, 4, "g")
    objects.delete([LOG + "_last_checkpoint", *(LOG + f"{version:020d}.json" for version in range(1, 10))])
    if hint is not None:
        objects.put_new(LOG + "_last_checkpoint", hint)
    assert DeltaLog(objects, "topics/t-1", clock).load() == snapshot
    objects.delete([f"{LOG}00000000000000000010.checkpoint.0000000002.0000000004.parquet"])
    with pytest.raises(TierError, match=r"0{19}1\.json is missing"):
        DeltaLog(objects, "topics/t-1", clock).load()


def test_a_corrupted_checkpoint_is_passed_over() -> None:
    delta, objects, clock, start = memory_table(10)
    snapshot = grow(delta, start, 12)
    assert delta.checkpoint(snapshot)
    point = LOG + "00000000000000000012.checkpoint.parquet"
    for data in (b"", b"PAR1 not at all PAR1", objects.get(point)[:-100]):
        objects.overwrite(point, data)
        assert DeltaLog(objects, "topics/t-1", clock).load() == snapshot


def test_a_stale_list_hides_no_commit() -> None:
    delta, objects, clock, start = memory_table(10)
    snapshot = grow(delta, start, 3)
    objects.settle()
    snapshot = grow(delta, snapshot, 9, "g")
    assert delta.checkpoint(snapshot)
    snapshot = grow(delta, snapshot, 2, "h")
    objects.plan = lambda call, path: Fault.STALE
    assert DeltaLog(objects, "topics/t-1", clock).load() == snapshot


def from_call(objects: FailingObjects, first: int, fault: Fault) -> Plan:
    """Every call fails after so many."""
    return lambda call, path: fault if objects.calls > first else Fault.NONE


@pytest.mark.parametrize("fault", [Fault.BEFORE, Fault.AFTER])
def test_a_checkpoint_that_fails_anywhere_changes_nothing(fault: Fault) -> None:
    for failing in range(6):
        delta, objects, clock, start = memory_table(10)
        snapshot = grow(delta, start, 10)
        assert delta.checkpoint(snapshot)
        snapshot = grow(delta, snapshot, 10, "g")
        objects.plan = from_call(objects, objects.calls + failing, fault)
        written = delta.checkpoint(snapshot)
        assert written == (failing > 2)
        objects.plan = lambda call, path: Fault.NONE
        assert DeltaLog(objects, "topics/t-1", clock).load() == snapshot
        hint = LOG + "_last_checkpoint"
        if hint in objects.paths(LOG):
            found = decode_hint(objects.get(hint))
            assert found is not None and found.version in (10, 20)


def test_a_due_checkpoint_is_written_once_by_whoever_comes_first() -> None:
    delta, objects, clock, start = memory_table(10)
    other = DeltaLog(objects, "topics/t-1", clock, 10)
    snapshot = grow(delta, start, 9)
    assert not delta.checkpoint(snapshot)
    snapshot = delta.commit(snapshot, [add("x")], "x")
    assert delta.checkpoint(snapshot)
    snapshot = delta.commit(snapshot, [add("y")], "y")
    assert not other.checkpoint(snapshot)
    assert sum("checkpoint.parquet" in path for path in objects.paths(LOG)) == 1
