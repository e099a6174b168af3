"""The suites on this machine: fetched by name and version into a directory that git ignores, with an environment
of their own.  Nothing of them is part of this project."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from tests.conformance.amqp import packages
from tests.conformance.amqp.packages import GO_PACKAGE
from tests.conformance.amqp.suites import SUITES, Source, Suite

ROOT: Final = Path(__file__).resolve().parents[3]
DIRECTORY: Final = ROOT / ".conformance"
SOURCES: Final = DIRECTORY / "src"
ENVIRONMENT: Final = DIRECTORY / "venv"
PYTHON: Final = ENVIRONMENT / "bin" / "python"
CERTIFICATES: Final = SOURCES / "aiormq-7.2.4" / "tests" / "certs"
"""aiormq's: its tests know their authority."""

FETCH_SECONDS: Final = 600

TOOLS: Final = (
    "pytest==9.1.1",
    "pytest-rerunfailures==16.7",
    "pytest-timeout==2.4.0",
    "aiomisc-pytest==2.0.0",
    "aiomisc==18.0.37",
    "markdown-pytest==0.6.6",
    "shortuuid==1.0.13",
    # celery
    "pytest-celery==1.3.0",
    "pytest-order==1.5.0",
    "pydantic>=2.12,<3",
    "redis==8.1.0",
)
"""What the suites need besides themselves."""


def directory(suite: Suite) -> Path:
    """Where a suite's tests are, or would be."""
    return SOURCES / f"{suite.distribution}-{suite.version}"


def missing(suite: Suite) -> str:
    """Why a suite cannot be run here; empty where it can."""
    if absent := packages.missing(packages.of_suite(suite)):
        return packages.told(absent)
    is_fetched = directory(suite).exists() and (suite.source is not Source.PYPI or PYTHON.exists())
    if not is_fetched:
        return f"{suite.name} {suite.version} is not fetched (make conformance)"
    return "" if CERTIFICATES.exists() else "aiormq's certificates are not fetched (make conformance)"


def fetch() -> None:
    """Fetch the suites that are missing.  Debian's packages are the machine's owner's to install."""
    for suite in SUITES:
        if suite.source is Source.GO and not packages.missing(packages.of_suite(suite)):
            _fetch_go(suite)
    wanted = [suite for suite in SUITES if suite.source is Source.PYPI]
    if not PYTHON.exists():
        _run(sys.executable, "-m", "venv", str(ENVIRONMENT))
    if all(directory(suite).exists() for suite in wanted) and (DIRECTORY / "installed").exists():
        return
    SOURCES.mkdir(parents=True, exist_ok=True)
    archives = DIRECTORY / "sdists"
    for suite in {each.distribution: each for each in wanted}.values():
        pip = (str(PYTHON), "-m", "pip", "--disable-pip-version-check")
        what = (f"--no-binary={suite.distribution}", f"{suite.distribution}=={suite.version}")
        _run(*pip, "download", "--quiet", "--no-deps", "--dest", str(archives), *what)
        archive = archives / f"{suite.distribution}-{suite.version}.tar.gz"
        with tarfile.open(archive) as opened:
            opened.extractall(SOURCES, filter="data")
    sources = dict.fromkeys(str(directory(suite)) for suite in wanted)
    _run(*pip, "install", "--quiet", *TOOLS, *sources)
    (DIRECTORY / "installed").touch()


def _fetch_go(suite: Suite) -> None:
    """A module with its tests, copied from Go's cache, where nothing may be written."""
    if directory(suite).exists():
        return
    command = ("go", "mod", "download", "-json", f"{GO_PACKAGE}@v{suite.version}")
    told = subprocess.run(command, check=True, capture_output=True, timeout=FETCH_SECONDS, cwd=tempfile.gettempdir())
    part = directory(suite).with_suffix(".part")  # one that was begun is not one that is there
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(json.loads(told.stdout)["Dir"], part, copy_function=shutil.copyfile)
    for path in (part, *part.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    part.rename(directory(suite))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=FETCH_SECONDS)
