"""Hosts: the program of each published client, which lines of JSON tell what to do, and what it takes to run it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.processes.node_host import ENVIRONMENT, MODULES, PEERS

GO: Final = PEERS / "rocketmq-go"
GO_PROGRAM: Final = GO / "built" / "rocketmq-go-host"
RUST: Final = PEERS / "rocketmq-rust"
RUST_PROGRAM: Final = RUST / "built" / "rocketmq-rust-host"
HERE: Final = Path(__file__).parent
NODE_PACKAGE: Final = "rocketmq-client-nodejs"
PYTHON_PACKAGE: Final = "rocketmq-python-client"
JAVA_VERSIONS: Final = tuple(re.findall("<rocketmq.sdks>(.*)<", (PEERS / "pom.xml").read_text())[0].split())
"""The newest last."""
JAVA_COMPILE_SECONDS: Final = 120
JAVA_QUICK: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx192m")
"""It lives for a minute."""


@dataclass(frozen=True, slots=True)
class Host:
    """How a client runs.  `package`: its published name.  `absent` says what is missing here, "" for nothing.
    `command`: the program, of a folder that it may write to; it is given one argument more.  `join`: how several
    endpoints are written."""

    package: str
    version: Callable[[], str]
    absent: Callable[[], str]
    command: Callable[[Path], list[str]]
    join: Callable[[Sequence[str]], str] = ";".join

    @property
    def name(self) -> str:
        """The package with its version."""
        return f"{self.package} {self.version()}"


def environment_of(home: Path) -> dict[str, str]:
    """What a host's process sees of ours: packages of Node, and a home of its own for logs."""
    return {**ENVIRONMENT, "PATH": os.environ["PATH"], "HOME": str(home)}


def java_jar(version: str) -> Path:
    """Where `make peers-java-sdk` puts a version."""
    return PEERS / "rocketmq-sdk" / f"rocketmq-client-java-{version}.jar"


def java_absent(version: str = JAVA_VERSIONS[-1]) -> str:
    """What is missing for a version of the Java SDK."""
    if shutil.which("javac") is None or not java_jar(version).exists():
        return f"RocketMQ's Java SDK {version} is not fetched (make peers, with a JDK and Maven)"
    return ""


@functools.cache
def _java_classes() -> tempfile.TemporaryDirectory[str]:
    """Compile the host once in a run of tests, at whose end the classes go."""
    into = tempfile.TemporaryDirectory(prefix="rocketmq-java-host")
    jar = str(java_jar(JAVA_VERSIONS[-1]))
    command = ["javac", "-cp", jar, "-d", into.name, str(HERE / "JavaHost.java")]
    subprocess.run(command, check=True, timeout=JAVA_COMPILE_SECONDS)
    return into


def _java(home: Path) -> list[str]:
    path = f"{java_jar(JAVA_VERSIONS[-1])}:{_java_classes().name}"
    return ["java", *JAVA_QUICK, f"-Duser.home={home}", "-cp", path, "JavaHost"]


def _node_absent() -> str:
    if shutil.which("node") is None or not (MODULES / NODE_PACKAGE).exists():
        return f"{NODE_PACKAGE} is not installed (make peers, with npm)"
    return ""


def _node_version() -> str:
    return str(json.loads((PEERS / "package.json").read_text())["dependencies"][NODE_PACKAGE])


def _go_version() -> str:
    return re.findall("golang/v5 v(.*)", (GO / "go.mod").read_text())[0]


def _go_absent() -> str:
    return "" if GO_PROGRAM.exists() else "the Go SDK's program is not built (make peers, with Go)"


def _go_join(endpoints: Sequence[str]) -> str:
    """A list takes the scheme of the SDK's own resolver."""
    return endpoints[0] if len(endpoints) == 1 else "ip:///" + ";".join(endpoints)


def _rust_version() -> str:
    return re.findall('rocketmq = "=(.*)"', (RUST / "Cargo.toml").read_text())[0]


def _rust_absent() -> str:
    return "" if RUST_PROGRAM.exists() else "the Rust SDK's program is not built (make peers, with cargo)"


def _python_absent() -> str:
    return "" if importlib.util.find_spec("rocketmq") else f"{PYTHON_PACKAGE} is not installed"


HOSTS: Final = {
    "java": Host("rocketmq-client-java", lambda: JAVA_VERSIONS[-1], java_absent, _java),
    "python": Host(
        PYTHON_PACKAGE,
        lambda: importlib.metadata.version(PYTHON_PACKAGE),
        _python_absent,
        lambda _: [sys.executable, str(HERE / "python_host.py")],
    ),
    "node": Host(NODE_PACKAGE, _node_version, _node_absent, lambda _: ["node", str(HERE / "node_host.js")]),
    "go": Host("rocketmq-clients/golang/v5", _go_version, _go_absent, lambda _: [str(GO_PROGRAM)], _go_join),
    "rust": Host("rocketmq (crate)", _rust_version, _rust_absent, lambda _: [str(RUST_PROGRAM)], ",".join),
}
"""By language."""
