"""Parsers of composed option values, and the option of a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from entrepot.gateway.cli.client import segment
from entrepot.gateway.cli.errors import USAGE, CommandError

DEFAULT_NAMESPACE: Final = "default"

NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", envvar="ENTREPOT_NAMESPACE", metavar="NAME", help="Namespace of the names.")
]

GatewayOption = Annotated[
    str | None, typer.Option("--gateway", metavar="NAME", help="Gateway to ask alone; `here`: the one of --server.")
]


def api_path(namespace: str, *parts: str) -> str:
    """A path of administration: plain in the default namespace, else below it."""
    return "/".join(("/api/v1" + below(namespace), *parts))


def below(namespace: str) -> str:
    """The prefix of a namespace's paths."""
    return "" if namespace == DEFAULT_NAMESPACE else f"/namespaces/{segment(namespace)}"


def read(option: str, reader: Callable[[Any], Any], text: Any) -> Any:
    """Return what the text of an option stands for.  Raises CommandError."""
    try:
        return reader(text)
    except ValueError as error:
        raise CommandError(f"{option} {error}", USAGE) from None


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}
