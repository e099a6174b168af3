"""Member: one process of a local cluster, and its life."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

STOP_SECONDS: Final = 30.0
"""Longest wait for a part to end after SIGTERM; then it is killed. A gateway drains for 10 s at most."""
TAIL_LINES: Final = 15
PORT_FLAGS: Final = {"nameserver": "--port", "broker": "--port"} | {
    door: f"--{door}-port" for door in ("mqtt", "amqp", "grpc", "http")
}
"""Flag of a listener's port."""


@dataclass(eq=False)
class Member:
    """One process of the cluster."""

    role: str
    name: str
    arguments: list[str]
    log: Path
    ready_file: Path
    data: Path | None = None
    addresses: dict[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    is_told: bool = False
    """True once its end has been reported."""
    deaths: list[float] = field(default_factory=list)
    """Times of its last deaths."""

    @property
    def has_ended(self) -> bool:
        return self.process is not None and self.process.returncode is not None

    async def start(self) -> None:
        """Start it in a session of its own: Ctrl-C reaches only this process, which stops the parts in order."""
        self.ready_file.unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "entrepot.gateway.cli",
            self.role,
            *self.arguments,
            "--ready-file",
            str(self.ready_file),
        ]
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stay(self) -> None:
        """Keep the ports that it has for its next start: others know them."""
        for door, address in self.addresses.items():
            flag = PORT_FLAGS.get(door)
            if flag in self.arguments:
                self.arguments[self.arguments.index(flag) + 1] = address.rpartition(":")[2]

    def look(self) -> bool:
        """True if it is ready."""
        if not self.addresses and self.ready_file.exists():
            self.addresses = json.loads(self.ready_file.read_bytes())
        return bool(self.addresses)

    def signal(self, number: int) -> None:
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def end(self) -> bool:
        """Wait until it has stopped, and kill it if it takes too long; True if it stopped in time."""
        assert self.process is not None
        try:
            await asyncio.wait_for(self.process.wait(), STOP_SECONDS)
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.process.wait()
            return False
        return True

    def log_tail(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]

    def how_it_ended(self) -> str:
        assert self.process is not None
        code = self.process.returncode
        assert code is not None
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"


class MemberEndedError(Exception):
    """A part has ended, or did not become ready."""

    def __init__(self, member: Member, what: str) -> None:
        super().__init__(what)
        self.member = member
