"""The settings of stores: this process's own, and those on other machines."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from entrepot.domain.replication.rule import parse_rule
from entrepot.gateway.settings.addresses import LARGEST_ID, addresses_by_id, checked_addresses
from entrepot.gateway.settings.table import GIB, MIB, Bytes, Count, Port, Seconds, Table


class StoreSettings(Table):
    """The store."""

    kind: Literal["embedded", "memory"] = Field(
        "embedded", description="embedded is durable, memory keeps nothing; the command gateway has none of its own"
    )
    data_dir: Path = Field(Path("data"), description="Directory of everything that is kept")
    segment_size_bytes: int = Field(1 * GIB, ge=1 * MIB, description="Size at which a commit-log file is full")
    preallocate_bytes: int = Field(64 * MIB, ge=1 * MIB, description="Disk space taken ahead of the log's end")
    reserve_bytes: int = Field(
        16 * MIB, ge=0, description="Space that publishing leaves for acknowledgements when the disk is full"
    )
    flush: Literal["sync", "async"] = Field(
        "sync", description="sync confirms what is on disk, async what the operating system has"
    )
    flush_linger_us_max: int = Field(
        200, ge=0, description="Shortest time between commits while several producers wait"
    )
    max_unconfirmed_bytes: Bytes = Field(64 * MIB, description="Appended and not yet durable; beyond, publishers wait")
    checkpoint_interval_bytes: Bytes = Field(64 * MIB, description="Log growth after which a checkpoint is written")
    checkpoint_interval_seconds: Seconds = Field(30, description="Time after which a checkpoint is written")
    max_message_bytes: Bytes = Field(4 * MIB, description="Largest body of a message")
    max_in_flight_per_queue: Count = Field(
        65_536, description="Messages of one queue that one group may hold unacknowledged"
    )
    hold_back_messages: Count = Field(
        32_768, description="How far a group runs ahead of a message that waits before that moves to the retry topic"
    )
    retention_seconds: Count = Field(
        72 * 3600, description="Age at which messages go, unless their topic says otherwise"
    )
    retention_interval_seconds: Seconds = Field(10, description="Time between two looks for what can go")
    disk_warn_free_bytes: int = Field(4 * GIB, ge=0, description="Free disk space below which a warning is logged")
    disk_refuse_free_bytes: int = Field(1 * GIB, ge=0, description="Free disk space below which publishing is refused")
    disk_emergency_free_bytes: int = Field(
        512 * MIB, ge=0, description="Free disk space below which the oldest messages go before their time"
    )
    index_slots: Count = Field(500_000, description="Hash slots of a message index file")
    index_entries: Count = Field(2_000_000, description="Entries of a message index file")
    transaction_check_after_seconds: Seconds = Field(
        6, description="Time after which the producer of a half message is asked how its transaction ended"
    )
    transaction_check_interval_seconds: Seconds = Field(30, description="Time between two such questions")
    transaction_max_checks: Count = Field(15, description="Questions after which a transaction is rolled back")


class BrokerSettings(Table):
    """The broker as a process of its own, and the door through which gateways on other machines reach a store."""

    enabled: bool = Field(False, description="Whether serve opens this door too; the command broker always does")
    port: Port = Field(10_911, description="TCP port; 0 takes a free one")
    name: str = Field("broker", min_length=1, max_length=100, description="Name, the same as long as its data lives")
    number: int | None = Field(
        None, ge=0, le=9_999, description="Number that tells its queues from others'; else what its name ends with"
    )
    advertise: str | None = Field(None, description="host:port that gateways reach it at; else where it listens")
    zone: str = Field("", description="Where it is: gateways of the same zone prefer it")
    keeps_key_values: Literal["auto", "yes", "no"] = Field(
        "auto", description="Whether it is the one that keeps the key-values; auto: if no other does"
    )
    replica_id: int = Field(
        0, ge=0, le=LARGEST_ID, description="Id of this replica of the broker, from 1; 0: it has none"
    )
    replicas: list[str] = Field([], description="id=host:port of every replica of the broker, this one included")
    observers: list[str] = Field([], description="id=host:port of replicas that copy its log and count for nothing")
    rule: str = Field("in-sync", description="When a message is confirmed: async, in-sync, or REQUIRED-REPLICAS")
    min_in_sync: int | None = Field(
        None, ge=1, description="Replicas in sync that publishing needs; else 2 of three and more, 1 of two"
    )
    elects_async: bool = Field(
        False, description="Whether controllers replace a lost master under async too, without messages it had alone"
    )
    copy_bytes_per_second: int = Field(
        0, ge=0, description="Rate at which a replica that lacks much of the log copies it; 0: as fast as it goes"
    )
    compare_bytes_per_second: int = Field(
        8 * MIB, ge=0, description="Rate at which a slave compares its log with the master's; 0: not at all"
    )
    register_seconds: Seconds = Field(30, description="Time between two full registrations with a name server")
    heartbeat_seconds: Seconds = Field(1, description="Time between two heartbeats")

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

    port: Port = Field(9_876, description="TCP port; 0 takes a free one")
    lease_seconds: Seconds = Field(10, description="Time without a heartbeat after which a broker counts as away")


class ControllerSettings(Table):
    """A controller, which elects the masters of replicated brokers with others: by itself or in a name server."""

    id: int = Field(0, ge=0, le=LARGEST_ID, description="Id among cluster.controllers, from 1; 0: it is none")
    port: Port = Field(9_878, description="TCP port of the command controller; 0 takes a free one")
    data_dir: Path = Field(Path("controller"), description="Directory in which it keeps what controllers agreed on")


class ClusterSettings(Table):
    """What the parts of a deployment on several machines know of each other."""

    name: str = Field("", max_length=100, description="Name of the deployment; those of another are not talked to")
    name_servers: list[str] = Field([], description="host:port of every name server")
    brokers: list[str] = Field([], description="host:port of brokers that are known without a name server")
    controllers: list[str] = Field([], description="id=host:port of every controller; in a name server, of that")
    lease_seconds: float = Field(
        3, gt=0, allow_inf_nan=False, description="Silence of a master after which controllers replace it"
    )
    route_cache: Path | None = Field(
        None, description="File in which a gateway remembers the brokers, for starts without a name server"
    )
    zone: str = Field("", description="Where this gateway is: new messages go to brokers of its zone if there are any")
    reads: Literal["master", "nearest"] = Field(
        "master", description="Replica that answers reads; nearest: one of the own zone, which may lag behind"
    )
    start_seconds: Seconds = Field(30, description="How long a gateway waits for its first broker")
    request_seconds: float = Field(
        10, gt=0, allow_inf_nan=False, description="Longest wait for the answer of a broker that is there"
    )
    silence_seconds: float = Field(
        5, gt=0, allow_inf_nan=False, description="Silence after which a connection counts as lost"
    )
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Gateway processes that share the ports; more than one of serve have a store beside",
    )
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) shown to others; with it the wire is TLS")
    tls_key: Path | None = Field(None, description="Its private key (PEM)")
    tls_ca: Path | None = Field(
        None, description="Certificates (PEM) that others' must be signed by; with it the wire is TLS"
    )

    _are_addresses = field_validator("name_servers", "brokers")(checked_addresses)

    @field_validator("controllers")
    @classmethod
    def _have_ids(cls, value: list[str]) -> list[str]:
        addresses_by_id(value, "controller")
        return value

    def controller_addresses(self) -> dict[int, str]:
        """host:port of each controller by its id."""
        return addresses_by_id(self.controllers, "controller")


class RocketMqClusterSettings(Table):
    """An Apache RocketMQ 5 cluster in place of brokers (the command gateway; docs/rocketmq-cluster.md)."""

    endpoints: list[str] = Field([], description="host:port of the cluster's gRPC proxies")
    topics: list[str] = Field([], description="Topics that are known from the start; others when they are first used")
    access_key: str = Field("", description="Access key, where the cluster asks for one")
    secret: str = Field("", description="Its secret")
    side_data_dir: Path | None = Field(
        None, description="Directory of a store beside it for what the cluster cannot keep: key-values"
    )
