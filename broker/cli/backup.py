"""`entrepot store backup`: copies of a store's log, of a running server too, and stores made of them.

Exit codes: 0 done, or a whole backup; 1 problems found; 2 wrong usage, or it cannot be done.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.broker.cli.output import PROBLEMS, DataDir, Json, readable, say, say_json
from entrepot.domain.timestamp import to_rfc3339

if TYPE_CHECKING:
    from entrepot.broker.backup.target import BackupTarget

app = typer.Typer(help="Backups of a data directory, of a running server too.", no_args_is_help=True)
Where = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", show_default=False, help="Place of the backup: a folder, s3://bucket/prefix, gs:// or az://."
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file", envvar="ENTREPOT_BACKUP_KEY_FILE", metavar="FILE", help="Key by which the backup is encrypted."
    ),
]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint", envvar="ENTREPOT_BACKUP_ENDPOINT", metavar="URL", help="Endpoint of the object store."),
]
Region = Annotated[
    str | None,
    typer.Option("--region", envvar="ENTREPOT_BACKUP_REGION", metavar="NAME", help="Region of the object store."),
]
AllowHttp = Annotated[bool, typer.Option("--allow-http", help="Allow an endpoint without TLS.")]
InCluster = Annotated[
    bool, typer.Option("--cluster", help="Keep it below the place by the broker's name, beside those of others.")
]
Broker = Annotated[
    str, typer.Option("--broker", metavar="NAME", help="Broker whose backup is meant, of those below the place.")
]


def _target(
    where: str,
    key_file: Path | None,
    endpoint: str | None,
    region: str | None,
    allow_http: bool,
    broker: str = "",
    *,
    is_new: bool = False,
) -> BackupTarget:
    from entrepot.broker.backup.sealing import seal_of
    from entrepot.broker.backup.target import open_target
    from entrepot.broker.tiered.store_options import StoreOptions

    seal = None if key_file is None else seal_of(key_file)
    options = StoreOptions(endpoint=endpoint, region=region, allow_http=allow_http)
    found = open_target(where, options, seal, is_new=is_new)
    return found.at(broker) if broker else found


@app.command()
def key(file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False, help="New file.")]) -> None:
    """Make a key that encrypts backups, in a new file that only its owner reads. Keep it apart from them."""
    from entrepot.broker.backup.sealing import make_key, seal_of

    with readable():
        make_key(file)
        say(f"{file} has the key {seal_of(file).name}: without it nobody reads what it encrypts, you neither")


@app.command()
def create(
    where: Where,
    data_dir: DataDir,
    key_file: KeyFile = None,
    is_plain: Annotated[bool, typer.Option("--plain", help="Do not encrypt what leaves the machine.")] = False,
    in_cluster: InCluster = False,
    endpoint: Endpoint = None,
    region: Region = None,
    allow_http: AllowHttp = False,
    as_json: Json = False,
) -> None:
    """Bring a backup up to the log of a data directory, whose server may run: only what is new is copied.

    Of a replica all that is confirmed is copied; any replica of a broker will do.
    """
    from entrepot.broker.backup.saving import save
    from entrepot.broker.backup.target import check_sealed

    with readable():
        check_sealed(where, is_sealed=key_file is not None, is_plain=is_plain)
        name = _name_of(data_dir) if in_cluster else ""
        target = _target(where, key_file, endpoint, region, allow_http, name, is_new=True)
        found = save(data_dir, target, int(time.time() * 1000))
    manifest = found.manifest
    told = {
        "place": target.shown,
        "store": manifest.store_id,
        "from": manifest.begin,
        "to": manifest.end,
        "copiedBytes": found.copied_bytes,
        "copiedParts": found.copied_parts,
        "parts": len(manifest.parts),
        "key": manifest.key,
    }
    if as_json:
        say_json(told)
    else:
        say(
            f"the log of store {manifest.store_id} from {manifest.begin} to {manifest.end} is in {target.shown}: "
            f"{found.copied_parts} of {len(manifest.parts)} parts were copied, {found.copied_bytes} bytes"
        )


def _name_of(data_dir: Path) -> str:
    from entrepot.broker.metadata.identity import identity_kept
    from entrepot.domain.errors import Code, EntrepotError

    kept = identity_kept(data_dir)
    if kept is None:
        raise EntrepotError(Code.BAD_REQUEST, f"{data_dir} is of no broker of a cluster: it has no name")
    return kept.name


@app.command()
def show(
    where: Where,
    key_file: KeyFile = None,
    endpoint: Endpoint = None,
    region: Region = None,
    allow_http: AllowHttp = False,
    as_json: Json = False,
) -> None:
    """Show the backups of a cluster's brokers, and what is missing between them.

    Exit with 1 where one cannot be read."""
    from entrepot.broker.backup.cluster import backups_of, moments
    from entrepot.domain.backups import between

    with readable():
        found = backups_of(_target(where, key_file, endpoint, region, allow_http))
    rows: list[dict[str, Any]] = []
    for each in found:
        row: dict[str, Any] = {"broker": each.name, "problem": each.problem}
        if (manifest := each.manifest) is not None:
            row |= {"taken": to_rfc3339(manifest.taken_ms), "store": manifest.store_id, "key": manifest.key}
            row |= {"from": manifest.begin, "to": manifest.end}
        rows.append(row)
    if as_json:
        say_json({"value": rows, "between": between(moments(found))})
    else:
        for row in rows:
            known = f"of {row['taken']}, up to {row['to']}" if "taken" in row else row["problem"]
            say(f"broker {row['broker']}: {known}")
        for words in between(moments(found)):
            say(words)
        if not rows:
            say(f"there is no broker's backup below {where}")
    if any(row["problem"] for row in rows):
        raise typer.Exit(PROBLEMS)


@app.command()
def verify(
    where: Where,
    key_file: KeyFile = None,
    broker: Broker = "",
    endpoint: Endpoint = None,
    region: Region = None,
    allow_http: AllowHttp = False,
    as_json: Json = False,
) -> None:
    """Check a backup: its checksums, and each record. Exit with 0 if it is whole, 1 if not."""
    from entrepot.broker.backup.restoring import known_backup, problems

    with readable():
        target = _target(where, key_file, endpoint, region, allow_http, broker)
        manifest, found = known_backup(target), list(problems(target))
    if as_json:
        taken = to_rfc3339(manifest.taken_ms)
        say_json({"place": target.shown, "taken": taken, "to": manifest.end, "problems": found})
    else:
        for problem in found:
            say(f"damage: {problem}")
        words = f"of {to_rfc3339(manifest.taken_ms)}, up to {manifest.end}"
        say(f"the backup {words}, is whole" if not found else f"{len(found)} problems in the backup {words}")
    if found:
        raise typer.Exit(PROBLEMS)


@app.command()
def restore(
    where: Where,
    data_dir: DataDir,
    key_file: KeyFile = None,
    broker: Broker = "",
    endpoint: Endpoint = None,
    region: Region = None,
    allow_http: AllowHttp = False,
    as_json: Json = False,
) -> None:
    """Make a new data directory of a backup, as another store: members of the old one are none of it.

    Start one replica of a broker with it, the others with empty directories, and new controllers.
    """
    from entrepot.broker.backup.restoring import known_backup, restore

    with readable():
        target = _target(where, key_file, endpoint, region, allow_http, broker)
        manifest, identity = known_backup(target), restore(target, data_dir)
    if as_json:
        say_json({"directory": str(data_dir), "store": identity.store_id, "was": manifest.store_id, "to": manifest.end})
    else:
        say(f"{data_dir} has the log up to {manifest.end}, as store {identity.store_id}; it was {manifest.store_id}")
