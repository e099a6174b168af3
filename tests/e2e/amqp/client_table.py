"""The table of other people's AMQP clients; what one cannot do stands here with why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.amqp.scripts import consuming, publishing, queues, routing
from tests.support.amqp_peers.peer import Arrival, Peer
from tests.support.amqp_peers.pika_blocking import PikaBlockingPeer


@dataclass(frozen=True)
class Client:
    """One row."""

    name: str
    connect: Callable[[int, Arrival], Peer]
    is_there: bool = True


CLIENTS = {client.name: client for client in (Client("pika", PikaBlockingPeer),)}

CASES = [case for scripts in (publishing, consuming, routing, queues) for case in scripts.CASES.by_feature.values()]

CANNOT: dict[tuple[str, str], str] = {}
"""(client, feature): why not."""
