"""What the sync process does when asked, in this process."""

from __future__ import annotations

import errno
import os
import socket
import sqlite3
import struct
from pathlib import Path
from random import Random

import pytest

from entrepot.broker.store import sync_process
from entrepot.broker.store.state_file import STATE_VERSION, SqliteStateFile, encode_changes
from entrepot.broker.store.sync_process import NO_ROOM, Files, State
from tests.support.cases import cases


def carry_out(verb: str, paths: list[str], data: bytes = b"", files: Files | None = None) -> int:
    state = State()
    try:
        return sync_process.carry_out(files or Files(), state, verb, paths, data)
    finally:
        state.close()


def test_publishing_moves_the_draft(tmp_path: Path):
    draft, final, other = (tmp_path / name for name in ("draft", "final", "other"))
    for path in (draft, final, other):
        path.write_text(path.name)
    assert carry_out("publish", [str(other), str(draft), str(final)]) == 0
    assert (final.read_text(), draft.exists()) == ("draft", False)


def test_a_commit_passes_over_what_is_gone(tmp_path: Path):
    """A topic may be deleted while a checkpoint that names its files is on its way to the disk."""
    gone, state = tmp_path / "topic" / "0", tmp_path / "state.db"
    assert carry_out("commit", [str(gone), str(state)], encode_changes([(b"a", b"1")])) == 0
    assert SqliteStateFile(str(state)).load() == {b"a": b"1"}


def test_syncing_or_publishing_what_must_be_there_fails(tmp_path: Path):
    missing = str(tmp_path / "missing")
    assert carry_out("sync", [missing]) == errno.ENOENT
    assert carry_out("publish", [missing, str(tmp_path / "final")]) == errno.ENOENT


def test_the_name_of_a_new_file_is_made_durable_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its data alone would be on the disk, and nothing that leads to it."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    files, path = Files(), tmp_path / "segment"
    path.write_bytes(b"m")
    for _ in range(2):
        assert carry_out("sync", [str(path)], files=files) == 0
    assert synced == [str(tmp_path.resolve())]


def test_a_file_by_the_same_name_is_another_file(tmp_path: Path):
    files, path = Files(), tmp_path / "queue"
    for content in ("old", "new"):
        path.unlink(missing_ok=True)
        path.write_text(content)
        assert carry_out("commit", [str(path), str(tmp_path / "state.db")], files=files) == 0
        assert str(path) not in files._open


def test_commits_change_rows(tmp_path: Path):
    path = str(tmp_path / "state.db")
    state_file = SqliteStateFile(path)
    assert state_file.load() is None
    changes = [(b"a", b"1"), (b"b", b"2" * 5000), (b"c", b"")]
    assert carry_out("commit", [path], encode_changes(changes)) == 0
    assert state_file.load() == dict(changes)
    assert carry_out("commit", [path], encode_changes([(b"a", None), (b"b", b"3"), (b"x", None)])) == 0
    assert state_file.load() == {b"b": b"3", b"c": b""}


def test_a_commit_without_room_changes_nothing(tmp_path: Path):
    path = str(tmp_path / "state.db")
    assert carry_out("commit", [path], encode_changes([(b"a", b"1")])) == 0
    state = State()
    state.commit(path, b"")
    assert state._connection is not None
    (pages,) = state._connection.execute("PRAGMA page_count").fetchone()
    state._connection.execute(f"PRAGMA max_page_count = {pages + 3}")
    much = encode_changes([(b"a", None), *((b"%d" % i, bytes(10_000)) for i in range(100))])
    assert sync_process.carry_out(Files(), state, "commit", [path], much) == NO_ROOM
    assert SqliteStateFile(path).load() == {b"a": b"1"}
    assert sync_process.carry_out(Files(), state, "commit", [path], encode_changes([(b"b", b"2")])) == 0
    state.close()
    assert SqliteStateFile(path).load() == {b"a": b"1", b"b": b"2"}


@cases("seed", range(60))
def test_a_corrupted_state_file_is_none_or_right(tmp_path: Path, seed: int):
    """Whatever bit is flipped: what is read is what was written, or nothing at all."""
    rng, path = Random(seed), tmp_path / f"state-{seed}.db"
    rows = {b"%d" % i: rng.randbytes(rng.randrange(200)) for i in range(300)}
    assert carry_out("commit", [str(path)], encode_changes(list(rows.items()))) == 0
    data = bytearray(path.read_bytes())
    for _ in range(5):
        corrupted = data.copy()
        if rng.random() < 0.2:
            del corrupted[rng.randrange(len(corrupted)) :]
        else:
            bit = rng.randrange(len(corrupted) * 8)
            corrupted[bit // 8] ^= 1 << bit % 8
        path.write_bytes(corrupted)
        assert SqliteStateFile(str(path)).load() in (None, rows)


def test_the_state_file_has_a_version(tmp_path: Path):
    path = str(tmp_path / "state.db")
    assert sync_process.STATE_VERSION == STATE_VERSION
    assert carry_out("commit", [path], encode_changes([(b"a", b"1")])) == 0
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (STATE_VERSION,)
    connection.execute(f"PRAGMA user_version = {STATE_VERSION + 1}")
    connection.commit()
    connection.close()
    assert SqliteStateFile(path).load() is None, "what cannot be understood is derived anew"


def test_a_parent_that_ended_before_its_answer_ends_it(tmp_path: Path):
    """Without a word: a killed broker's log is read for other reasons."""
    ours, theirs = socket.socketpair()
    text = f"sync\n{tmp_path}".encode()
    ours.sendall(struct.pack(">II", len(text) + 4, len(text)) + text)
    ours.close()
    with theirs:
        sync_process.serve(theirs)
