"""What the targets of the Makefile install: no more than they need, once, and they say so."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = """#!/bin/bash
# Stands in for Python and pip: makes what `venv` makes, and notes what is asked for.
case "$*" in
  "-m venv "*) mkdir -p .venv/bin; for name in python pip entrepot; do cp "$0" .venv/bin/$name; done;;
  *"pip install"*) echo "${@: -1}" >> asked
    for n in $(seq 12); do echo "Collecting package-$n"; done; echo "Installing collected packages: package-1"
    [ ! -e broken ];;
  *) echo "ran $(basename "$0") $*" >> ran;;
esac
"""


class Checkout:
    """A folder with the Makefile, and a Python that installs nothing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
            shutil.copy(ROOT / name, directory)
            os.utime(directory / name, (1, 1))
        (directory / "python").write_text(PYTHON)
        (directory / "python").chmod(0o755)

    def make(self, *targets: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
        command = ["make", "--no-print-directory", f"PYTHON={self.directory}/python", *targets]
        return subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False)

    def asked(self) -> list[str]:
        """What pip was asked for since the last time."""
        path = self.directory / "asked"
        found = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return found


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_first_run_installs_what_serving_needs_and_says_so(checkout: Checkout) -> None:
    done = checkout.make("run")
    assert (done.returncode, checkout.asked()) == (0, ["."]), done.stderr
    told = done.stdout.splitlines()
    assert told[0].startswith("Installing what serving needs into .venv: about 200 MB")
    assert told[1:] == ["  10 packages found", "  unpacking them"]
    assert "ran entrepot serve" in (checkout.directory / "ran").read_text()
    assert checkout.make("run").stdout == "" and checkout.asked() == []


def test_each_target_adds_what_it_needs(checkout: Checkout) -> None:
    for target, asked in (
        ("demo", ["."]),
        ("cluster", []),
        ("demo-spark", [".[spark]"]),
        ("run", []),
        ("setup", [".[dev]"]),
        ("demo-spark", []),
        ("run", []),
    ):
        done = checkout.make(target)
        assert (done.returncode, checkout.asked()) == (0, asked), (target, done.stderr)


def test_the_whole_set_stands_for_the_others_until_a_requirement_changes(checkout: Checkout) -> None:
    checkout.make("setup")
    assert checkout.asked() == [".[dev]"]
    for name in (".installed-core", ".installed-spark"):  # as a .venv of an older Makefile has it
        (checkout.directory / ".venv" / name).unlink()
    assert checkout.make("run", "demo-spark").returncode == 0 and checkout.asked() == []
    stamp = checkout.directory / ".venv" / ".installed-core"
    later = stamp.stat().st_mtime + 10
    os.utime(checkout.directory / "pyproject.toml", (later, later))
    assert checkout.make("run").returncode == 0 and checkout.asked() == ["."]


def test_what_could_not_be_installed_is_tried_again(checkout: Checkout) -> None:
    (checkout.directory / "broken").touch()
    assert checkout.make("run").returncode != 0
    assert "entrepot serve" not in (checkout.directory / "ran").read_text()
    (checkout.directory / "broken").unlink()
    assert checkout.make("run").returncode == 0 and checkout.asked() == [".", "."]


def test_tests_and_tools_need_it_all() -> None:
    told = subprocess.run(["make", "-n", "-B", "test", "check"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ".[dev]" in told.stdout


class TestPeersOfMaven:
    """Jars are fetched where there are Java, Maven and a repository; else it is told, and nothing fails."""

    @pytest.fixture
    def programs(self, checkout: Checkout) -> Path:
        """A folder with all that the target calls, without Java and Maven."""
        for pom in ("tests/peers/pom.xml", "tests/peers/amqp-java/pom.xml"):
            (checkout.directory / pom).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / pom, checkout.directory / pom)
        found = checkout.directory / "programs"
        found.mkdir()
        for name in ("make", "bash", "sed", "rm", "mkdir", "touch", "tail"):
            (found / name).symlink_to(shutil.which(name) or name)
        return found

    def add(self, programs: Path, name: str, code: int = 0) -> None:
        (programs / name).write_text(
            f"#!/bin/bash\necho asked >> {programs}/{name}.asked\necho no route\nexit {code}\n"
        )
        (programs / name).chmod(0o755)

    def fetch(self, checkout: Checkout, programs: Path, target: str = "peers-maven") -> str:
        command, environment = ["make", "--no-print-directory", target], {"PATH": str(programs)}
        done = subprocess.run(
            command, cwd=checkout.directory, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def test_what_is_missing_is_told(self, checkout: Checkout, programs: Path) -> None:
        assert self.fetch(checkout, programs).startswith("peers: no Java here")
        self.add(programs, "java")
        assert self.fetch(checkout, programs).startswith("peers: no Maven here")
        self.add(programs, "mvn", code=1)
        told = self.fetch(checkout, programs).splitlines()
        assert told[0] == "no route"
        assert told[1].startswith("peers: Maven did not fetch RocketMQ")

    def test_a_version_is_fetched_once(self, checkout: Checkout, programs: Path) -> None:
        for name in ("java", "mvn"):
            self.add(programs, name)
        for _ in range(2):
            assert self.fetch(checkout, programs).endswith("is there\n")
        assert (programs / "mvn.asked").read_text() == "asked\n"
        pom = checkout.directory / "tests/peers/pom.xml"
        pom.write_text(pom.read_text().replace("<rocketmq.version>", "<rocketmq.version>9."))
        assert self.fetch(checkout, programs).startswith("peers: RocketMQ 9.")
        assert (programs / "mvn.asked").read_text() == "asked\nasked\n"

    def test_clients_of_amqp_are_fetched_once(self, checkout: Checkout, programs: Path) -> None:
        assert self.fetch(checkout, programs, "peers-amqp-java").startswith("peers: no Maven here")
        self.add(programs, "mvn", code=1)
        assert "peers: Maven did not fetch amqp-client" in self.fetch(checkout, programs, "peers-amqp-java")
        self.add(programs, "mvn")
        for _ in range(2):
            assert self.fetch(checkout, programs, "peers-amqp-java").endswith("are there\n")
        assert (programs / "mvn.asked").read_text() == "asked\nasked\n"
