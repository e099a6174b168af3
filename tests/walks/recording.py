"""Recording of a way through the code: the files whose functions are called, in the order of their first calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("domain", "protocols", "gateway", "store_client", "broker")
WAYS: Final = Path(__file__).parent / "ways"
WRITE: Final = "ENTREPOT_WRITE_WAYS"
"""Set to write the kept ways anew: then read the difference."""
Way = dict[str, str]
"""Files below the root, each with the first of its functions that is called."""


@contextmanager
def recorded() -> Iterator[Way]:
    """Record the calls of this thread."""
    way: Way = {}
    prefixes = tuple(f"{ROOT / room}{os.sep}" for room in ROOMS)
    links = tuple(f"{ROOT / 'entrepot' / room}{os.sep}" for room in ROOMS)
    skipped = len(f"{ROOT}{os.sep}"), len(f"{ROOT / 'entrepot'}{os.sep}")

    def called(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            name = frame.f_code.co_filename
            if name.startswith(links):
                way.setdefault(name[skipped[1] :], frame.f_code.co_qualname)
            elif name.startswith(prefixes):
                way.setdefault(name[skipped[0] :], frame.f_code.co_qualname)

    sys.setprofile(called)
    try:
        yield way
    finally:
        sys.setprofile(None)


def main_line(ways: Sequence[Way]) -> Way:
    """Return the steps that all ways have, in the order of the first: background work may come into one."""
    return {file: function for file, function in ways[0].items() if all(file in each for each in ways)}


def picture(way: Way) -> str:
    """One line a file."""
    width = max(map(len, way))
    return "".join(f"{file:{width}}  {function}\n" for file, function in way.items())


def check(name: str, way: Way) -> None:
    """Hold a way against the kept one: it may be shorter, and no longer."""
    kept = WAYS / f"{name}.txt"
    if os.environ.get(WRITE):
        kept.write_text(picture(way))
    known = {line.split()[0] for line in kept.read_text().splitlines()}
    new = [file for file in way if file not in known]
    assert not new, f"the way of {name} goes through {len(way)} files, further ones: {new}\n\n{picture(way)}"
