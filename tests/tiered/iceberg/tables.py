"""A table with Iceberg's metadata, and what pyiceberg and delta-rs read of it."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import deltalake
import pyarrow as pa
from pyiceberg.table import StaticTable

from entrepot.broker.tiered.columns import SCHEMA
from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.iceberg.iceberg_table import IcebergTable
from entrepot.broker.tiered.json_columns import JsonColumns
from entrepot.broker.tiered.objects import MissingObjectError, ObjectStore
from entrepot.broker.tiered.table import TopicTable, root_of
from entrepot.domain.message import StoredMessage
from tests.support.clock import ManualClock
from tests.support.tiered.rows import rows_of

ROOT = root_of("lab/fac tory", "store", 7)
GRACE_MS = 3_600_000
HINT = f"{ROOT}/_iceberg/metadata/version-hint.text"
ORDER = [("queue_id", "ascending"), ("queue_offset", "ascending")]


class Site:
    """A table in a folder, whose path has a blank, and its Iceberg metadata."""

    def __init__(
        self, folder: Path, chance: Random, objects: ObjectStore | None = None, clock: ManualClock | None = None
    ) -> None:
        self.folder, self.chance, self.clock = folder / "cold store", chance, clock or ManualClock()
        self.objects = FolderStore(self.folder) if objects is None else objects
        self.ends = {0: 0, 1: 0}
        self._turns = count()
        self._json = JsonColumns()
        self.table = self.opened()
        self.iceberg = self.follower()

    def opened(self) -> TopicTable:
        table = TopicTable(self.objects, ROOT, self.clock, Random(next(self._turns)))
        assert table.open(create=True)
        return table

    def follower(self) -> IcebergTable:
        return IcebergTable(self.objects, ROOT, self.clock, Random(next(self._turns) + 1000), GRACE_MS)

    def upload(self, rows: int = 3, body: bytes = b"x", *, with_columns: bool = False) -> None:
        """So many messages to each queue; a millisecond passes for each."""
        messages = []
        for queue in self.ends:
            for _ in range(rows):
                at = self.ends[queue]
                self.ends[queue] += 1
                self.clock.advance(1)
                messages.append(
                    StoredMessage(
                        "t",
                        body,
                        queue_id=queue,
                        message_id=b"%02d/%06d" % (queue, at),
                        queue_offset=at,
                        keys=("k", "l")[: at % 3],
                        properties=(("unit", "C"), ("raw", b"\xff")),
                        store_time_ms=self.clock.now_ms(),
                    )
                )
        made, schema = rows_of(messages), None
        if with_columns:
            made, schema = self._json.typed(made, self.table.schema)
        self.table.upload(made, {each: self.table.progress(each) for each in self.ends}, dict(self.ends), schema)

    def read(self, **scan: Any) -> pa.Table:
        """The rows that pyiceberg reads, in order."""
        return self.static().scan(**scan).to_arrow().sort_by(ORDER)

    def static(self) -> StaticTable:
        return StaticTable.from_metadata(f"{self.folder}/{ROOT}/_iceberg")

    def expected(self) -> pa.Table:
        """The rows that delta-rs reads, in order."""
        return deltalake.DeltaTable(f"{self.folder}/{ROOT}").to_pyarrow_table().sort_by(ORDER)

    def check(self) -> None:
        """Both formats have the same rows, and Iceberg's summary their number."""
        expected = self.expected()
        found = self.read()
        assert found.column_names == expected.column_names
        assert found.cast(expected.schema).equals(expected)
        current = self.static().current_snapshot()
        assert current is not None and current.summary is not None
        assert current.summary["total-records"] == str(len(expected))
        assert set(SCHEMA.names) <= set(found.column_names)

    def versions(self) -> list[str]:
        return sorted(each for each in self.names() if each.endswith(".json"))

    def names(self) -> list[str]:
        prefix = f"{ROOT}/_iceberg/metadata/"
        return [each.path.removeprefix(prefix) for each in self.objects.objects(prefix)]

    def hint(self) -> str | None:
        try:
            return self.objects.get(HINT).decode()
        except MissingObjectError:
            return None
