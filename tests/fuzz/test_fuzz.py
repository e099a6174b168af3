"""Contract row 17: mutations that cover new code are looked for, and none makes a parser fail, hang or grow.

Longer: python -m tests.fuzz mqtt --seconds 3600
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

RUNS = int(os.environ.get("ENTREPOT_TEST_FUZZ_RUNS", "5000"))
SEED = int(os.environ.get("ENTREPOT_TEST_SEED", random.SystemRandom().randrange(1, 1 << 31)))
ROOT = Path(__file__).parents[2]
NAMES = ("mqtt", "amqp", "proxy", "remoting", "records", "cloudevents", "filters", "rocketmq", "names")


@pytest.mark.parametrize("name", NAMES)
def test_no_input_makes_a_parser_fail(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed: it has no wheel for this machine")
    command = [sys.executable, "-m", "tests.fuzz", name, "--runs", str(RUNS), "--seed", str(SEED % (1 << 31))]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, f"seed {SEED}: {done.stderr[-4000:]}"
    assert f"Done {RUNS} runs" in done.stderr
