"""The settings of webhooks: allowed sinks, and patience of deliveries."""

from __future__ import annotations

import ipaddress
from typing import Literal

from pydantic import Field, field_validator

from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import KIB, Bytes, Count, Seconds, Table


class WebhookSettings(Table):
    """Deliveries to the sinks of subscriptions."""

    enabled: bool = Field(True, description="Whether this gateway dispatches and delivers; the API is there anyway")
    origin: str = Field(
        "entrepot.invalid", min_length=1, max_length=255, description="DNS name that receivers are told (origin)"
    )
    public_url: str = Field(
        "", description="Where this HTTP door is reached from outside; receivers may then consent by a callback"
    )
    allow_http: bool = Field(False, description="Whether sinks may be http URLs; https alone otherwise")
    allowed_networks: list[str] = Field(
        [], description="Networks (CIDR) that sinks may lie in besides public addresses, such as 10.0.0.0/8"
    )
    handshake: Literal["required", "optional", "off"] = Field(
        "optional",
        description="Abuse protection where a subscription says nothing: nothing is sent without the receiver's "
        "consent; or slowly; or it is not asked",
    )
    unconfirmed_rate_per_minute: Count = Field(
        600, description="Requests each minute to a receiver that was asked and has not consented"
    )
    max_subscriptions: Count = Field(100_000, description="Subscriptions of all topics; more are refused")
    max_requests: Count = Field(256, description="Requests under way at one time, to all sinks")
    max_requests_per_subscription: Count = Field(16, description="Of them to the sink of one subscription")
    max_connections_per_host: Count = Field(64, description="Connections to one host")
    connect_seconds: Seconds = Field(10, description="Time to connect to a sink")
    max_response_bytes: Bytes = Field(64 * KIB, description="What is read of a sink's answer; longer ones are cut off")
    circuit_failures: Count = Field(5, description="Failures in a row after which a sink is left alone for a while")
    circuit_seconds: Seconds = Field(5, description="For how long; it doubles with each try that fails")
    circuit_max_seconds: Seconds = Field(300, description="The longest of these")

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
