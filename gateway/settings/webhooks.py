"""The settings of webhooks: allowed sinks, and patience of deliveries."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import KIB, Bytes, Count, Seconds, Table


class WebhookTls(Table):
    """TLS to some sinks and token endpoints: subscriptions say its name, and know no files."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Name in config.tls of subscriptions")
    topics: list[str] = Field(
        min_length=1, max_length=100, description="Topics whose subscriptions may use it; * at the end for more; *: all"
    )
    ca: Path | None = Field(None, description="Certificate authorities (PEM) of the sinks, instead of the system's")
    certificate: Path | None = Field(None, description="Certificate (PEM) that this gateway shows, with its chain")
    key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.ca is None and self.certificate is None:
            raise ValueError("ca or certificate is missing")
        if self.key is not None and self.certificate is None:
            raise ValueError("key needs certificate")
        return self

    def is_for(self, topic: str) -> bool:
        """True if subscriptions to a topic may use it.  `topic`: its name in rights, `$ns/<namespace>/` before it."""
        return any(topic.startswith(each[:-1]) if each.endswith("*") else topic == each for each in self.topics)


class WebhookSettings(Table):
    """Deliveries to the sinks of subscriptions (webhooks)."""

    enabled: bool = Field(True, description="Deliver events from this gateway; the API is available anyway")
    origin: str = Field(
        "entrepot.invalid", min_length=1, max_length=255, description="Origin (DNS name) announced to receivers"
    )
    public_url: str = Field(
        "", description="External URL of the HTTP listener, with which receivers may consent by a callback"
    )
    allow_http: bool = Field(False, description="Allow sinks with http URLs, not only https")
    allowed_networks: list[str] = Field(
        [], description="Allowed networks (CIDR) of sinks besides public addresses, such as 10.0.0.0/8"
    )
    handshake: Literal["required", "optional", "off"] = Field(
        "optional",
        description="Default abuse protection of subscriptions: without the receiver's consent nothing is sent, or "
        "slowly, or no consent is requested",
    )
    unconfirmed_rate_per_minute: Count = Field(
        600, description="Maximum requests each minute to a receiver without consent"
    )
    tls: list[WebhookTls] = Field(
        [],
        max_length=1000,
        description="Authorities and client certificates for sinks: tables of name, topics, ca, certificate, key",
    )
    max_subscriptions: Count = Field(100_000, description="Maximum subscriptions of all topics; more are refused")
    max_waiting_events: Count = Field(
        100_000,
        description="Maximum events that wait while nothing may be sent to their sink (suspended, or without needed "
        "consent); above it the oldest become dead letters",
    )
    max_requests: Count = Field(256, description="Maximum concurrent requests to all sinks")
    max_requests_per_subscription: Count = Field(16, description="Maximum concurrent requests for one subscription")
    max_connections_per_host: Count = Field(64, description="Maximum connections to one host")
    connect_seconds: Seconds = Field(10, description="Longest time for connecting to a sink")
    max_response_bytes: Bytes = Field(
        64 * KIB, description="Maximum bytes read of a sink's answer; longer ones are cut off"
    )
    circuit_failures: Count = Field(
        5, description="Number of consecutive failures after which deliveries to a sink pause"
    )
    circuit_seconds: Seconds = Field(5, description="First pause of a failing sink; it doubles with each failed try")
    circuit_max_seconds: Seconds = Field(300, description="Longest pause of a failing sink")

    @field_validator("allowed_networks")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ValueError(f"{network!r} is not a network (CIDR): {error}") from error
        return value

    @field_validator("tls")
    @classmethod
    def _have_names_of_their_own(cls, value: list[WebhookTls]) -> list[WebhookTls]:
        if len({each.name for each in value}) < len(value):
            raise ValueError("two of them have one name")
        return value

    @field_validator("public_url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        fault = fault_of_url(value, ("https", "http")) if value else None
        if fault is not None:
            raise ValueError(f"{value!r} is not where this door is reached: {fault}")
        return value.rstrip("/")
