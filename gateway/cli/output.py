"""Output of commands: lines and tables for people, JSON for programs.

Names come from the server, and thus from any client: control characters in them do not reach the terminal.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from entrepot.domain.printable import printable, printable_json, printable_lines
from entrepot.gateway.cli.errors import USAGE, CommandError

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_WIDTH_OF_A_PIPE = 10_000
"""Width of a table in a file or a pipe, so that it is never folded."""


def print_json(value: Any) -> None:
    typer.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))


def print_outcome(value: Any, line: str, *, as_json: bool) -> None:
    """Print an outcome: a line for people, or `value` for programs."""
    if as_json:
        print_json(value)
    else:
        print_line(line)


def print_outcomes(outcomes: list[dict[str, Any]], name: str, done: str, *, as_json: bool) -> None:
    """Print what became of each of several things: `name` and `done` are the members with its name and whether it was
    done.  Raises CommandError if anything was not done."""
    if as_json:
        print_json({"value": outcomes})
    for each in () if as_json else outcomes:
        why = each.get("error", {}).get("message", "there is none of that name")
        print_line(f"{each[name]}: {done}" if each[done] else f"{each[name]}: not {done}: {why}", err=not each[done])
    if not all(each[done] for each in outcomes):
        raise CommandError(f"{sum(not each[done] for each in outcomes)} of {len(outcomes)} were not {done}")


def print_line(text: str, *, err: bool = False) -> None:
    """Print one line, on standard output or (`err`) standard error."""
    typer.echo(printable(text), err=err)


def print_text(text: str, *, err: bool = False) -> None:
    """Print a text of perhaps several lines."""
    typer.echo(printable_lines(text), err=err)


def print_bytes(pieces: Iterable[bytes]) -> None:
    """Print a body: unchanged into a file or a pipe, as text on a terminal."""
    if sys.stdout.isatty():
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        for piece in pieces:
            sys.stdout.write(printable_lines(decoder.decode(piece)))
        sys.stdout.write("\n")
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def save_bytes(pieces: Iterator[bytes], output: Path | None) -> None:
    """Write a body into a file, or print it."""
    if output is None:
        print_bytes(pieces)
        return
    first = next(pieces, b"")  # a refusal leaves the file alone
    try:
        with output.open("wb") as file:
            file.write(first)
            file.writelines(pieces)
    except OSError as error:
        raise CommandError(f"--output {output}: {error.strerror}", USAGE) from error


def print_table(columns: Iterable[str], rows: Iterable[Iterable[object]], title: str | None = None) -> None:
    """Print a table; numbers are right-aligned, nothing is read as markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        title=None if title is None else Text(printable(title)),
        title_justify="left",
        pad_edge=False,
    )
    cells = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int) for row in cells)
        table.add_column(Text(printable(column)), justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text("-" if cell is None else printable(str(cell))) for cell in row))
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False).print(table)


def print_listing(
    value: Any,
    columns: Iterable[str],
    rows: Iterable[Iterable[object]],
    *,
    as_json: bool,
    title: str | None = None,
    continued_by: str = "",
) -> None:
    """Print a listing: a table for people, or `value` for programs. `continued_by` is the option for the next page."""
    if as_json:
        print_json(value)
        return
    print_table(columns, rows, title)
    if continued_by and value.get("next") is not None:
        print_line(f"more: {continued_by} {value['next']}", err=True)
    if isinstance(value, dict) and "answered" in value:
        print_missing(value["answered"])


def print_missing(answered: dict[str, Any]) -> None:
    """Name the gateways that did not answer, on standard error: what they have is not in the listing."""
    for each in answered["missing"]:
        print_line(f"not shown: what {each['name']} has ({each['reason']})", err=True)
