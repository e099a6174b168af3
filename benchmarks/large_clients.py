"""A crowd of MQTT connections that do nothing: `python -m benchmarks.large_clients PORT COUNT SOURCE`.

It prints a line once all are connected, and the number of those that are still there once its input ends. `SOURCE` is
an address of this machine for them: each has ports of its own.
"""

from __future__ import annotations

import selectors
import socket
import sys
from typing import Final

from entrepot.protocols.mqtt.encoder import encode
from entrepot.protocols.mqtt.packets import Connect

AT_ONCE: Final = 200
KEEP_ALIVE_SECONDS: Final = 0
CONNACK_BYTES: Final = 4


def main(port: int, count: int, source: str) -> None:
    """Connect all, at most `AT_ONCE` of them waiting for their answers."""
    waiting = selectors.DefaultSelector()
    there: list[socket.socket] = []
    begun = 0
    while len(there) < count:
        while begun < count and begun - len(there) < AT_ONCE:
            one = socket.socket()
            one.bind((source, 0))
            one.connect(("127.0.0.1", port))
            one.sendall(encode(Connect(f"{source}-{begun}", keep_alive=KEEP_ALIVE_SECONDS, version=5), 5))
            waiting.register(one, selectors.EVENT_READ)
            begun += 1
        for key, _ in waiting.select(30):
            one = key.fileobj  # type: ignore[assignment]
            assert len(one.recv(4096)) > CONNACK_BYTES, "the connection was refused"
            waiting.unregister(one)
            there.append(one)
    sys.stdout.write("there\n")
    sys.stdout.flush()
    sys.stdin.read()
    sys.stdout.write(f"{sum(_is_open(one) for one in there)}\n")


def _is_open(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return bool(one.recv(1))
    except BlockingIOError:
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
