"""The settings of stores: this process's own, and those on other machines."""

from __future__ import annotations

import ssl
from datetime import date
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationInfo, field_validator, model_validator

from entrepot.domain.cluster_trust import ClusterTrust
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.replication.confirmation_rule import parse_rule
from entrepot.gateway.settings.addresses import LARGEST_ID, addresses_by_id, checked_addresses
from entrepot.gateway.settings.table import GIB, MIB, Bytes, Count, Port, Seconds, Table


class StoreSettings(Table):
    """The store."""

    data_dir: Path = Field(Path("data"), description="Data directory")
    segment_size_bytes: int = Field(1 * GIB, ge=1 * MIB, description="Size of a full commit-log file")
    preallocate_bytes: int = Field(64 * MIB, ge=1 * MIB, description="Disk space allocated ahead of the log's end")
    reserve_bytes: int = Field(
        16 * MIB, ge=0, description="Disk space reserved for acknowledgements when the disk is full"
    )
    flush: Literal["sync", "async"] = Field(
        "sync", description="Confirmation of messages: sync once on disk, async once in the operating system"
    )
    flush_linger_us_max: int = Field(
        200, ge=0, description="Minimum interval between commits while several producers wait"
    )
    max_unconfirmed_bytes: Bytes = Field(
        64 * MIB, description="Maximum appended bytes that are not durable yet; beyond it publishers wait"
    )
    checkpoint_interval_bytes: Bytes = Field(64 * MIB, description="Interval between checkpoints, in bytes of the log")
    checkpoint_interval_seconds: Seconds = Field(30, description="Interval between checkpoints")
    max_message_bytes: Bytes = Field(
        128 * MIB, description="Maximum size of a message body; each listener has a limit of its own"
    )
    max_in_flight_per_queue: Count = Field(
        65_536, description="Maximum unacknowledged messages of a group in one queue"
    )
    hold_back_messages: Count = Field(
        32_768, description="Largest lead of a group over an unsettled message, which then moves to the retry topic"
    )
    retention_seconds: Count = Field(
        72 * 3600, description="Age of deleted messages, unless their topic has its own retention"
    )
    retention_interval_seconds: Seconds = Field(10, description="Interval between deletions of old messages")
    disk_warn_free_bytes: int = Field(4 * GIB, ge=0, description="Free disk space below which a warning is logged")
    disk_refuse_free_bytes: int = Field(1 * GIB, ge=0, description="Free disk space below which publishing is refused")
    disk_emergency_free_bytes: int = Field(
        512 * MIB, ge=0, description="Free disk space below which the oldest messages are deleted early"
    )
    clock_is_right: date | None = Field(
        None, description="Date at which the system's clock is right, although it is far from the log's latest message"
    )
    index_slots: Count = Field(500_000, description="Number of hash slots of a message index file")
    index_entries: Count = Field(2_000_000, description="Number of entries of a message index file")
    transaction_check_after_seconds: Seconds = Field(
        6, description="Age of a half message at its first transaction check"
    )
    transaction_check_interval_seconds: Seconds = Field(
        30, description="Interval between transaction checks of a half message"
    )
    transaction_max_checks: Count = Field(
        15, description="Maximum transaction checks; then the transaction is rolled back"
    )


class BrokerSettings(Table):
    """The broker as a separate process, and the listener for gateways on other machines."""

    enabled: bool = Field(False, description="Open the broker listener in serve; the command broker always opens it")
    port: Port = Field(10_911, description="TCP port; 0: a free one")
    name: str = Field(
        "broker",
        min_length=1,
        max_length=100,
        description="Broker name, which must not change as long as its data exists",
    )
    number: int | None = Field(
        None,
        ge=0,
        le=9_999,
        description="Broker number, unique in the cluster; unset: the number at the end of its name",
    )
    advertise: str | None = Field(None, description="Address (host:port) for gateways; unset: the listening address")
    zone: str = Field("", description="Zone of the broker; gateways of the same zone prefer it")
    keeps_key_values: Literal["auto", "yes", "no"] = Field(
        "auto", description="Keep the cluster's key-values on this broker; auto: if no other broker does"
    )
    replica_id: int = Field(
        0, ge=0, le=LARGEST_ID, description="Id of this replica of the broker, from 1; 0: not replicated"
    )
    replicas: list[str] = Field([], description="All replicas of the broker, including this one, as id=host:port")
    observers: list[str] = Field([], description="Observers, which copy the log but do not count, as id=host:port")
    rule: str = Field("in-sync", description="Confirm rule of messages: async, in-sync, or REQUIRED-REPLICAS")
    min_in_sync: int | None = Field(
        None, ge=1, description="Minimum number of replicas in sync for publishing; unset: 2 of three or more, 1 of two"
    )
    elects_async: bool = Field(
        False, description="Replace a lost master under async too, losing messages that it had alone"
    )
    copy_bytes_per_second: int = Field(
        0, ge=0, description="Copy rate of a replica that lacks much of the log; 0: no limit"
    )
    compare_bytes_per_second: int = Field(
        8 * MIB, ge=0, description="Rate of a slave's comparison of its log with the master's; 0: no comparison"
    )
    register_seconds: Seconds = Field(600, description="Interval between full registrations with a name server")
    heartbeat_seconds: Seconds = Field(1, description="Interval between heartbeats to a name server")

    @model_validator(mode="after")
    def _is_a_group(self) -> BrokerSettings:
        if self.replica_id:
            if self.replica_id not in self.group_addresses():
                raise ValueError(f"replicas has no {self.replica_id}=host:port, which replica_id says this is")
            parse_rule(self.rule, len(self.replicas), self.min_in_sync)
        return self

    def group_addresses(self) -> dict[int, str]:
        """host:port of each replica and observer by its id. Raises ValueError."""
        return addresses_by_id((*self.replicas, *self.observers), "replica")

    def observer_ids(self) -> frozenset[int]:
        return frozenset(int(each.partition("=")[0]) for each in self.observers)


class NameServerSettings(Table):
    """The name server."""

    port: Port = Field(9_876, description="TCP port; 0: a free one")
    lease_seconds: Seconds = Field(
        10, description="Time without a heartbeat after which a broker counts as unavailable"
    )


class ControllerSettings(Table):
    """A controller, one of those that elect the masters of replicated brokers, alone or in a name server."""

    id: int = Field(0, ge=0, le=LARGEST_ID, description="Id among cluster.controllers, from 1; 0: no controller")
    port: Port = Field(9_878, description="TCP port of the command controller; 0: a free one")
    data_dir: Path = Field(Path("controller"), description="Data directory of the controller")


class ClusterSettings(Table):
    """Common settings of a deployment on several machines."""

    name: str = Field("", max_length=100, description="Name of the deployment; processes of another name are refused")
    name_servers: list[str] = Field([], description="Addresses of all name servers, as host:port")
    brokers: list[str] = Field([], description="Addresses of brokers known without a name server, as host:port")
    controllers: list[str] = Field(
        [], description="Addresses of all controllers, as id=host:port; in a name server, that one's address"
    )
    lease_seconds: float = Field(
        3, gt=0, allow_inf_nan=False, description="Silence of a master after which controllers replace it"
    )
    route_cache: Path | None = Field(
        None, description="Cache file of a gateway's known brokers, for starts without a name server"
    )
    zone: str = Field("", description="Zone of this gateway; it prefers brokers of its zone for new messages")
    reads: Literal["master", "nearest"] = Field(
        "master", description="Replica that answers reads; nearest: one of the same zone, which may lag"
    )
    start_seconds: Seconds = Field(30, description="Longest wait of a starting gateway for its first broker")
    request_seconds: float = Field(
        10, gt=0, allow_inf_nan=False, description="Longest wait for the answer of a reachable broker"
    )
    silence_seconds: float = Field(
        5, gt=0, allow_inf_nan=False, description="Silence after which a connection counts as lost"
    )
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Number of gateway processes that share the ports; with several, serve has a store process besides",
    )
    gateway_port: Port = Field(
        0,
        description="TCP port for the questions of other gateways, of several workers the first one; 0: a free one",
    )
    gateway_host: str = Field(
        "",
        max_length=255,
        description="Host name or address of this gateway for the others; unset: the listening one, or that "
        "towards the brokers",
    )
    tls_certificate: Path | None = Field(
        None, description="Certificate (PEM) for connections between processes; enables TLS"
    )
    tls_key: Path | None = Field(None, description="Private key (PEM) of tls_certificate")
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) of the other processes; enables TLS")
    tls_names: list[str] = Field(
        [], description="Names that clients' certificates may have, such as *.brokers.internal; empty: any of tls_ca"
    )
    secret_file: Path | None = Field(
        None, description="File with the cluster's secret, the same for all parts; entrepot cluster secret makes one"
    )
    secret: SecretStr = Field(SecretStr(""), description="Secret of the cluster, in place of secret_file")
    trusted_network: bool = Field(
        False, description="Trust every machine that reaches this one: parts without the secret are taken, too"
    )

    _are_addresses = field_validator("name_servers", "brokers")(checked_addresses)

    @field_validator("controllers")
    @classmethod
    def _have_ids(cls, value: list[str]) -> list[str]:
        addresses_by_id(value, "controller")
        return value

    @field_validator("tls_names")
    @classmethod
    def _are_checked(cls, value: list[str], info: ValidationInfo) -> list[str]:
        if value and (info.data.get("tls_ca") is None or info.data.get("tls_certificate") is None):
            raise ValueError("names of clients' certificates need tls_certificate and tls_ca")
        return value

    def trust(self) -> ClusterTrust:
        """Return what the parts of the cluster know each other by.  Raises BAD_REQUEST for a certificate without its
        key."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise EntrepotError(Code.BAD_REQUEST, "cluster.tls_certificate and cluster.tls_key belong together")
        return ClusterTrust(
            self.tls_certificate,
            self.tls_key,
            self.tls_ca,
            tuple(self.tls_names),
            self.secret_file,
            self.secret.get_secret_value(),
            self.trusted_network,
        )

    def controller_addresses(self) -> dict[int, str]:
        """host:port of each controller by its id."""
        return addresses_by_id(self.controllers, "controller")


class RocketMqPlace(Table):
    """Where a RocketMQ cluster is, and how it is reached."""

    name_servers: list[str] = Field([], description="Addresses of the cluster's name servers, as host:port")
    cluster: str = Field("", description="Name of the cluster; empty: all brokers that the name servers know")
    namespace: str = Field("", description="RocketMQ's namespace of our `default`, before all of its names")
    addresses: dict[str, str] = Field(
        {}, description="Places to connect to instead of those that brokers tell, as host:port each (NAT, containers)"
    )
    tls: bool = Field(False, description="TLS to name servers and brokers")
    tls_ca: Path | None = Field(None, description="Certificates (PEM) to trust; empty: the system's")
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) that the gateway shows, with `tls_key`")
    tls_key: Path | None = Field(None, description="Key (PEM) of `tls_certificate`")
    access_key: str = Field("", description="Access key, if the cluster requires one")

    def place(self, secret: str) -> dict[str, Any]:
        """Return what a client of the cluster needs to know: arguments of `rocketmq_settings` in
        `store_client/rocketmq`.  Raises BAD_REQUEST for files that cannot be used."""
        names = ("name_servers", "cluster", "namespace", "addresses", "access_key")
        return {**{name: getattr(self, name) for name in names}, "secret": secret, "tls": self._tls()}

    def _tls(self) -> ssl.SSLContext | None:
        if not self.tls:
            return None
        from entrepot.store_client.rocketmq.tls import client_tls

        return client_tls(self.tls_ca, self.tls_certificate, self.tls_key, "rocketmq.tls_*")


class RocketMqClusterSettings(RocketMqPlace):
    """An Apache RocketMQ 5 cluster in place of brokers (the command gateway; docs/rocketmq-cluster.md)."""

    confirms_less_safe: bool = Field(
        False,
        description="Confirm a message that its broker has, and has not flushed or replicated in time (codes 10 to 12)",
    )
    secret: SecretStr = Field(SecretStr(""), description="Secret of the access key")
