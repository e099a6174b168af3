"""Flags for settings: `--config`, `--set`, and those with a name of their own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from entrepot.gateway.cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    from entrepot.gateway.settings import LoadedSettings

ConfigOption = Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings file (TOML).")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting, such as store.flush=async; may be repeated."),
]


def load(config: Path | None, assignments: Iterable[str], named: Mapping[str, tuple[str, object]]) -> LoadedSettings:
    """Load the effective settings of this process. `named` has (flag, value) by dotted key; None is a flag that was not
    given."""
    from entrepot.gateway.settings import SettingsError, load_settings

    flags: dict[str, object] = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"--set {assignment}: write it as key=value, such as --set mqtt.port=1884", USAGE)
        flags[key.strip()] = value
    names: dict[str, str] = {}
    for key, (flag, given) in named.items():
        if given is None:
            continue
        if key in flags:
            raise CommandError(f"{flag} and --set {key} say the same thing twice: give one of them", USAGE)
        flags[key], names[key] = given, flag
    try:
        return load_settings(config, os.environ, flags, names)
    except SettingsError as error:
        raise CommandError(str(error), USAGE) from error
