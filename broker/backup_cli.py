"""`entrepot store backup`: copies of a store's log, of a running server too, and stores made of them.

Exit codes: 0 done, or a whole backup; 1 problems found; 2 wrong usage, or it cannot be done.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from entrepot.broker.cli_output import PROBLEMS, DataDir, Json, readable, say, say_json
from entrepot.domain.timestamp import to_rfc3339

app = typer.Typer(help="Backups of a data directory, of a running server too.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False, help="Folder of the backup.")]


@app.command()
def create(folder: Folder, data_dir: DataDir, as_json: Json = False) -> None:
    """Bring a folder up to the log of a data directory, whose server may run: only what is new is copied.

    Of a replica all that is confirmed is copied; any replica of a broker will do.
    """
    from entrepot.broker.backup.saving import save

    with readable():
        found = save(data_dir, folder, int(time.time() * 1000))
    manifest = found.manifest
    told = {
        "folder": str(folder),
        "store": manifest.store_id,
        "from": manifest.begin,
        "to": manifest.end,
        "copiedBytes": found.copied_bytes,
        "copiedSegments": found.copied_segments,
        "segments": len(manifest.segments),
    }
    if as_json:
        say_json(told)
    else:
        say(
            f"the log of store {manifest.store_id} from {manifest.begin} to {manifest.end} is in {folder}: "
            f"{found.copied_segments} of {len(manifest.segments)} segments were copied, {found.copied_bytes} bytes"
        )


@app.command()
def verify(folder: Folder, as_json: Json = False) -> None:
    """Check a backup: its checksums, and each record. Exit with 0 if it is whole, 1 if not."""
    from entrepot.broker.backup.restoring import known_backup, problems

    with readable():
        manifest, found = known_backup(folder), list(problems(folder))
    if as_json:
        told = {"folder": str(folder), "taken": to_rfc3339(manifest.taken_ms), "to": manifest.end, "problems": found}
        say_json(told)
    else:
        for problem in found:
            say(f"damage: {problem}")
        taken = f"of {to_rfc3339(manifest.taken_ms)}, up to {manifest.end}"
        say(f"the backup {taken}, is whole" if not found else f"{len(found)} problems in the backup {taken}")
    if found:
        raise typer.Exit(PROBLEMS)


@app.command()
def restore(folder: Folder, data_dir: DataDir, as_json: Json = False) -> None:
    """Make a new data directory of a backup, as another store: members of the old one are none of it.

    Start one replica of a broker with it, the others with empty directories, and new controllers.
    """
    from entrepot.broker.backup.restoring import known_backup, restore

    with readable():
        manifest, identity = known_backup(folder), restore(folder, data_dir)
    if as_json:
        say_json({"directory": str(data_dir), "store": identity.store_id, "was": manifest.store_id, "to": manifest.end})
    else:
        say(f"{data_dir} has the log up to {manifest.end}, as store {identity.store_id}; it was {manifest.store_id}")
