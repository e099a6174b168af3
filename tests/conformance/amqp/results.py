"""The results of the last runs, which are committed: the page is made of them without running a suite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.conformance.amqp.outcome import Outcome
from tests.conformance.amqp.suite_differences import REASONS
from tests.conformance.amqp.suites import SUITES, Suite

FILE: Final = Path(__file__).resolve().parent / "results.json"
"""By suite and server: how many passed, what was skipped or failed and why, and the seconds it took."""


class Kept:
    """What is kept of one run."""

    def __init__(self, fields: dict[str, object]) -> None:
        passed, skipped, failed, seconds = (fields[key] for key in ("passed", "skipped", "failed", "seconds"))
        assert isinstance(passed, int) and isinstance(skipped, dict)
        assert isinstance(failed, dict) and isinstance(seconds, float)
        self.passed, self.skipped, self.failed, self.seconds = passed, skipped, failed, seconds

    @property
    def collected(self) -> int:
        return self.passed + len(self.skipped) + len(self.failed)


def kept(suite: Suite, server: str) -> Kept | None:
    """The last run of a suite against a server, if it was of this version."""
    of_suite = _read().get(suite.name, {})
    if of_suite.get("version") != suite.version or server not in of_suite:
        return None
    return Kept(of_suite[server])


def record(suite: Suite, server: str, played: Outcome) -> None:
    """Keep a run in the place of the one before."""
    everything = _read()
    of_suite = everything.setdefault(suite.name, {})
    if of_suite.get("version") != suite.version:
        of_suite.clear()
    of_suite["version"] = suite.version
    of_suite[server] = {
        "passed": len(played.passed),
        "skipped": dict(sorted(played.skipped.items())),
        "failed": dict(sorted(played.failed.items())),
        "seconds": played.seconds,
    }
    ordered = {one.name: everything[one.name] for one in SUITES if one.name in everything}
    FILE.write_text(json.dumps(ordered, indent=1, sort_keys=False) + "\n", encoding="utf-8")


def worse(suite: Suite) -> list[str]:
    """Tests of a suite that pass on RabbitMQ and fail on ours."""
    ours, theirs = kept(suite, "entrepot"), kept(suite, "rabbitmq")
    if ours is None or theirs is None:
        return []
    return [test for test in ours.failed if test not in theirs.failed and test not in theirs.skipped]


def unexplained(suites: Sequence[Suite] = SUITES) -> list[str]:
    """All of them that have no reason in `suite_differences.py`."""
    return [f"{suite.name} {test}" for suite in suites for test in worse(suite) if (suite.name, test) not in REASONS]


def _read() -> dict[str, dict]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
