"""The settings of the AMQP listener."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from entrepot.gateway.settings.table import (
    KIB,
    MIB,
    Bytes,
    Count,
    Port,
    Seconds,
    Table,
    check_certificate_is_used,
    checked_client_certificates,
    checked_crl,
    checked_networks,
    checked_proxy_protocol,
    checked_tls_port,
)

AMQP_LISTENERS: Final = ("amqp", "amqps")


class AmqpSettings(Table):
    """The AMQP 0-9-1 listener."""

    enabled: bool = Field(True, description="Open the AMQP listener")
    port: Port = Field(5672, description="TCP port; 0: a free one")
    max_connections: Count = Field(50_000, description="Maximum connections; more are refused")
    max_channels: int = Field(2047, ge=1, le=65_535, description="Maximum channels of a connection")
    frame_max_bytes: int = Field(
        128 * KIB, ge=8 * KIB, le=16 * MIB, description="Maximum frame size offered to clients"
    )
    heartbeat_seconds: int = Field(60, ge=0, le=65_535, description="Heartbeat interval offered to clients; 0: none")
    handshake_timeout_seconds: Seconds = Field(10, description="Longest time for a client's login")
    max_message_bytes: Bytes = Field(128 * MIB, description="Maximum size of a message body")
    max_incomplete_bytes: Bytes = Field(
        256 * MIB, description="Maximum bytes of messages that have come in part, of all clients; beyond it they wait"
    )
    max_unacknowledged: Count = Field(
        20_000, description="Maximum unacknowledged messages of a channel whose consumers set no prefetch"
    )
    max_transaction_bytes: Bytes = Field(
        64 * MIB, description="Maximum size of a channel's transaction; beyond it the channel is closed"
    )
    max_queues: Count = Field(100_000, description="Maximum queues in all virtual hosts together")
    consumer_timeout_seconds: Seconds = Field(
        1800, description="Longest time until a consumer acknowledges a message; then its channel is closed"
    )
    consumer_timeout_response: Literal["close_channel", "notify_consumer"] = Field(
        "close_channel", description="Answer to that timeout; notify_consumer cancels consumers of quorum queues alone"
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="Maximum size of one socket's output buffer")
    exchange_topics: bool = Field(
        True, description="Store messages to an exchange in a topic of its name too, for other protocols"
    )
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) of tls_port")
    tls_key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) for client certificates")
    tls_crl: Path | None = Field(
        None, description="Revoked client certificates (CRL, PEM) of each authority; read again when it changes"
    )
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Client certificates over TLS: not requested, requested, or required"
    )
    tls_port: Port | None = Field(None, description="Port of AMQP over TLS; 0: a free one; unset: closed")
    trusted_proxies: list[str] = Field(
        [], description="Addresses (CIDR) of proxies whose PROXY protocol headers are trusted"
    )
    proxy_protocol: Literal["off", "optional", "required"] = Field(
        "off", description="PROXY protocol headers; required: connections of other peers are refused"
    )
    check_vhost_access: bool = Field(
        True,
        description="Refuse connections to a virtual host in which the user has no right at all, as RabbitMQ does",
    )
    product: str = Field("RabbitMQ", description="Product name in the server properties; some clients expect this one")
    product_version: str = Field("3.13.7", description="Product version in the server properties")

    def listener_names(self) -> tuple[str, ...]:
        """Return the names of the listeners that are enabled."""
        if not self.enabled:
            return ()
        return AMQP_LISTENERS[:1] if self.tls_port is None else AMQP_LISTENERS

    _is_of_an_authority = field_validator("tls_crl")(checked_crl)
    _are_networks = field_validator("trusted_proxies")(checked_networks)
    _needs_trust = field_validator("proxy_protocol")(checked_proxy_protocol)
    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)
    _needs_a_certificate = field_validator("tls_port")(checked_tls_port)

    @model_validator(mode="after")
    def _uses_its_certificate(self) -> Self:
        check_certificate_is_used(self.tls_certificate, self.tls_port)
        return self
