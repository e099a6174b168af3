"""The table of other people's AMQP clients; what one cannot do stands here with why.

Every client is asked against one process, and one of them in the default tier: the others speak to the same door by the
same frames.  Against a deployment of several processes one is, since there the difference is behind the door and not in
it; in the default tier by the scripts of `BEHIND_THE_DOOR`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.e2e.amqp.scripts import consuming, dead_letters, limits, patterns, publishing, queues, routing
from tests.support.amqp.peers.aio_pika_peer import AioPikaPeer
from tests.support.amqp.peers.amqplib_peer import AmqplibPeer
from tests.support.amqp.peers.kombu_peer import KombuPeer
from tests.support.amqp.peers.peer import Arrival, Peer
from tests.support.amqp.peers.pika_asyncio import PikaAsyncioPeer
from tests.support.amqp.peers.pika_blocking import PikaBlockingPeer
from tests.support.processes.node_host import MODULES


@dataclass(frozen=True)
class Client:
    """One row."""

    name: str
    connect: Callable[[int, Arrival], Peer]
    is_there: bool = True
    is_ours: bool = False
    """True where it is asked in the default tier, and against several processes."""


HAS_AMQPLIB = shutil.which("node") is not None and (MODULES / "amqplib").is_dir()

CLIENTS = {
    client.name: client
    for client in (
        Client("pika", PikaBlockingPeer, is_ours=True),
        Client("pika-asyncio", PikaAsyncioPeer),
        Client("aio-pika", AioPikaPeer),
        Client("kombu", KombuPeer),
        Client("amqplib", AmqplibPeer, HAS_AMQPLIB),
    )
}

CASES = [
    case
    for scripts in (publishing, consuming, routing, queues, limits, dead_letters, patterns)
    for case in scripts.CASES.by_feature.values()
]

_NO_NACK = "py-amqp has no basic.nack"
_NO_TX = "amqplib has no transactions"
_ONCE = "aio-pika itself refuses a second acknowledgement of a message"
_OWN_PROPERTIES = "it gives every message properties of its own"

CANNOT: dict[tuple[str, str], str] = {
    ("aio-pika", "wrong vhost"): "aiormq does not tell the close that answers connection.open",
    ("aio-pika", "no properties"): _OWN_PROPERTIES,
    ("aio-pika", "a connection is cut: all comes again, marked"): "aio-pika does not give its socket away",
    ("aio-pika", "a name for replies can be declared while its client waits"): "aiormq refuses RabbitMQ's own names",
    ("aio-pika", "transactions: an unknown tag is refused at the acknowledgement"): _ONCE,
    ("aio-pika", "transactions: a prefetch limit is free at the commit"): _ONCE,
    ("kombu", "nack with requeue: at the old place, marked"): _NO_NACK,
    ("kombu", "nack without requeue"): _NO_NACK,
    ("kombu", "internal exchange"): "py-amqp declares none",
    ("amqplib", "wrong vhost"): "amqplib does not tell the close that answers connection.open",
    ("amqplib", "no properties"): _OWN_PROPERTIES,
    ("amqplib", "transactions"): _NO_TX,
    ("amqplib", "transactions of acknowledgements"): _NO_TX,
    ("amqplib", "transactions: an unknown tag is refused at the acknowledgement"): _NO_TX,
    ("amqplib", "transactions: recover leaves what is acknowledged"): _NO_TX,
    ("amqplib", "transactions: a prefetch limit is free at the commit"): _NO_TX,
}
"""(client, feature): why not."""

LATE_AT_ROCKETMQ = {
    "what a closed channel gives back obeys a limit that drops": "its messages are back later than the look for them",
}
"""Features that are not held in front of RocketMQ, with why not: the next arrival applies the limit."""

BEHIND_THE_DOOR = (
    "consume and acknowledge",
    "a connection is cut: all comes again, marked",
    "nack with requeue: at the old place, marked",
    "prefetch of each consumer",
    "single active consumer",
    "consumer priority",
    "transactions",
    "priority after requeue",
    "pattern: retry with a waiting queue",
    "confirms of two channels are each their own",
)
"""Features of which several processes need more than one: their queues, leases and times are at a broker."""
