"""Confirmation of destructive commands: a terminal is asked, others need `--yes`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from entrepot.domain.printable import printable
from entrepot.gateway.cli.errors import USAGE, CommandError

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation; required without a terminal.")]


def confirm(question: str, yes: bool) -> None:
    """Return if the answer is yes. Raises CommandError without a terminal, typer.Abort for a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} There is no terminal to ask: say --yes", USAGE)
    typer.confirm(printable(question), abort=True, err=True)
