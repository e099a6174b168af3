"""Runs of pytest by the programs of this package."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]


def run_pytest(*flags: str, workers: int, environment: Mapping[str, str] | None = None) -> int:
    """Run pytest on the repository; its exit code, where no chosen test is no failure.  `workers` 0: in one process."""
    side_by_side = ["-n", str(workers), "--dist", "loadgroup"] if workers else []
    command = [sys.executable, "-m", "pytest", *side_by_side, *flags]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **(environment or {})}, check=False).returncode
    return pytest.ExitCode.OK if code == pytest.ExitCode.NO_TESTS_COLLECTED else code


def plain(node_id: str) -> str:
    """A node id without the group that pytest-xdist writes behind it (`...@cluster`)."""
    before, _, group = node_id.rpartition("@")
    return before if before and "]" not in group else node_id  # an @ of a parameter stands within brackets
