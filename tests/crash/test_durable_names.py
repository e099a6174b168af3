"""Names that the product makes: what is durable behind them is lost with them, unless they are durable, too."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from entrepot.broker.controller.directory import ControllerDirectory
from entrepot.broker.raft.files import OsDirectory
from entrepot.broker.store.small_files import put_durably
from entrepot.broker.store.store_files import DirectoryLock
from entrepot.broker.tiered.folder import FolderStore
from tests.support.brokers.forgetful_disk import ForgetfulDisk, usable_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[ForgetfulDisk]:
    with usable_disk(tmp_path / "disk") as made:
        yield made


def of_a_store(directory: Path) -> None:
    DirectoryLock(str(directory)).release()


def of_a_controller(directory: Path) -> None:
    ControllerDirectory(directory, 1).close()


def of_a_raft_member(directory: Path) -> None:
    OsDirectory(directory)


def of_a_table(directory: Path) -> None:
    FolderStore(directory)


MAKERS: Final = [of_a_store, of_a_controller, of_a_raft_member, of_a_table]


@pytest.mark.parametrize("make", MAKERS)
def test_names_of_new_directories_are_durable(disk: ForgetfulDisk, make: Callable[[Path], None]) -> None:
    directory = disk.place / "srv" / "entrepot" / "data"
    make(directory)
    put_durably(directory / "file", b"kept")
    disk.cut_power()
    assert (directory / "file").read_bytes() == b"kept"


def test_a_file_outlives_a_draft_that_is_another_name_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a rename leaves them of which a power loss kept one half."""

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "the power is gone")

    file = tmp_path / "replica.json"
    put_durably(file, b"1")
    os.link(file, tmp_path / "replica.json.draft")
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="the power is gone"):
            put_durably(file, b"2")
    assert file.read_bytes() == b"1"
    put_durably(file, b"3")
    assert file.read_bytes() == b"3"
