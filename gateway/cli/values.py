"""Parsers of composed option values, and the option of a namespace."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from entrepot.gateway.cli.client import segment
from entrepot.gateway.cli.errors import USAGE, CommandError

DEFAULT_NAMESPACE: Final = "default"
NONE: Final = "none"

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


def number_or_none(option: str, text: str) -> int | None:
    """A number, or None for `none`."""
    try:
        return None if text == NONE else int(text)
    except ValueError:
        raise CommandError(f"{option} {text}: must be a number or {NONE}", USAGE) from None


def given(**fields: Any) -> dict[str, Any]:
    """The fields that were given."""
    return {name: value for name, value in fields.items() if value is not None}


def with_limits(fields: dict[str, Any], limits: dict[str, tuple[str, str | None]]) -> dict[str, Any]:
    """Add limits to fields, by name with their option and text: a number, `none`, or None where not given."""
    for field, (option, text) in limits.items():
        if text is not None:
            fields[field] = number_or_none(option, text)
    return fields


def retry_policy(text: str) -> dict[str, Any]:
    """Parse `immediate`, `exponential[:INITIAL_MS:MAX_MS[:MULTIPLIER]]` or `list:MS,MS,...`."""
    kind, _, rest = text.partition(":")
    parts = rest.split(":") if rest else []
    try:
        if kind == "immediate" and not parts:
            return {"kind": kind}
        if kind == "exponential" and len(parts) in (0, 2, 3):
            names = ("initialMs", "maxMs", "multiplier")
            numbers = [int(part) for part in parts[:2]] + [float(part) for part in parts[2:]]
            return {"kind": kind, **dict(zip(names, numbers, strict=False))}
        if kind == "list" and len(parts) == 1:
            return {"kind": kind, "delaysMs": [int(part) for part in parts[0].split(",")]}
    except ValueError:
        pass
    raise CommandError(
        f"--retry {text}: write immediate, exponential, exponential:1000:60000:2 (first and longest wait in ms, factor)"
        " or list:1000,5000 (waits in ms)",
        USAGE,
    )


def filter_expression(text: str) -> dict[str, str] | None:
    """Parse `none`, or the kind and the expression: `TAG:a || b`."""
    if text == NONE:
        return None
    kind, colon, expression = text.partition(":")
    if not colon or kind.upper() not in ("TAG", "SQL92", "SUB_TOPIC"):
        raise CommandError(
            f"--filter {text}: write TAG:..., SQL92:..., SUB_TOPIC:..., such as 'TAG:a || b', or {NONE}", USAGE
        )
    return {"kind": kind.upper(), "text": expression}
