"""A broker whose tier is at another's S3 server: what the disk has let go of is there, for us and for delta-rs.

The contract of object stores and the probe run over these servers, too: `store` in `conftest.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.support.clock import ManualClock
from tests.support.cold_topics import COUNT, QUEUES, all_of, filled, known, opened, root
from tests.support.s3_servers import KEYS, REGION, S3Server
from tests.support.waiting import until

pytestmark = pytest.mark.interop


@pytest.fixture(params=["versitygw", "seaweedfs"])
def other(request: pytest.FixtureRequest, keys: None) -> S3Server:
    found: S3Server = request.getfixturevalue(request.param)
    return found


async def test_what_is_cold_is_read_back(tmp_path: Path, other: S3Server) -> None:
    clock, url = ManualClock(), other.new_url()
    async with opened(tmp_path, clock, url, options=other.options) as store:
        before = await filled(store, clock)
        await until(lambda: store.cleaner.deleted_segments > 0, "files of the log are deleted")
        assert {queue_id: await all_of(store, queue_id) for queue_id in before} == before
        assert [len(each) for each in before.values()] == [COUNT] * QUEUES
    async with opened(tmp_path, clock, url, options=other.options) as store:
        await known(store)
        assert {queue_id: await all_of(store, queue_id) for queue_id in before} == before
        asked = {**KEYS, "AWS_ENDPOINT_URL": other.endpoint, "AWS_REGION": REGION, "AWS_ALLOW_HTTP": "true"}
        table = DeltaTable(f"{url}/{root(store)}", storage_options=asked)
        assert table.to_pyarrow_table(columns=["queue_id"]).num_rows == COUNT * QUEUES
