"""The shared base of the settings' tables, the types of their fields, and checks that several have."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

Port = Annotated[int, Field(ge=0, le=65_535)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Table(BaseModel):
    """A table of the settings: closed, immutable, and without `true` for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and info.field_name and cls.model_fields[info.field_name].annotation is not bool:
            raise ValueError("true and false are not values of this setting")
        return value


def checked_client_certificates(value: str, info: ValidationInfo) -> str:
    """The value of `tls_client_certificates`, after that of `tls_ca`. Raises ValueError."""
    if value != "no" and info.data.get("tls_ca") is None:
        raise ValueError("clients' certificates are checked against tls_ca, which is not given")
    return value


def checked_crl(value: Path | None, info: ValidationInfo) -> Path | None:
    """The value of `tls_crl`, after that of `tls_ca`. Raises ValueError."""
    if value is not None and info.data.get("tls_ca") is None:
        raise ValueError("a list of revoked certificates is of an authority in tls_ca, which is not given")
    return value


def checked_tls_port(value: int | None, info: ValidationInfo) -> int | None:
    """The value of a port for TLS, after that of `tls_certificate`. Raises ValueError."""
    if value is not None and info.data.get("tls_certificate") is None:
        raise ValueError("a port for TLS needs tls_certificate, which is not given")
    return value


def check_certificate_is_used(certificate: Path | None, *ports: int | None) -> None:
    """Raise ValueError for a certificate without a port for it: who gives one does not expect plaintext alone."""
    if certificate is not None and all(port is None for port in ports):
        raise ValueError("tls_certificate needs tls_port: without it nothing speaks TLS")


def checked_networks(value: list[str]) -> list[str]:
    """The value of a list of proxies. Raises ValueError."""
    for network in value:
        try:
            ipaddress.ip_network(network, strict=False)
        except ValueError as error:
            raise ValueError(f"{network!r} is not an address or network (CIDR)") from error
    return value


def checked_proxy_protocol(value: str, info: ValidationInfo) -> str:
    """The value of `proxy_protocol`, after that of `trusted_proxies`. Raises ValueError."""
    if value != "off" and not info.data.get("trusted_proxies"):
        raise ValueError("PROXY headers are believed from trusted_proxies only, and none is given")
    return value
