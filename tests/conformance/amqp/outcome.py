"""Outcome: what became of each test of a run, read from what pytest and go test write."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

MAX_REASON_CHARACTERS = 300


@dataclass(slots=True)
class Outcome:
    """`passed`: names; `skipped`, `failed`: names with the reason, cut.  `seconds`: of the run."""

    passed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def collected(self) -> int:
        return len(self.passed) + len(self.skipped) + len(self.failed)


def of_junit(path: Path) -> Outcome:
    """Of pytest's XML, with names such as `tests.test_channel::test_simple[amqp]`."""
    outcome = Outcome()
    worst: dict[str, tuple[str, str]] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        found = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        kind = "passed" if found is None else "skipped" if found.tag == "skipped" else "failed"
        text = "" if found is None else (found.get("message") or found.text or "")
        # A test that passed and whose fixture failed after it is there twice.
        if name not in worst or kind == "failed":
            worst[name] = (kind, " ".join(text.split())[:MAX_REASON_CHARACTERS])
    for name, (kind, text) in worst.items():
        if kind == "passed":
            outcome.passed.append(name)
        elif kind == "skipped":
            outcome.skipped[name] = text
        else:
            outcome.failed[name] = text
    return outcome


def of_go(lines: Iterable[str]) -> Outcome:
    """Of what `go test -json` prints.  A test that never ended has failed."""
    outcome = Outcome()
    output: dict[str, list[str]] = {}
    ended: dict[str, str] = {}
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        name = event.get("Test", "")
        if not name:
            continue
        written = output.setdefault(name, [])
        if event["Action"] == "output":
            written.append(event["Output"])
        elif event["Action"] in ("pass", "fail", "skip"):
            ended[name] = event["Action"]
    for name, written in output.items():
        how = ended.get(name, "fail")
        text = " ".join("".join(part for part in written if not part.startswith(("=== ", "--- "))).split())
        if how == "pass":
            outcome.passed.append(name)
        elif how == "skip":
            outcome.skipped[name] = text[:MAX_REASON_CHARACTERS]
        else:
            outcome.failed[name] = text[:MAX_REASON_CHARACTERS] or "did not end"
    return outcome
