"""The settings of the process, its listeners, and of new topics and groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, field_validator

from entrepot.domain.definitions.consumer_group import MAX_ATTEMPTS_LIMIT, MAX_INVISIBLE_SECONDS, ConsumerGroup
from entrepot.domain.definitions.revision import BY_USE
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_topic_name
from entrepot.domain.retained import MAX_RETAINED_BYTES, RetainedLimits
from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.domain.topic import MAX_QUEUES
from entrepot.gateway.settings.limits import MqttLimitSettings
from entrepot.gateway.settings.table import KIB, MIB, Bytes, Count, Port, Seconds, Table
from entrepot.gateway.settings.transports import HttpTransportSettings, MqttTransportSettings


class ServerSettings(Table):
    """The process as a whole."""

    host: str = Field("127.0.0.1", min_length=1, description="Bind address of every listener")
    name: str = Field(
        "", max_length=100, description="Name of this gateway for operators; unset: host name and process id"
    )
    ready_file: Path | None = Field(
        None, description="File for the bound address of every listener as JSON, written once all are up"
    )
    drain_seconds: Seconds = Field(10, description="Longest wait of a stop for work under way")
    max_unauthenticated_bytes: Bytes = Field(
        64 * MIB,
        description="Maximum bytes received from all unauthenticated connections together; beyond it they are refused",
    )
    free_ports: bool = Field(False, description="Use a free port for every listener without a configured one")


MQTT_LISTENERS: Final = ("mqtt", "mqtts", "ws", "wss")


class MqttSettings(MqttTransportSettings, MqttLimitSettings):
    """The MQTT listener (3.1.1 and 5)."""

    enabled: bool = Field(True, description="Open the MQTT listener")
    port: Port = Field(1883, description="TCP port; 0: a free one")
    max_connections: Count = Field(100_000, description="Maximum connections; more are refused")
    connect_timeout_seconds: Seconds = Field(10, description="Longest wait for a client's CONNECT")
    keep_alive_max_seconds: int = Field(
        65_535, ge=1, le=65_535, description="Longest keep-alive granted; a shorter one is announced to MQTT 5 clients"
    )
    max_packet_size_bytes: int = Field(
        4 * MIB + 64 * KIB, ge=1 * KIB, le=268_435_460, description="Maximum size of a client's packet"
    )
    max_connect_size_bytes: int = Field(
        64 * KIB, ge=256, le=268_435_460, description="Maximum size of a CONNECT with its will and password"
    )
    receive_maximum: int = Field(
        1024, ge=1, le=65_535, description="Maximum unconfirmed publishes of a client, announced in CONNACK"
    )
    max_subscriptions_per_client: Count = Field(1000, description="Maximum subscriptions of a client")
    max_queued_messages: Count = Field(1000, description="Maximum messages in memory waiting for one slow subscriber")
    max_queued_bytes: Bytes = Field(
        1 * MIB,
        description="Maximum bytes of messages in memory waiting for one slow subscriber; later ones wait in the log",
    )
    max_inflight_messages: int = Field(
        1024, ge=1, le=65_535, description="Maximum unacknowledged messages of QoS 1 and 2 to one subscriber"
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="Maximum size of one socket's output buffer")
    max_retained_messages: Count = Field(1_000_000, description="Maximum retained messages; more are refused")
    max_retained_bytes: Bytes | None = Field(
        None,
        description="Maximum bytes of all retained messages with their properties; more are refused; unset: 1 GiB, "
        "or 128 MiB where etcd keeps them",
    )
    max_retained_message_bytes: int = Field(
        MAX_RETAINED_BYTES,
        ge=1,
        le=MAX_RETAINED_BYTES,
        description="Maximum size of a retained message with its properties",
    )
    max_session_expiry_seconds: int = Field(
        7 * 86_400,
        ge=0,
        le=0xFFFF_FFFF,
        description="Longest session expiry after the connection, and that of MQTT 3 sessions; 0: no expiry",
    )
    share_group_expiry_seconds: int = Field(
        7 * 86_400,
        ge=0,
        le=0xFFFF_FFFF,
        description="Life of a group that a shared subscription made, from its last use; 0: no end",
    )
    topic_alias_maximum: int = Field(
        64, ge=0, le=65_535, description="Maximum topic aliases of a connection in each direction (MQTT 5)"
    )
    checks_payload_format: bool = Field(False, description="Refuse payloads declared as UTF-8 that are not (MQTT 5)")
    tells_no_subscribers: bool = Field(
        False,
        description="Send reason code 0x10 in PUBACK and PUBREC without subscribers (MQTT 5); follows all sessions",
    )
    response_topic_prefix: str = Field(
        "", description="Prefix of the response information, followed by the client id; empty: none"
    )
    server_reference: str = Field(
        "",
        description="Server reference (host:port) for clients when this gateway stops or is full (MQTT 5); empty: none",
    )
    sys_interval_seconds: Seconds = Field(
        10, description="Interval between updates of the $SYS topics; 0: no such topics"
    )

    def listener_names(self) -> tuple[str, ...]:
        """Return the names of the listeners that are enabled."""
        if not self.enabled:
            return ()
        ports = (self.tls_port, self.ws_port, self.wss_port)
        is_open = (self.tcp, *(port is not None for port in ports))
        return tuple(name for name, wanted in zip(MQTT_LISTENERS, is_open, strict=True) if wanted)

    def retained_limits(self, usual_bytes: int) -> RetainedLimits:
        """Return the limits of retained messages.  `usual_bytes`: of all of them, unless this table has a limit."""
        most = usual_bytes if self.max_retained_bytes is None else self.max_retained_bytes
        return RetainedLimits(self.max_retained_messages, most, self.max_retained_message_bytes)


class MaskRule(Table):
    """Fields of messages that the administration shows to super users only."""

    topic: str = Field(min_length=1, description="Name of a topic, or its beginning and a *")
    fields: list[str] = Field(
        [],
        max_length=100,
        description="Members of JSON bodies: a name at any depth, or a JSON pointer such as /card/pan",
    )
    headers: list[str] = Field([], max_length=100, description="Names of properties and headers, in any case")

    @field_validator("topic")
    @classmethod
    def _is_a_pattern(cls, value: str) -> str:
        if "*" in value[:-1]:
            raise ValueError(f"{value!r}: a * stands at the end only")
        return value

    def is_for(self, topic: str) -> bool:
        """True if the rule holds for a topic."""
        return topic.startswith(self.topic[:-1]) if self.topic.endswith("*") else topic == self.topic


class HttpSettings(HttpTransportSettings):
    """The HTTP listener: CloudEvents, administration, metrics."""

    enabled: bool = Field(True, description="Open the HTTP listener")
    port: Port = Field(8080, description="TCP port; 0: a free one")
    max_body_bytes: Bytes = Field(4 * MIB, description="Maximum size of a request body")
    max_batch_events: Count = Field(1000, description="Maximum events in one batched publish")
    keep_alive_seconds: Seconds = Field(75, description="Longest time of an idle connection")
    request_seconds: Seconds = Field(
        60, gt=0, description="Longest time for receiving a request, and for the first one after connecting"
    )
    max_wait_seconds: Seconds = Field(120, description="Longest wait of a receive for a message")
    max_streams: Count = Field(10_000, description="Maximum server-sent event streams; more are refused")
    max_event_sockets: Count = Field(10_000, description="Maximum WebSockets that receive events; more are refused")
    allowed_origins: list[str] = Field(
        [], description="Allowed origins of pages that call the API (CORS); *: all; none: its own alone"
    )
    hosts: list[str] = Field(
        [],
        description="Host names of this server for callers without credentials, besides localhost and addresses; "
        "*: all",
    )
    login_seconds: Seconds = Field(43_200, gt=0, description="Lifetime of a login to the dashboard")
    queue_metrics: bool = Field(
        True, description="Tell the offsets of each message queue in /metrics; off: less to scrape with many topics"
    )
    event_type: str = Field(
        "dev.entrepot.message", min_length=1, description="CloudEvents type of messages from other protocols"
    )
    masked_fields: list[MaskRule] = Field(
        [],
        max_length=100,
        description="Fields of messages that the administration shows to super users only, by topic; other bodies of "
        "such topics are hidden",
    )


class TopicRule(Table):
    """A rule that maps MQTT topic names to a topic."""

    filter: str = Field(description="MQTT topic filter of the names")
    topic: str = Field(description="Topic for the messages")

    @field_validator("filter")
    @classmethod
    def _is_a_filter(cls, value: str) -> str:
        if not is_valid_filter(value):
            raise ValueError(f"{value!r} is not an MQTT topic filter")
        return value

    @field_validator("topic")
    @classmethod
    def _is_a_topic(cls, value: str) -> str:
        if not is_topic_name(value):
            raise ValueError(f"{value!r} is not a topic name")
        return value


class TopicsSettings(Table):
    """Topics, and the mapping of names to topics."""

    auto_create: bool = Field(True, description="Create a topic on the first publish or receive")
    default_queues: int = Field(4, ge=1, le=MAX_QUEUES, description="Number of message queues of a new topic")
    max_auto_created: Count = Field(10_000, description="Maximum topics for automatic creation")
    rules: list[TopicRule] = Field(
        [], description="Rules from MQTT filters to topics, the first match wins; else the first level is the topic"
    )


class GroupsSettings(Table):
    """Consumer groups: automatic creation, and defaults."""

    auto_create: bool = Field(True, description="Create a consumer group on the first receive or shared subscription")
    max_attempts: int = Field(
        16, ge=1, le=MAX_ATTEMPTS_LIMIT, description="Maximum deliveries of a message before it is dead-lettered"
    )
    invisible_seconds: int = Field(
        30, ge=1, le=MAX_INVISIBLE_SECONDS, description="Invisible duration of a received message"
    )
    start: Literal["earliest", "latest"] = Field("earliest", description="Start position of a new group")

    def new_group(self, name: str) -> ConsumerGroup:
        """A group with the defaults."""
        return ConsumerGroup(name, self.max_attempts, self.invisible_seconds, self.start)

    def by_use(self, name: str) -> ConsumerGroup:
        """The group that a first use makes. Raises CONSUMER_GROUP_NOT_FOUND where use makes none."""
        if not self.auto_create:
            text = f"there is no consumer group {name!r}, and groups are not created on use"
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, text)
        return replace(self.new_group(name), revision=BY_USE)
