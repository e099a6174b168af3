"""`entrepot ingest` as it is typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from entrepot.gateway.cli.app import run
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.processes.server import ServerProcess
from tests.support.spark.topic_log import TopicWriter
from tests.support.waiting import PATIENCE_SECONDS

Ingest = Callable[..., list[str]]


def call(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS, env={**os.environ, **more}
    )


def entrepot(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call([sys.executable, "-m", "entrepot.gateway.cli", *arguments])


LIMIT_SECONDS = 8 * PATIENCE_SECONDS
"""For a command that starts Spark."""


@pytest.mark.soak
def test_from_nothing_to_a_picture_without_a_java_of_its_own(
    ingest: Ingest, writer: TopicWriter, topic: str, tmp_path: Path
):
    """A machine without Java: the one from PyPI is started; then status, and the page."""
    table = tmp_path / "factory"
    writer.append(topic, [orjson.dumps({"device": f"d{n % 3}", "seq": n // 3, "value": n}) for n in range(300)])
    path = f"{Path(sys.executable).parent}:{bin_without_java(tmp_path)}"
    done = call(ingest(topic, table), PATH=path, JAVA_HOME="")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "300 messages are in" in done.stderr
    assert "device=device sequence=seq" in done.stderr
    assert open_table(TableFormat.DELTA, str(table)).dataset().count_rows() == 300

    writer.append(topic, [orjson.dumps({"device": "d0", "seq": 200, "value": 1})] * 40)
    found = json.loads(entrepot("ingest", "status", "--table", str(table), "--json").stdout)
    assert found["rows"]["good"] == 300
    assert sum(found["lag"][topic].values()) == 40
    shown = entrepot("ingest", "status", "--table", str(table)).stdout
    assert re.search(r"waiting +40", shown)

    done = entrepot("ingest", "report", "--table", str(table))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).read_text().startswith("<!doctype html>")


OWN_JOB = """
from pyspark.sql import SparkSession
from entrepot.spark_ingest import prepare_java
from entrepot.spark_ingest.source.data_source import EntrepotDataSource

prepare_java()
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.dataSource.register(EntrepotDataSource)
reader = spark.read.format("entrepot").option("servers", "SERVERS").option("subscribe", "TOPIC")
print("rows", reader.load().count())
spark.stop()
"""


@pytest.mark.soak
def test_ones_own_job_without_a_java_of_its_own(server: ServerProcess, writer: TopicWriter, topic: str, tmp_path: Path):
    """As the documentation has it, on a machine without Java."""
    writer.append(topic, [b"x"] * 30)
    path = f"{Path(sys.executable).parent}:{bin_without_java(tmp_path)}"
    script = OWN_JOB.replace("SERVERS", server.address("broker")).replace("TOPIC", topic)
    done = call([sys.executable, "-c", script], PATH=path, JAVA_HOME="", SPARK_LOCAL_IP="127.0.0.1")
    assert "rows 30" in done.stdout, done.stderr[-3000:]


def bin_without_java(tmp_path: Path) -> Path:
    """A folder of the programs that Spark's scripts use."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in (
        "bash",
        "sh",
        "dirname",
        "basename",
        "env",
        "uname",
        "nice",
        "cat",
        "ps",
        "sed",
        "grep",
        "tr",
        "ls",
        "rm",
        "chmod",
    ):
        for where in ("/usr/bin", "/bin"):
            if Path(where, name).exists():
                (folder / name).symlink_to(Path(where, name))
                break
    return folder


def test_what_is_wrong_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    for command, said, code in (
        (["ingest", "--topic", "t"], "give --table", 2),
        (["ingest", "--topic", "t", "--table", "x"], "brokers, name servers, a data directory", 1),
        (["ingest", "--topic", "t", "--table", "x", "--server", "127.0.0.1:1", "--trigger", "soon"], "duration", 2),
        (["ingest", "--topic", "t", "--table", "x", "--server", "127.0.0.1:1", "--format", "csv"], "csv", 2),
        (["ingest", "--topic", "t", "--table", "s3://x/y", "--server", "127.0.0.1:1"], "takes --native", 2),
        (["ingest", "--topic", "t", "--table", "x", "--server", "127.0.0.1:1", "--conf", "x"], "NAME=VALUE", 2),
        (["ingest", "--topic", "t", "--table", "x", "--server", "127.0.0.1:1", "--metrics-address", "x"], "HOST:P", 2),
        (["ingest", "status", "--table", str(tmp_path / "none")], "there is no job", 1),
        (["ingest", "report", "--table", str(tmp_path / "none")], "there is no job", 1),
    ):
        assert run(command) == code
        told = capfd.readouterr().err
        assert said in told and "Traceback" not in told


def test_help_needs_no_spark():
    code = "import sys; sys.modules['pyspark'] = None; from entrepot.spark_ingest.cli import app; app(['--help'])"
    done = call([sys.executable, "-c", code])
    assert done.returncode == 0
    assert "--watermark" in done.stdout
