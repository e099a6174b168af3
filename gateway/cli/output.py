"""What commands print on standard output: tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_WIDTH_OF_A_PIPE = 10_000
"""A table that goes into a file or a pipe is never folded."""


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]], title: str | None = None) -> None:
    """A table; numbers stand right, nothing is read as markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text("-" if cell is None else str(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False).print(table)
