"""Short words for tests of `entrepot store`: running a command, and harming a data directory."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from entrepot.broker.cli.commands import app
from entrepot.broker.store.state_file import row_checksum
from tests.inspect import full_store

SEGMENT = full_store.LAYOUT.segment_size_bytes


def fingerprint(directory: Path) -> dict[str, tuple[int, int, str]]:
    """Every path with its size, time of change and content."""
    return {
        str(path.relative_to(directory)): (
            path.stat().st_size,
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(directory.rglob("*"))
    }


def look(directory: Path, *arguments: str) -> tuple[int, str, str]:
    """Run a command; gives (exit code, standard output, standard error)."""
    before = fingerprint(directory)
    command, *rest = arguments
    done = CliRunner().invoke(app, [command, "--data-dir", str(directory), *rest])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert fingerprint(directory) == before, "nothing is written"
    return done.exit_code, done.stdout, done.stderr


def report_of(directory: Path, *arguments: str) -> dict[str, Any]:
    code, out, errors = look(directory, "verify", "--json", *arguments)
    assert out, errors
    report: dict[str, Any] = json.loads(out)
    assert code == (0 if report["healthy"] else 1)
    return report


def problems(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(f["severity"], f["kind"]) for f in report["findings"] if f["severity"] != "note"]


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, length: int) -> None:
    path.write_bytes(path.read_bytes()[:length])


def segment(directory: Path, number: int) -> Path:
    return sorted((directory / "commitlog").iterdir())[number]


def last_segment(directory: Path) -> Path:
    """The one where the log ends: space may be taken in the next one already."""
    return segment(directory, report_of(directory)["log"]["end"] // SEGMENT)


def drop_last_segments(directory: Path) -> None:
    first = last_segment(directory)
    for path in (directory / "commitlog").iterdir():
        if path >= first:
            path.unlink()


def cut_last_segments(directory: Path) -> None:
    first = last_segment(directory)
    drop_last_segments(directory)
    first.write_bytes(b"")


def a_queue_file(directory: Path) -> Path:
    return directory / "consumequeue/orders/1/00000000000000000000"


def execute(directory: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(directory / "state.db")
    connection.execute(statement, values)
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def replace_row(directory: Path, prefix: bytes, change: Callable[[bytes], bytes | None]) -> None:
    """Another value of a row, with the checksum and digest to match: a state that is wrong and not corrupted."""
    connection = sqlite3.connect(directory / "state.db")
    [(key, crc, value)] = connection.execute(
        "SELECT key, crc, value FROM state WHERE substr(key, 1, ?) = ? LIMIT 1", (len(prefix), prefix)
    ).fetchall()
    changed = change(value)
    if changed is None:
        connection.execute("DELETE FROM state WHERE key = ?", (key,))
        connection.execute("UPDATE digest SET rows = rows - 1, sum = (sum | ?) - (sum & ?)", (crc, crc))
    else:
        new = row_checksum(key, changed)
        connection.execute("UPDATE state SET crc = ?, value = ? WHERE key = ?", (new, changed, key))
        both = crc ^ new
        connection.execute("UPDATE digest SET sum = (sum | ?) - (sum & ?)", (both, both))
    connection.commit()
    connection.close()
