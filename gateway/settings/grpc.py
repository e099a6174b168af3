"""The settings of the listener for RocketMQ's gRPC clients."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from entrepot.domain.definitions.consumer_group import MAX_INVISIBLE_SECONDS
from entrepot.domain.ports import MAX_POP_MESSAGES
from entrepot.gateway.settings.addresses import checked_addresses
from entrepot.gateway.settings.table import (
    KIB,
    MIB,
    Bytes,
    Count,
    Port,
    Seconds,
    Table,
    checked_client_certificates,
    checked_crl,
    checked_networks,
    checked_proxy_protocol,
)


class GrpcSettings(Table):
    """The gRPC listener for RocketMQ 5 clients."""

    enabled: bool = Field(True, description="Open the gRPC listener")
    port: Port = Field(8081, description="TCP port; 0: a free one")
    addresses: list[str] = Field(
        [], description="Addresses (host:port) given to clients in routes; none: the address that each client used"
    )
    max_message_bytes: Bytes = Field(4 * MIB, description="Maximum size of a message body")
    max_request_bytes: int = Field(
        32 * MIB, ge=64 * KIB, le=1024 * MIB, description="Maximum size of a request, a batch of messages"
    )
    max_properties: Count = Field(128, description="Maximum user properties of a message")
    max_property_bytes: Bytes = Field(
        16 * KIB, description="Maximum size of the names and values of a message's user properties"
    )
    max_receive_messages: int = Field(
        32, ge=1, le=MAX_POP_MESSAGES, description="Maximum messages of one receive; larger requests are cut to it"
    )
    max_waiting_receives: Count = Field(20_000, description="Maximum receives waiting for messages; more are refused")
    max_clients: Count = Field(50_000, description="Maximum telemetry streams; more are refused")
    long_polling_seconds: float = Field(
        20, ge=1, le=300, description="Long-polling time of receives, as announced to push consumers"
    )
    lease_seconds: float = Field(
        60,
        ge=1,
        le=MAX_INVISIBLE_SECONDS,
        description="Lease of a silent push consumer's messages; it is renewed while the consumer lives",
    )
    max_hold_seconds: float = Field(
        3 * 3600,
        ge=1,
        description="Longest processing time of a push consumer's message; then another consumer gets it",
    )
    silence_seconds: float = Field(
        30, ge=0.1, le=3600, description="Silence after which a push consumer counts as gone"
    )
    transaction_check_seconds: float = Field(
        1, gt=0, le=3600, description="Interval between scans for transactions to check with their producer"
    )
    lite_subscriptions: Count = Field(300, description="Maximum lite topics of one consumer")
    lite_topic_characters: int = Field(
        64, ge=1, le=255, description="Maximum length of a lite topic's name, in characters"
    )
    signature_tolerance_seconds: Seconds = Field(
        54_000,
        description="Maximum age of a signature: 15 hours, since some clients sign with their local time; 0: any age",
    )
    max_connections: Count = Field(100_000, description="Maximum connections; more are refused")
    max_accepts_per_second: float = Field(
        0, ge=0, allow_inf_nan=False, description="Maximum new connections each second; 0: no limit"
    )
    max_half_open_per_address: int = Field(
        10_000, ge=0, description="Maximum connections of one address before a call of a known client; 0: no limit"
    )
    max_streams: int = Field(
        10_000, ge=100, le=1_000_000, description="Maximum calls at a time of a connection; until its first call 100"
    )
    handshake_timeout_seconds: Seconds = Field(
        10, gt=0, description="Longest time for a PROXY header, the TLS handshake, and the begin of HTTP/2"
    )
    request_seconds: Seconds = Field(
        60,
        gt=0,
        description="Longest time for receiving a request, for the first call of a known client after connecting, and "
        "for a client to read a part of an answer",
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="Maximum size of one socket's output buffer")
    trusted_proxies: list[str] = Field(
        [], description="Addresses (CIDR) of proxies whose PROXY protocol headers are trusted"
    )
    proxy_protocol: Literal["off", "optional", "required"] = Field(
        "off", description="PROXY protocol headers; required: connections of other peers are refused"
    )
    tls: Literal["off", "optional", "required"] = Field(
        "optional", description="TLS on the port: off, besides plaintext, or required"
    )
    tls_certificate: Path | None = Field(
        None, description="Certificate (PEM) with its chain; unset: a self-made one, whose fingerprint the start tells"
    )
    tls_self_made_file: Path | None = Field(
        None,
        description="File of the self-made certificate; unset: grpc-certificate.pem in store.data_dir, on a gateway "
        "without a store a new one at each start",
    )
    tls_key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) for client certificates")
    tls_crl: Path | None = Field(
        None, description="Revoked client certificates (CRL, PEM) of each authority; read again when it changes"
    )
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Client certificates over TLS: not requested, requested, or required"
    )

    _are_addresses = field_validator("addresses")(checked_addresses)
    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)
    _is_of_an_authority = field_validator("tls_crl")(checked_crl)
    _are_networks = field_validator("trusted_proxies")(checked_networks)
    _needs_trust = field_validator("proxy_protocol")(checked_proxy_protocol)
