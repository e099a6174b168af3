"""`entrepot version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from entrepot.gateway.cli.output import JsonOption, print_outcome


def print_version(asked: bool) -> None:
    """Print the version in one line, and exit, for `entrepot --version`."""
    if asked:
        version()
        raise typer.Exit()


def version(as_json: JsonOption = False) -> None:
    """Print the versions of Entrepôt and Python."""
    entrepot, python = version_of("entrepot"), platform.python_version()
    print_outcome({"entrepot": entrepot, "python": python}, f"entrepot {entrepot} (Python {python})", as_json=as_json)
