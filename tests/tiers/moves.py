"""Where what an earlier revision tested is tested now: python -m tests.tiers.moves REVISION

Lists each test function that was removed, moved, folded into a loop or put into other tiers, and ends with an error if
one is gone without a word.  `moved.txt` has the words: old -> new : why.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.tiers.marks import TIERS
from tests.tiers.run import ROOT, plain

WORDS: Final = Path(__file__).with_name("moved.txt")
_LINE: Final = re.compile(r"(?P<old>\S+::\S+) -> (?P<new>\S+?(?:::\S+)?) : (?P<why>.+)")
Counts = dict[str, Counter[str]]
"""By file and function: how many items and cases there are in each tier."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tiers.moves", description=__doc__)
    parser.add_argument("revision")
    given = parser.parse_args()
    with _checkout(given.revision) as tree:
        before = _collected_before(tree)
    now = _collected_now()
    lines, lost = compare(before, now, words(WORDS.read_text()))
    print("\n".join(lines))
    print(_totals(before, now))
    for name in lost:
        print(f"gone without a word: {name}")
    return 1 if lost else 0


def words(text: str) -> dict[str, tuple[str, str]]:
    """The new place and the reason, by the old place."""
    found = {}
    for line in filter(None, text.splitlines()):
        match = _LINE.fullmatch(line)
        assert match, f"not 'old -> new : why': {line}"
        found[match["old"]] = (match["new"], match["why"])
    return found


def compare(before: Counter[str], now: Counts, told: dict[str, tuple[str, str]]) -> tuple[list[str], list[str]]:
    """A line for each function that is not as it was, and the names of those that are gone without a word."""
    lines: list[str] = []
    lost: list[str] = []
    by_function: dict[str, list[str]] = defaultdict(list)
    for name in now.keys() - before.keys():
        by_function[name.partition("::")[2]].append(name)
    files = {name.partition("::")[0] for name in now}
    for name, count in sorted(before.items()):
        if name in now:
            if now[name] != Counter(default=count):
                lines.append(f"{name}: {count} -> {_counts(now[name])}")
        elif name in told:
            new, why = told[name]
            known = new in now or new in files
            (lines if known else lost).append(f"{name}: {count} -> {new} ({why})" + ("" if known else ": not there"))
        elif len(found := by_function[name.partition("::")[2]]) == 1:
            lines.append(f"{name}: {count} -> {found[0]}: {_counts(now[found[0]])}")
        else:
            lost.append(name)
    return lines, lost


def _counts(tiers: Counter[str]) -> str:
    return ", ".join(f"{tier} {tiers[tier]}" for tier in TIERS if tiers[tier])


def _totals(before: Counter[str], now: Counts) -> str:
    sums = Counter[str]()
    for tiers in now.values():
        sums.update(tiers)
    return f"{len(before)} functions with {before.total()} cases before; {len(now)} now, with {_counts(sums)} cases"


def _function(node_id: str) -> str:
    return plain(node_id).split("[")[0]


def _collected_before(tree: Path) -> Counter[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "--override-ini=addopts=--import-mode=importlib",
    ]
    shown = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False).stdout
    ids = [line for line in shown.splitlines() if "::" in line]
    assert ids, shown
    return Counter(map(_function, ids))


def _collected_now() -> Counts:
    found: Counts = defaultdict(Counter)
    with tempfile.TemporaryDirectory(prefix="tests-") as directory:
        for tier in TIERS:
            listed = Path(directory) / tier
            command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "--tier", tier, "--list-to", str(listed)]
            subprocess.run(command, cwd=ROOT, capture_output=True, check=False)  # 5: nothing chosen
            for node_id, cases in json.loads(listed.read_text()).items():
                found[_function(node_id)][tier] += cases
    return found


@contextmanager
def _checkout(revision: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="before-") as directory:
        tree = Path(directory) / "tree"
        subprocess.run(
            ["git", "worktree", "add", "--detach", tree, revision], cwd=ROOT, capture_output=True, check=True
        )
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
