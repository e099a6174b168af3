"""`entrepot config`: the present settings, and their schema."""

from __future__ import annotations

import json

import typer

from entrepot.gateway.cli import settings_flags
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing
from entrepot.gateway.cli.settings_flags import ConfigOption, SetOption

app = typer.Typer(help="Settings in force, and the schema of all settings.", no_args_is_help=True)


@app.command()
def show(config: ConfigOption = None, set_: SetOption = None, as_json: JsonOption = False) -> None:
    """Show every setting with its value and the source of that value."""
    rows = settings_flags.load(config, set_ or [], {}).rows()
    print_listing(
        {row.key: {"value": row.value, "origin": row.origin} for row in rows},
        ("setting", "value", "origin"),
        ((row.key, _written(row.value), row.origin) for row in rows),
        as_json=as_json,
    )


@app.command()
def schema() -> None:
    """Print the JSON Schema of the settings file."""
    from entrepot.gateway.settings import Settings

    print_json(Settings.model_json_schema())


def _written(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
