"""A program that reads one table again and again, until its standard input ends, and tells of each read.

Arguments: which reader, and where the table is.  Lines of JSON: by queue the messages, the different offsets, the least
and the greatest one; or an error.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

Read = Callable[[], list[tuple[int, int, int, int, int]]]
COUNTED = "queue_id, count(*), count(distinct queue_offset), min(queue_offset), max(queue_offset)"


def duckdb_reader(place: str) -> Read:
    import duckdb

    extension = Path(str(files("duckdb_extension_delta"))) / "extensions" / f"v{duckdb.__version__}"
    connection = duckdb.connect()
    connection.execute(f"load '{extension / 'delta.duckdb_extension'}'")
    return lambda: connection.execute(f"select {COUNTED} from delta_scan('{place}') group by 1").fetchall()


def polars_reader(place: str) -> Read:
    import polars as pl

    at = pl.col("queue_offset")
    told = (pl.len(), at.n_unique().alias("different"), at.min().alias("least"), at.max().alias("greatest"))
    return lambda: pl.scan_delta(place).group_by("queue_id").agg(*told).collect().rows()


def delta_reader(place: str) -> Read:
    from deltalake import DeltaTable

    def read() -> list[tuple[int, int, int, int, int]]:
        return _counted(DeltaTable(place).to_pyarrow_table(columns=["queue_id", "queue_offset"]))

    return read


def _counted(rows: Any) -> list[tuple[int, int, int, int, int]]:
    """What `COUNTED` says of an Arrow table."""
    asked = [("queue_offset", how) for how in ("count", "count_distinct", "min", "max")]
    found = rows.group_by("queue_id").aggregate(asked)
    return list(zip(*(column.to_pylist() for column in found.select(["queue_id", *_NAMES])), strict=True))


def iceberg_reader(place: str) -> Read:
    """By the metadata beside Delta's log, which may be a little behind it."""
    from pyiceberg.table import StaticTable

    def read() -> list[tuple[int, int, int, int, int]]:
        table = StaticTable.from_metadata(f"{place}/_iceberg")
        return _counted(table.scan(selected_fields=("queue_id", "queue_offset")).to_arrow())

    return read


_NAMES = tuple(f"queue_offset_{how}" for how in ("count", "count_distinct", "min", "max"))


def spark_readers(place: str) -> Read:
    """In turns our source without a broker, and Spark's own reader of the files that the table has."""
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

    from entrepot.spark_ingest.session import open_session

    session = open_session("local[2,4]")
    root = Path(place)
    ours = session.read.format("entrepot").option("tier.url", root.parents[1].as_uri())
    ours = ours.option("subscribe", root.parent.name).option("columns", "queue_id,queue_offset")
    turns = [lambda: ours.load(), lambda: session.read.parquet(*DeltaTable(place).file_uris())]

    def read() -> list[tuple[int, int, int, int, int]]:
        turns.append(turns.pop(0))
        frame: DataFrame = turns[-1]()
        frame.createOrReplaceTempView("t")
        return [tuple(row) for row in session.sql(f"select {COUNTED} from t group by queue_id").collect()]

    return read


READERS: dict[str, Callable[[str], Read]] = {
    "DuckDB": duckdb_reader,
    "polars": polars_reader,
    "delta-rs": delta_reader,
    "pyiceberg": iceberg_reader,
    "Spark": spark_readers,
}


def main(name: str, place: str) -> None:
    stopped = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        stopped.set()

    threading.Thread(target=wait, daemon=True).start()
    read = READERS[name](place)
    is_last = False
    while True:
        told: dict[str, Any] = {}
        try:
            told["queues"] = read()
        except Exception as error:
            told["error"] = f"{type(error).__name__}: {error}"[:2000]
        print(json.dumps(told), flush=True)
        if is_last:
            break
        is_last = stopped.is_set()  # once more, when nothing is written any more


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
    sys.stdout.flush()
    if sys.argv[1] != "Spark":
        os._exit(0)  # threads of delta-rs abort now and then when Python takes its leave
