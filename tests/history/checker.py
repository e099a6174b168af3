"""Decides whether a history is one that the store promises, and replays one from its file.

python -m tests.history.checker FILE

The model is sequential: a queue is a list that only grows, a message of a group is waiting, with one consumer up to a
time, or settled, and a key has versions that grow.  A confirmed operation took effect at one moment between its
beginning and its end, a failed one never, one of unknown outcome at one moment after its beginning or never.  A history
is refused only where no such moments can be found: what is uncertain counts for the store.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.history.end_rules import check_end
from tests.history.key_value_rules import check_key_values
from tests.history.log_rules import check_log
from tests.history.operations import AnyOperation, load
from tests.history.order_rules import check_order
from tests.history.pop_rules import check_pops
from tests.history.read_rules import check_reads
from tests.history.record import Record, Violation

RULES = (check_log, check_reads, check_pops, check_order, check_end, check_key_values)
SHOWN = 10


def check(operations: Iterable[AnyOperation]) -> list[Violation]:
    """What is not allowed; empty for a history that is."""
    record = Record(operations)
    return [violation for rule in RULES for violation in rule(record)]


def report(violations: list[Violation], history: Path) -> str:
    """For people: the first of them, with the operations that do not go together."""
    lines = [f"{len(violations)} violations in {history}", f"again: python -m tests.history.checker {history}"]
    for violation in violations[:SHOWN]:
        lines.append(f"{violation.rule}: {violation.text}")
        lines += [f"    {operation}" for operation in violation.operations]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.history.checker", description=__doc__)
    parser.add_argument("file", type=Path, help="a history, an operation a line")
    given = parser.parse_args()
    operations = load(given.file)
    violations = check(operations)
    print(report(violations, given.file) if violations else f"{len(operations)} operations, all of them allowed")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
