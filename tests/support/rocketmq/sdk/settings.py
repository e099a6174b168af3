"""The settings of a RocketMQ store."""

from __future__ import annotations

from dataclasses import dataclass, field

from entrepot.protocols.rocketmq.headers import Credentials
from entrepot.protocols.rocketmq.names import Address


@dataclass(frozen=True, slots=True)
class RocketMqSettings:
    """Settings of a RocketMQ store.  Times are in milliseconds.

    `endpoints`: addresses of the cluster's proxies, which are asked for routes.  `namespace`: the resource namespace of
    our `default`.  `tls`: use TLS, with `root_certificates` (PEM; None: the system's).  `request_timeout_ms`: limit of
    a call, and of a long poll beyond its time.  `route_refresh_ms`: interval between refreshes of routes.
    `heartbeat_ms`: interval between heartbeats of clients.  `least_poll_ms`: shortest long poll of the cluster; calls
    get at least that time.  `answer_ms`: time for the cluster's answer to a pop without a wait.  `keep_ms`: time for
    which late messages are kept for the next pop before they are given back.

    `max_batch`, `max_batch_bytes`: limits of one SendMessage.  `max_sends`: its parallel calls.  `max_waiting`:
    unconfirmed messages beyond which producers should pause.  `max_remembered`: limit of each kind of kept handles
    (recall handles, transactions, renewed receipt handles).  `reader_group`: the group of reads by offset.
    """

    endpoints: tuple[Address, ...]
    namespace: str = ""
    credentials: Credentials = field(default_factory=Credentials)
    tls: bool = False
    root_certificates: bytes | None = None
    request_timeout_ms: int = 3_000
    route_refresh_ms: int = 30_000
    heartbeat_ms: int = 10_000
    least_poll_ms: int = 5_000
    most_poll_ms: int = 20_000
    answer_ms: int = 500
    keep_ms: int = 5_000
    max_batch: int = 32
    max_batch_bytes: int = 1 << 20
    max_sends: int = 64
    max_waiting: int = 20_000
    max_remembered: int = 100_000
    reader_group: str = "entrepot_reader"
