"""Queries of one's own in a process of their own, for any Spark: `MASTER BROKER TOPIC OTHER FOLDER`.

A topic is read as a batch and as a stream, into Parquet, and goes to another topic in both ways, too.  Prints Spark's
version.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds

from tests.support.spark.topic_log import TopicWriter, digest, log_of

ROOT = Path(__file__).parents[3]
COLUMNS = ("topic", "queue_id", "queue_offset", "body")


def check_queries(python: str, master: str, writer: TopicWriter, topic: str, folder: Path, seconds: float) -> str:
    """Run them with a Python, and compare what they made with the topic's log; Spark's version."""
    other = f"{topic}-again"
    writer.append(topic, (b"%d" % number for number in range(2000)))
    writer.create(other)
    arguments = [master, writer.location.brokers[0], topic, other, str(folder)]
    done = subprocess.run(
        [python, "-m", "tests.support.spark.queries", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    log = log_of(writer.store, [topic])
    for name in ("read", "streamed"):
        rows = ds.dataset(folder / name, exclude_invalid_files=True).to_table(columns=list(COLUMNS))
        assert digest(zip(*(rows.column(each).to_pylist() for each in COLUMNS), strict=True)) == digest(log), name
    again = sorted(body for *_, body in log_of(writer.store, [other]))
    assert again == sorted([body for *_, body in log] * 2)
    return done.stdout.split()[-1]


def run_queries(master: str, broker: str, topic: str, other: str, folder: str) -> None:
    """The work of the process."""
    from entrepot.spark_ingest import open_session

    spark = open_session(master)
    options = {"servers": broker, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "700"}
    rows = spark.read.format("entrepot").options(**options).load().select(*COLUMNS)
    rows.write.parquet(f"{folder}/read")
    target = {"servers": broker, "topic": other}
    rows.select("body").write.format("entrepot").options(**target).mode("append").save()
    stream = spark.readStream.format("entrepot").options(**options).load().select(*COLUMNS)
    into_files = stream.writeStream.format("parquet").option("path", f"{folder}/streamed")
    into_topic = stream.select("body").writeStream.format("entrepot").options(**target)
    for name, sink in (("files", into_files), ("topic", into_topic)):
        sink.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True).start().awaitTermination()
    print(spark.version)
    spark.stop()


if __name__ == "__main__":
    run_queries(*sys.argv[1:])
