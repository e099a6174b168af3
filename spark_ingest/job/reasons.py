"""Reasons: what Spark's errors say, without the stacks of two languages."""

from __future__ import annotations

import re
from typing import Final

try:
    from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
except ImportError:  # a client of Spark Connect alone

    class Py4JError(Exception):  # type: ignore[no-redef]
        """A stand-in: nothing raises it."""

    Py4JNetworkError = Py4JError


__all__ = ["JAVA_IS_GONE", "Py4JError", "reason_of"]

JAVA_IS_GONE: Final = (Py4JNetworkError, ConnectionError)
"""Errors of calls to Spark's Java that has ended."""

_NAMED: Final = re.compile(r"(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Exception): (.*)")
"""The line of a Python traceback with the error."""
_AROUND: Final = (
    re.compile(r"^:\s*"),
    re.compile(r"^\[[A-Z0-9_.]+\]\s*"),
    re.compile(r"^Query \[id = [^\]]*\] terminated with exception:\s*"),
    re.compile(r"^Job aborted due to stage failure:\s*"),
    re.compile(r"^(?:Task \d+ in stage [\d.]+ failed \d+ times?, most recent failure: )?Lost task [^:]*:\s*"),
    re.compile(r"^(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error):\s+"),
    re.compile(r"\s*SQLSTATE: \w+;?(?: \(no cause message\))?$"),
)
"""Wrapping of the reason in a line of Spark's: conditions, places, names of classes, and codes."""
_NO_REASON: Final = re.compile(
    r"(?:An error occurred while calling |at (?:[a-z_]\w*\.)+|JVM stacktrace|Traceback |File \")"
)
_DESCRIPTION: Final = "=== Streaming Query ==="
"""The line after which Spark describes the query."""
_CLASS: Final = re.compile(r"(?:[a-z_]\w*\.)+[A-Z][\w$]*")
MOST: Final = 500
"""Longest reason, in characters."""


def reason_of(failure: Exception) -> str:
    """Return the reason of a failure that Spark tells."""
    told = str(failure).partition(_DESCRIPTION)[0]
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    for line in lines:
        if "DATA_LOSS:" in line:
            return _bare(line[line.index("DATA_LOSS:") :])
    named = [found[1] for line in lines if (found := _NAMED.fullmatch(line)) and found[1]]
    if named:
        return _bare(named[-1])
    bare = (_bare(line) for line in lines if not _NO_REASON.match(line))
    return next((line for line in bare if line), "it gave no reason: one of its processes may have been killed")


def _bare(line: str) -> str:
    before = ""
    while line != before:
        before = line
        for around in _AROUND:
            line = around.sub("", line)
    if _CLASS.fullmatch(line):
        line = line.rpartition(".")[2]
    return line[:MOST]
