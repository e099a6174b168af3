"""The columns of a job's table: given, found in messages, or kept from an earlier start."""

from __future__ import annotations

from dataclasses import replace

from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from entrepot.spark_ingest.job.rows import flattened, found_columns
from entrepot.spark_ingest.job.settings import JobSettings, load_settings
from entrepot.spark_ingest.source.arrow_schema import arrow_schema
from entrepot.spark_ingest.source.options import OptionError, Parse, read_options
from entrepot.spark_ingest.source.positions import subscribed
from entrepot.spark_ingest.source.schemas import ddl_of, inferred_fields, table_ddl
from entrepot.spark_ingest.source.stores import reader_of
from entrepot.spark_ingest.tables import open_table
from entrepot.spark_ingest.tables.table import check_types


class NoMessagesYetError(Exception):
    """There are no messages from which to learn the columns."""


def with_schema(settings: JobSettings) -> JobSettings:
    """Add the schema of bodies. An earlier start's columns stay as they are; new ones come after them. Raises
    NoMessagesYetError where neither is known, OptionError, EntrepotError where the store is not reached."""
    if settings.parse is Parse.NONE or settings.schema:
        return settings
    options = read_options(settings.source_options())
    reader = reader_of(options.location)
    fields = inferred_fields(reader, subscribed(reader, options), options)
    kept = load_settings(settings.checkpoint_path)
    if kept is not None and kept.schema and kept.parse is settings.parse:
        known = struct_of(kept.schema)
        taken = {name.lower() for name in known.names}
        fields = {field.name: field.dataType.simpleString() for field in known.fields} | {
            name: kind for name, kind in fields.items() if name.lower() not in taken
        }
    if not fields:
        raise NoMessagesYetError(
            f"no message of {settings.subscribe or settings.subscribe_pattern} can be read as {settings.parse} yet, "
            "so its columns are not known: give them (--schema 'device string, temperature double'), or --parse none"
        )
    return replace(settings, schema=ddl_of(fields))


def with_device_columns(settings: JobSettings, session: SparkSession) -> JobSettings:
    """Add the device columns that are found. Raises OptionError for a missing one, TableError where the table has a
    column with another type."""
    ddl = table_ddl(read_options(settings.source_options()), settings.schema)
    flat = flattened(session.createDataFrame([], struct_of(ddl))).schema
    try:
        columns = found_columns(flat, settings.columns)
    except ValueError as error:
        raise OptionError(str(error)) from error
    if settings.deduplicates and not columns.sequence:
        raise OptionError("which column numbers a device's messages? Duplicates are told by it (--sequence)")
    if settings.is_native:
        return replace(settings, columns=columns)  # Delta's own library checks types
    table = open_table(settings.format, settings.table, dict(settings.catalog))
    if table.exists():
        check_types(settings.table, table.schema(), arrow_schema(flat))
    return replace(settings, columns=columns)


def struct_of(ddl: str) -> StructType:
    """Parse a schema. Raises OptionError."""
    try:
        found = StructType.fromDDL(ddl)
    except ParseException as error:
        raise OptionError(f"schema: {str(error).strip().splitlines()[0]}") from error
    assert isinstance(found, StructType)
    return found
