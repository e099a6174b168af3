"""`entrepot user`: users of a running server, and its audit log. Passwords are asked for or read, never arguments."""

from __future__ import annotations

import secrets
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from entrepot.domain.written_text import WrittenTextError, written_text
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.noun_commands import add_commands, path_of
from entrepot.gateway.cli.output import JsonOption, print_line, print_listing, print_missing, print_outcome
from entrepot.gateway.cli.pages import all_pages
from entrepot.gateway.cli.values import given
from entrepot.gateway.operations.nouns.users import MAX_LIMIT, USERS

app = typer.Typer(help=USERS.about, no_args_is_help=True)
add_commands(app, USERS, "list", "show")
NameArgument = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
SuperOption = Annotated[bool | None, typer.Option("--super/--no-super", help="Exempt the user from policies.")]
EnabledOption = Annotated[bool | None, typer.Option("--enable/--disable", help="Allow or forbid logins.")]
PasswordFileOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with the password in its first line; - is standard input.")
]
AuditKind = Literal["all", "refusals", "changes", "looks"]
SECRET_BYTES = 24


def _path(name: str) -> str:
    return path_of(USERS, "putUser", name=name)


@app.command()
def create(
    name: NameArgument,
    password_file: PasswordFileOption = None,
    no_password: Annotated[
        bool, typer.Option("--no-password", help="Allow logins by certificate or token only.")
    ] = False,
    is_super: SuperOption = None,
    enabled: EnabledOption = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Create a user. The first must be a super user: from then on every listener requires credentials."""
    client = Client(server)
    if any(user["name"] == name for user in all_pages(client, path_of(USERS, "listUsers"), MAX_LIMIT)):
        raise CommandError(f"there is a user {name} already")
    password = None if no_password else _password(password_file)
    user = client.put(_path(name), given(password=password, super=is_super, enabled=enabled))
    print_outcome(user, f"user {name} is there", as_json=as_json)


add_commands(app, USERS, "update")


@app.command()
def password(
    name: NameArgument,
    password_file: PasswordFileOption = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Change a user's password; connections made with the old one end."""
    client = Client(server)
    client.get(_path(name))
    user = client.put(_path(name), {"password": _password(password_file)})
    print_outcome(user, f"user {name} has another password", as_json=as_json)


@app.command("signing-secret")
def signing_secret(
    name: NameArgument,
    secret_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File with the secret in its first line, - is standard input; else a generated one."
        ),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the secret.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Set a user's secret for RocketMQ clients, whose access key is the user's name; a generated one is shown."""
    client = Client(server)
    client.get(_path(name))
    made = "" if remove else secrets.token_urlsafe(SECRET_BYTES) if secret_file is None else _password(secret_file)
    user = client.put(_path(name), {"signingSecret": made})
    if remove:
        print_outcome(user, f"user {name} has no signing secret", as_json=as_json)
    elif secret_file is None:
        print_outcome({**user, "signingSecret": made}, made, as_json=as_json)
    else:
        print_outcome(user, f"user {name} has another signing secret", as_json=as_json)


add_commands(app, USERS, "delete")


@app.command()
def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of entries, the newest first.")] = 50,
    kind: Annotated[AuditKind, typer.Option(help="Failed logins and denials, changes, or all.")] = "all",
    event: Annotated[str | None, typer.Option(help="Part of the event.")] = None,
    subject: Annotated[str | None, typer.Option(help="Part of the name of who did it.")] = None,
    resource: Annotated[str | None, typer.Option(help="Part of the resource.")] = None,
    begin: Annotated[str | None, typer.Option("--from", metavar="TIME", help="First time, as in RFC 3339.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Time before which the entries are.")] = None,
    cursor: Annotated[str | None, typer.Option(help="End of an earlier list, to continue there.")] = None,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List failed logins, denials and administrative changes of all gateways."""
    query = given(limit=limit, event=event, subject=subject, resource=resource, until=until, cursor=cursor)
    query |= {"kind": kind} | ({} if begin is None else {"from": begin})
    answer = Client(server).request("GET", "/api/v1/audit", query=query)
    columns = ("time", "gateway", "event", "subject", "source", "action", "resource", "detail")
    entries = answer["value"]
    print_listing(entries, columns, ([entry[column] for column in columns] for entry in entries), as_json=as_json)
    print_missing(answer["answered"])
    if answer["next"] is not None:
        print_line(f"more: --cursor {answer['next']}", err=True)


def _password(file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise CommandError("there is no terminal to ask for the password: use --password-file", USAGE)
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked
    try:
        text = written_text(sys.stdin.buffer.readline() if str(file) == "-" else file.read_bytes())
    except (OSError, WrittenTextError) as error:
        raise CommandError(f"cannot read the password in {file}: {error}", USAGE) from error
    return text.partition("\n")[0].rstrip("\r")
