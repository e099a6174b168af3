"""The owner of a table at a URL: Spark alone reaches it, so the name is a folder of text that Spark writes.

No store of objects lets Spark write only where there is nothing. A job writes before it looks: of two that are first at
once, at least one sees both names, and is refused.
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from entrepot.spark_ingest.tables.owner import OwnerFile, OwnerPlace

OWNER_FOLDER: Final = "_entrepot_owner"
NAMES: Final = "names"
"""Folder within it: Spark warns of a path whose last name begins with an underscore."""


def owner_place(table: str, session: SparkSession) -> OwnerPlace:
    """The place of the owner of a table, which lies at a path or at a URL."""
    return OwnerFolder(table, session) if "://" in table else OwnerFile(table)


class OwnerFolder:
    """The folder, with a file for each name."""

    def __init__(self, table: str, session: SparkSession) -> None:
        self.table = table
        self.where = f"{table.rstrip('/')}/{OWNER_FOLDER}/{NAMES}"
        self._session = session

    def names(self) -> list[bytes]:
        where = re.sub(r"([\\\[\]{}*?])", r"\\\1", self.where)  # of a pattern that has no other meaning
        try:
            rows = self._session.read.text(f"{where}/*.txt").collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return []
            raise
        return [str(row.value).encode() for row in rows]

    def leave(self, name: bytes, job: str) -> bool:
        self._write(name, "append")
        return True

    def replace(self, name: bytes) -> None:
        self._write(name, "overwrite")

    def _write(self, name: bytes, mode: str) -> None:
        row = self._session.range(0, 1, 1, 1).select(F.lit(name.decode()).alias("value"))
        row.write.mode(mode).text(self.where)
