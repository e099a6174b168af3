"""Disks of machines: a small file system in memory for each, which can be full, and syncs that take long."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20
ROOM_BYTES: Final = 4096 * MIB
"""Of a disk that is not full; memory is taken only for what is written."""


def made(directory: Path) -> Path:
    """A disk, mounted there."""
    directory.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={ROOM_BYTES}", "disk", str(directory))
    return directory


def removed(directory: Path) -> None:
    subprocess.run(["umount", "--lazy", str(directory)], capture_output=True, timeout=10, check=False)


def fill(directory: Path, left: int = 0) -> None:
    """No more room than that many bytes."""
    seen = os.statvfs(directory)
    used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
    _mount("-o", f"remount,size={used + left}", str(directory))


def empty(directory: Path) -> None:
    """There is room again."""
    _mount("-o", f"remount,size={ROOM_BYTES}", str(directory))


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 0, f"mount {' '.join(arguments)}: {done.stderr.strip()}"


def can_be_slow() -> bool:
    return shutil.which("strace") is not None


@contextmanager
def slow(pid: int, milliseconds: int) -> Iterator[None]:
    """Every sync of a broker takes so much longer: its child does them."""
    [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    inject = f"inject=fdatasync:delay_enter={milliseconds * 1000}"
    tracing = subprocess.Popen(
        ["strace", "-f", "-p", child, "-e", "trace=fdatasync", "-e", inject],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert tracing.stderr is not None
    said = tracing.stderr.readline()
    threading.Thread(target=tracing.stderr.read, daemon=True).start()
    try:
        assert b"attached" in said, said
        yield
    finally:
        tracing.terminate()
        tracing.wait(10)
