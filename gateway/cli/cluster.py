"""`entrepot cluster`: the brokers behind a running gateway."""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from entrepot.gateway.cli import cluster_backup, cluster_secret, controllers, replicas
from entrepot.gateway.cli.client import DEFAULT_SERVER, Client, ServerOption, segment
from entrepot.gateway.cli.confirming import YesOption, confirm
from entrepot.gateway.cli.errors import CommandError
from entrepot.gateway.cli.output import JsonOption, print_json, print_line, print_outcome, print_table

POLL_SECONDS = 0.5
ELECTION_SECONDS = 40.0
"""Longest wait for an election: to catch up, and to open."""

app = typer.Typer(help="Brokers behind a running gateway.", no_args_is_help=True)
app.add_typer(controllers.app, name="controller")
app.add_typer(replicas.app, name="replica")
app.command()(cluster_backup.backup)
app.command()(cluster_secret.secret)

NameArgument = Annotated[str, typer.Argument(metavar="BROKER", show_default=False)]


def _path(name: str) -> str:
    return f"/api/v1/brokers/{segment(name)}"


@app.command()
def show(server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Show every gateway, broker, name server and controller with its state."""
    client = Client(server)
    found = client.get("/api/v1/brokers")
    found["controllers"] = client.get(controllers.PATH)["value"]
    overview = client.get("/api/v1/overview")
    found["gateways"] = overview["gateways"]
    if as_json:
        print_json(found)
        return
    _print_gateways(overview)
    print_table(
        ("broker", "number", "address", "zone", "state", "unsettled", "waiting", "unread", "key-values"),
        (
            (
                b["name"],
                b["number"],
                b["address"],
                b["zone"],
                _state(b),
                b["unsettled"],
                b["waiting"],
                b["unread"],
                b["keyValues"] if b["keepsKeyValues"] else "",
            )
            for b in found["value"]
        ),
    )
    for broker in found["value"]:
        if broker["replicas"]:
            print_replicas(broker)
    print_table(
        ("name server", "state"),
        ((n["address"], "there" if n["isAvailable"] else "away") for n in found["nameServers"]),
    )
    if found["controllers"]:
        controllers.print_controllers(found["controllers"])


def _print_gateways(overview: dict[str, Any]) -> None:
    reasons = {each["name"]: each["reason"] for each in overview["answered"]["missing"]}
    print_table(
        ("gateway", "state", "connections", "open files", "limit", "refused from"),
        (
            (
                each["name"],
                reasons.get(each["name"], "answers"),
                each["connections"],
                *((each.get("openFiles") or {}).get(of) for of in ("used", "limit", "refusedFrom")),
            )
            for each in overview["gateways"]
        ),
    )


def print_replicas(broker: dict[str, Any]) -> None:
    """Print the replicas of a broker: the master, those in sync, and the lag of each."""
    print_line(f"{broker['name']}: rule {broker['rule']}, epoch {broker['epoch']}")
    if (election := broker["election"]) is not None:
        print_line(f"{broker['name']}: {election_words(election)}")
    print_table(
        ("replica", "address", "role", "in sync", "synced", "behind", "seconds", "log", "problem"),
        (
            (
                each["replica"],
                each["address"],
                each["role"],
                "observer" if each["isObserver"] else "yes" if each["isInSync"] else "no",
                "" if each["synced"] is None else each["synced"],
                "" if each["behind"] is None else each["behind"],
                "" if each["behindSeconds"] is None else round(each["behindSeconds"], 1),
                "" if each["log"] is None else condition(each["log"]),
                each["problem"] or each["controlProblem"] or "",
            )
            for each in broker["replicas"]
        ),
    )


def election_words(election: dict[str, Any]) -> str:
    """The election of a master in one line."""
    time = f" ({election['time']})" if election["time"] and not election["isUnderWay"] else ""
    words = ("an election is under way: " if election["isUnderWay"] else "") + election["reason"] + time
    return f"{words}; now: {election['problem']}" if election["problem"] else words


def condition(log: dict[str, Any]) -> str:
    """The log of a replica in words."""
    from entrepot.domain.ports.cluster import LogCondition

    parts = tuple((part["from"], part["to"]) for part in log["diverged"])
    copied = log["copiesFrom"] or 0
    return LogCondition(log["healed"], log["corrupted"], log["forked"], parts, copied, log.get("lost", 0)).text


@app.command()
def elect(
    name: NameArgument,
    to: Annotated[
        int,
        typer.Option(
            "--to", metavar="REPLICA", help="Replica to be master; else the best of the others.", show_default=False
        ),
    ] = 0,
    without: Annotated[
        list[int] | None,
        typer.Option("--without", metavar="REPLICA", help="Replica lost for good, to be left out; may be repeated."),
    ] = None,
    unclean: Annotated[
        bool, typer.Option("--unclean", help="Allow a master that may lack confirmed messages.")
    ] = False,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Make a replica the master of its broker. While the old master lives, messages are delayed, and none is lost.

    Asks for confirmation before a lost replica is left out, or before an unclean election.
    """
    if without:
        lost = ", ".join(map(str, without))
        confirm(f"Is replica {lost} of {name} lost?  Messages that it alone confirmed are lost then.", yes)
    if unclean:
        confirm(f"Elect a master of {name} though confirmed messages may be missing?", yes)
    body = {"to": to, "without": without or [], "isUnclean": unclean}
    broker = Client(server, ELECTION_SECONDS).request("POST", f"{_path(name)}:elect", body=body)
    master = next(each for each in broker["replicas"] if each["role"] == "master")
    print_outcome(
        broker, f"replica {master['replica']} is master of {name} in epoch {broker['epoch']}", as_json=as_json
    )


def _state(broker: dict[str, Any]) -> str:
    if not broker["isAvailable"]:
        return f"away: {broker['problem']}"
    if broker["isDraining"]:
        return "drained" if _is_empty(broker) else "draining"
    return "there"


def _is_empty(broker: dict[str, Any]) -> bool:
    return broker["isAvailable"] and not (broker["unsettled"] or broker["waiting"] or broker["keyValues"])


@app.command()
def drain(
    name: NameArgument,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the broker is drained.")] = False,
    leave: Annotated[
        bool, typer.Option("--leave", help="Remove the broker once it is drained; its process ends.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Longest wait, in seconds.", min=0)] = 3600,
    yes: YesOption = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Drain a broker: it gets no new messages, consumers finish its messages, its key-values move away.

    Asks for confirmation before a broker is removed for good.
    """
    if leave:
        confirm(f"Let the broker {name} go for good once it is empty?", yes)
    client = Client(server)
    broker = client.put(_path(name), {"isDraining": True})
    end = time.monotonic() + timeout
    while wait or leave:
        if _is_empty(broker):
            break
        if time.monotonic() > end:
            raise CommandError(f"broker {name} is not empty yet: {_left(broker)}")
        time.sleep(POLL_SECONDS)
        broker = next(b for b in client.get("/api/v1/brokers")["value"] if b["name"] == name)
    if leave:
        _leave(client, name, end)
        print_outcome({**broker, "hasLeft": True}, f"broker {name} has left", as_json=as_json)
    else:
        print_outcome(broker, f"broker {name} is draining: {_left(broker)}", as_json=as_json)


def _leave(client: Client, name: str, end: float) -> None:
    """Remove a drained broker; retry, as messages may have just come to it."""
    while True:
        try:
            client.delete(_path(name))
            return
        except CommandError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)


def _left(broker: dict[str, Any]) -> str:
    if _is_empty(broker):
        return "it is empty"
    return (
        f"{broker['unsettled']} messages to settle, {broker['waiting']} that wait for their time or transaction, "
        f"{broker['keyValues']} key-values"
    )


@app.command()
def undrain(name: NameArgument, server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Send new messages to a drained broker again."""
    broker = Client(server).put(_path(name), {"isDraining": False})
    print_outcome(broker, f"broker {name} takes messages", as_json=as_json)
