"""Merging of a batch's results into a Delta table, once."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import write_deltalake

from entrepot.spark_ingest.tables.delta import DeltaTableFiles


def merge_once(
    path: str,
    rows: pa.Table,
    app: str,
    batch: int,
    *,
    match: str,
    update: Mapping[str, str],
    when: str | None = None,
    otherwise: Mapping[str, str] | None = None,
) -> None:
    """Update the rows that `match` (`s` is new, `t` the table) and insert the others; nothing if the batch is in it.
    `update` is for matched rows that fulfil `when`; `otherwise` is for the rest of them."""
    table, properties = DeltaTableFiles(path).at_batch(rows.schema, app, batch)
    if properties is None or not rows.num_rows:
        return
    merger = table.merge(
        rows, match, source_alias="s", target_alias="t", commit_properties=properties
    ).when_matched_update(dict(update), predicate=when)
    if otherwise is not None:
        merger = merger.when_matched_update(dict(otherwise))
    merger.when_not_matched_insert({name: f"s.`{name}`" for name in rows.schema.names}).execute()


def append_once(path: str, rows: pa.Table, app: str, batch: int) -> None:
    """Append rows; nothing if the batch is in the table."""
    table, properties = DeltaTableFiles(path).at_batch(rows.schema, app, batch)
    if properties is not None:
        write_deltalake(table, rows, mode="append", commit_properties=properties)
