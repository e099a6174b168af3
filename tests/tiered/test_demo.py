"""The demo does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo_tier.py"


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_demo_counts_the_same_messages_twice() -> None:
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "10000 of 10000 messages are equal in MQTT's replay and in DuckDB."
