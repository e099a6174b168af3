"""Hints: the request and the commands of each operation, as the dashboard says them beside what it does.

    {"putGroup": {"method": "PUT", "path": "/api/v1/groups/{name}",
                  "within": "/api/v1/namespaces/{namespace}/groups/{name}",
                  "commands": {"create": {"words": "entrepot group create"}},
                  "arguments": ["name"], "options": {"maxAttempts": "--max-attempts"}}}

`within`: the path in a namespace.  `asks`, of a command: it asks for confirmation, or needs `--yes`.  `arguments`:
names of the path and fields, in their order.  `options`: by the field's name in JSON, each one of

- a text: the value stands after it;
- a list: the words for true and for false;
- an object: `option`, and the `forms` of its values (`Flag.forms`), perhaps `isMany`; or what the option `sends`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from entrepot.gateway.operations.row.command_options import CommandOption, options_of
from entrepot.gateway.operations.row.operation import Operation

PROGRAM: Final = "entrepot"


def hints_of_rows(rows: Iterable[Operation]) -> dict[str, Any]:
    """Return the hints of operations, by their ids."""
    return {row.id: _hint(row) for row in rows}


def _hint(row: Operation) -> dict[str, Any]:
    plain, *within = row.templates
    hint: dict[str, Any] = {"method": row.method, "path": plain}
    if within:
        hint["within"] = within[0]
    return {**hint, **_commands(row)} if row.words else hint


def _commands(row: Operation) -> dict[str, Any]:
    fields = [*options_of(row.body), *options_of(row.query)]
    commands: dict[str, Any] = {}
    for words in row.words:
        commands[words.command] = {"words": f"{PROGRAM} {row.noun.group} {words.command}"}
        if words.confirm:
            commands[words.command]["asks"] = True
    return {
        "commands": commands,
        "arguments": [*row.names, *(each.encoded for each in fields if each.is_argument)],
        "options": {each.encoded: _option(each) for each in fields if not each.is_argument},
    }


def _option(option: CommandOption) -> Any:
    if option.sends is not None:
        return {"option": option.flag, "sends": option.sends}
    if option.takes is bool:
        return option.flag.split("/")
    if not option.forms:
        return option.flag
    return {"option": option.flag, "forms": option.forms, **({"isMany": True} if option.is_many else {})}
