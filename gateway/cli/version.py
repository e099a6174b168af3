"""`entrepot version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as version_of

import typer

from gateway.cli.output import JsonOption, print_json


def version(as_json: JsonOption = False) -> None:
    """The version of Entrepôt and of what it runs on."""
    entrepot, python = version_of("entrepot"), platform.python_version()
    if as_json:
        print_json({"entrepot": entrepot, "python": python})
    else:
        typer.echo(f"entrepot {entrepot} (Python {python})")
