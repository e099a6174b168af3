"""Whoever breaks connections as fast as he can does not fill the log: each door's lines are held to a rate."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack, suppress

from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_until

BROKEN = 200
"""Connections of each kind."""
MANY = 100
"""More lines than any kind may have in a test's time: 20 at once, then one a second."""
# what is said at a door, and the line that tells of it
KINDS = {
    "mqtt": (b"GET / HTTP/1.1\r\n\r\n", "connection closed by the server"),
    "amqp": (b"GET / HTTP/1.1\r\n\r\n", "connection closed by the server"),
    "http": (b"\0\1\2\3\r\n\r\n", "http request refused"),
}


def _break(port: int, data: bytes) -> None:
    """All of them at once, each until the server has closed it."""
    with ExitStack() as stack:
        broken = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(BROKEN)]
        for each in broken:
            each.sendall(data)
        for each in broken:
            with suppress(ConnectionError):
                while each.recv(4096):
                    pass


def test_broken_connections(server: ServerProcess) -> None:
    def lines(door: str) -> list[dict[str, object]]:
        told = [json.loads(line) for line in server.log_text().splitlines() if line.startswith("{")]
        return [line for line in told if line["event"] == KINDS[door][1] and door in str(line)]

    for door, (data, _) in KINDS.items():
        before = len(lines(door))
        _break(server.port(door), data)
        after = len(lines(door))
        assert after >= 20 and after - before <= MANY, (door, before, after)

    def told(door: str) -> int:
        """With those that were left out."""
        return sum(int(str(line.get("suppressed", 0))) + ("kind" not in line) for line in lines(door))

    for door in ("mqtt", "amqp"):  # of others' lines the next one tells
        wait_until(lambda door=door: told(door) >= BROKEN, f"what was left out at {door} is told")  # type: ignore[misc]
