"""The settings of the process, its listeners, and of new topics and groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from entrepot.domain.consumer_group import MAX_ATTEMPTS_LIMIT, MAX_INVISIBLE_SECONDS, ConsumerGroup
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import is_topic_name
from entrepot.domain.retained import MAX_RETAINED_BYTES, RetainedLimits
from entrepot.domain.revision import BY_USE
from entrepot.domain.routing.topic_filter import is_valid_filter
from entrepot.domain.topic import MAX_QUEUES
from entrepot.gateway.settings.limits import MqttLimitSettings
from entrepot.gateway.settings.table import GIB, KIB, MIB, Bytes, Count, Port, Seconds, Table
from entrepot.gateway.settings.transports import HttpTransportSettings, MqttTransportSettings


class ServerSettings(Table):
    """The process as a whole."""

    host: str = Field("127.0.0.1", min_length=1, description="Address that every listener binds to")
    ready_file: Path | None = Field(
        None, description="File that gets a JSON object of every listener's real address once everything is up"
    )
    drain_seconds: Seconds = Field(10, description="Longest time a stop waits for what is under way")
    max_unauthenticated_bytes: Bytes = Field(
        64 * MIB, description="Sent by all connections together that have not logged in; beyond it they are refused"
    )
    free_ports: bool = Field(False, description="Every listener without a port of its own takes a free one")


class MqttSettings(MqttTransportSettings, MqttLimitSettings):
    """The MQTT door (3.1.1 and 5)."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(1883, description="TCP port; 0 takes a free one")
    max_connections: Count = Field(100_000, description="Connections at one time; more are refused")
    connect_timeout_seconds: Seconds = Field(10, description="Time a client has for its CONNECT")
    keep_alive_max_seconds: int = Field(
        65_535, ge=1, le=65_535, description="Longest keep-alive granted; MQTT 5 clients are told a shorter one"
    )
    max_packet_size_bytes: int = Field(
        4 * MIB + 64 * KIB, ge=1 * KIB, le=268_435_460, description="Largest packet taken from a client"
    )
    max_connect_size_bytes: int = Field(
        64 * KIB, ge=256, le=268_435_460, description="Largest CONNECT, its will and password included"
    )
    receive_maximum: int = Field(
        1024, ge=1, le=65_535, description="Publishes a client may have unconfirmed, as announced in CONNACK"
    )
    max_subscriptions_per_client: Count = Field(1000, description="Topic filters one client may subscribe to")
    max_queued_messages: Count = Field(1000, description="Messages that may wait for one slow subscriber")
    max_queued_bytes: Bytes = Field(1 * MIB, description="Bytes of these; what is beyond waits in the log")
    max_inflight_messages: int = Field(
        1024, ge=1, le=65_535, description="QoS 1 messages sent to one subscriber and not acknowledged yet"
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="What may wait to be written to one socket")
    max_retained_messages: Count = Field(1_000_000, description="Messages that are retained; more are refused")
    max_retained_bytes: Bytes = Field(1 * GIB, description="Bytes of these with their properties; more are refused")
    max_retained_message_bytes: int = Field(
        MAX_RETAINED_BYTES, ge=1, le=MAX_RETAINED_BYTES, description="Largest of them, with its properties"
    )
    max_session_expiry_seconds: int = Field(
        7 * 86_400,
        ge=0,
        le=0xFFFF_FFFF,
        description="Longest that a session outlives its connection, and how long those of MQTT 3 do; 0: for ever",
    )
    topic_alias_maximum: int = Field(
        64, ge=0, le=65_535, description="Topic aliases of a connection, in each direction (MQTT 5)"
    )
    checks_payload_format: bool = Field(
        False, description="Whether a payload that is said to be UTF-8 is refused where it is not (MQTT 5)"
    )
    tells_no_subscribers: bool = Field(
        False,
        description="Whether PUBACK and PUBREC say 0x10 where nobody is subscribed (MQTT 5): follows all sessions",
    )
    response_topic_prefix: str = Field(
        "", description="Response information for clients that ask: this, and the client id below it; empty: none"
    )
    server_reference: str = Field(
        "",
        description="Where clients are told to go when this gateway stops or is full (MQTT 5), as host:port; empty: no",
    )
    sys_interval_seconds: Seconds = Field(10, description="Time between two updates of the $SYS topics; 0 has none")

    @property
    def retained_limits(self) -> RetainedLimits:
        """The limits of retained messages."""
        return RetainedLimits(self.max_retained_messages, self.max_retained_bytes, self.max_retained_message_bytes)


class HttpSettings(HttpTransportSettings):
    """The HTTP door: CloudEvents, administration, metrics."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(8080, description="TCP port; 0 takes a free one")
    max_body_bytes: Bytes = Field(4 * MIB, description="Largest request body")
    max_batch_events: Count = Field(1000, description="Events in one batched publish")
    keep_alive_seconds: Seconds = Field(75, description="How long an idle connection is kept")
    request_seconds: Seconds = Field(
        60, gt=0, description="Time a client has for a whole request, and for the first one after it has connected"
    )
    max_wait_seconds: Seconds = Field(120, description="Longest a receive may wait for a message")
    max_streams: Count = Field(10_000, description="Streams of server-sent events at one time; more are refused")
    max_event_sockets: Count = Field(10_000, description="WebSockets that receive events, at one time")
    allowed_origins: list[str] = Field(
        [], description="Origins whose pages may call this door and read its answers; * is all. Without, its own alone"
    )
    hosts: list[str] = Field(
        [],
        description="Host names of this server that callers without credentials may ask for, besides localhost and "
        "addresses; * is all",
    )
    event_type: str = Field(
        "dev.entrepot.message", min_length=1, description="CloudEvents type of messages that came by another protocol"
    )


class TopicRule(Table):
    """One rule of which Topic an MQTT name belongs to."""

    filter: str = Field(description="MQTT topic filter that the name must match")
    topic: str = Field(description="Topic that takes the messages")

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
    """Topics, and how names become topics."""

    auto_create: bool = Field(True, description="Whether a first publish or receive creates its topic")
    default_queues: int = Field(4, ge=1, le=MAX_QUEUES, description="Message queues of a new topic")
    max_auto_created: Count = Field(10_000, description="Topics beyond which none is created by use")
    rules: list[TopicRule] = Field(
        [], description="Rules from MQTT filters to topics, first match wins; else the first level is the topic"
    )


class GroupsSettings(Table):
    """Consumer groups: how they come into being, and what one has unless it says otherwise."""

    auto_create: bool = Field(True, description="Whether a first receive or share creates its group")
    max_attempts: int = Field(
        16, ge=1, le=MAX_ATTEMPTS_LIMIT, description="Deliveries of one message before it is dead-lettered"
    )
    invisible_seconds: int = Field(
        30, ge=1, le=MAX_INVISIBLE_SECONDS, description="How long a received message stays with its consumer"
    )
    start: Literal["earliest", "latest"] = Field("earliest", description="Where a new group begins to read")

    def new_group(self, name: str) -> ConsumerGroup:
        """A group with the defaults."""
        return ConsumerGroup(name, self.max_attempts, self.invisible_seconds, self.start)

    def by_use(self, name: str) -> ConsumerGroup:
        """The group that a first use makes. Raises CONSUMER_GROUP_NOT_FOUND where use makes none."""
        if not self.auto_create:
            text = f"there is no consumer group {name!r}, and groups are not created on use"
            raise EntrepotError(Code.CONSUMER_GROUP_NOT_FOUND, text)
        return replace(self.new_group(name), revision=BY_USE)
