"""Coverage-guided fuzzing of one parser: python -m tests.fuzz mqtt --seconds 60

Contract row 17.  What makes a parser fail is kept in `--directory`, and the program ends with an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

INSTRUMENTED = [f"entrepot.{room}" for room in ("protocols", "domain", "broker", "gateway.http", "gateway.transport")]

with atheris.instrument_imports(include=INSTRUMENTED):
    from tests.fuzz.targets import SEEDS, TARGETS

HANG_SECONDS = 10
MEMORY_MB = 2048
MAX_LENGTH = 1024


def main() -> None:
    arguments = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    arguments.add_argument("parser", choices=TARGETS)
    arguments.add_argument("--runs", type=int, default=-1, help="end after so many inputs")
    arguments.add_argument("--seconds", type=int, default=0, help="end after so long")
    arguments.add_argument("--seed", type=int, default=0, help="0: another one each time")
    arguments.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    given = arguments.parse_args()
    corpus = given.directory / f"corpus-{given.parser}"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS.get(given.parser, [])):
        (corpus / f"seed-{number}").write_bytes(seed)
    flags = {
        "runs": given.runs,
        "max_total_time": given.seconds,
        "seed": given.seed,
        "max_len": MAX_LENGTH,
        "timeout": HANG_SECONDS,
        "rss_limit_mb": MEMORY_MB,
        "artifact_prefix": f"{given.directory}/",
    }
    atheris.Setup(
        [sys.argv[0], *(f"-{name}={value}" for name, value in flags.items()), str(corpus)], TARGETS[given.parser]
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
