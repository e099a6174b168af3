"""The settings of transports: TLS, WebSocket, proxies, and limits before authentication."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from entrepot.gateway.settings.table import Count, Port, Seconds, Table, checked_client_certificates, checked_tls_port


class HostCertificateSettings(Table):
    """The certificate of one host name."""

    host: str = Field(min_length=1, description="Host name that clients ask for; *.example.com for one more label")
    certificate: Path = Field(description="Certificate (PEM), with those between it and its authority")
    key: Path | None = Field(None, description="Its private key (PEM), where that is in a file of its own")


class MqttTransportSettings(Table):
    """TLS, WebSocket, proxies and early limits of the MQTT door."""

    tcp: bool = Field(True, description="Whether port is open: MQTT on TCP without TLS")
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) of tls_port and wss_port")
    tls_key: Path | None = Field(None, description="Its private key (PEM), where that is in a file of its own")
    tls_certificates: list[HostCertificateSettings] = Field(
        [], description="Certificates for clients that ask for certain hosts (SNI): tables of host, certificate, key"
    )
    tls_ca: Path | None = Field(None, description="Certificates (PEM) that clients' must be signed by")
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Whether clients are asked for a certificate, and need one"
    )
    tls_reload_seconds: Seconds = Field(
        5, gt=0, description="Time between two looks whether certificate files changed (mqtt and http)"
    )
    tls_port: Port | None = Field(None, description="Port of MQTT over TLS; 0 takes a free one, none leaves it closed")
    ws_port: Port | None = Field(None, description="Port of MQTT over WebSocket; 0 takes a free one")
    wss_port: Port | None = Field(None, description="Port of MQTT over WebSocket over TLS; 0 takes a free one")
    ws_path: str = Field("/mqtt", pattern="^(/.*)?$", description="Path of ws_port and wss_port; empty for any")
    ws_on_http: bool = Field(True, description="Whether the HTTP port speaks MQTT over WebSocket under /mqtt")
    ws_origins: list[str] = Field(
        [], description="Origins whose pages may connect by WebSocket; * is all. Without, its own alone"
    )
    trusted_proxies: list[str] = Field([], description="Addresses (CIDR) whose PROXY protocol headers are believed")
    proxy_protocol: Literal["off", "optional", "required"] = Field(
        "off", description="Whether MQTT ports take PROXY protocol headers; required refuses all who are not trusted"
    )
    max_connections_per_listener: Count = Field(
        120_000, description="Connections of one listener, said who they are or not; more are closed at once"
    )
    max_accepts_per_second: float = Field(
        20_000, ge=0, allow_inf_nan=False, description="New connections of one listener each second; 0 for any number"
    )
    max_accepts_per_second_per_address: float = Field(
        0, ge=0, allow_inf_nan=False, description="New connections of one address each second; 0 for any number"
    )
    max_half_open_per_address: int = Field(
        10_000, ge=0, description="Connections of one address that have not sent a CONNECT; 0 for any number"
    )

    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)
    _needs_a_certificate = field_validator("tls_port", "wss_port")(checked_tls_port)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: list[str]) -> list[str]:
        for network in value:
            try:
                ipaddress.ip_network(network, strict=False)
            except ValueError as error:
                raise ValueError(f"{network!r} is not an address or network (CIDR)") from error
        return value

    @field_validator("proxy_protocol")
    @classmethod
    def _needs_trust(cls, value: str, info: ValidationInfo) -> str:
        if value != "off" and not info.data.get("trusted_proxies"):
            raise ValueError("PROXY headers are believed from trusted_proxies only, and none is given")
        return value


class HttpTransportSettings(Table):
    """TLS of the HTTP door."""

    tls_certificate: Path | None = Field(None, description="Certificate (PEM); with it the port speaks HTTPS alone")
    tls_key: Path | None = Field(None, description="Its private key (PEM), where that is in a file of its own")
    tls_ca: Path | None = Field(None, description="Certificates (PEM) that clients' must be signed by")
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Whether clients are asked for a certificate, and need one"
    )

    @field_validator("tls_client_certificates")
    @classmethod
    def _needs_an_authority(cls, value: str, info: ValidationInfo) -> str:
        if value != "no" and (info.data.get("tls_ca") is None or info.data.get("tls_certificate") is None):
            raise ValueError("clients' certificates need tls_certificate and tls_ca")
        return value
