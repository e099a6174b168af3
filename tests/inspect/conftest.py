"""A store with a bit of everything, ended cleanly and killed; small sizes, so that rows with entries and queue files
are met."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.broker.inspect import state_rows
from entrepot.broker.store import consume_queue
from entrepot.broker.store.carried_entries import ENTRY_SIZE
from tests.inspect import full_store

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True, scope="session")
def short_tails() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "ROW_TAIL_BYTES", 3 * ENTRY_SIZE)
        yield


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("clean") / "data"
    asyncio.run(full_store.make(directory))
    return directory


@pytest.fixture(scope="session")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("killed") / "data"
    command = [sys.executable, "-m", "tests.inspect.full_store", str(directory)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert "filled\n" in iter(child.stdout.readline, "")
        child.send_signal(signal.SIGKILL)
    state_rows.wait_for_writer(str(directory / "state.db"))
    return directory


@pytest.fixture
def directory(clean: Path, tmp_path: Path) -> Path:
    """A copy to be corrupted."""
    return Path(shutil.copytree(clean, tmp_path / "data"))
