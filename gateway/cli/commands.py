"""Groups of commands, ours and those of other packages: entry points in the group `entrepot.commands`, typer apps.

They are loaded only when they are named or listed, so that no command pays for another. A foreign one that cannot be
loaded fails alone: the rest of the command line works without its dependencies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import typer
from typer.core import TyperGroup

from entrepot.gateway.cli.errors import CommandError

GROUP = "entrepot.commands"
PARTS: Final = {
    "topic": "topics:TOPICS",
    "group": "group",
    "message": "message",
    "timer": "timers:TIMERS",
    "transaction": "transactions:TRANSACTIONS",
    "retained": "retained",
    "client": "mqtt_client",
    "session": "sessions:SESSIONS",
    "amqp": "amqp_connection",
    "rocketmq": "rocketmq_client",
    "webhook": "webhooks:WEBHOOKS",
    "namespace": "namespaces:NAMESPACES",
    "user": "user",
    "acl": "acl",
    "cluster": "cluster",
    "bridge": "bridges:BRIDGES",
    "rocketmq-bridge": "rocketmq_bridges:ROCKETMQ_BRIDGES",
    "job": "ingest_jobs:INGEST_JOBS",
    "import": "importing",
    "shovel": "shovel",
    "tier": "tier",
    "config": "config",
}
"""Groups of commands, by name: the module of each, whose `app` is loaded when it is named or listed; or the module of
a noun, whose operations they are made of."""


class CommandGroup(TyperGroup):
    """The top of the command line: its own commands first, then those of the entry points."""

    def list_commands(self, ctx: Any) -> list[str]:
        *own, last = (name for name in super().list_commands(ctx) if name not in PARTS)
        known = [*own, *PARTS, last]
        return known + sorted(name for name in _brought() if name not in known)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        if cmd_name in PARTS:
            return _part(cmd_name)
        entry_point = _brought().get(cmd_name)
        return None if entry_point is None else _load(entry_point)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            self.commands.update((name, _part(name)) for name in PARTS)  # perhaps one of them was meant
        return super().resolve_command(ctx, args)


@cache
def _part(name: str) -> Any:
    group = typer.main.get_group(_app_of(PARTS[name]))
    group.name = name
    return group


def _app_of(part: str) -> typer.Typer:
    module, _, noun = part.partition(":")
    if noun:
        from entrepot.gateway.cli.noun_commands import commands_of  # no other command pays for it

        return commands_of(getattr(import_module(f"entrepot.gateway.operations.nouns.{module}"), noun))
    app: typer.Typer = import_module(f"{__package__}.{module}").app
    return app


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
