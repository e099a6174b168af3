"""`entrepot store`: inspection of a data directory while no server has it.

Exit codes: 0 healthy, 1 problems found, 2 wrong usage, or the directory is in use or no store.

ADR 77: a backup is the log. Invariant: only `rebind` and `backup restore` write anything there.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.broker.cli import backup
from entrepot.broker.cli.output import PROBLEMS, UNUSABLE, DataDir, Json, readable, say, say_json
from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.printable import printable, printable_json

if TYPE_CHECKING:
    from entrepot.broker.inspect.verification import Report
    from entrepot.broker.replication.verifying import Comparison

app = typer.Typer(
    help="Inspection of a data directory that no server uses.", no_args_is_help=True, add_completion=False
)
app.add_typer(backup.app, name="backup")
OptionalDataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Data directory.", show_default=False)
]
TlsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="PEM file for replicas that require TLS.")]


@app.command()
def verify(
    data_dir: OptionalDataDir = None,
    as_json: Json = False,
    full: Annotated[
        bool, typer.Option("--full", help="Check every queue entry, and the state against all of the log.")
    ] = False,
    replica: Annotated[
        list[str] | None,
        typer.Option(
            "--replica", metavar="HOST:PORT", help="Replica whose log to compare with the others; may be repeated."
        ),
    ] = None,
    cluster: Annotated[str, typer.Option(metavar="NAME", help="Cluster name of the replicas (cluster.name).")] = "",
    tls_ca: TlsFile = None,
    tls_certificate: TlsFile = None,
    tls_key: TlsFile = None,
    secret_file: Annotated[
        Path | None, typer.Option(help="File with the cluster's secret (cluster.secret_file).")
    ] = None,
) -> None:
    """Verify a data directory; exit with 0 if healthy, 1 if problems were found.

    With --replica its log is compared with those of running replicas of a broker, or these with each other: the part
    confirmed by all of them must be the same.
    """
    if data_dir is None and len(replica or ()) < 2:
        raise typer.BadParameter("give a directory, or two replicas and more", param_hint="--data-dir")
    told: dict[str, Any] = {}
    is_healthy = True
    if data_dir is not None:
        told, is_healthy = _look_into(data_dir, full=full, as_json=as_json)
    if replica:
        with readable():
            end = told["log"]["end"] if data_dir is not None else 0
            trust = ClusterTrust(tls_certificate, tls_key, tls_ca, secret_file=secret_file)
            found = _compare(replica, data_dir, end, cluster, trust)
        told |= {"replicas": found.as_json()}
        is_healthy &= not found.differences
        if not as_json:
            _print_comparison(found)
    if as_json:
        say_json({**told, "healthy": is_healthy}, indent=2)
    if not is_healthy:
        raise typer.Exit(PROBLEMS)


def _look_into(data_dir: Path, *, full: bool, as_json: bool) -> tuple[dict[str, Any], bool]:
    """Return the report of a directory, and True if it is healthy."""
    from entrepot.broker.inspect.verification import verify as look

    with readable():
        report = look(str(data_dir), full=full)
    if not as_json:
        _print(report)
    return report.as_json(), report.is_healthy


def _compare(
    replicas: list[str],
    data_dir: Path | None,
    end: int,
    cluster: str,
    trust: ClusterTrust,
) -> Comparison:
    import asyncio

    from entrepot.broker.remoting.link import LinkSettings
    from entrepot.broker.remoting.trust import WireTrust
    from entrepot.broker.replication.verifying import compare
    from entrepot.broker.store.disk import OsDisk
    from entrepot.broker.store.store_files import StoreFiles

    settings = LinkSettings(who="verify", cluster=cluster, trust=WireTrust.of_client(trust))
    identity = None if data_dir is None else StoreFiles(OsDisk(), str(data_dir)).identity()
    store_id = "" if identity is None else identity.store_id
    return asyncio.run(compare(replicas, settings, "" if data_dir is None else str(data_dir), store_id, end))


def _print_comparison(found: Comparison) -> None:
    say(f"{'replicas':<10} {len(found.places)} logs compared from {found.start} to {found.end}")
    for each in found.differences:
        say(f"damage: the log differs from {each.start} to {each.end}: {', '.join(each.places)}")
    say("the logs are the same" if not found.differences else f"{len(found.differences)} blocks differ")


@app.command()
def dump(
    data_dir: DataDir,
    topic: Annotated[str | None, typer.Option(help="Topic of the records.")] = None,
    queue: Annotated[int | None, typer.Option(help="Queue of the records.")] = None,
    from_: Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="Commit-log offset to begin at.")] = 0,
    to: Annotated[int | None, typer.Option(metavar="OFFSET", min=0, help="Commit-log offset to end before.")] = None,
    kind: Annotated[str, typer.Option(metavar="KIND,...", help="Kinds of records, such as message,consumption.")] = "",
    limit: Annotated[int | None, typer.Option(min=0, help="Maximum number of records.")] = None,
    bodies: Annotated[bool, typer.Option("--bodies", help="Show the bodies of messages.")] = False,
    diverged: Annotated[
        bool, typer.Option("--diverged", help="Dump the parts that a replica cut from its log and kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Dump the records of the commit log, one a line: offset, kind, time, size and content."""
    from entrepot.broker.inspect import dump as dumping
    from entrepot.broker.inspect.log_files import LogFiles
    from entrepot.broker.inspect.verification import lock_store
    from entrepot.broker.inspect.words import kind_names

    kinds = frozenset(word.strip() for word in kind.split(",") if word.strip())
    if unknown := sorted(kinds - set(kind_names())):
        raise typer.BadParameter(f"{', '.join(unknown)}: the kinds are {', '.join(kind_names())}", param_hint="--kind")
    with readable():
        lock = lock_store(str(data_dir))
    try:
        wanted = dumping.Wanted(topic, queue, from_, to, kinds, limit, bodies)
        logs = LogFiles.of_diverged(str(data_dir)) if diverged else [LogFiles(str(data_dir))]
        for found in chain.from_iterable(dumping.records(each, wanted) for each in logs):
            if as_json:
                say_json(found)
            else:
                say(dumping.line(found))
    finally:
        lock.release()


@app.command()
def rows(
    data_dir: DataDir,
    kind: Annotated[str, typer.Option(metavar="LETTER,...", help="Kinds of rows, such as q,w.")] = "",
    as_json: Json = False,
) -> None:
    """Dump the rows of the state file, one a line; corrupted ones come last, with exit code 1."""
    from entrepot.broker.inspect.state_rows import ROW_KINDS, read_state
    from entrepot.broker.inspect.verification import lock_store

    kinds = frozenset(word.strip() for word in kind.split(",") if word.strip())
    if unknown := sorted(kinds - ROW_KINDS.keys()):
        known = ", ".join(f"{letter} ({word})" for letter, word in ROW_KINDS.items())
        raise typer.BadParameter(f"{', '.join(unknown)}: the kinds are {known}", param_hint="--kind")
    with readable():
        lock = lock_store(str(data_dir))
    try:
        state = read_state(f"{data_dir}/state.db")
    finally:
        lock.release()
    _print_rows(state.rows, kinds, as_json=as_json)
    for problem in state.problems:
        say(f"entrepot: {problem}", err=True)
    if state.problems:
        raise typer.Exit(PROBLEMS)


def _print_rows(found: dict[bytes, bytes], kinds: frozenset[str], *, as_json: bool) -> None:
    from entrepot.broker.inspect.read_only import ReadOnlyDisk
    from entrepot.broker.inspect.row_words import describe_row
    from entrepot.broker.store.open_files import OpenFiles

    files = OpenFiles(ReadOnlyDisk("/nonexistent"), "")
    for key in sorted(found):
        if kinds and key[:1].decode("latin-1") not in kinds:
            continue
        told = describe_row(files, key, found[key])
        if as_json:
            say_json(told)
        else:
            name, size = told.pop("key"), told.pop("bytes")
            del told["kind"]
            say("  ".join([name, f"bytes={size}", *(f"{k}={_word(v)}" for k, v in told.items())]))


@app.command()
def rebind(
    data_dir: DataDir,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Skip the confirmation; required without a terminal.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Detach a stopped replica from its lost controllers, so that it obeys the next ones.

    Run it on each replica of each broker before the new controllers start. Asks for confirmation.
    """
    from entrepot.broker.replication.rebinding import bound_to
    from entrepot.broker.replication.rebinding import rebind as forget

    with readable():
        known = bound_to(data_dir).controllers
    question = f"Are the controllers of group {known} gone for good?"
    if known and not yes:
        if not sys.stdin.isatty():
            say(f"entrepot: {question} There is no terminal to ask: say --yes", err=True)
            raise typer.Exit(UNUSABLE)
        typer.confirm(printable(question), abort=True, err=True)
    with readable():
        forgotten = forget(data_dir)
    words = f"it no longer obeys controllers of group {forgotten}" if forgotten else "it has obeyed no controllers yet"
    if as_json:
        say_json({"directory": str(data_dir), "forgotten": forgotten or None})
    else:
        say(words)


def _print(report: Report) -> None:
    for name, text in _summary(report.facts):
        say(f"{name:<10} {text}")
    for finding in report.findings:
        say(f"{finding.severity.name.lower()}: {finding.text}")
    problems = sum(finding.severity.name != "NOTE" for finding in report.findings)
    say("healthy" if report.is_healthy else f"{problems} problem{'s' * (problems != 1)} found")


def _summary(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    store, log, state = facts["store"], facts["log"], facts["state"]
    yield "store", f"{store['id']}, format {store['format']}, {store['end']} end"
    yield (
        "log",
        f"{log['segments']} segments, {log['bytes']} bytes, {log['records']} records, {log['start']} to {log['end']}",
    )
    if log["records"]:
        yield "", f"{log['firstTime']} to {log['lastTime']}"
    yield "records", _counts(log["kinds"])
    whole = "whole" if state["isWhole"] else "not whole"
    yield "state", f"{state['rows']} rows, {whole}, up to {state['position']}: {_counts(state['kinds'])}"
    yield "index", f"{facts['index']['files']} files, {facts['index']['entries']} entries"
    if "queues" not in facts:
        return
    queues, windows = facts["queues"], facts["windows"]
    held = sum(queue["maxOffset"] - queue["minOffset"] for queue in queues)
    yield "queues", f"{len(queues)} of {facts['topics']} topics, {held} entries, {facts['entriesChecked']} checked"
    unsettled = sum(window["unsettled"] for window in windows)
    yield "windows", f"{len(windows)} of {facts['groups']} groups, {unsettled} unsettled"
    yield "waiting", f"{facts['timers']} timers, {facts['halfMessages']} half messages"
    yield "recovery", f"a start would read {facts['recovery']['scannedBytes']} bytes of the log"


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in found.items()) or "none"


def _word(value: object) -> str:
    is_word = isinstance(value, str) and value.isprintable() and " " not in value
    return str(value) if is_word else printable_json(json.dumps(value, ensure_ascii=False))


if __name__ == "__main__":
    sys.exit(app())
