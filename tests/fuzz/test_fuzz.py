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

from tests.fuzz.targets import SEEDS, TARGETS
from tests.support.cases import cases
from tests.support.seed import SEED, seeded
from tests.support.soak_table import tell

RUNS = int(os.environ.get("ENTREPOT_TEST_FUZZ_RUNS", "5000"))
FEW = 200
ROOT = Path(__file__).parents[2]


@cases("name", TARGETS)
def test_no_random_mutation_makes_a_parser_fail(name: str) -> None:
    rng = seeded(name)
    seeds = [b"", *SEEDS.get(name, [])]
    for seed in seeds:
        TARGETS[name](seed)
    for _ in range(FEW):
        TARGETS[name](mutated(rng, rng.choice(seeds)))


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Some bytes are others, some are gone, some are new."""
    changed = bytearray(data or rng.randbytes(rng.randrange(60)))
    for _ in range(rng.randint(1, 6)):
        place = rng.randrange(len(changed) + 1)
        changed[place : place + rng.randrange(4)] = rng.randbytes(rng.randrange(4))
    return bytes(changed)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_makes_a_parser_fail(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="atheris is not installed: it has no wheel for this machine")
    command = [sys.executable, "-m", "tests.fuzz", name, "--runs", str(RUNS), "--seed", str(SEED)]
    done = subprocess.run(
        [*command, "--directory", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    tell(f"fuzzing {name}", messages=RUNS, faults=int(done.returncode != 0))
    assert done.returncode == 0, f"seed {SEED}: {done.stderr[-4000:]}"
    assert f"Done {RUNS} runs" in done.stderr
    assert "no interesting inputs" not in done.stderr, "mutations are blind: nothing is instrumented"
