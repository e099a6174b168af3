"""Routes: which brokers there are, where, and which queues of which topics they have (RocketMQ: TopicRouteData).

A broker registers all of what it has with every name server; a name server gives all it knows to whoever asks.  Nobody
else decides anything here: a route says where to go, what is there says the broker itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNIX: Final = "unix:"
"""In place of a host and a port: the path of a socket follows, of a broker of this machine and this user alone."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """What a broker has of a topic: how many queues, and how many of them new messages go to."""

    name: str
    queues: int
    writable_queues: int


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """Who a broker is and what may be asked of it.

    `number` tells its queues from those of others (`domain.shard`), `store_id` is that of its data directory, and
    `epoch` that of the process: the milliseconds at which it began.  `address`: host:port that clients reach it at.
    `is_draining`: no new messages go to it.  `keeps_key_values`: it is the one that has them; None: not settled yet.
    `damage`: what is known to be missing of its data, for people; empty where nothing is.  `rule`, `copies`: a message
    is confirmed by so many disks at least.

    Of a broker group it is the master that speaks: `replica` is its id (0: the broker has no replicas), `replicas` the
    addresses of all by id, and `epoch` grows with every mastership and every start of a master (`mastership_order`).
    """

    name: str
    number: int
    address: str
    store_id: str
    epoch: int
    zone: str = ""
    is_draining: bool = False
    keeps_key_values: bool | None = None
    damage: str = ""
    replica: int = 0
    replicas: tuple[tuple[int, str], ...] = ()
    rule: str = "single"
    copies: int = 1


RUN_BITS: Final = 24


def mastership_order(epoch: int, run: int) -> int:
    """The order of masters of a group: by epoch, within one by the runs of its process."""
    return epoch << RUN_BITS | run & (1 << RUN_BITS) - 1


def mastership_epoch(order: int) -> int:
    """The epoch of such an order."""
    return order >> RUN_BITS


@dataclass(frozen=True, slots=True)
class Registration:
    """All that a broker tells a name server.  `version` grows with every change of it within one epoch."""

    broker: BrokerInfo
    version: int
    topics: tuple[TopicRoute, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """A broker as a name server knows it: `is_alive` False once its lease has ended or its connection has closed,
    `has_left` once it said that it goes for good."""

    registration: Registration
    is_alive: bool = True
    has_left: bool = False

    @property
    def broker(self) -> BrokerInfo:
        return self.registration.broker


@dataclass(frozen=True, slots=True)
class Routes:
    """All that a name server knows.  `version` grows with every change; it is the server's own, and begins anew with
    it (`server_id`)."""

    server_id: str
    version: int
    brokers: tuple[BrokerRoute, ...] = field(default=())
