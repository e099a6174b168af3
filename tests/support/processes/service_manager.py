"""What a service manager is told by sd_notify(3): a datagram socket of a test."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import wait_until


class ServiceManager:
    """`name`: for NOTIFY_SOCKET.  `told`: the lines so far, once `read`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name.startswith("@") else name)
        self._socket.setblocking(False)

    @classmethod
    def below(cls, directory: Path) -> ServiceManager:
        return cls(str(directory / "notify"))

    def read(self) -> list[str]:
        """All lines so far."""
        while True:
            try:
                self.told += self._socket.recv(1 << 16).decode().split("\n")
            except BlockingIOError:
                return self.told

    def wait_for(self, line: str) -> None:
        wait_until(lambda: line in self.read(), lambda: f"{line}: {self.told}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()
