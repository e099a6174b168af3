"""`python -m tests.conformance.amqp.run [suite ...] [--against entrepot|rabbitmq|both] [--record]`.

Runs other people's published suites against our server and against Debian's rabbitmq-server.  `--record` keeps the
results in `results.json`, from which the page is made; then `python -m tests.conformance.mqtt.report` writes it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.amqp import fetched, packages, results, servers
from tests.conformance.amqp.outcome import Outcome
from tests.conformance.amqp.playing import play
from tests.conformance.amqp.suites import BY_NAME, SUITES, Suite


def main() -> int:
    """0 where all that was asked for was run, and what passes on RabbitMQ passes on ours, or has its reason."""
    asked = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are ended on the way out
    fetched.fetch()
    suites = [BY_NAME[name] for name in asked.suites] or list(SUITES)
    against = servers.NAMES if asked.against == "both" else (asked.against,)
    absent = missing_packages(suites, against)
    if absent:
        print(packages.told(absent), file=sys.stderr)
    can_run = [name for name in against if not packages.missing(packages.of_server(name))]
    for name in against:
        if name not in can_run:
            print(f"{name}: nothing is run against it")
    for suite in suites:
        why = fetched.missing(suite)
        if why:
            print(f"{suite.name}: not run: {why}")
            continue
        for name in can_run:
            played = run_one(suite, name, asked.tests or ())
            _tell(suite, name, played)
            if asked.record and not asked.tests:
                results.record(suite, name, played)
    unexplained = results.unexplained(suites)
    for test in unexplained:
        print(f"passes on RabbitMQ and not here, without a reason: {test}")
    return 1 if unexplained or absent else 0


def missing_packages(suites: Sequence[Suite], against: Sequence[str]) -> tuple[str, ...]:
    """Debian's packages that are wanted and not installed."""
    wanted = [name for suite in suites for name in packages.of_suite(suite)]
    return packages.missing([*(name for server in against for name in packages.of_server(server)), *wanted])


def run_one(suite: Suite, name: str, tests: tuple[str, ...] = ()) -> Outcome:
    """One suite against one server that is started for it."""
    at = fetched.DIRECTORY / "runs" / suite.name / name
    at.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="entrepot-conformance-") as data,
        servers.start(name, Path(data), suite.needs_management) as ports,
    ):
        played = play(suite, ports, at, tests)
        log = Path(data) / "server.log"
        if log.exists():
            (at / "server.log").write_bytes(log.read_bytes())
    return played


def _tell(suite: Suite, name: str, played: Outcome) -> None:
    counts = f"{len(played.passed)} passed, {len(played.skipped)} skipped, {len(played.failed)} failed"
    print(f"{suite.name} {suite.version} on {name}: {counts} of {played.collected} in {played.seconds} s", flush=True)
    for test, why in played.failed.items():
        print(f"  failed: {test}: {why}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.conformance.amqp.run", description="AMQP suites of other people")
    parser.add_argument("suites", nargs="*", choices=[[], *BY_NAME], metavar="suite", help=", ".join(BY_NAME))
    parser.add_argument("--against", choices=[*servers.NAMES, "both"], default="both")
    parser.add_argument("--tests", nargs="*", help="only these tests of the suite, by their names; nothing is recorded")
    parser.add_argument("--record", action="store_true", help="keep the results in results.json")
    asked = parser.parse_args()
    asked.tests = tuple(asked.tests or ())
    return asked


if __name__ == "__main__":
    sys.exit(main())
