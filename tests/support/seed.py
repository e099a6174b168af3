"""The seed of a run's random choices: another one each time, or that of a run to be repeated."""

from __future__ import annotations

import os
import random
from typing import Final

SEED: Final = int(os.environ.get("ENTREPOT_TEST_SEED") or random.SystemRandom().randrange(1, 1 << 31))
"""Printed by each test that uses it; `ENTREPOT_TEST_SEED=...` repeats its choices."""


def seeded(purpose: str = "") -> random.Random:
    """Random choices of the run's seed; another purpose has others.  Prints the seed, for the report of a failure."""
    print(f"ENTREPOT_TEST_SEED={SEED}")
    return random.Random(f"{SEED}{purpose}")
