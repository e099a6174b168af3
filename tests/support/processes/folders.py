"""Folders of servers that are started late, below one that their fixture has made."""

from __future__ import annotations

from pathlib import Path


def subfolder(folder: Path, name: str) -> Path:
    """Make a folder below one.  A folder that pytest makes goes with the fixture during whose set-up it is made: that
    of a test, where a server of the whole run is first asked for there."""
    made = folder / name
    made.mkdir()
    return made
