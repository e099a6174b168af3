"""The version of this program."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def own_version() -> str:
    """As it was installed; 0 where it runs without being so."""
    try:
        return version("entrepot")
    except PackageNotFoundError:
        return "0"
