"""Commands of other packages: entry points in the group `entrepot.commands`, each a typer app.

They are loaded only when they are named or listed. One that cannot be loaded fails alone: the rest of the command line
works without its dependencies.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import typer
from typer.core import TyperGroup

from entrepot.gateway.cli.errors import CommandError

GROUP = "entrepot.commands"


class CommandGroup(TyperGroup):
    """The top of the command line: its own commands first, then those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = super().list_commands(ctx)
        return own + sorted(name for name in _brought() if name not in own)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        entry_point = _brought().get(cmd_name)
        return None if entry_point is None else _load(entry_point)


def _brought() -> dict[str, EntryPoint]:
    return {entry_point.name: entry_point for entry_point in entry_points(group=GROUP)}


def _load(entry_point: EntryPoint) -> Any:
    try:
        command = typer.main.get_command(entry_point.load())
    except Exception as error:  # noqa: BLE001 - whatever another package does while it is imported
        return _unavailable(entry_point.name, error)
    command.name = entry_point.name
    return command


def _unavailable(name: str, error: Exception) -> Any:
    reason = f"{type(error).__name__}: {error}"
    app = typer.Typer()
    app.command(
        name,
        help=f"Not available ({reason}).",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(_refuse(f"the command {name!r} cannot be loaded: {reason}"))
    return typer.main.get_command(app)


def _refuse(message: str) -> Callable[[], None]:
    def command() -> None:
        raise CommandError(message)

    return command
