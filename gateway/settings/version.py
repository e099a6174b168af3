"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """Return the installed version, or 0 where the program is not installed."""
    try:
        return version("entrepot")
    except PackageNotFoundError:
        return "0"
