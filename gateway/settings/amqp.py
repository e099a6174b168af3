"""The settings of the AMQP listener."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from entrepot.gateway.settings.table import (
    KIB,
    MIB,
    Bytes,
    Count,
    Port,
    Seconds,
    Table,
    checked_client_certificates,
    checked_tls_port,
)


class AmqpSettings(Table):
    """The AMQP 0-9-1 door."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(5672, description="TCP port; 0 takes a free one")
    max_connections: Count = Field(50_000, description="Connections at one time; more are refused")
    max_channels: int = Field(2047, ge=1, le=65_535, description="Channels of one connection")
    frame_max_bytes: int = Field(128 * KIB, ge=8 * KIB, le=16 * MIB, description="Largest frame, as offered to clients")
    heartbeat_seconds: int = Field(60, ge=0, le=65_535, description="Heartbeat offered to clients; 0 offers none")
    handshake_timeout_seconds: Seconds = Field(10, description="Time a client has to log in")
    max_message_bytes: Bytes = Field(4 * MIB, description="Largest body of a message")
    max_unacknowledged: Count = Field(
        20_000, description="Messages that a channel's consumers may hold where they set no prefetch"
    )
    max_transaction_bytes: Bytes = Field(
        64 * MIB, description="What a channel's transaction may hold; beyond it the channel is closed"
    )
    max_queues: Count = Field(100_000, description="Queues of all virtual hosts together")
    consumer_timeout_seconds: Seconds = Field(
        1800, description="Longest that a consumer may hold a message: then its channel is closed"
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="What may wait to be written to one socket")
    exchange_topics: bool = Field(
        True, description="Whether what is published to an exchange is kept in a Topic of its name too, for other doors"
    )
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) of tls_port")
    tls_key: Path | None = Field(None, description="Its private key (PEM), where that is in a file of its own")
    tls_ca: Path | None = Field(None, description="Certificates (PEM) that clients' must be signed by")
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Whether clients over TLS show a certificate"
    )
    tls_port: Port | None = Field(None, description="Port of AMQP over TLS; 0 takes a free one, none leaves it closed")
    product: str = Field("RabbitMQ", description="The product that clients are told: some ask for this one")
    product_version: str = Field("3.13.7", description="The version that clients are told")

    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)
    _needs_a_certificate = field_validator("tls_port")(checked_tls_port)
