"""Which versions of Spark are refused, and what is said once of those that lack something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from entrepot.spark_ingest import session
from entrepot.spark_ingest.job import run
from entrepot.spark_ingest.job.settings import JobSettings
from entrepot.spark_ingest.source.data_source import EntrepotStreamReader
from entrepot.spark_ingest.source.options import read_options
from entrepot.spark_ingest.source.versions import SparkVersionError, check_version, lacks, version_of
from entrepot.store_client.blocking import StoreLocation
from tests.support.cases import cases

ROOT = Path(__file__).parents[3]


def test_versions_have_two_numbers() -> None:
    for text, version in (("4.0.1", (4, 0)), ("4.10.0.dev2", (4, 10)), ("4.1.0-SNAPSHOT", (4, 1)), ("5.0", (5, 0))):
        assert version_of(text) == version
    with pytest.raises(SparkVersionError, match="'master' has no two numbers"):
        version_of("master")


def test_those_without_python_sources_are_refused() -> None:
    assert check_version("4.0.0") == (4, 0)
    for text in ("3.5.9", "3.9", "2.4.8"):
        with pytest.raises(SparkVersionError, match=f"^Spark {text} has no data sources in Python: install Spark 4.0 "):
            check_version(text)


def test_what_one_lacks_is_one_line() -> None:
    assert not [text for text in ("4.2.0", "4.3.1", "4.10.0", "5.0.0") if lacks(text)]
    for text in ("4.0.5", "4.1.4"):
        said = lacks(text)
        assert said.startswith(f"Spark {text} cannot limit a batch") and "--max-messages" in said and "\n" not in said


def pretended(folder: Path, version: str) -> dict[str, str]:
    """The environment of a Python that has a PySpark of this version, which has nothing but its number."""
    package = folder / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    return {**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"}


def test_the_command_refuses_one_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "entrepot.gateway.cli", "ingest", "--topic", "t", "--table", str(tmp_path / "t")]
    done = subprocess.run(command, env=pretended(tmp_path, "3.5.9"), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("error: Spark 3.5.9 has no data sources in Python: ")


def test_a_job_of_ones_own_is_told_so_where_it_imports_the_source(tmp_path: Path) -> None:
    for number, place in enumerate(("entrepot.spark_ingest.source.spark_api", "entrepot.spark_ingest.source.versions")):
        folder = tmp_path / str(number)
        folder.mkdir()
        script = f"import {place} as m\nm.installed_version()"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=pretended(folder, "3.5.9"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert "SparkVersionError: Spark 3.5.9 has no data sources in Python" in done.stderr.splitlines()[-1]


def test_an_old_server_of_connect_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def getOrCreate(self) -> Any:
            return SimpleNamespace(version="3.5.1")

        def __getattr__(self, name: str) -> Any:
            return lambda *_: self

    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=Builder()))
    with pytest.raises(SparkVersionError, match=r"Spark 3\.5\.1 has no data sources in Python"):
        session.open_session("sc://127.0.0.1:1")


@cases("version, is_lacking", [("4.0.5", True), ("4.2.0", False)])
def test_a_job_says_it_once_and_asks_for_no_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, is_lacking: bool
) -> None:
    class FoundOutError(Exception):
        """The end of what the test looks at."""

    asked: list[JobSettings] = []

    def seen(settings: JobSettings) -> JobSettings:
        asked.append(settings)
        raise FoundOutError

    monkeypatch.setattr(run, "with_schema", seen)
    told: list[str] = []
    settings = JobSettings(StoreLocation(brokers=("127.0.0.1:1",)), str(tmp_path / "t"), subscribe="t", max_offsets=5)
    opened: Any = SimpleNamespace(version=version)
    with pytest.raises(FoundOutError):
        run.start(opened, settings, "1 seconds", told.append)
    assert told == ([lacks(version)] if is_lacking else [])
    assert asked[0].source_options().get("maxOffsetsPerTrigger") == (None if is_lacking else "5")


def test_a_query_of_ones_own_is_told_in_its_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("pyspark.__version__", "4.0.77")
    options = {"servers": "127.0.0.1:1", "subscribe": "t", "maxOffsetsPerTrigger": "5"}
    reader = EntrepotStreamReader(read_options(options), StructType([StructField("topic", StringType())]))
    monkeypatch.setattr(reader, "_bounds", lambda known=None: (None, {}))
    for _ in range(3):
        assert reader.latestOffset() == {}
    assert capfd.readouterr().err == f"entrepot: {lacks('4.0.77')}\n"
