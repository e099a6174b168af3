"""`entrepot cluster secret`: makes the secret by which the parts of a cluster know each other, and keys of roles."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import print_line
from entrepot.gateway.security.private_file import create_private
from entrepot.protocols.wire.authentication import ClusterSecret, Role

SECRET_BYTES: Final = 32

FileArgument = Annotated[Path | None, typer.Argument(metavar="FILE", show_default=False, help="File of the secret.")]


def secret(
    file: FileArgument = None,
    role: Annotated[
        str, typer.Option(metavar="ROLE", help="Print the key of this role of the secret in FILE: gateway or job.")
    ] = "",
    keep: Annotated[bool, typer.Option("--keep", help="Leave a file alone that is there.")] = False,
) -> None:
    """Make a cluster secret: print it, or write it to a new file that only its owner reads.

    All parts of a cluster need the same one (cluster.secret_file). A gateway or a Spark job may have the key of its
    role instead. A gateway cannot ask then what only brokers and controllers may. A job reads and writes messages,
    topics and progress, and nothing else.
    """
    if role:
        _print_key(file, role)
    elif file is None:
        print_line(secrets.token_hex(SECRET_BYTES))
    elif not (keep and file.exists()):
        write_secret(file)


def _print_key(file: Path | None, role: str) -> None:
    if role not in (Role.GATEWAY, Role.JOB):
        raise CommandError(f"{role!r}: only a gateway or a job takes a key; all others need the secret itself", USAGE)
    if file is None:
        raise CommandError("the key of a role is made of a secret: name its file", USAGE)
    try:
        print_line(ClusterSecret(file.read_text("utf-8", "replace")).role_key(Role(role)))
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(f"{file}: {error}") from error


def write_secret(file: Path) -> None:
    """Write a new secret to a new file, which is there whole or not at all. Raises CommandError."""
    try:
        create_private(file, secrets.token_hex(SECRET_BYTES))
    except FileExistsError:
        raise CommandError(f"{file} is there: remove it to make another secret, which all parts must get") from None
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error.strerror}") from error
