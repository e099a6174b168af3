"""Other versions of Spark than the installed one, each by the Python of an environment that has it.

    ENTREPOT_TEST_SPARK_PYTHONS=/opt/spark40/bin/python:/opt/spark41/bin/python \
        pytest --tier interop tests/e2e/spark/test_other_versions.py

Such an environment needs what `entrepot[spark]` brings, with another PySpark. Entrepôt itself is this checkout's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from entrepot.spark_ingest.job.status import committed_offsets
from entrepot.spark_ingest.source.versions import lacks
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.processes.server import ServerProcess
from tests.support.spark.ingest_job import START_SECONDS, ingest_command
from tests.support.spark.queries import ROOT, check_queries
from tests.support.spark.topic_log import TopicWriter, log_of, readings

VARIABLE = "ENTREPOT_TEST_SPARK_PYTHONS"
MISSING = pytest.mark.skip(reason=f"{VARIABLE} names no Python with another PySpark")
PYTHONS = [each for each in os.environ.get(VARIABLE, "").split(":") if each]
pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("python", PYTHONS or [pytest.param("", marks=MISSING)]),
]


def run_ingest(python: str, broker: str, topic: str, table: Path, *more: str) -> str:
    """Run the command to its end; what it says."""
    [_, *command] = ingest_command(broker, topic, table, *more)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, *command], capture_output=True, text=True, check=False, timeout=START_SECONDS, env=environment
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stderr


def version_of(python: str) -> str:
    script = "import pyspark; print(pyspark.__version__)"
    return subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.strip()


def test_batches_and_streams_in_both_directions(python: str, writer: TopicWriter, topic: str, tmp_path: Path):
    assert check_queries(python, "local[2,4]", writer, topic, tmp_path, START_SECONDS) == version_of(python)


@pytest.mark.parametrize(
    ("kind", "more"), [("delta", ()), ("delta", ("--watermark", "1m", "--dedupe")), ("parquet", ()), ("iceberg", ())]
)
def test_ingest_goes_on_behind_a_batch_that_was_interrupted(
    python: str,
    server: ServerProcess,
    writer: TopicWriter,
    topic: str,
    tmp_path: Path,
    kind: str,
    more: tuple[str, ...],
):
    """Messages that came in since are in the table, too, though Spark without limits only repeats the batch."""
    table, broker = tmp_path / "factory", server.address("broker")
    writer.append(topic, readings(500))
    said = run_ingest(python, broker, topic, table, "--format", kind, *more)
    wanted = lacks(version_of(python))
    assert [line for line in said.splitlines() if "cannot limit a batch" in line] == ([wanted] if wanted else [])
    commits = tmp_path / "factory_checkpoint" / "commits"
    last, _ = committed_offsets(commits.parent)
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    writer.append(topic, readings(300, start=50))
    run_ingest(python, broker, topic, table, "--format", kind, *more)
    rows = open_table(TableFormat(kind), str(table)).dataset().to_table(columns=["queue_id", "queue_offset"])
    places = sorted(zip(rows.column("queue_id").to_pylist(), rows.column("queue_offset").to_pylist(), strict=True))
    assert places == sorted((queue, offset) for _, queue, offset, _ in log_of(writer.store, [topic]))
