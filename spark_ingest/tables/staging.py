"""Files that tasks have written and no table has yet."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date
from math import isnan
from pathlib import Path
from typing import Any, Final

import orjson
import pyarrow.parquet as pq

KIND: Final = "_kind"
"""Column by which one write is split into the tables' files."""
_MAX_TEXT: Final = 32
"""Longest least and greatest values of a file that are noted."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A Parquet file: its path, rows, bytes, and least and greatest value of columns that have them."""

    path: Path
    rows: int
    size: int
    least: dict[str, Any] = field(default_factory=dict)
    greatest: dict[str, Any] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)

    def values(self, column: str) -> int:
        """The number of rows with a value in a column; 0 where the file does not have it."""
        return self.rows - self.nulls.get(column, self.rows)

    def delta_stats(self, names: Iterable[str]) -> str:
        """The statistics of these columns for Delta's log."""
        wanted = set(names)

        def kept(values: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in values.items() if name in wanted}

        return orjson.dumps(
            {
                "numRecords": self.rows,
                "minValues": kept(self.least),
                "maxValues": kept(self.greatest),
                "nullCount": kept(self.nulls),
            },
            option=orjson.OPT_UTC_Z,
        ).decode()


class Staging:
    """The folder of one attempt at one batch: `<table>_staging/<job>-<batch>-<attempt>`."""

    def __init__(self, table: str, app: str, batch: int) -> None:
        self._root = Path(f"{table}_staging")
        self._prefix = f"{app[:8]}-"
        self.path = self._root / f"{self._prefix}{batch}-{uuid.uuid4().hex[:8]}"

    def clear(self) -> None:
        """Remove the files of this and earlier attempts of the job."""
        if self._root.is_dir():
            for left in self._root.iterdir():
                if left.name.startswith(self._prefix):
                    shutil.rmtree(left, ignore_errors=True)
            if not any(self._root.iterdir()):
                self._root.rmdir()

    def files(self, kind: str) -> list[StagedFile]:
        """The tasks' files of one kind of rows, without empty ones."""
        found = (staged_file(path) for path in sorted((self.path / f"{KIND}={kind}").glob("*.parquet")))
        return [each for each in found if each.rows]


def staged_file(path: Path) -> StagedFile:
    """Read a file's footer."""
    footer = pq.read_metadata(path)
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    for at in range(footer.num_columns):
        name = footer.schema.column(at).path
        if "." in name:
            continue
        all_stats = [group.column(at).statistics for group in groups]
        if any(stats is None or not stats.has_null_count for stats in all_stats):
            continue
        nulls[name] = sum(stats.null_count for stats in all_stats)
        known = [stats for stats in all_stats if stats.has_min_max]
        if not known or any(not stats.has_min_max and stats.num_values for stats in all_stats):
            continue
        try:
            low, high = min(stats.min for stats in known), max(stats.max for stats in known)
        except (OverflowError, ValueError):
            continue  # a time beyond the years 1 to 9999
        if not isinstance(low, (int, float, str, date)) or isinstance(low, bool):
            continue  # Delta's log has no others
        if isinstance(low, str) and max(len(low), len(high)) > _MAX_TEXT:
            continue
        if isinstance(low, float) and (isnan(low) or isnan(high)):
            continue
        least[name], greatest[name] = low, high
    return StagedFile(path, footer.num_rows, path.stat().st_size, least, greatest, nulls)


def move_durably(files: Iterable[StagedFile], folder: Path) -> list[StagedFile]:
    """Move files, synced, into a folder of the same file system. Leftovers of a crash are not part of any table."""
    folder.mkdir(parents=True, exist_ok=True)
    moved = []
    for each in files:
        sync(each.path)
        target = folder / each.path.name
        each.path.rename(target)
        moved.append(replace(each, path=target))
    sync(folder)
    return moved


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    scratch = path.with_suffix(path.suffix + ".new")
    scratch.write_bytes(content)
    scratch.replace(path)


def sync(path: Path) -> None:
    """Make a file, or renames in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
