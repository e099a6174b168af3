"""A broker whose tier is at another's S3 server: what the disk has let go of is there, for us and for delta-rs.

The contract of object stores and the probe run over these servers, too: `store` in `conftest.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.clock import ManualClock
from tests.support.tiered.cold_topics import COUNT, QUEUES, all_of, filled, known, opened, root
from tests.support.tiered.s3_servers import KEYS, REGION, S3Server
from tests.support.waiting import until

pytestmark = pytest.mark.interop


@pytest.fixture(params=["versitygw", "seaweedfs"])
def other(request: pytest.FixtureRequest, keys: None) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


async def test_what_is_cold_is_read_back(tmp_path: Path, other: S3Server) -> None:
    clock, url = ManualClock(), other.new_url()
    async with opened(tmp_path, clock, url, options=other.options, iceberg=True) as store:
        before = await filled(store, clock)
        await until(lambda: store.cleaner.deleted_segments > 0, "files of the log are deleted")
        assert {queue_id: await all_of(store, queue_id) for queue_id in before} == before
        assert [len(each) for each in before.values()] == [COUNT] * QUEUES
    async with opened(tmp_path, clock, url, options=other.options, iceberg=True) as store:
        await known(store)
        assert {queue_id: await all_of(store, queue_id) for queue_id in before} == before
        asked = {**KEYS, "AWS_ENDPOINT_URL": other.endpoint, "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true"}
        table = DeltaTable(f"{url}/{root(store)}", storage_options=asked)
        assert table.to_pyarrow_table(columns=["queue_id"]).num_rows == COUNT * QUEUES
        places = [(queue_id, offset) for queue_id in range(QUEUES) for offset in range(COUNT)]
        await until(lambda: iceberg_places(f"{url}/{root(store)}", other) == places, "Iceberg's metadata name all rows")


def iceberg_places(table: str, server: S3Server) -> list[tuple[int, int]]:
    """The queues and offsets that pyiceberg reads, by the hint alone."""
    from pyiceberg.table import StaticTable

    properties = {
        "s3.endpoint": server.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": KEYS["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": KEYS["AWS_SECRET_ACCESS_KEY"],
    }
    found = StaticTable.from_metadata(f"{table}/_iceberg", properties).scan(
        selected_fields=("queue_id", "queue_offset")
    )
    columns = found.to_arrow().to_pydict()
    return sorted(zip(columns["queue_id"], columns["queue_offset"], strict=True))
