"""What a RocketMQ store is told when it is opened."""

from __future__ import annotations

from dataclasses import dataclass, field

from protocols.rocketmq.headers import Credentials
from protocols.rocketmq.names import Address


@dataclass(frozen=True, slots=True)
class RocketMqSettings:
    """`endpoints`: addresses of the cluster's proxies, of which routes are asked.  Times are in milliseconds.

    `namespace`: the resource namespace that is ours called `default`.  `tls`: speak TLS, with `root_certificates` (PEM;
    None: the system's).  `request_timeout_ms`: of a call, and what a long poll may take over its time.
    `route_refresh_ms`: how often routes are asked anew.  `heartbeat_ms`: how often clients say that they live.
    `least_poll_ms`: the shortest long poll that the cluster keeps to; calls are given that much time at least.
    `answer_ms`: how long a pop that does not wait gives the cluster to answer.  `keep_ms`: how long messages that came
    after their pop had ended are kept for the next one, before they are given back.
    `max_batch`, `max_batch_bytes`: of one SendMessage.  `max_sends`: calls of it at once.  `max_waiting`: messages that
    are not confirmed yet, beyond which producers should pause.  `max_remembered`: recall handles, transactions and
    renewed receipt handles that are kept, each.  `reader_group`: the group that reading by offset is done as.
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
