"""`entrepot group dead-letters`, `resend` and `export`: messages that a group gave up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_listing, print_outcome, save_bytes
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
FromOption = Annotated[int, typer.Option("--from-offset", help="First offset.", min=0)]


def _path(group: str, namespace: str) -> str:
    return api_path(namespace, "groups", segment(group), "dead-letters")


def list_dead_letters(
    group: GroupArgument,
    from_offset: FromOption = 0,
    limit: Annotated[int, typer.Option(help="Maximum number of dead letters.", min=1, max=1000)] = 32,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List dead letters of a group, the oldest first, with reason, time and origin."""
    query: dict[str, str | int | float] = {"from_offset": from_offset, "limit": limit}
    answer = Client(server).request("GET", _path(group, namespace), query=query)
    print_listing(
        answer,
        ("offset", "time", "reason", "attempts", "topic", "queue", "at", "keys", "id"),
        (
            (
                d["offset"],
                d["time"],
                d["reason"],
                d["attempts"],
                (d["origin"] or {}).get("topic"),
                (d["origin"] or {}).get("queueId"),
                (d["origin"] or {}).get("queueOffset"),
                " ".join(d["keys"]),
                d["id"],
            )
            for d in answer["value"]
        ),
        as_json=as_json,
        continued_by="--from-offset",
    )


def resend(
    group: GroupArgument,
    offsets: Annotated[list[int] | None, typer.Argument(metavar="OFFSET", show_default=False)] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Resend all dead letters, including those resent before.")
    ] = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Resend dead letters to their group, with all its attempts. The dead letters are kept."""
    if bool(offsets) == all_:
        raise CommandError("give the offsets of dead letters, or --all", USAGE)
    body = {"all": True} if all_ else {"offsets": offsets}
    answer = Client(server).request("POST", f"{_path(group, namespace)}:resend", body=body)
    resent, failed = answer["resentOffsets"], answer["failedOffsets"]
    print_outcome(answer, f"resent {len(resent)}", as_json=as_json)
    if failed:
        raise CommandError(
            f"{len(failed)} of {len(resent) + len(failed)} could not be resent: {failed[0]['error']['message']}"
        )


def export(
    group: GroupArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Output file instead of standard output.")
    ] = None,
    from_offset: FromOption = 0,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
) -> None:
    """Export dead letters of a group, with their bodies, as newline-delimited JSON."""
    parts = Client(server).stream(f"{_path(group, namespace)}:export?from_offset={from_offset}")
    save_bytes(parts, output)
