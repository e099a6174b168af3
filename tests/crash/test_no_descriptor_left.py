"""A process without a descriptor left: the store goes on with its spare ones, then has no room, and then goes on."""

from __future__ import annotations

import errno
import subprocess
import sys
import textwrap

import pytest

from entrepot.broker.store.open_files import OpenFiles
from entrepot.broker.store.spare_descriptors import SPARES, SpareDescriptors
from entrepot.domain.errors import StorageFullError
from tests.crash.test_failing_disk import no_fault
from tests.simulation.disk import SimulatedDisk
from tests.support.stores.simulated_store import SimulatedStore, World

FILLED = textwrap.dedent(
    """
    import asyncio, errno, os, resource, sys
    from pathlib import Path

    from entrepot.broker.broker import Broker
    from entrepot.broker.settings.store import BrokerSettings
    from entrepot.broker.store.log_reading import CommitLogLayout
    from entrepot.domain.errors import Code, EntrepotError
    from entrepot.domain.key_value import KeyValueChange
    from entrepot.gateway.clock import SystemClock

    SEGMENT = 1 << 20
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))


    def take_all():
        taken = []
        while True:
            try:
                taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError as error:
                assert error.errno == errno.EMFILE
                return taken


    async def main(path, spares):
        settings = BrokerSettings(Path(path), layout=CommitLogLayout(SEGMENT, SEGMENT, 0))
        broker = await Broker.open(settings, SystemClock())
        written = 0

        async def write():
            nonlocal written
            await broker.key_values.write([KeyValueChange(f"k{written}", bytes(300_000))])
            written += 1

        await write()
        taken = take_all()
        try:
            while written < 1000:
                await write()
        except EntrepotError as error:
            assert error.code is Code.STORAGE_FULL and "ulimit" in error.message, error
        assert written >= 3 * spares, written
        for _ in range(3):
            try:
                await write()
                raise SystemExit("there is no descriptor for it")
            except EntrepotError as error:
                assert error.code is Code.STORAGE_FULL
        assert broker.condition.failure is None
        for each in taken:
            os.close(each)
        segments = len(os.listdir(Path(path) / "commitlog"))
        for _ in range(10):
            await write()
        assert len(os.listdir(Path(path) / "commitlog")) > segments
        await broker.close()
        again = await Broker.open(settings, SystemClock())
        assert len(await again.key_values.scan("k")) == written
        await again.close()


    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
    """
)


def test_a_process_whose_descriptors_others_hold_goes_on_with_the_spare_ones(tmp_path):
    command = [sys.executable, "-c", FILLED, str(tmp_path / "store"), str(SPARES - 8)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_the_log_s_next_file_is_room(number):
    """Messages are refused while it cannot be opened, and nothing that was confirmed is lost."""

    def fault(operation: str, path: str) -> OSError | None:
        return OSError(number, "no descriptor") if operation == "open" and "/commitlog/" in path else None

    disk, world = SimulatedDisk(), World()
    store = SimulatedStore(disk, world)
    store.put_topic("t", 1)
    store.answer()
    disk.fault = fault
    while not store.refused:
        store.append("t", count=3, size=1000)
        store.answer()
    with pytest.raises(StorageFullError, match="ulimit"):  # noqa: PT012
        for _ in range(1000):
            store.pop("t", count=1, invisible_ms=1)
            store.answer()
            world.clock.advance(10)
    disk.fault = no_fault
    before = len(world.history.confirmed)
    store.append("t", count=3, size=1000)
    store.answer()
    assert len(world.history.confirmed) == before + 3
    store.drain()
    assert store.check(drained_by=["g"]).is_clean


def test_files_of_queues_take_the_place_of_each_other():
    disk = SimulatedDisk()
    files = OpenFiles(disk, "/data")
    for name in "abc":
        files.write(f"/data/q/{name}", name.encode(), 0)
    left = [errno.EMFILE] * 2

    def fault(operation: str, path: str) -> OSError | None:
        return OSError(left.pop(), "no descriptor") if operation == "open" and left else None

    disk.fault = fault
    files.write("/data/q/d", b"d", 0)
    assert [files.read(f"/data/q/{name}", 1, 0) for name in "abcd"] == [b"a", b"b", b"c", b"d"]
    left.extend([errno.EIO])
    with pytest.raises(OSError, match="no descriptor") as raised:
        files.write("/data/q/e", b"e", 0)
    assert raised.value.errno == errno.EIO
    left.extend([errno.EMFILE] * 9)
    with pytest.raises(OSError, match="no descriptor"):
        files.write("/data/q/e", b"e", 0)


def test_another_error_costs_no_spare(tmp_path):
    spare = SpareDescriptors(2)
    with pytest.raises(FileNotFoundError):
        spare.open(str(tmp_path / "none" / "f"), 0, 0o600)
    assert spare._held == []
