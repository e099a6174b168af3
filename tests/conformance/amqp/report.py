"""The AMQP part of docs/conformance.md: the suites, their results on both servers, what is left out, what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.amqp import results
from tests.conformance.amqp.suite_differences import DIFFERENCES
from tests.conformance.amqp.suites import SUITES, Suite

_HEAD: Final = """
## AMQP 0-9-1: other people's suites

`make conformance` fetches the test suites that clients of RabbitMQ publish, by name and version, and runs them against
our server and against Debian's rabbitmq-server 3.10 on the same machine. The results below are those of the last run
that was recorded (`tests/conformance/amqp/results.json`). While a suite runs, Python's sockets connect to loopback
addresses alone; tests that want another address are left out.
Debian's packages that it needs are rabbitmq-server, for celery redis-server, for amqp091-go golang-go
(or Go in another way); it names those that are not installed, and runs what can be run without them.

| Suite | Version | From | Run | Left out | Passed here | RabbitMQ | Skipped here | RabbitMQ | Failed here | RabbitMQ |
|---|---|---|---|---|---|---|---|---|---|---|"""


def lines() -> Iterator[str]:
    """The section, without a run."""
    yield _HEAD
    for suite in SUITES:
        yield _row(suite)
    yield "\n### Tests that are left out\n"
    for suite in SUITES:
        for why in dict.fromkeys(suite.left_out.values()):
            names = [f"`{name}`" for name, reason in suite.left_out.items() if reason == why]
            yield f"- {suite.name}: {why}: {', '.join(names)}."
    yield "\n### Tests that pass on RabbitMQ and not here\n"
    for one in DIFFERENCES:
        yield f"- {one.suite}: {one.why} Tests: {', '.join(f'`{test}`' for test in one.tests)}."
    if not DIFFERENCES:
        yield "There are none."
    yield from _failing_everywhere()


def _row(suite: Suite) -> str:
    ours, theirs = results.kept(suite, "entrepot"), results.kept(suite, "rabbitmq")
    run = max((each.collected for each in (ours, theirs) if each is not None), default=0)
    cells = [suite.name, suite.version, suite.source.value, str(run), str(suite.tests_left_out)]
    for count in (lambda kept: kept.passed, lambda kept: len(kept.skipped), lambda kept: len(kept.failed)):
        cells += ["not run" if each is None else str(count(each)) for each in (ours, theirs)]
    return f"| {' | '.join(cells)} |"


def _failing_everywhere() -> Iterator[str]:
    """What RabbitMQ fails, for whoever compares."""
    yield "\n### Tests that fail on RabbitMQ\n"
    found = False
    for suite in SUITES:
        ours, theirs = results.kept(suite, "entrepot"), results.kept(suite, "rabbitmq")
        for test in sorted({} if theirs is None else theirs.failed):
            found = True
            here = "not run here" if ours is None else "fails here too" if test in ours.failed else "passes here"
            yield f"- {suite.name}: `{test}` {here}."
    if not found:
        yield "There are none."
