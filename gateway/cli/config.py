"""`entrepot config`: the present settings, those of running gateways, and their schema."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from entrepot.gateway.cli import settings_flags
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.output import JsonOption, print_json, print_listing, print_missing
from entrepot.gateway.cli.settings_flags import ConfigOption, SetOption

Only = Literal["all", "set", "different"]

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


@app.command()
def running(
    find: Annotated[str, typer.Option(help="Part of the key or the description.")] = "",
    only: Annotated[Only, typer.Option(help="All, those that are set, or those that differ.")] = "all",
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Show the settings of a running gateway, and what differs at the others. Secrets are masked."""
    answer = Client(server).request("GET", "/api/v1/settings", query={"find": find, "only": only})
    print_listing(
        answer,
        ("setting", "value", "origin", "different at"),
        (
            (row["key"], _written(row["value"]), row["origin"], ", ".join(map(_elsewhere, row["different"])))
            for row in answer["value"]
        ),
        as_json=as_json,
    )
    print_missing(answer["answered"])


def _elsewhere(found: dict[str, Any]) -> str:
    return f"{found['gateway']}: {_written(found['value'])}"


def _written(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)
