"""A data directory is for its user alone, from the first moment, and an older one is closed at start."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from entrepot.broker.store import private_files
from entrepot.broker.store.disk import OsDisk
from entrepot.broker.store.private_files import tighten
from entrepot.broker.store.store_files import NAMES


@pytest.fixture(autouse=True)
def wide_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def wide(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(name)


def test_what_the_engine_makes_is_private_whatever_the_umask(tmp_path: Path) -> None:
    disk, nested = OsDisk(), tmp_path / "a" / "b" / "c"
    for _ in range(2):
        disk.make_directory(str(nested))
    disk.close(disk.open(str(nested / "file")))
    assert [mode(path) for path in (nested, nested.parent, nested.parent.parent)] == [0o700] * 3
    assert mode(nested / "file") == 0o600
    with pytest.raises(FileExistsError):
        disk.make_directory(str(nested / "file"))


def test_an_older_directory_is_closed_once(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    wide(elsewhere, "kept")
    wide(root, "store.json", "state.db-wal", "broker.json.draft", "notes.txt")
    wide(root / "consumequeue" / "t" / "0", "x")
    (root / "commitlog").symlink_to(elsewhere)
    found = tighten(str(root), NAMES)
    assert (found.changed, found.failed) == (3 + 4 + 1, 0)
    closed = ["", "store.json", "state.db-wal", "broker.json.draft", "consumequeue/t/0/x", "consumequeue/t"]
    assert [mode(root / each) & 0o077 for each in closed] == [0] * len(closed)
    assert mode(root / "notes.txt") == 0o666 and mode(elsewhere) == 0o777  # not ours; not followed
    assert tighten(str(root), NAMES).changed == 0


def test_what_cannot_be_closed_is_told_and_not_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide(tmp_path / "data", "store.json", "abort", "lock", "state.db")

    def refuse(path: str, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    found = tighten(str(tmp_path / "data"), NAMES)
    assert (found.changed, found.failed, len(found.problems)) == (0, 5, private_files.MAX_TOLD)
    assert "Operation not permitted" in found.problems[0]


def test_a_directory_for_everybody_is_left_to_everybody(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    found = tighten(str(shared), NAMES)
    assert mode(shared) == 0o1777 and "sticky" in found.problems[0]
