"""`entrepot cluster backup`: all brokers of a cluster bring their backups up to date, at one time."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_line

POLL_SECONDS = 0.5


def backup(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[BROKER]...", help="Brokers to save; else all.", show_default=False),
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest wait, in seconds.", min=0)] = 86_400,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Have brokers bring their backups up to date, at the place of their settings (backup.place).

    Each backup is a moment of one broker. The command tells what may be missing between them.
    """
    from entrepot.domain.backups import between
    from entrepot.domain.timestamp import to_epoch_ms

    client = Client(server)
    asked = names or [each["name"] for each in client.get("/api/v1/brokers")["value"]]
    found = {name: client.request("POST", f"{_path(name)}:backup") for name in asked}
    end = time.monotonic() + timeout
    while running := [name for name, each in found.items() if each["isRunning"]]:
        if time.monotonic() > end:
            raise CommandError(f"after {timeout:g} s these are not saved yet: {', '.join(running)}")
        time.sleep(POLL_SECONDS)
        for name in running:
            found[name] = _same_run(found[name], client.get(f"{_path(name)}/backup"))
    moments = {name: to_epoch_ms(each["taken"]) or 0 for name, each in found.items() if each["taken"]}
    words = between(moments)
    if as_json:
        print_json({"value": list(found.values()), "between": words})
    else:
        for name, each in found.items():
            print_line(f"broker {name}: {_shown(each)}")
        for each in words:
            print_line(each)
    if failed := [name for name, each in found.items() if each["problem"]]:
        raise CommandError(f"the backup of {', '.join(failed)} failed")


def _same_run(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return the state of the run that was seen; of one that is known no more, that it was broken off."""
    if now["began"] == before["began"]:
        return now
    return {**before, "isRunning": False, "problem": "the broker began anew, or has another master: ask again"}


def _path(name: str) -> str:
    return f"/api/v1/brokers/{segment(name)}"


def _shown(backup: dict[str, Any]) -> str:
    if backup["problem"]:
        return str(backup["problem"])
    sealed = f", encrypted by the key {backup['key']}" if backup["key"] else ""
    return (
        f"the log from {backup['from']} to {backup['to']} is in {backup['place']} since {backup['taken']}: "
        f"{backup['copiedBytes']} bytes were copied{sealed}"
    )
