"""BackupSettings: where a broker keeps its backup."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """`place`: a folder or the URL of an object store, with all brokers of the cluster below it; empty: none.
    `key_file`: key that encrypts it. `is_plain`: it need not be encrypted on other machines either. The rest is of the
    object store."""

    place: str = ""
    key_file: Path | None = None
    is_plain: bool = False
    endpoint: str | None = None
    region: str | None = None
    allow_http: bool = False
