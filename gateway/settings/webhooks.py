"""The settings of webhooks: allowed sinks, and patience of deliveries."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import Field, field_validator

from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import KIB, Bytes, Count, Seconds, Table


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

    @field_validator("public_url")
    @classmethod
    def _is_a_url(cls, value: str) -> str:
        fault = fault_of_url(value, ("https", "http")) if value else None
        if fault is not None:
            raise ValueError(f"{value!r} is not where this door is reached: {fault}")
        return value.rstrip("/")
