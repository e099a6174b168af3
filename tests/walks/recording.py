"""Recording of a way through the code: the files whose functions are called, in the order of their first calls.

A file is on the main line of a way if its calls lead to one of the ends: where bytes rest, or leave.  The other files
are asked on the way, and what they answer stays there: a reader may skip them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("domain", "protocols", "gateway", "store_client", "broker")
WAYS: Final = Path(__file__).parent / "ways"
WRITE: Final = "ENTREPOT_WRITE_WAYS"
"""Set to write the kept ways anew: then read the difference."""
ASKED: Final = "    "
"""Indentation of a file that is only asked."""
ENDS: Final = (
    "broker/store/disk.py",
    "broker/store/sync_channel.py",
    "broker/store/record_reading.py",
    "protocols/mqtt/outgoing.py",
    "protocols/amqp/outgoing.py",
    "gateway/http/requests/asgi.py",
    "broker/remoting/client_channel.py",
    "protocols/wire/frames.py",
)
"""The disk, written, synced and read; the answer of each door; both ends of the wire to a broker."""


@dataclass(slots=True)
class Way:
    """`steps`: files below the root, each with the first of its functions that is called.  `calls`: (from, to)."""

    steps: dict[str, str] = field(default_factory=dict)
    calls: set[tuple[str, str]] = field(default_factory=set)

    @property
    def main_line(self) -> list[str]:
        """The files whose calls lead to an end, and the ends."""
        leading: set[str] = {end for end in ENDS if end in self.steps}
        while (
            further := {caller for caller, called in self.calls if called in leading and caller in self.steps} - leading
        ):
            leading |= further
        return [file for file in self.steps if file in leading]


class _Files:
    """Names of files below the root, by their names in code objects; None for those of other rooms."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def of(self, name: str) -> str | None:
        if name not in self._known:
            self._known[name] = self._found(name)
        return self._known[name]

    @staticmethod
    def _found(name: str) -> str | None:
        for root in (ROOT / "entrepot", ROOT):
            below = name.removeprefix(f"{root}{os.sep}")
            if below != name and below.partition("/")[0] in ROOMS:
                return below
        return None


@contextmanager
def recorded() -> Iterator[Way]:
    """Record the calls of this thread."""
    way, files = Way(), _Files()

    def called(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or (file := files.of(frame.f_code.co_filename)) is None:
            return
        way.steps.setdefault(file, frame.f_code.co_qualname)
        caller = frame.f_back
        while caller is not None:
            above = files.of(caller.f_code.co_filename)
            if above is not None:
                if above != file:
                    way.calls.add((above, file))
                return
            caller = caller.f_back

    sys.setprofile(called)
    try:
        yield way
    finally:
        sys.setprofile(None)


def common(ways: Sequence[Way]) -> Way:
    """Return what all ways have, in the order of the first: background work may come into one."""
    steps = {file: name for file, name in ways[0].steps.items() if all(file in each.steps for each in ways)}
    return Way(steps, set.intersection(*(each.calls for each in ways)))


def picture(way: Way) -> str:
    """Return a count, and one line a file: those of the main line begin at the margin."""
    main_line = way.main_line
    width = max(map(len, way.steps)) + len(ASKED)
    lines = [f"{len(main_line)} files on the main line, {len(way.steps) - len(main_line)} are asked\n\n"]
    for file, function in way.steps.items():
        shown = file if file in main_line else ASKED + file
        lines.append(f"{shown:{width}}  {function}\n")
    return "".join(lines)


def kept_steps(text: str) -> tuple[set[str], set[str]]:
    """Return the files of a kept picture: (of the main line, all)."""
    lines = text.splitlines()[2:]
    return {line.split()[0] for line in lines if not line.startswith(ASKED)}, {line.split()[0] for line in lines}


def check(name: str, way: Way) -> None:
    """Hold a way against the kept one: it may be shorter, and no longer."""
    kept = WAYS / f"{name}.txt"
    if os.environ.get(WRITE):
        kept.write_text(picture(way))
    main_line, known = kept_steps(kept.read_text())
    new = [file for file in way.steps if file not in known] + [file for file in way.main_line if file not in main_line]
    assert not new, f"the way of {name} is longer by {new}\n\n{picture(way)}"
