"""Spark's schemas in Arrow, for any version of Spark."""

from __future__ import annotations

from inspect import signature
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

# before 4.2 times are always in UTC, since then on request
_IN_UTC: Final[dict[str, Any]] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns, times in UTC."""
    found: pa.Schema = to_arrow_schema(schema, **_IN_UTC)
    return found
