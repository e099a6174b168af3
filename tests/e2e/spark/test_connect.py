"""Spark Connect: queries of one's own, and the job, whose batches are done where the server is. The command only
watches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pyspark
import pytest

from entrepot.spark_ingest.java import find_java, java_home
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.processes.ports import free_port
from tests.support.spark.fleet import Fleet
from tests.support.spark.queries import check_queries
from tests.support.spark.topic_log import TopicWriter
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytest.importorskip("grpc_status", reason="Spark Connect needs the packages of pyspark[connect]")
SPARK_HOME = Path(pyspark.__file__).parent
ROOT = Path(__file__).parents[3]
START_SECONDS = 4 * PATIENCE_SECONDS


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[str]:
    """A Connect server's address."""
    port = free_port()
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home(find_java())),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2,4]", "--driver-memory", "800m",
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.ui.enabled=false",
        "--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal",
    ]  # fmt: skip
    log = tmp_path / "connect.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        wait_until(lambda: "Spark Connect server started" in log.read_text(), log.read_text, START_SECONDS)
        yield f"sc://127.0.0.1:{port}"
    finally:
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in family:
            if child.is_running():
                child.kill()


@pytest.mark.soak
def test_a_job_through_connect(
    connect: str, ingest: Callable[..., list[str]], writer: TopicWriter, topic: str, tmp_path: Path
):
    fleet = Fleet(10, 7)
    writer.append(topic, fleet.rounds(60), queue=0)
    table = tmp_path / "factory"
    command = [part.replace("local[2,4]", connect) for part in ingest(topic, table, "--dedupe", "--watermark", "1m")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=START_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = open_table(TableFormat.DELTA, str(table)).dataset().to_table(columns=["device", "seq"])
    found = sorted(zip(rows.column("device").to_pylist(), rows.column("seq").to_pylist(), strict=True))
    assert found == sorted(fleet.good)
    assert open_table(TableFormat.DELTA, f"{table}_devices").dataset().count_rows() == 10


@pytest.mark.soak
def test_queries_of_ones_own_through_connect(connect: str, writer: TopicWriter, topic: str, tmp_path: Path):
    check_queries(sys.executable, connect, writer, topic, tmp_path, START_SECONDS)
