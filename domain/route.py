"""Routes: the brokers, their addresses, and the queues of topics that they have (RocketMQ: TopicRouteData).  A broker
registers all that it has with every name server; a name server tells all it knows to any client.  A route only says
where to go: the broker itself decides what it has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

UNIX: Final = "unix:"
"""Prefix of a socket's path in place of host and port, of a broker of this machine and user alone."""


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """A broker's share of a topic: its number of queues, and of queues for new messages."""

    name: str
    queues: int
    writable_queues: int


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker's identity and abilities.

    `number` tells its queues from those of others (`domain.broker_of_queue`), `store_id` is that of its data directory,
    and `epoch` is the start of the process in milliseconds.  `address`: host:port for clients.  `is_draining`: no new
    messages go to it.  `keeps_key_values`: True for their keeper; None: not settled yet.  `damage`: known loss of its
    data, in words, or empty.  `rule`, `copies`: a message is confirmed by at least that many disks.  `problem`: reason
    why it can confirm nothing now, in words, or empty.

    In a broker group the master speaks: `replica` is its id (0: no replicas), `replicas` the addresses of all by id.
    `epoch` then grows with every mastership and every start of a master (`mastership_order`).
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
    problem: str = ""


RUN_BITS: Final = 24


def mastership_order(epoch: int, run: int) -> int:
    """Return the order of masters of a group: by epoch, within one by the runs of its process."""
    return epoch << RUN_BITS | run & (1 << RUN_BITS) - 1


def mastership_epoch(order: int) -> int:
    """Return the epoch of a mastership order."""
    return order >> RUN_BITS


@dataclass(frozen=True, slots=True)
class Registration:
    """A broker's registration at a name server.  `version` grows with every change of it within one epoch.

    One that is not whole has the topics that changed since an earlier one, and the names of those `gone`.
    """

    broker: BrokerInfo
    version: int
    topics: tuple[TopicRoute, ...] = ()
    gone: tuple[str, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class BrokerRoute:
    """A broker in a name server's view.  `is_alive`: False once its lease has ended or its connection has closed;
    `has_left`: it left for good."""

    registration: Registration
    is_alive: bool = True
    has_left: bool = False

    @property
    def broker(self) -> BrokerInfo:
        return self.registration.broker


@dataclass(frozen=True, slots=True)
class Routes:
    """All routes of a name server.  `version` grows with every change, and begins anew with the server (`server_id`).
    `since`: version that these are the changes of; None if they are all there are."""

    server_id: str
    version: int
    brokers: tuple[BrokerRoute, ...] = field(default=())
    since: int | None = None
