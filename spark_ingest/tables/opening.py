"""A table of a format, at a path."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from entrepot.spark_ingest.tables.table import Table, TableError


class TableFormat(StrEnum):
    """Formats of tables."""

    DELTA = "delta"
    PARQUET = "parquet"
    ICEBERG = "iceberg"


def open_table(kind: TableFormat, path: str, catalog: Mapping[str, str] | None = None) -> Table:
    """The table, which need not exist yet. Raises TableError where the format's package is not installed."""
    if "://" in path:
        raise TableError(
            f"{path}: tables lie at a path that every process of Spark sees (a disk, NFS, a mounted volume)"
        )
    try:
        match kind:
            case TableFormat.DELTA:
                from entrepot.spark_ingest.tables.delta import DeltaTableFiles

                return DeltaTableFiles(path)
            case TableFormat.PARQUET:
                from entrepot.spark_ingest.tables.parquet import ParquetFolders

                return ParquetFolders(path)
            case TableFormat.ICEBERG:
                from entrepot.spark_ingest.tables.iceberg import IcebergFiles

                return IcebergFiles(path, catalog)
    except ImportError as error:
        extra = "iceberg" if kind is TableFormat.ICEBERG else "spark"
        raise TableError(
            f"format {kind} needs a package that is not installed: pip install entrepot[{extra}]"
        ) from error
