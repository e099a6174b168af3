"""The settings of the listener for RocketMQ's gRPC clients."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from entrepot.domain.consumer_group import MAX_INVISIBLE_SECONDS
from entrepot.domain.ports import MAX_POP_MESSAGES
from entrepot.gateway.settings.addresses import checked_addresses
from entrepot.gateway.settings.table import KIB, MIB, Bytes, Count, Port, Seconds, Table, checked_client_certificates


class GrpcSettings(Table):
    """The door for RocketMQ 5's clients (gRPC)."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(8081, description="TCP port; 0 takes a free one")
    addresses: list[str] = Field(
        [], description="Where clients are told to connect, as host:port; none: at the address that each has used"
    )
    max_message_bytes: Bytes = Field(4 * MIB, description="Largest body of a message")
    max_request_bytes: int = Field(32 * MIB, ge=64 * KIB, le=1024 * MIB, description="Largest request: its batch")
    max_properties: Count = Field(128, description="User properties of a message")
    max_property_bytes: Bytes = Field(16 * KIB, description="Bytes of their names and values")
    max_receive_messages: int = Field(
        32, ge=1, le=MAX_POP_MESSAGES, description="Messages of one receive; who asks for more gets these"
    )
    max_waiting_receives: Count = Field(20_000, description="Receives that wait for messages; more are refused")
    max_clients: Count = Field(50_000, description="Telemetry streams at one time; more are refused")
    long_polling_seconds: float = Field(
        20, ge=1, le=300, description="How long a receive waits for a message, as push consumers are told"
    )
    lease_seconds: float = Field(
        60,
        ge=1,
        le=MAX_INVISIBLE_SECONDS,
        description="How long a push consumer that is silent keeps its messages; they are renewed while it lives",
    )
    max_hold_seconds: float = Field(
        3 * 3600, ge=1, description="Longest that a push consumer may take for a message; then another one gets it"
    )
    silence_seconds: float = Field(
        30, ge=0.1, le=3600, description="A push consumer from which nothing came for so long has gone"
    )
    transaction_check_seconds: float = Field(
        1, gt=0, le=3600, description="Time between two looks for transactions whose producer is to be asked"
    )
    lite_subscriptions: Count = Field(300, description="Lite topics that one consumer may subscribe to")
    lite_topic_characters: int = Field(64, ge=1, le=255, description="Longest name of a lite topic")
    signature_tolerance_seconds: Seconds = Field(
        0, description="How old a signature may be; 0: any age, since some clients sign with their local time"
    )
    tls: Literal["off", "optional", "required"] = Field(
        "off", description="Whether the port speaks TLS: no, besides plaintext, or alone"
    )
    tls_certificate: Path | None = Field(None, description="Certificate (PEM), with those up to its authority")
    tls_key: Path | None = Field(None, description="Its private key (PEM), where that is in a file of its own")
    tls_ca: Path | None = Field(None, description="Certificates (PEM) that clients' must be signed by")
    tls_client_certificates: Literal["no", "required"] = Field(
        "no", description="Whether clients over TLS show a certificate"
    )

    _are_addresses = field_validator("addresses")(checked_addresses)
    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)

    @model_validator(mode="after")
    def _has_a_certificate(self) -> GrpcSettings:
        if self.tls != "off" and self.tls_certificate is None:
            raise ValueError("tls needs tls_certificate, which is not given")
        return self
