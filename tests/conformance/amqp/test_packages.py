"""`make conformance` says which of Debian's packages it lacks, and runs what it can without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.amqp import fetched, packages, run
from tests.conformance.amqp.outcome import Outcome
from tests.conformance.amqp.suites import BY_NAME, SUITES, Suite

EVERYTHING = tuple(packages.IS_INSTALLED)


class Machine:
    """A machine with some packages; what would be run on it is noted."""

    def __init__(self, patch: pytest.MonkeyPatch, *absent: str) -> None:
        self.ran: list[tuple[str, str]] = []
        for name in EVERYTHING:
            patch.setitem(packages.IS_INSTALLED, name, lambda name=name: name not in absent)  # type: ignore[misc, call-overload]
        patch.setattr(fetched, "fetch", lambda: None)
        patch.setattr(fetched, "PYTHON", Path(sys.executable))
        patch.setattr(fetched, "CERTIFICATES", Path(sys.executable))
        patch.setattr(fetched, "directory", lambda suite: Path(sys.executable))
        patch.setattr(run, "run_one", self._note)
        patch.setattr(sys, "argv", ["run"])

    def _note(self, suite: Suite, server: str, tests: tuple[str, ...]) -> Outcome:
        self.ran.append((suite.name, server))
        return Outcome(passed=["one"])


def test_with_all_packages_every_suite_is_run_on_both_servers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(monkeypatch)
    assert run.main() == 0
    assert machine.ran == [(suite.name, server) for suite in SUITES for server in ("entrepot", "rabbitmq")]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("absent", EVERYTHING)
def test_what_is_missing_is_named_and_the_rest_is_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], absent: str
) -> None:
    machine = Machine(monkeypatch, absent)
    assert run.main() == 1
    assert capsys.readouterr().err == (
        f"not installed: {absent}; on Debian: apt-get install --no-install-recommends {absent}\n"
    )
    without = {suite.name for suite in SUITES if absent in packages.of_suite(suite)}
    servers = {"entrepot"} if absent == "rabbitmq-server" else {"entrepot", "rabbitmq"}
    assert set(machine.ran) == {(name, server) for name in set(BY_NAME) - without for server in servers}


def test_all_that_is_missing_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Machine(monkeypatch, *EVERYTHING)
    assert run.main() == 1
    listed = "rabbitmq-server redis-server golang-go"
    assert f"not installed: {listed}; on Debian: apt-get install" in capsys.readouterr().err


def test_only_what_is_asked_for_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, *EVERYTHING)
    monkeypatch.setattr(sys, "argv", ["run", "kombu", "--against", "entrepot"])
    assert run.main() == 0
    assert machine.ran == [("kombu", "entrepot")]


@pytest.mark.interop
def test_the_names_are_those_of_debian() -> None:
    """Where Debian's index is at hand; a name that it does not know could not be installed."""
    try:
        known = subprocess.run(["apt-cache", "show", *EVERYTHING], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        pytest.skip("there is no apt-cache")
    if "Package: " not in known:
        pytest.skip("apt-cache has no index")
    assert {line.removeprefix("Package: ") for line in known.splitlines() if line.startswith("Package: ")} == set(
        EVERYTHING
    )
