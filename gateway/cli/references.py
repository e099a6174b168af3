"""The references of the documentation, made from the program itself (docs: settings.md, cli.md, value-spaces.md).

`make docs` writes them (`python -m gateway.cli.references docs`); a test fails while they are not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import typer

from entrepot.domain.value_space import Count, Number, Octets, Space, Text, Whole
from entrepot.gateway.cli.app import app
from entrepot.gateway.settings import Settings, environment_name
from entrepot.protocols.amqp import value_space as amqp
from entrepot.protocols.cloudevents import value_space as cloudevents
from entrepot.protocols.mqtt import value_space as mqtt

Schema = dict[str, Any]

_SETTINGS_HEAD: Final = """# Settings

Made by `make docs`; not edited by hand.

Each setting has one key. `mqtt.port` is `port` below `[mqtt]` in the TOML file of `--config`, `ENTREPOT__MQTT__PORT` in
the environment, and `--set mqtt.port=1884` on the command line. The file is read first, then the environment, then
flags; the later wins. Lists are written as JSON in the environment and with `--set`. `entrepot config show` prints what
is in force and where it came from, `entrepot config schema` this page as a JSON Schema.

Files that people write (settings, plans, passwords, keys, certificates, definitions) are UTF-8, with or without a byte
order mark. UTF-16 is refused by its name.
"""
_CLI_HEAD: Final = """# Commands

Made by `make docs`; not edited by hand. `--help` after any command says the same.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings. An error is one line on standard error. Destructive
commands ask for confirmation; without a terminal they require `--yes`.

Output that cannot be written ends a command with 1, and a line says so: what the server had done by then stays done. A
reader that ends first, as in `entrepot topic list | head -1`, ends it with 141 and without a word, like other programs.
130 is Ctrl-C.
`entrepot message receive --ack` acknowledges nothing that was not printed.

These options are the same wherever a command has them:

| option | is |
|---|---|
| `--server URL` | address of the server's HTTP listener; else `ENTREPOT_SERVER`, else `http://127.0.0.1:8080` |
| `--namespace NAME`, `-n` | namespace of the names; else `ENTREPOT_NAMESPACE`, else `default` |
| `--json` | print JSON |

`ENTREPOT_TOKEN`, or `ENTREPOT_USER` and `ENTREPOT_PASSWORD`, have the credentials. `entrepot --ca FILE` before the
command, else `ENTREPOT_CA`, else `SSL_CERT_FILE`, has the authorities of an https server. `--cert` and `--key`, else
`ENTREPOT_CERT` and `ENTREPOT_KEY`, have a certificate to show, whose name may be the user. `entrepot --version` prints
the version.
"""
_SPACES_HEAD: Final = """# Value spaces

Made by `make docs`; not edited by hand. [Between protocols](cross-protocol.md) says how values are mapped.

A value that was stored by one protocol may be beyond what another can say. Then it is shortened, replaced or left out
by these rules, and the rest of the message is delivered. `entrepot_incidents{part,outcome}` counts them, and the
[journey of a message](journey.md) tells each such value.
RocketMQ's gRPC has no row: what its map of texts cannot carry is in `entrepot_more` and `entrepot_properties`.
"""
_EVERYWHERE: Final = ("Address of the server's HTTP listener.", "Namespace of the names.", "Print JSON.")
"""Help of the options described in the head."""


def settings_page() -> str:
    """The page of all settings: key, allowed values, default and meaning."""
    schema: Schema = Settings.model_json_schema()
    parts = [_SETTINGS_HEAD]
    for section, reference in schema["properties"].items():
        table = _resolved(schema, reference)
        parts.append(f"## {section}\n\n{_text(table['description'])}\n")
        parts.append(_settings_table(table, f"{section}."))
        for name, field in table["properties"].items():
            parts += _tables_below(schema, f"{section}.{name}", field)
    example = environment_name("mqtt.port")
    assert example in _SETTINGS_HEAD, "the head shows how variables are called"
    return "\n".join(parts).rstrip("\n") + "\n"


def _tables_below(schema: Schema, path: str, field: Schema) -> Iterator[str]:
    """The tables of a setting that is a list of tables."""
    items = field.get("items", {})
    if "$ref" not in items:
        return
    table = _resolved(schema, items)
    yield f"Each of `{path}` is a table (`[[{path}]]`): {_text(table['description'])}\n"
    yield _settings_table(table)
    for name, below in table["properties"].items():
        yield from _tables_below(schema, f"{path}.{name}", below)


def _settings_table(table: Schema, before: str = "") -> str:
    needed = table.get("required", ())
    lines = ["| setting | may be | default | is |", "|---|---|---|---|"]
    for name, field in table["properties"].items():
        default = "needed" if name in needed else _written(field.get("default"))
        lines.append(f"| `{before}{name}` | {_kind(field)} | {default} | {_text(field.get('description', ''))} |")
    return "\n".join((*lines, ""))


def _resolved(schema: Schema, reference: Schema) -> Schema:
    found: Schema = schema["$defs"][reference["$ref"].rpartition("/")[2]]
    return found


def _kind(field: Schema) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(each) for each in field["anyOf"] if each.get("type") != "null")
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    kind = field.get("type")
    if kind == "array":
        items = field["items"]
        return "list of tables" if "$ref" in items else f"list of {_kind(items)}"
    if kind in ("integer", "number"):
        return {"integer": "integer", "number": "number"}[kind] + _bounds(field)
    known = {"path": "path", "password": "secret"}
    return known.get(field.get("format", ""), "yes or no" if kind == "boolean" else "text")


def _bounds(field: Schema) -> str:
    least, most, above = field.get("minimum"), field.get("maximum"), field.get("exclusiveMinimum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    if above is not None:
        return f" above {above:g}"
    return "" if least is None else f", from {least}"


def _written(value: object) -> str:
    """A default in TOML."""
    if value is None or value == "":
        return ""
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def cli_page() -> str:
    """The page of all commands with their arguments and options."""
    parts = [_CLI_HEAD]
    for path, command in _commands(typer.main.get_command(app), ("entrepot",)):
        depth = "##" if len(path) == 2 else "###"
        parts.append(f"{depth} {' '.join(path)}\n\n{_help(command)}")
        if not _names(command) or command.params:
            parts.append(_options_table(path, command))
    return "\n".join(parts).rstrip("\n") + "\n"


def _names(command: Any) -> list[str]:
    found: list[str] = command.list_commands(None) if hasattr(command, "list_commands") else []
    return found


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name in _names(command):
        below = command.get_command(None, name)
        yield (*path, name), below
        yield from _commands(below, (*path, name))


def _help(command: Any) -> str:
    return "\n\n".join(_text(part) for part in (command.help or "").split("\n\n")) + "\n"


def _options_table(path: tuple[str, ...], command: Any) -> str:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    words = [each.metavar or each.name.upper() for each in arguments]
    usage = " ".join((*path, *words, "[OPTIONS]"))
    rows = [(each.metavar or each.name.upper(), each.help) for each in arguments if each.help]
    common = []
    for option in command.params:
        if option.param_type_name != "option" or option.hidden:
            continue
        if option.help in _EVERYWHERE:
            common.append(f"`{option.opts[0]}`")
        else:
            rows.append((_option(option), _option_help(option)))
    lines = [f"    {usage}", ""]
    if rows:
        lines += ["| | is |", "|---|---|", *(f"| `{_text(name)}` | {_text(text)} |" for name, text in rows), ""]
    if common:
        lines += [f"Also {', '.join(common)}.", ""]
    return "\n".join(lines)


def _option(option: Any) -> str:
    names = "/".join((option.opts[0], *option.secondary_opts[:1]))
    short = "".join(f", {name}" for name in option.opts[1:])
    if option.is_flag:
        return names + short
    kind = {int: "N", float: "N"}.get(option.type_descriptor.annotation, "TEXT")
    return f"{names} {option.metavar or kind}{short}"


def _option_help(option: Any) -> str:
    told = [option.help or ""]
    if option.min is not None and option.max is not None:
        told.append(f"From {option.min} to {option.max}.")
    default = option.show_default if isinstance(option.show_default, str) else option.default
    if option.required:
        told.append("Needed.")
    elif option.show_default and default not in (None, "", 0) and not isinstance(default, bool) and not option.is_flag:
        told.append(f"Default: `{default}`.")
    return " ".join(told)


def _text(text: str) -> str:
    """One line for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def value_spaces_page() -> str:
    """The page of what each protocol can say of a message."""
    lines = [_SPACES_HEAD, "| protocol | value | can be | else |", "|---|---|---|---|"]
    lines += [f"| {each.protocol} | {each.kind} | {_text(_extent(each))} | {each.rule.value} |" for each in SPACES]
    return "\n".join(lines) + "\n"


def _extent(space: Space) -> str:
    match space:
        case Text():
            said = [f"at most {space.max_bytes:,} bytes in UTF-8"]
            said += [f"at most {space.max_characters} characters"] if space.max_characters else []
            said += ["no NUL"] if "\0" in space.forbidden else []
            return "; ".join([*said, *([space.also] if space.also else [])])
        case Number():
            return f"{space.least:,} to {space.most:,}"
        case Octets():
            return f"at most {space.max_bytes:,} bytes"
        case Count():
            return f"at most {space.most}"
        case Whole():
            return "; ".join([f"at most {space.max_bytes:,} bytes together", *([space.also] if space.also else [])])


SPACES: Final[tuple[Space, ...]] = (*mqtt.SPACES, *amqp.SPACES, *cloudevents.SPACES)
PAGES: Final[dict[str, Callable[[], str]]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "value-spaces.md": value_spaces_page,
}


def write(folder: Path) -> None:
    """Write both pages."""
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
