"""The settings of transports: TLS, WebSocket, proxies, and limits before authentication."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from entrepot.gateway.settings.table import (
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


class HostCertificateSettings(Table):
    """The certificate of one host name."""

    host: str = Field(min_length=1, description="Host name requested by clients; *.example.com for one more label")
    certificate: Path = Field(description="Certificate (PEM) with its chain")
    key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")


class MqttTransportSettings(Table):
    """TLS, WebSocket, proxies and early limits of the MQTT listener."""

    tcp: bool = Field(True, description="Open mqtt.port: MQTT on TCP without TLS")
    tls_certificate: Path | None = Field(None, description="Certificate (PEM) of tls_port and wss_port")
    tls_key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")
    tls_certificates: list[HostCertificateSettings] = Field(
        [], description="Certificates of further host names (SNI): tables of host, certificate, key"
    )
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) for client certificates")
    tls_crl: Path | None = Field(
        None, description="Revoked client certificates (CRL, PEM) of each authority; read again when it changes"
    )
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Client certificates: not requested, requested, or required"
    )
    tls_reload_seconds: Seconds = Field(
        5, gt=0, description="Interval between checks for changed certificate files (mqtt and http)"
    )
    tls_port: Port | None = Field(None, description="Port of MQTT over TLS; 0: a free one; unset: closed")
    ws_port: Port | None = Field(None, description="Port of MQTT over WebSocket; 0: a free one; unset: closed")
    wss_port: Port | None = Field(
        None, description="Port of MQTT over WebSocket with TLS; 0: a free one; unset: closed"
    )
    ws_path: str = Field("/mqtt", pattern="^(/.*)?$", description="Path of ws_port and wss_port; empty: any")
    ws_on_http: bool = Field(True, description="Offer MQTT over WebSocket on the HTTP port under /mqtt")
    ws_origins: list[str] = Field(
        [], description="Allowed origins of pages that connect by WebSocket; *: all; none: its own alone"
    )
    trusted_proxies: list[str] = Field(
        [], description="Addresses (CIDR) of proxies whose PROXY protocol headers are trusted"
    )
    proxy_protocol: Literal["off", "optional", "required"] = Field(
        "off", description="PROXY protocol headers on MQTT ports; required: connections of other peers are refused"
    )
    max_connections_per_listener: Count = Field(
        120_000, description="Maximum connections of one listener, authenticated or not; more are closed at once"
    )
    max_accepts_per_second: float = Field(
        20_000,
        ge=0,
        allow_inf_nan=False,
        description="Maximum new connections of one listener each second; 0: no limit",
    )
    max_accepts_per_second_per_address: float = Field(
        0, ge=0, allow_inf_nan=False, description="Maximum new connections of one address each second; 0: no limit"
    )
    max_half_open_per_address: int = Field(
        10_000, ge=0, description="Maximum connections of one address before their CONNECT; 0: no limit"
    )

    _needs_an_authority = field_validator("tls_client_certificates")(checked_client_certificates)
    _is_of_an_authority = field_validator("tls_crl")(checked_crl)
    _needs_a_certificate = field_validator("tls_port", "wss_port")(checked_tls_port)

    @model_validator(mode="after")
    def _uses_its_certificate(self) -> Self:
        check_certificate_is_used(self.tls_certificate, self.tls_port, self.wss_port)
        return self

    _are_networks = field_validator("trusted_proxies")(checked_networks)
    _needs_trust = field_validator("proxy_protocol")(checked_proxy_protocol)


class HttpTransportSettings(Table):
    """TLS and proxies of the HTTP listener."""

    tls_certificate: Path | None = Field(None, description="Certificate (PEM); with it the port speaks HTTPS only")
    tls_key: Path | None = Field(None, description="Private key (PEM), if the certificate's file has none")
    tls_ca: Path | None = Field(None, description="Certificate authorities (PEM) for client certificates")
    tls_crl: Path | None = Field(
        None, description="Revoked client certificates (CRL, PEM) of each authority; read again when it changes"
    )
    tls_client_certificates: Literal["no", "optional", "required"] = Field(
        "no", description="Client certificates: not requested, requested, or required"
    )

    trusted_proxies: list[str] = Field(
        [],
        description="Addresses (CIDR) of proxies whose X-Forwarded-For, X-Forwarded-Proto and PROXY protocol headers "
        "are trusted",
    )
    proxy_protocol: Literal["off", "optional", "required"] = Field(
        "off", description="PROXY protocol headers; required: connections of other peers are refused"
    )

    _is_of_an_authority = field_validator("tls_crl")(checked_crl)
    _are_networks = field_validator("trusted_proxies")(checked_networks)
    _needs_trust = field_validator("proxy_protocol")(checked_proxy_protocol)

    @field_validator("tls_client_certificates")
    @classmethod
    def _needs_an_authority(cls, value: str, info: ValidationInfo) -> str:
        if value != "no" and (info.data.get("tls_ca") is None or info.data.get("tls_certificate") is None):
            raise ValueError("clients' certificates need tls_certificate and tls_ca")
        return value
