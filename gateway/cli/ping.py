"""`entrepot ping`: the health of a process, and of a replica; made for health checks."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.gateway.cli import settings_flags
from entrepot.gateway.cli.client import Client
from entrepot.gateway.cli.errors import USAGE, CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_line
from entrepot.gateway.cli.settings_flags import ConfigOption, SetOption

if TYPE_CHECKING:
    from entrepot.domain.ports.cluster import ReplicaView
    from entrepot.store_client.remote.ping import Pong


class Role(StrEnum):
    """Roles that a replica can be asked for."""

    MASTER = "master"
    SLAVE = "slave"


def ping(
    target: Annotated[
        str,
        typer.Argument(
            metavar="HOST:PORT|URL", show_default=False, help="Broker or name server, or the URL of an HTTP listener."
        ),
    ],
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest wait for the answer, in seconds.", min=0.01)
    ] = 3.0,
    ready: Annotated[
        bool, typer.Option("--ready", help="Require a replica to be an open master or a slave in sync with it.")
    ] = False,
    max_behind: Annotated[
        float, typer.Option(metavar="SECONDS", help="Largest lag of a ready slave, in seconds.", min=0)
    ] = 1.0,
    role: Annotated[Role | None, typer.Option(metavar="master|slave", help="Require a replica in this role.")] = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check that a broker, a name server (HOST:PORT) or an HTTP listener (http://HOST:PORT) takes requests.

    Prints the response time and exits with 0, or prints the reason and exits with 1. For a broker's replica it also
    prints role, epoch and lag; for a controller its problem. With --ready or --role it exits with 1 unless the replica
    meets them. Any other process is ready when it answers.

    The settings cluster.name and cluster.tls_* must match those of the target.
    """
    if "://" in target:
        if role is not None:
            raise CommandError("a replica is asked by HOST:PORT: an HTTP door has no role", USAGE)
        begun = time.perf_counter()
        Client(target, timeout).get("/readyz")
        seconds, pong = time.perf_counter() - begun, None
    else:
        pong = _ping_wire(target, timeout, config, set_ or [])
        seconds = pong.seconds
    unready = "" if pong is None else _unready(pong, max_behind)
    told = None if pong is None else pong.replica
    if as_json:
        parts = {"replica": _replica_shape(told), "controller": _controller_shape(pong)}
        print_json({"target": target, "seconds": round(seconds, 6), "isReady": not unready, **parts})
    else:
        print_line(f"{target} answers after {seconds * 1000:.1f} ms{_told(pong)}")
    if role is not None and (told is None or told.role != role):
        raise CommandError(f"{target} is not a {role}: {_no_role(pong)}")
    if ready and unready:
        raise CommandError(f"{target} is not ready: {unready}")


def _unready(pong: Pong, max_behind: float) -> str:
    return pong.untold if pong.replica is None else pong.replica.unready(max_behind)


def _no_role(pong: Pong | None) -> str:
    if pong is None or pong.replica is None:
        return (pong and pong.untold) or "it is not a replica"
    view = pong.replica
    return f"replica {view.replica} is {view.role} in epoch {view.epoch}"


def _told(pong: Pong | None) -> str:
    if pong is not None and pong.replica is not None:
        return f": {_words(pong.replica, pong.master)}"
    view = None if pong is None else pong.controller
    return "" if view is None else f": controller {view.controller}" + (view.problem and f", {view.problem}")


def _replica_shape(view: ReplicaView | None) -> dict[str, Any] | None:
    import msgspec

    from entrepot.gateway.operations.nouns.replicas import replica_of  # the command alone does not pay for it

    if view is None:
        return None
    shape: dict[str, Any] = msgspec.to_builtins(replica_of(view))
    del shape["address"]  # that is the target
    return shape


def _controller_shape(pong: Pong | None) -> dict[str, object] | None:
    view = None if pong is None else pong.controller
    return None if view is None else {"controller": view.controller, "problem": view.problem or None}


def _words(view: ReplicaView, master: int) -> str:
    if view.role == "nobody":
        return f"replica {view.replica}, {view.problem}"
    of = f"slave of replica {master}" if view.role == "slave" else view.role
    words = [f"replica {view.replica}", f"{of} in epoch {view.epoch}"]
    if view.problem:
        return ", ".join((*words, view.problem))
    if view.role == "master":
        return ", ".join((*words, "open"))
    words.append("observer" if view.is_observer else "in sync" if view.is_in_sync else "not in sync")
    if view.behind:
        seconds = "" if view.behind_seconds is None else f" and {view.behind_seconds:.1f} s"
        words.append(f"{view.behind} bytes{seconds} behind")
    return ", ".join(words)


def _ping_wire(address: str, timeout: float, config: ConfigOption, assignments: list[str]) -> Pong:
    import asyncio

    from entrepot.domain.errors import EntrepotError
    from entrepot.gateway.log import configure_logging
    from entrepot.store_client.remote.ping import ping

    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):
        raise CommandError(f"{address!r} is neither HOST:PORT nor a URL", USAGE)
    configure_logging("error", "console")  # the exit code and its line tell the fault once
    cluster = settings_flags.load(config, assignments, {}).settings.cluster
    try:
        return asyncio.run(ping(address, cluster=cluster.name, trust=cluster.trust(), seconds=timeout))
    except (EntrepotError, OSError) as error:  # an ssl.SSLError is an OSError
        raise CommandError(f"{address} does not answer: {error}") from error
