"""Programs in Java with RabbitMQ's client and with Spring AMQP: each plays its scenes on a server, and says how."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.waiting import PATIENCE_SECONDS

FETCHED: Final = Path(__file__).resolve().parents[3] / "peers" / "amqp-java"
"""Where `make peers` puts the jars, with a stamp when they are all there."""
PROGRAMS: Final = Path(__file__).with_name("java")
_VERSIONS: Final = dict(re.findall(r"<([a-z-]+)\.version>(.*)<", (FETCHED / "pom.xml").read_text()))
CLIENT: Final = _VERSIONS["amqp-client"]
SPRING: Final = _VERSIONS["spring-rabbit"]
_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")
_PLAY_SECONDS: Final = 3 * PATIENCE_SECONDS


@dataclass(frozen=True)
class Outcome:
    """Outcome of a scene, with the words for it."""

    went: str
    seen: str


def require_java_clients() -> None:
    """Skip the test where the clients cannot run."""
    if shutil.which("java") is None or shutil.which("setpriv") is None:
        pytest.skip("the Java clients of AMQP need Java, and setpriv")
    if not (FETCHED / f".fetched-{CLIENT}-{SPRING}").exists():
        pytest.skip(f"amqp-client {CLIENT} and Spring AMQP {SPRING} are not fetched (make peers, with Java and Maven)")


def play(program: str, port: int, management_port: int) -> dict[str, Outcome]:
    """The outcomes of a program's scenes by their names."""
    require_java_clients()
    source = PROGRAMS / f"{program}.java"
    command = ["setpriv", "--pdeathsig", "KILL", "java", *_FLAGS, "-cp", f"{FETCHED}/lib/*", str(source)]
    command += [str(port), str(management_port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_PLAY_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return {name: Outcome(went, seen) for name, went, seen in lines}
