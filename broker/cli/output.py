"""Parts that the commands of `entrepot store` share: options, exit codes, and lines for people and programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from entrepot.domain.printable import printable, printable_json

PROBLEMS = 1
UNUSABLE = 2

DataDir = Annotated[Path, typer.Option("--data-dir", metavar="DIR", help="Data directory.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@contextmanager
def readable() -> Iterator[None]:
    """Turn errors into one line on the reason why a directory cannot be read."""
    from entrepot.broker.inspect.verification import NotAStoreError
    from entrepot.domain.errors import EntrepotError

    try:
        yield
    except (NotAStoreError, EntrepotError, OSError) as error:
        message = error.message if isinstance(error, EntrepotError) else str(error)
        say(f"entrepot: {message}", err=True)
        raise typer.Exit(UNUSABLE) from error


def say(text: str, *, err: bool = False) -> None:
    """Print one line. Names in it were chosen by clients."""
    typer.echo(printable(text), err=err)


def say_json(value: object, indent: int | None = None) -> None:
    typer.echo(printable_json(json.dumps(value, indent=indent, ensure_ascii=False)))
