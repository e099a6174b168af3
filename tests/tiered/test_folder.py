"""A folder as an object store: durable on return, whole or not there, and clear about what is wrong with it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from entrepot.broker.tiered.folder import MAX_TRIES, TEMPORARY, FolderStore
from entrepot.broker.tiered.objects import MissingObjectError, TierError
from tests.support.cases import cases


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a" / "tier"


@pytest.fixture
def store(folder: Path) -> FolderStore:
    return FolderStore(folder)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to files, in order: ("fsync", path), ("link", path)."""
    seen: list[tuple[str, str]] = []
    fsync, link = os.fsync, os.link

    def counted_sync(descriptor: int) -> None:
        fsync(descriptor)
        seen.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))

    def counted_link(source: str, target: str) -> None:
        link(source, target)
        seen.append(("link", target))

    monkeypatch.setattr(os, "fsync", counted_sync)
    monkeypatch.setattr(os, "link", counted_link)
    return seen


def fails(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, fail)


def test_an_object_is_durable_before_put_new_returns(
    store: FolderStore, folder: Path, calls: list[tuple[str, str]]
) -> None:
    """The file before it has its name; then the directory that names it, and each above: it may be new as well."""
    assert store.put_new("t/log/0.json", b"x")
    (kind, temporary), *rest = calls
    assert kind == "fsync" and temporary.startswith(f"{folder}/{TEMPORARY}/")
    assert rest == [
        ("link", f"{folder}/t/log/0.json"),
        ("fsync", f"{folder}/t/log"),
        ("fsync", f"{folder}/t"),
        ("fsync", str(folder)),
    ]


def test_what_another_writer_has_put_is_durable_too(
    store: FolderStore, folder: Path, calls: list[tuple[str, str]]
) -> None:
    """It may have died between its link and its sync, and who is told "there is one" relies on it."""
    (folder / "t").mkdir()
    (folder / "t" / "0").write_bytes(b"theirs")
    assert not store.put_new("t/0", b"mine")
    assert calls[1:] == [("fsync", f"{folder}/t"), ("fsync", str(folder))]


def test_a_new_folder_is_durable(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    FolderStore(tmp_path / "x" / "y")
    assert calls == [("fsync", str(tmp_path)), ("fsync", str(tmp_path / "x"))]
    calls.clear()
    FolderStore(tmp_path / "x" / "y")
    assert calls == []


def test_a_delete_is_durable(store: FolderStore, folder: Path, calls: list[tuple[str, str]]) -> None:
    for path in ("a/b/1", "a/2", "c/1"):
        store.put_new(path, b"")
    calls.clear()
    store.delete(["a/b/1", "c/1"])
    assert sorted(calls) == [("fsync", str(folder)), ("fsync", f"{folder}/a")]
    assert not (folder / "a" / "b").exists() and not (folder / "c").exists()


FAULTS = [
    ("write", errno.ENOSPC, "the disk is full: make room"),
    ("fsync", errno.EIO, "the disk is broken"),
    ("open", errno.EACCES, "no permission: give the folder to the user"),
    ("open", errno.EROFS, "mounted read-only"),
    ("open", errno.EMFILE, "too many files are open"),
    ("link", errno.EPERM, "has no hard links"),
    ("link", errno.EDQUOT, "quota"),
    ("mkdir", errno.ENOSPC, "the disk is full"),
]


@pytest.mark.parametrize(("call", "number", "said"), FAULTS)
def test_what_is_wrong_is_said(
    store: FolderStore, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int, said: str
) -> None:
    store.put_new("here", b"x")
    with monkeypatch.context() as patch:
        fails(patch, call, number)
        with pytest.raises(TierError, match=said) as raised:
            store.put_new("new/x", b"y")
    assert str(raised.value).startswith(store.url)
    assert list((folder / TEMPORARY).iterdir()) == []
    assert [each.path for each in store.objects("")] == ["here"]
    assert store.put_new("new/x", b"y")


@cases("call", [lambda s: s.get("a"), lambda s: s.size("a"), lambda s: s.get_ranges("a", [(0, 1)])])
def test_reading_without_permission(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, call: Callable[[FolderStore], object]
) -> None:
    with monkeypatch.context() as patch:
        fails(patch, "open", errno.EACCES)
        with pytest.raises(TierError, match="no permission"):
            call(store)


def test_a_folder_that_is_gone_is_no_empty_store(store: FolderStore, folder: Path) -> None:
    """Its disk is not mounted: nothing is missing, and nothing may be written beside it."""
    folder.rename(folder.with_name("elsewhere"))
    for call in (
        lambda: store.put_new("a", b""),
        lambda: store.get("a"),
        lambda: store.size("a"),
        lambda: list(store.objects("")),
        lambda: store.delete(["a"]),
    ):
        with pytest.raises(TierError, match="is gone: mount its disk") as raised:
            call()
        assert not isinstance(raised.value, MissingObjectError)
    assert not folder.exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "file", tmp_path / "file" / "x", Path("/proc/nobody/x")):
        with pytest.raises(TierError, match="cannot be made: "):
            FolderStore(path)


def test_files_in_the_making_are_no_objects(store: FolderStore, folder: Path) -> None:
    store.put_new("a", b"")
    (folder / TEMPORARY / "half").write_bytes(b"ha")
    assert [each.path for each in store.objects("")] == ["a"]
    assert list(store.objects(TEMPORARY)) == []
    for call in (lambda: store.get(f"{TEMPORARY}/half"), lambda: store.put_new(f"{TEMPORARY}/x", b"")):
        with pytest.raises(TierError, match="files in the making"):
            call()


def test_links_and_directories_are_no_objects(store: FolderStore, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "out").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "directory").mkdir()
    assert list(store.objects("")) == []
    for path in ("pipe", "directory"):
        with pytest.raises(MissingObjectError):
            store.get(path)
    for path in ("link", "out/secret"):
        with pytest.raises(TierError, match="symbolic link, and may leave the folder"):
            store.get(path)
    with pytest.raises(TierError, match="symbolic link, and may leave the folder"):
        store.put_new("out/new", b"x")
    assert not (tmp_path / "new").exists()


def test_an_object_has_no_objects_below_it(store: FolderStore) -> None:
    store.put_new("a/b", b"")
    for path in ("a", "a/b/c", "a/b/c/d"):
        with pytest.raises(TierError, match="an object has the name of a directory"):
            store.put_new(path, b"")


DYING = """
import os, sys
from pathlib import Path
from entrepot.broker.tiered.folder import FolderStore
setattr(os, sys.argv[2], lambda *_: os._exit(9))
FolderStore(Path(sys.argv[1])).put_new("t/0", b"whole")
"""


@pytest.mark.parametrize(("call", "is_there"), [("fsync", False), ("link", False), ("unlink", True)])
def test_a_writer_that_dies(folder: Path, store: FolderStore, call: str, is_there: bool) -> None:
    """The object is whole or not there, and what it left is swept by the next that opens the folder."""
    done = subprocess.run([sys.executable, "-c", DYING, str(folder), call], check=False, capture_output=True)
    assert done.returncode == 9, done.stderr
    assert len(list((folder / TEMPORARY).iterdir())) == 1
    again = FolderStore(folder)
    assert list((folder / TEMPORARY).iterdir()) == []
    assert [each.path for each in again.objects("")] == (["t/0"] if is_there else [])
    assert again.put_new("t/0", b"whole") is not is_there
    assert again.get("t/0") == b"whole"


def test_the_sweep_leaves_a_file_that_is_being_written(store: FolderStore, folder: Path) -> None:
    store.put_new("a", b"")
    held = os.open(folder / TEMPORARY / "held", os.O_WRONLY | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    (folder / TEMPORARY / "left").write_bytes(b"")
    FolderStore(folder)
    assert os.listdir(folder / TEMPORARY) == ["held"]
    os.close(held)


@pytest.mark.parametrize("moment", ["open", "fsync", "link"])
def test_a_sweep_at_any_moment_of_a_put(
    store: FolderStore, folder: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Another process opens the folder while a file is there and not locked yet, and while it is written."""
    true_call = getattr(os, moment)
    swept: list[list[str]] = []

    def then_sweep(*given: object) -> object:
        result = true_call(*given)
        if not swept and (made := os.listdir(folder / TEMPORARY)):
            swept.append(made)
            FolderStore(folder)
        return result

    (folder / TEMPORARY).mkdir()
    monkeypatch.setattr(os, moment, then_sweep)
    assert store.put_new("a", b"x") and store.get("a") == b"x"
    assert len(swept) == 1 and os.listdir(folder / TEMPORARY) == []


def test_a_directory_that_a_delete_takes_meanwhile(
    store: FolderStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link
    turns: list[int] = []

    def late(source: str, target: str) -> None:
        turns.append(1)
        if len(turns) < limit:
            os.rmdir(os.path.dirname(target))
        link(source, target)

    limit = 4
    monkeypatch.setattr(os, "link", late)
    assert store.put_new("a/b", b"x") and len(turns) == limit
    limit = 1000
    turns.clear()
    with pytest.raises(TierError, match="was removed"):
        store.put_new("c/d", b"x")
    assert len(turns) == MAX_TRIES


def test_names_that_are_no_text_are_not_listed(store: FolderStore, folder: Path) -> None:
    store.put_new("a", b"")
    with open(os.fsencode(folder) + b"/\xff", "wb"):
        pass
    assert [each.path for each in store.objects("")] == ["a"]
