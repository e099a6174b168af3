"""The settings of the listener for RocketMQ's gRPC clients."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from entrepot.domain.definitions.consumer_group import MAX_INVISIBLE_SECONDS
from entrepot.domain.ports import MAX_POP_MESSAGES
from entrepot.gateway.settings.addresses import checked_addresses
from entrepot.gateway.settings.table import KIB, MIB, Bytes, Count, Port, Seconds, Table, checked_client_certificates


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
        0, description="Maximum age of a signature; 0: any age, since some clients sign with their local time"
    )
    tls: Literal["off", "optional", "required"] = Field(
        "off", description="TLS on the port: off, besides plaintext, or required"
    )
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) with its chain")
    tls_key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) for client certificates")
    tls_client_certificates: Literal["no", "required"] = Field(
        "no", description="Client certificates over TLS: not requested, or required"
    )

    _are_addresses = field_validator("addresses")(checked_addresses)
    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)

    @model_validator(mode="after")
    def _has_a_certificate(self) -> GrpcSettings:
        if self.tls != "off" and self.tls_certificate is None:
            raise ValueError("tls needs tls_certificate, which is not given")
        return self
