"""Iceberg's metadata after kills and conflicts, with what is swept, and in an uploader that meets a fault."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pytest

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.objects import TierError
from entrepot.broker.tiered.table import TopicTable
from tests.support.clock import ManualClock
from tests.support.seed import seeded
from tests.support.tiered.failing_objects import FailingObjects, Fault
from tests.tiered.iceberg.tables import GRACE_MS, HINT, ROOT, Site
from tests.tiered.uploads.test_uploader import Bench


class DyingStore(FolderStore):
    """A folder whose writer dies at its call number `dies_at` that changes something, before or after it."""

    calls, dies_at, is_done = 0, -1, False

    def _dies(self) -> bool:
        self.calls += 1
        return self.calls == self.dies_at

    def put_new(self, path: str, data: bytes) -> bool:
        dies = self._dies()
        if dies and not self.is_done:
            raise KeyboardInterrupt
        is_new = super().put_new(path, data)
        if dies:
            raise KeyboardInterrupt
        return is_new

    def replace(self, path: str, data: bytes) -> None:
        dies = self._dies()
        if dies and not self.is_done:
            raise KeyboardInterrupt
        super().replace(path, data)
        if dies:
            raise KeyboardInterrupt


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("step", range(1, 5))
def test_a_kill_at_any_step_leaves_a_readable_version(tmp_path: Path, step: int, is_done: bool) -> None:
    store = DyingStore(tmp_path / "cold store")
    site = Site(tmp_path, seeded(), store)
    site.upload()
    site.iceberg.follow(site.table)
    earlier = site.read()
    site.upload()
    store.calls, store.dies_at, store.is_done = 0, step, is_done
    with pytest.raises(KeyboardInterrupt):
        site.iceberg.follow(site.table)
    assert site.hint() == ("2" if step == 4 and is_done else "1")
    assert site.read().num_rows in (len(earlier), len(site.expected()))
    site.iceberg = site.follower()
    site.iceberg.follow(site.table)
    site.check()
    assert site.versions() == ["v1.metadata.json", "v2.metadata.json"]
    assert site.hint() == "2"


def test_of_two_writers_one_is_refused_and_goes_on_behind_the_other(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    site.upload()
    site.iceberg.follow(site.table)
    other, other_table = site.follower(), site.opened()
    site.upload()
    versions = other._versions
    original = versions.commit

    def late(version: int, data: bytes) -> None:
        versions.commit = original  # type: ignore[method-assign]
        site.iceberg.follow(site.table)
        original(version, data)

    versions.commit = late  # type: ignore[method-assign]
    with pytest.raises(TierError, match="another's"):
        other.follow(other_table)
    site.check()
    site.upload()
    assert other.follow(other_table)
    site.check()
    assert site.versions() == [f"v{number}.metadata.json" for number in (1, 2, 3)]


def test_a_writer_that_is_behind_does_not_lower_the_hint(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    for _ in range(2):
        site.upload()
        site.iceberg.follow(site.table)
    site.iceberg._versions.hint(1)
    assert site.hint() == "2"
    site.objects.delete([HINT])
    site.objects.put_new(HINT, b"7")  # as after a bucket's restore
    assert not site.follower().follow(site.table)
    assert site.hint() == "2"


def test_lost_answers_make_no_second_version() -> None:
    clock = ManualClock()
    objects = FailingObjects(clock)
    site = Site(Path("/unused"), seeded(), objects)
    site.upload()
    objects.plan = lambda call, path: Fault.AFTER if call == "put_new" and ".metadata.json" in path else Fault.NONE
    assert site.iceberg.follow(site.table)
    assert site.versions() == ["v1.metadata.json"] and site.hint() == "1"


@pytest.mark.parametrize("lost", ["-m0.avro", "snap-", "metadata.json", "hint", "everything"])
def test_what_is_lost_is_made_anew(tmp_path: Path, lost: str) -> None:
    site = Site(tmp_path, seeded())
    for _ in range(3):
        site.upload()
        site.iceberg.follow(site.table)
    prefix = f"{ROOT}/_iceberg/metadata/"
    gone = [name for name in site.names() if lost == "everything" or lost in name]
    assert gone
    site.objects.delete([prefix + name for name in gone])
    site.upload()
    follower = site.iceberg if lost == "everything" else site.follower()
    assert follower.follow(site.table)
    site.check()


def test_a_corrupted_manifest_and_metadata_are_made_anew(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    site.upload()
    site.iceberg.follow(site.table)
    for ending in ("-m0.avro", ".metadata.json"):
        for name in site.names():
            if name.endswith(ending):
                path = f"{ROOT}/_iceberg/metadata/{name}"
                data = site.objects.get(path)
                site.objects.delete([path])
                site.objects.put_new(path, data[: len(data) // 2])
        site.upload()
        assert site.follower().follow(site.table)
        site.check()


def test_vacuum_leaves_it_and_sweep_keeps_what_readers_have(tmp_path: Path) -> None:
    clock = ManualClock()
    site = Site(tmp_path, seeded(), FailingObjects(clock), clock)  # whose times are the clock's
    for _ in range(3):
        site.upload()
        site.iceberg.follow(site.table)
    before = site.names()
    site.clock.advance(GRACE_MS // 2)
    site.upload()
    site.iceberg.follow(site.table)
    assert site.iceberg.sweep(site.table) == 0
    site.clock.advance(GRACE_MS // 2 + 1000)
    assert site.iceberg.sweep(site.table) == 2, "the first two versions' files are the third's, too"
    assert set(before) - set(site.names()) == {"v1.metadata.json", "v2.metadata.json"}
    site.clock.advance(GRACE_MS)
    site.iceberg.sweep(site.table)
    assert site.versions() == ["v4.metadata.json"]
    assert len([name for name in site.names() if "-m" in name]) == 4
    site.objects.put_new(f"{ROOT}/metadata/orphan.avro", b"x")
    site.clock.advance(1)
    assert site.table.vacuum(0) == 1
    assert len([name for name in site.names() if "-m" in name]) == 4


def test_a_full_vacuum_by_delta_rs_leaves_it(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    site.upload()
    site.iceberg.follow(site.table)
    before = site.names()
    site.objects.put_new(f"{ROOT}/metadata/orphan.avro", b"x")
    deltalake.DeltaTable(f"{site.folder}/{ROOT}").vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True
    )
    assert not list(site.objects.objects(f"{ROOT}/metadata/")), "in that folder it would be lost"
    assert site.names() == before
    site.check()


def test_an_uploader_writes_it_and_a_fault_there_stops_no_upload() -> None:
    bench = Bench(iceberg=True)
    topic = bench.topic()
    bench.publish(topic, *[bench.clock.now_ms()] * 3)
    bench.upload()
    folder = f"{topic.root}/_iceberg/metadata/"
    assert bench.memory.get(folder + "version-hint.text") == b"1"
    bench.memory.plan = lambda call, path: Fault.BEFORE if "_iceberg" in path else Fault.NONE
    bench.publish(topic, *[bench.clock.now_ms()] * 2)
    bench.steady += 61.0
    bench.upload()
    bench.steady += 61.0
    bench.upload()
    told = bench.broker.progress[topic.root]
    assert told.ends == {0: 5} and not told.is_stuck
    assert told.problem.startswith("Iceberg's metadata is behind: ")
    bench.memory.plan = lambda call, path: Fault.NONE
    bench.steady += 61.0
    bench.upload()
    assert bench.broker.progress[topic.root].problem == ""
    assert bench.memory.get(folder + "version-hint.text") == b"2"


def test_without_the_setting_there_is_none() -> None:
    bench = Bench()
    topic = bench.topic()
    bench.publish(topic, bench.clock.now_ms())
    bench.upload()
    assert isinstance(bench.table(topic), TopicTable)
    assert not list(bench.memory.objects(f"{topic.root}/_iceberg"))


def test_old_snapshots_go_though_nothing_is_added(tmp_path: Path) -> None:
    """Their files may be deleted: none is listed for longer than these stay."""
    site = Site(tmp_path, seeded())
    for _ in range(3):
        site.upload()
        site.iceberg.follow(site.table)
    site.clock.advance(GRACE_MS)
    assert site.iceberg.follow(site.table) and not site.iceberg.follow(site.table)
    assert len(json.loads(newest_metadata(tmp_path))["snapshots"]) == 1
    site.check()


def test_time_goes_on_in_the_metadata_whatever_the_clock_says(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    site.upload()
    site.iceberg.follow(site.table)
    site.clock.advance(-300_000)
    site.upload()
    site.iceberg.follow(site.table)
    times = [each["timestamp-ms"] for each in json.loads(newest_metadata(tmp_path))["snapshot-log"]]
    assert times == sorted(times) and len(set(times)) == 2


def newest_metadata(folder: Path) -> bytes:
    found = max(folder.rglob("v*.metadata.json"), key=lambda path: int(path.name[1:].partition(".")[0]))
    return found.read_bytes()
