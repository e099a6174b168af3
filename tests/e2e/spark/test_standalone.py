"""A standalone cluster: a master and two workers from the pip installation, whose executors have the wheel alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pyspark
import pytest

from entrepot.spark_ingest.java import find_java, java_home
from entrepot.spark_ingest.tables import TableFormat, open_table
from tests.support.processes.server import ServerProcess
from tests.support.spark.fleet import Fleet
from tests.support.spark.topic_log import TopicWriter, log_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[3]
SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 4 * PATIENCE_SECONDS
READ = """
import sys
from pyspark.sql import SparkSession
master, server, topic = sys.argv[1:]
builder = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.executor.memory", "512m").getOrCreate()
source = spark.read.format("entrepot").option("servers", server).option("subscribe", topic)
frame = source.option("minPartitions", "4").load()
print("rows", frame.count(), "at", frame.rdd.getNumPartitions())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what `pip install entrepot` brings, and nothing of this repository."""
    folder = tmp_path_factory.mktemp("wheel")
    copied = folder / "source"
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    rooms = (
        "entrepot",
        "gateway",
        "protocols",
        "domain",
        "store_client",
        "broker",
        "spark_ingest",
        "pyproject.toml",
        "setup.py",
    )
    for name in filter(None, files):
        if name.split("/")[0] in (*rooms, "README.md", "LICENSE") and (ROOT / name).exists():
            target = copied / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, target, follow_symlinks=False)
    target = folder / "installed"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(copied)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


class Cluster:
    """A master and its workers."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "JAVA_HOME": str(java_home(find_java())),
            "PYTHONPATH": str(wheel),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
        }
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = ""

    def _start(self, name: str, *arguments: str) -> Path:
        log = self.folder / f"{name}.log"
        command = [str(SPARK_HOME / "bin" / "spark-class"), *arguments]
        with log.open("wb") as output:
            self.processes.append(
                subprocess.Popen(command, stdout=output, stderr=output, env=self.environment, cwd=self.folder)
            )
        return log

    def start(self) -> None:
        ports = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = self._start("master", "org.apache.spark.deploy.master.Master", *ports)
        found = wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()), log.read_text, START_SECONDS
        )
        assert found is not None
        self.master = found[1]
        for number in range(2):
            self._start(
                f"worker{number}", "org.apache.spark.deploy.worker.Worker", *ports,
                "--cores", "1", "--memory", "700m", "--work-dir", str(self.folder / f"work{number}"), self.master,
            )  # fmt: skip
        wait_until(lambda: log.read_text().count("Registering worker") == 2, log.read_text, START_SECONDS)

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        found = []
        for process in self.processes:
            for child in psutil.Process(process.pid).children(recursive=True):
                with suppress(psutil.Error):  # it has just ended
                    if any("CoarseGrainedExecutorBackend" in part for part in child.cmdline()):
                        found.append(child)
        return found

    def stop(self) -> None:
        for process in self.processes:
            family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for child in family:
                if child.is_running():
                    child.kill()


@pytest.fixture(scope="module")
def cluster(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(wheel, tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_the_source_is_found_by_its_name(cluster: Cluster, writer: TopicWriter, topic: str, server: ServerProcess):
    """Nobody registers it: the wheel is installed, and `format("entrepot")` is there, on executors too."""
    writer.append(topic, (b"x" for _ in range(1000)))
    script = cluster.folder / "read.py"
    script.write_text(READ)
    command = [sys.executable, str(script), cluster.master, server.address("broker"), topic]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=START_SECONDS, env=cluster.environment, check=False
    )
    assert "rows 1000 at 4" in done.stdout, done.stderr[-3000:]


def submit_script(cluster: Cluster) -> str:
    """What the command says is to be submitted."""
    command = [sys.executable, "-m", "entrepot.gateway.cli", "ingest", "script"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=cluster.environment, cwd=cluster.folder
    )
    return done.stdout.strip()


def test_a_submitted_job_whose_executors_are_killed(
    cluster: Cluster, writer: TopicWriter, topic: str, server: ServerProcess, tmp_path: Path
):
    fleet = Fleet(20, 5)
    writer.append(topic, fleet.rounds(300))
    table = tmp_path / "factory"
    command = [
        str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.master, "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.executor.memory=512m", submit_script(cluster), "--topic", topic,
        "--table", str(table), "--server", server.address("broker"), "--max-messages", "700", "--no-derive",
    ]  # fmt: skip
    with (tmp_path / "submit.log").open("wb") as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env=cluster.environment)
    commits = Path(f"{table}_checkpoint", "commits")

    def told() -> str:
        return (tmp_path / "submit.log").read_text()[-3000:]

    wait_until(lambda: commits.is_dir() and any(commits.iterdir()), told, START_SECONDS)
    for executor in cluster.executors()[:1]:
        executor.kill()
    assert job.wait(START_SECONDS) == 0, told()
    places: list[tuple[str, int, int]] = []
    for path in (str(table), f"{table}_dead_letters"):
        rows = open_table(TableFormat.DELTA, path).dataset().to_table(columns=["topic", "queue_id", "queue_offset"])
        places += zip(*(rows.column(name).to_pylist() for name in rows.column_names), strict=True)
    assert sorted(places) == sorted(
        (topic_, queue, offset) for topic_, queue, offset, _ in log_of(writer.store, [topic])
    )
