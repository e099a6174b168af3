"""pyiceberg reads what delta-rs reads: after uploads, merging, expiry and new columns, with filters, and of old."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from entrepot.broker.tiered import merging
from entrepot.broker.tiered.iceberg import iceberg_table
from entrepot.broker.tiered.iceberg.metadata import MAX_SNAPSHOTS
from tests.support.seed import seeded
from tests.tiered.iceberg.tables import Site


def test_uploads_merging_and_expiry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = seeded()
    monkeypatch.setattr(merging, "LEAST_SEGMENTS", 3)
    monkeypatch.setattr(iceberg_table, "MAX_SMALL", 3)
    monkeypatch.setattr(iceberg_table, "MANIFEST_FILES", 4)
    site = Site(tmp_path, chance)
    assert site.iceberg.follow(site.table) and not site.iceberg.follow(site.table)
    site.check()
    seen = set()
    for turn in range(10):
        step = chance.choice(("upload", "upload", "merge", "expire", "restart")) if turn > 3 else "upload"
        seen.add(step)
        match step:
            case "upload":
                for _ in range(chance.randint(1, 6)):
                    site.upload(chance.randint(1, 4))
            case "merge":
                merging.merge(site.table, site.objects, site.clock.now_ms())
            case "expire":
                site.table.expire(site.clock.now_ms() - chance.randint(0, 40))
            case _:
                site.table, site.iceberg = site.opened(), site.follower()
        site.iceberg.follow(site.table)
        site.check()
    assert len(seen) > 1


def test_appends_are_appends_and_keep_the_manifests(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    for number in range(1, 6):
        site.upload()
        assert site.follower().follow(site.table), "another process goes on where the last one ended"
        snapshot = site.static().current_snapshot()
        assert snapshot is not None and snapshot.summary is not None
        assert snapshot.summary.operation.value == "append" and snapshot.summary["added-data-files"] == "1"
        assert snapshot.summary["entrepot.delta-version"] == str(site.table.snapshot.version)
        manifests = snapshot.manifests(PyArrowFileIO())
        assert len(manifests) == number
    assert len([name for name in site.names() if "-m" in name]) == 5


def test_filters_lose_no_rows_and_leave_out_files(tmp_path: Path) -> None:
    site = Site(tmp_path, chance := seeded())
    for _ in range(6):
        site.upload(5)
    site.iceberg.follow(site.table)
    everything = site.expected()
    for _ in range(12):
        row = everything.slice(chance.randrange(len(everything)), 1).to_pylist()[0]
        time, number = row["store_time"].isoformat(), row["message_id"]
        for text, mask in (
            (f"store_time >= '{time}'", pc.greater_equal(everything["store_time"], row["store_time"])),
            (f"store_time < '{time}'", pc.less(everything["store_time"], row["store_time"])),
            (f"store_time = '{time}'", pc.equal(everything["store_time"], row["store_time"])),
            (f"message_id = '{number}'", pc.equal(everything["message_id"], number)),
            (f"queue_offset > {row['queue_offset']}", pc.greater(everything["queue_offset"], row["queue_offset"])),
        ):
            found = site.read(row_filter=text)
            wanted = everything.filter(mask)
            assert found.cast(wanted.schema).equals(wanted), text
    newest = everything["store_time"].to_pylist()
    late = f"store_time >= '{max(newest).isoformat()}'"
    assert len(list(site.static().scan(row_filter=late).plan_files())) == 1, "bounds leave out the others"


def test_a_new_column_keeps_the_numbers_of_the_others(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    site.upload(body=b'{"celsius": 1.5}', with_columns=True)
    site.iceberg.follow(site.table)
    before = {field.name: field.field_id for field in site.static().schema().fields}
    old = site.static().current_snapshot()
    site.upload(body=b'{"celsius": 2.5, "n": 7, "ok": true, "s": "t"}', with_columns=True)
    site.follower().follow(site.table)
    site.check()
    schema = site.static().schema()
    after = {field.name: field.field_id for field in schema.fields}
    assert before.items() < after.items() and {"json_n", "json_ok", "json_s"} == after.keys() - before.keys()
    numbers = list(schema._lazy_id_to_field)
    assert len(numbers) == len(set(numbers)) and min(after[name] for name in after.keys() - before.keys()) > max(
        number for number in numbers if number not in {after[name] for name in after.keys() - before.keys()}
    )
    assert site.read(row_filter="json_n = 7")["json_celsius"].to_pylist() == [2.5] * 6
    assert old is not None
    assert "json_n" not in site.read(snapshot_id=old.snapshot_id).column_names


def test_one_may_go_back_to_the_last_few_snapshots(tmp_path: Path) -> None:
    site = Site(tmp_path, seeded())
    rows = {}
    for _ in range(MAX_SNAPSHOTS + 3):
        site.upload(1)
        site.iceberg.follow(site.table)
        current = site.static().current_snapshot()
        assert current is not None
        rows[current.snapshot_id] = sum(site.ends.values())
    kept = [each.snapshot_id for each in site.static().snapshots()]
    assert kept == list(rows)[-MAX_SNAPSHOTS:]
    for snapshot_id in kept[::4]:
        assert len(site.read(snapshot_id=snapshot_id)) == rows[snapshot_id]
