"""The settings of a RocketMQ store."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq.headers import Credentials


@dataclass(frozen=True, slots=True)
class RocketMqSettings:
    """Settings of a RocketMQ store.  Times are in milliseconds.

    `name_servers`: host:port of name servers.  `cluster`: name of the cluster in which topics and groups are made;
    empty: all brokers that the name servers know.  `namespace`: RocketMQ's namespace of our `default`.  `tls`: None
    without TLS.  `addresses`: places to connect to instead of those that brokers tell, where these cannot be reached
    (NAT, containers).  `request_timeout_ms`: limit of a call, and of a long poll beyond its time.  `route_refresh_ms`:
    interval between refreshes of routes and topics.  `heartbeat_ms`: interval between heartbeats of producers.
    `most_poll_ms`: longest long poll.  `keep_ms`: time for which late messages are kept for the next pop before they
    are given back.

    `max_batch`, `max_batch_bytes`: limits of one batch.  `max_sends`: requests with messages under way at once.
    `max_waiting`: unconfirmed messages beyond which producers should pause.  `max_remembered`: limit of each kind of
    kept names (half messages, renewed receipts).  `reader_group`: the group of reads by offset.
    `confirms_less_safe`: a message counts as stored where its broker has it, and not yet as safely as its roles
    promise (codes 10 to 12).  Raises BAD_REQUEST for an invalid address.
    """

    name_servers: tuple[str, ...]
    cluster: str = ""
    namespace: str = ""
    credentials: Credentials = field(default_factory=Credentials)
    tls: ssl.SSLContext | None = None
    addresses: Mapping[str, str] = field(default_factory=dict)
    request_timeout_ms: int = 3_000
    route_refresh_ms: int = 5_000
    heartbeat_ms: int = 10_000
    most_poll_ms: int = 15_000
    keep_ms: int = 5_000
    max_batch: int = 64
    max_batch_bytes: int = 1 << 20
    max_sends: int = 256
    max_waiting: int = 20_000
    max_remembered: int = 100_000
    reader_group: str = "entrepot_reader"
    producer_group: str = "entrepot_producer"
    confirms_less_safe: bool = False

    def __post_init__(self) -> None:
        for text in (*self.name_servers, *self.addresses.values()):
            host, _, port = text.rpartition(":")
            if not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
                raise EntrepotError(Code.BAD_REQUEST, f"{text!r} is not host:port")
