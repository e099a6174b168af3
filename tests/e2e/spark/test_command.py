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

from spark_ingest.tables import TableFormat, open_table
from tests.support.server import ServerProcess
from tests.support.topic_log import TopicWriter

Ingest = Callable[..., list[str]]


def call(command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200, env={**os.environ, **more})


def entrepot(*arguments: str) -> subprocess.CompletedProcess[str]:
    return call([sys.executable, "-m", "gateway.cli", *arguments])


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


def test_what_is_wrong_is_one_line(ingest: Ingest, topic: str, tmp_path: Path, server: ServerProcess):
    for command, said, code in (
        (["ingest", "--topic", topic], "give --table", 2),
        (["ingest", "--topic", topic, "--table", "x"], "brokers, name servers or a data directory", 1),
        (["ingest", "--topic", topic, "--table", "x", "--server", "127.0.0.1:1", "--trigger", "soon"], "duration", 2),
        (["ingest", "--topic", topic, "--table", "x", "--server", "127.0.0.1:1", "--format", "csv"], "csv", 2),
        (["ingest", "--topic", topic, "--table", "s3://x/y", "--server", "127.0.0.1:1"], "takes --native", 2),
        (["ingest", "status", "--table", str(tmp_path / "none")], "there is no job", 1),
        (["ingest", "report", "--table", str(tmp_path / "none")], "there is no job", 1),
    ):
        done = entrepot(*command)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("what", ["help"])
def test_help_needs_no_spark(what: str):
    code = "import sys; sys.modules['pyspark'] = None; from spark_ingest.cli import app; app(['--help'])"
    done = call([sys.executable, "-c", code])
    assert done.returncode == 0
    assert "--watermark" in done.stdout
