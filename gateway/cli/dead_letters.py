"""`entrepot group dead-letters`, `resend` and `export`: messages that a group gave up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_line, print_listing, print_outcome, save_bytes
from entrepot.gateway.cli.values import DEFAULT_NAMESPACE, NamespaceOption, api_path

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
OffsetsArgument = Annotated[list[int] | None, typer.Argument(metavar="OFFSET", show_default=False)]
ReasonOption = Annotated[str | None, typer.Option("--reason", help="Only those of this reason.")]
FromOption = Annotated[int, typer.Option("--from-offset", help="First offset.", min=0)]


def _path(group: str, namespace: str) -> str:
    return api_path(namespace, "groups", segment(group), "dead-letters")


def list_dead_letters(
    group: GroupArgument,
    from_offset: FromOption = 0,
    limit: Annotated[int, typer.Option(help="Maximum number of dead letters.", min=1, max=1000)] = 32,
    reason: ReasonOption = None,
    reasons: Annotated[bool, typer.Option("--reasons", help="Count them by reason instead.")] = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List dead letters of a group, the oldest first, with reason, time and origin."""
    if reasons:
        _count(group, from_offset, namespace, server, as_json=as_json)
        return
    query: dict[str, str | int | float] = {"from_offset": from_offset, "limit": limit}
    if reason is not None:
        query["reason"] = reason
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


def _count(group: str, from_offset: int, namespace: str, server: str, *, as_json: bool) -> None:
    path = f"{_path(group, namespace)}:reasons"
    answer = Client(server).request("GET", path, query={"from_offset": from_offset})
    columns = ("reason", "dead letters", "first offset", "oldest", "newest")
    rows = (
        tuple(one[name] for name in ("reason", "count", "firstOffset", "oldest", "newest")) for one in answer["value"]
    )
    print_listing(answer, columns, rows, as_json=as_json, continued_by="--from-offset")


def resend(
    group: GroupArgument,
    offsets: OffsetsArgument = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Resend all dead letters, including those resent before.")
    ] = False,
    reason: ReasonOption = None,
    from_offset: FromOption = 0,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Resend dead letters to their group, with all its attempts. The dead letters are kept."""
    body = _chosen(offsets, reason, from_offset, is_all=all_)
    answer = Client(server).request("POST", f"{_path(group, namespace)}:resend", body=body)
    _tell(answer, "resent", len(answer["resentOffsets"]), as_json=as_json)


def delete_dead_letters(
    group: GroupArgument,
    offsets: OffsetsArgument = None,
    all_: Annotated[bool, typer.Option("--all", help="Delete all dead letters with their topic.")] = False,
    reason: ReasonOption = None,
    from_offset: FromOption = 0,
    yes: YesOption = False,
    namespace: NamespaceOption = DEFAULT_NAMESPACE,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Delete dead letters of a group. Asks for confirmation."""
    body = _chosen(offsets, reason, from_offset, is_all=all_)
    told = "all dead letters" if all_ else f"{len(offsets or [])} dead letters"
    told = told if reason is None else f"the dead letters of reason {reason!r}"
    confirm(f"Delete {told} of the group {group}?", yes)
    answer = Client(server).request("POST", f"{_path(group, namespace)}:delete", body=body)
    _tell(answer, "deleted", answer["deleted"], as_json=as_json)


def _chosen(offsets: list[int] | None, reason: str | None, from_offset: int, *, is_all: bool) -> dict[str, Any]:
    if [bool(offsets), is_all, reason is not None].count(True) != 1:
        raise CommandError("give the offsets of dead letters, or --reason, or --all", USAGE)
    if reason is not None:
        return {"reason": reason, "fromOffset": from_offset}
    return {"all": True} if is_all else {"offsets": offsets}


def _tell(answer: dict[str, Any], verb: str, count: int, *, as_json: bool) -> None:
    failed = answer["failedOffsets"]
    print_outcome(answer, f"{verb} {count}", as_json=as_json)
    if answer.get("next") is not None:
        print_line(f"more: --from-offset {answer['next']}", err=True)
    if failed:
        raise CommandError(
            f"{len(failed)} of {count + len(failed)} could not be {verb}: {failed[0]['error']['message']}"
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
