"""The snippets of docs/tiered.md run as they stand, over bodies that are no text, no JSON, or nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from deltalake import DeltaTable

from entrepot.domain.message import Message
from tests.support.clock import ManualClock
from tests.support.stores.steps import append_all
from tests.support.tiered.cold_topics import TOPIC, opened, root, uploaded
from tests.support.waiting import until

PAGE = (Path(__file__).parents[2] / "docs" / "tiered.md").read_text()
BODIES = (b'{"celsius": 20}', b"\xff\xfe", b"no json", b'\xff{"celsius": 99}', b"", b"[1]", b'{"celsius": 22}')


async def test_icebergs_reads_what_a_broker_with_that_setting_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with opened(tmp_path, ManualClock(), iceberg=True) as store:
        await store.topology.put_topic(TOPIC)
        folder = tmp_path / "cold" / root(store) / "_iceberg"
        await until(lambda: (folder / "metadata" / "version-hint.text").exists(), "the metadata is there")
    [snippet] = re.findall(r"```python\n(from pyiceberg.*?)```", PAGE, re.DOTALL)
    exec(re.sub(r'"/var/[^"]*"', repr(str(folder)), snippet))  # noqa: S102 - the page itself
    assert "queue_offset: int64" in capsys.readouterr().out


async def test_they_read_odd_bodies_as_no_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    async with opened(tmp_path, clock) as store:
        await store.topology.put_topic(TOPIC)
        messages = [Message("factory", body, "factory/line1", queue_id=0) for body in BODIES]
        assert await append_all(store, *messages) == [None] * len(BODIES)
        await until(lambda: uploaded(store).get(0) == len(BODIES), "the table has them")
        path = str(tmp_path / "cold" / root(store))
    [snippet] = re.findall(r"```python\n(import duckdb.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(re.sub(r'^path = "[^"]*"', f"path = {path!r}", snippet, flags=re.MULTILINE), names)  # noqa: S102 - the page itself
    printed = capsys.readouterr().out
    assert "celsius" in printed or "body" in printed
    found = polars.scan_delta(path).sort("queue_offset").select(names["celsius"]).collect().to_series().to_list()
    assert found == ["20", None, None, None, None, None, "22"]
    assert list(names["frame"]["text"])[1] == "��"
    [expression] = re.findall(r"select sub_topic, (avg\(.*\)) as celsius", PAGE)
    cold = DeltaTable(path).to_pyarrow_dataset()  # noqa: F841 - by its name, as in the page
    assert duckdb.sql(f"select {expression} from cold").fetchall() == [(21.0,)]
